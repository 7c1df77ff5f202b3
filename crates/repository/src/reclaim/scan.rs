//! Reading all containers for damaged records, when somebody gives up what is lost: what nobody can
//! read is left out, and the container rewritten without it.

use super::live::LiveSet;
use crate::check::{self, IdPrefix};
use crate::container::read::{ContainerReader, ContainerWalk};
use crate::snapshot_keys::SnapshotKeys;
use crate::{Error, Repository, Result, container};
use format::container::Row;
use format::record::{self, Record, RecordKind};
use ids::{ContainerNo, RecordLocation, SessionId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The containers with damage, and which of their bytes that is.
#[derive(Default)]
pub(super) struct Scans(FxHashMap<ContainerNo, Vec<(u64, u64)>>);

/// Reads every settled container, if damage is accepted. A doubt when one holds what is taken for
/// lost: the index is not all that there is.
pub(super) fn run(repository: &Repository, live: &LiveSet) -> Result<Scans> {
    let mut scans = Scans::default();
    if !live.accepts_loss {
        return Ok(scans);
    }
    let lost = lost(repository, live)?;
    let (settled, keys) = (repository.settled(), SnapshotKeys::new(repository));
    for file in repository.current_containers()? {
        if file.finished && settled.has(file.number) {
            let damaged = damage(repository, file.number, &lost, &keys)?;
            scans.0.extend(damaged.map(|ranges| (file.number, ranges)));
        }
    }
    Ok(scans)
}

/// What lives and is not in the index.
fn lost(repository: &Repository, live: &LiveSet) -> Result<FxHashSet<IdPrefix>> {
    let pages = live.sorted_pages();
    Ok(check::missing_ids(repository, live.in_order(&pages))?.into_iter().collect())
}

impl Scans {
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn has(&self, number: ContainerNo) -> bool {
        self.0.contains_key(&number)
    }

    /// Whether the record at `location` is damaged.
    pub(super) fn is_damaged(&self, location: RecordLocation) -> bool {
        let (from, to) =
            (u64::from(location.offset), u64::from(location.offset) + u64::from(location.length));
        let touches = |(offset, length): &(u64, u64)| from < offset + length && *offset < to;
        self.0.get(&location.container).is_some_and(|ranges| ranges.iter().any(touches))
    }
}

/// What of a container is damaged; `None` when it is whole. All of it when nothing can be read.
fn damage(
    repository: &Repository,
    number: ContainerNo,
    lost: &FxHashSet<IdPrefix>,
    keys: &SnapshotKeys<'_>,
) -> Result<Option<Vec<(u64, u64)>>> {
    let reader = match ContainerReader::open(&*repository.storage, number) {
        Ok(reader) => reader,
        Err(error) if is_of_data(&error) => return Ok(Some(vec![(0, u64::MAX)])),
        Err(error) => return Err(error),
    };
    let is_whole = reader.header(repository.config.repository).is_ok() && reader.rows().is_ok();
    let mut seen = Seen::default();
    let walk = reader.walk(|location, record| seen.record(location, record, lost));
    let nobodys = seen.nobodys(keys)?;
    if seen.has_lost.iter().any(|session| !nobodys.contains(session)) {
        return Err(doubt(number));
    }
    match walk.map(|walk| seen.with_records_of(&nobodys, walk)) {
        Ok(ContainerWalk { damaged, .. }) if damaged.is_empty() && is_whole => Ok(None),
        Ok(ContainerWalk { damaged, .. }) => Ok(Some(damaged)),
        Err(error) if is_of_data(&error) => Ok(Some(vec![(0, u64::MAX)])),
        Err(error) => Err(error),
    }
}

/// The sessions of a container.
#[derive(Default)]
struct Seen {
    /// Those whose session record is there.
    known: FxHashSet<SessionId>,
    /// Where the objects of each lie.
    objects: FxHashMap<SessionId, Vec<(u64, u64)>>,
    /// Those that hold an object which is taken for lost.
    has_lost: FxHashSet<SessionId>,
}

impl Seen {
    fn record(
        &mut self,
        location: RecordLocation,
        record: &Record<'_>,
        lost: &FxHashSet<IdPrefix>,
    ) {
        let session = record.header.session;
        match record.header.kind {
            RecordKind::Session => drop(self.known.insert(session)),
            RecordKind::Data | RecordKind::Pages => {
                let range = (location.offset.into(), location.length.into());
                self.objects.entry(session).or_default().push(range);
                let ids = record::object_ids(record).unwrap_or_default();
                if ids.iter().any(|id| lost.contains(&IdPrefix::new(id))) {
                    self.has_lost.insert(session);
                }
            }
            _ => {}
        }
    }

    /// The sessions whose records nobody can open.
    fn nobodys(&self, keys: &SnapshotKeys<'_>) -> Result<FxHashSet<SessionId>> {
        let mut nobodys = FxHashSet::default();
        for session in self.objects.keys().filter(|session| !self.known.contains(*session)) {
            if keys.find(*session)?.is_none() {
                nobodys.insert(*session);
            }
        }
        Ok(nobodys)
    }

    /// Records that nobody can open are as good as damaged.
    fn with_records_of(
        &self,
        nobodys: &FxHashSet<SessionId>,
        mut walk: ContainerWalk,
    ) -> ContainerWalk {
        let ranges = nobodys.iter().filter_map(|session| self.objects.get(session)).flatten();
        walk.damaged.extend(ranges);
        walk
    }
}

/// Whether bytes are damaged. A read that fails may work another time, and is none: a rebuild asks
/// twice and leaves out of the index what cannot be read.
pub(super) fn is_of_data(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::ObjectMissing(_) | Error::ContainerMissing(_))
}

/// The good records of a container, however it looks.
pub(super) fn good_rows(repository: &Repository, number: ContainerNo) -> Result<Vec<Row>> {
    let rows = ContainerReader::open(&*repository.storage, number)
        .and_then(|reader| reader.walk(|_, _| ()));
    match rows {
        Ok(ContainerWalk { rows, .. }) => Ok(rows),
        Err(error) if is_of_data(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The name of a container, for errors.
pub(super) fn doubt(number: ContainerNo) -> Error {
    let name = container::name(number);
    Error::UncertainData(format!("the index does not know {name} as it is: first icecore rebuild"))
}
