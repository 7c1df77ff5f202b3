//! Check of a repository on a server. The server checks containers, parity and the index; this
//! checks that everything that the snapshots need can be read and matches its id.

use super::data::choose;
use super::located::ChunkLocator;
use super::structure::StructureFindings;
use super::{CheckOptions, CheckReport, Damage, damage, structure};
use crate::blocks::{Scratch, misnamed};
use crate::progress::Progress;
use crate::receipts::ReceiptStatus;
use crate::{Error, Result, UnlockedRepository};
use ids::{ContainerNo, ObjectId, RecordLocation, SnapshotId};
use repository::check::IdPrefix;
use repository::received::RepositoryElsewhere;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Records that are requested in advance; the connection takes as many as it has room for.
const PREFETCH_RECORDS: usize = 128;

/// What only the host of the containers can check.
const LEFT_OUT: [&str; 4] = ["containers", "parity", "index", "tombstones"];

pub(super) fn run(
    repository: &UnlockedRepository,
    options: &CheckOptions,
    progress: &Progress,
    report: &mut CheckReport,
) -> Result<()> {
    if options.repair {
        return Err(store::Error::LocalOnly.into());
    }
    report.left_out = LEFT_OUT.to_vec();
    // Without the key list, forged snapshots cannot be recognized.
    repository.refresh_key_list()?;
    let mut located = ChunkLocator::new(&*repository.store, options.read_data_percent.is_some());
    let found = structure::check_with(repository, Some(&mut located), progress, report)?;
    history(repository, &found, report)?;
    let mut lost = located.missing;
    if !lost.is_empty() {
        let what = format!("{} chunks are missing from all containers", lost.len());
        report.damages.push(Damage { what, ..Damage::default() });
    }
    if let Some(percent) = options.read_data_percent {
        let mut data = DataCheck::new(repository, report, progress)?;
        data.read(located.locations, percent)?;
        lost.extend(data.lost);
    }
    if !lost.is_empty() || !found.bad_pages.is_empty() {
        damage::search(repository, &found, &lost, report)?;
    }
    Ok(())
}

/// Counts snapshots that others cite and that are not in the list: expired, as a server signed, or else forgotten or
/// lost. Only tombstones say which, and they lie in the containers. Untrusted receipts are noted, because they make a
/// snapshot suspect.
fn history(
    repository: &UnlockedRepository,
    found: &StructureFindings,
    report: &mut CheckReport,
) -> Result<()> {
    let listed: FxHashSet<_> = repository.store.snapshots()?.iter().map(|name| name.id).collect();
    let is_gone = |id: &SnapshotId| *id != SnapshotId([0; SnapshotId::LEN]) && !listed.contains(id);
    let cited = found.snapshots.iter().map(|snapshot| snapshot.head.previous);
    let mut gone: FxHashSet<_> = cited.filter(is_gone).collect();
    if !gone.is_empty() {
        let expired = expired(repository)?;
        report.expired = expired.keys().filter(|id| !listed.contains(*id)).count() as u64;
        gone.retain(|id| !expired.contains_key(id));
    }
    report.gaps = gone.len() as u64;
    for snapshot in found.snapshots.iter().filter(|it| it.receipt == ReceiptStatus::Untrusted) {
        let id = snapshot.id();
        let what = format!("no known server signed the receipt of snapshot {id}");
        let snapshots = vec![id.to_string()];
        report.notes.push(Damage { what, snapshots, ..Damage::default() });
    }
    Ok(())
}

/// The snapshots that servers let expire, as they signed.
fn expired(repository: &UnlockedRepository) -> Result<FxHashMap<SnapshotId, i64>> {
    let (keys, expiries) = repository.store.expiries()?;
    let (repository, verifier) = (repository.store.config().repository, crypto::is_signed);
    Ok(RepositoryElsewhere { repository, keys, verifier }.expired(&expiries))
}

/// Reads records, and compares their content with its ids.
struct DataCheck<'a> {
    repository: &'a UnlockedRepository,
    report: &'a mut CheckReport,
    progress: &'a Progress,
    scratch: Scratch,
    buffer: Vec<u8>,
    lost: FxHashSet<IdPrefix>,
}

/// An object and its record location.
type LocatedObject = (RecordLocation, ObjectId);

impl<'a> DataCheck<'a> {
    fn new(
        repository: &'a UnlockedRepository,
        report: &'a mut CheckReport,
        progress: &'a Progress,
    ) -> Result<Self> {
        let (buffer, lost) = Default::default();
        Ok(Self { repository, report, progress, scratch: Scratch::new()?, buffer, lost })
    }

    /// Reads `objects`, or those in a share of the containers.
    fn read(&mut self, mut objects: Vec<LocatedObject>, percent: f64) -> Result<()> {
        objects.sort_unstable();
        objects.dedup();
        let numbers: BTreeSet<_> = objects.iter().map(|(location, _)| location.container).collect();
        let numbers: Vec<_> = numbers.into_iter().collect();
        let chosen = choose(&numbers, Some(percent), self.repository.now_secs());
        let chosen: FxHashSet<ContainerNo> =
            numbers.iter().zip(chosen).filter(|(_, is)| *is).map(|(number, _)| *number).collect();
        self.report.containers = numbers.len() as u64;
        self.report.containers_read = chosen.len() as u64;
        objects.retain(|(location, _)| chosen.contains(&location.container));
        let records: Vec<_> = objects.chunk_by(|one, next| one.0 == next.0).collect();
        let mut prefetch = records.iter().map(|record| record[0].0);
        for location in prefetch.by_ref().take(PREFETCH_RECORDS) {
            self.repository.store.prefetch(location)?;
        }
        for record in &records {
            self.progress.check()?;
            self.record(record)?;
            if let Some(location) = prefetch.next() {
                self.repository.store.prefetch(location)?;
            }
        }
        Ok(())
    }

    /// Checks one record, with those of its objects that snapshots need.
    fn record(&mut self, objects: &[LocatedObject]) -> Result<()> {
        let location = objects[0].0;
        let Err(error) = self.holds(location, objects, true) else { return Ok(()) };
        if error.is_unreachable() {
            return Err(error);
        }
        if self.moved(objects)? {
            return Ok(());
        }
        let is_healable = self.repository.store.heal(location, &mut self.buffer)
            && self.holds(location, objects, false).is_ok();
        let (number, offset, length) = (location.container, location.offset, location.length);
        let what = format!("container {number} at {offset} (+{length}): {error}");
        self.report.damages.push(Damage { what, healable: is_healable, ..Damage::default() });
        if !is_healable {
            self.lost.extend(objects.iter().map(|(_, id)| IdPrefix::new(id)));
        }
        Ok(())
    }

    /// Whether the record at `location` holds all of these objects. It is read first, unless it is
    /// in the buffer.
    fn holds(
        &mut self,
        location: RecordLocation,
        objects: &[LocatedObject],
        read: bool,
    ) -> Result<()> {
        if read {
            self.repository.store.read(location, &mut self.buffer)?;
            self.report.bytes_read += self.buffer.len() as u64;
            self.progress.bytes_read.fetch_add(self.buffer.len() as u64, Ordering::Relaxed);
        }
        let blocks = self.repository.blocks()?;
        let opened = blocks.open_bytes(location.container, &mut self.buffer, &mut self.scratch)?;
        if let Some(id) = misnamed(&self.repository.keys.writer.ids, &opened).next() {
            return Err(Error::WrongContent(id));
        }
        let is_in = |id: &ObjectId| opened.ids.contains(id);
        match objects.iter().find(|(_, id)| !is_in(id)) {
            Some((_, id)) => Err(store::Error::ObjectMissing(*id).into()),
            None => Ok(()),
        }
    }

    /// Whether a reclaim moved all of these meanwhile, and they are good at their new location.
    fn moved(&mut self, objects: &[LocatedObject]) -> Result<bool> {
        let ids: Vec<_> = objects.iter().map(|(_, id)| *id).collect();
        let locations = self.repository.store.locate(&ids)?;
        let Some(mut now) = locations
            .into_iter()
            .zip(ids)
            .map(|(at, id)| Some((at?, id)))
            .collect::<Option<Vec<LocatedObject>>>()
        else {
            return Ok(false);
        };
        if now.iter().any(|(location, _)| *location == objects[0].0) {
            return Ok(false);
        }
        now.sort_unstable();
        for record in now.chunk_by(|one, next| one.0 == next.0) {
            match self.holds(record[0].0, record, true) {
                Err(error) if error.is_unreachable() => return Err(error),
                Err(_) => return Ok(false),
                Ok(()) => {}
            }
        }
        Ok(true)
    }
}
