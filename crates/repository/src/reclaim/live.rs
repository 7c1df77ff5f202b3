//! Marking: every object that a snapshot reaches, by walking pages through what they show in the
//! clear.

use super::scan::is_of_data;
use crate::check::IdPrefix;
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::snapshots::SnapshotRef;
use crate::watch::{Unwatched, Watch};
use crate::{Error, Repository, Result};
use format::page::heads;
use format::record;
use ids::{ContainerNo, ObjectId, RecordLocation, SnapshotId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;

/// Records whose page heads are kept: neighbors in a tree mostly are neighbors at rest.
const RECORDS_MAX: usize = 64;
/// Marked chunks are sorted and made unique whenever this many came.
const COMPACT_EVERY: usize = 1 << 20;

/// The objects that are reached.
#[derive(Default)]
pub(super) struct LiveSet {
    pages: FxHashSet<Prefix>,
    chunks: Vec<Prefix>,
    sorted: usize,
    /// A page that is lost does not end the marking.
    pub(super) accepts_loss: bool,
}

impl LiveSet {
    /// Nothing yet; whether what is lost may be given up.
    pub(super) fn accepting_damage(accepts_loss: bool) -> Self {
        Self { accepts_loss, ..Self::default() }
    }

    /// Whether `id` is reached.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        let prefix = prefix_of(id);
        if id.is_page() {
            self.pages.contains(&prefix)
        } else {
            self.chunks.binary_search(&prefix).is_ok()
        }
    }

    /// Whether all these trees are marked.
    pub(super) fn has_roots(&self, roots: &[ObjectId]) -> bool {
        roots.iter().all(|root| self.pages.contains(&prefix_of(root)))
    }

    /// All prefixes in order.
    pub(super) fn sorted(&self) -> Vec<Prefix> {
        let mut pages: Vec<_> = self.pages.iter().copied().collect();
        pages.sort_unstable();
        let mut all = Vec::with_capacity(pages.len() + self.chunks.len());
        let (mut pages, mut chunks) =
            (pages.into_iter().peekable(), self.chunks.iter().copied().peekable());
        loop {
            let next = match (pages.peek(), chunks.peek()) {
                (Some(page), Some(chunk)) if page < chunk => pages.next(),
                (Some(_), None) => pages.next(),
                (_, Some(_)) => chunks.next(),
                (None, None) => return all,
            };
            all.extend(next);
        }
    }

    fn add_chunk(&mut self, prefix: Prefix) {
        self.chunks.push(prefix);
        if self.chunks.len() - self.sorted >= COMPACT_EVERY.max(self.sorted) {
            self.compact();
        }
    }

    fn compact(&mut self) {
        self.chunks.sort_unstable();
        self.chunks.dedup();
        self.sorted = self.chunks.len();
    }
}

/// Marks everything that the snapshots of now and the running sessions reach. Returns these
/// snapshots. Any error is an error of the whole: an object that cannot be seen is not dead.
pub(super) fn mark(
    repository: &Repository,
    live: &mut LiveSet,
    watch: &dyn Watch,
) -> Result<Vec<SnapshotRef>> {
    let mut snapshots = Vec::new();
    let mut roots: Vec<_> =
        repository.pins.lock().roots().into_iter().map(|root| (root, None)).collect();
    let mut locked = Vec::new();
    for name in repository.current_snapshots()? {
        match repository.snapshot(name) {
            // Forgotten at this moment: not one of those that are returned.
            Err(Error::SnapshotMissing(_)) => continue,
            // Nobody knows what it needs: only who forgets it gives that up.
            Err(Error::Damaged { .. }) if live.accepts_loss => return Err(unreadable(name)),
            stored => {
                let stored = stored?;
                let is_locked = live.accepts_loss && repository.is_locked(&stored)?;
                let of = if is_locked { &mut locked } else { &mut roots };
                of.push((stored.head.root, is_locked.then_some(name.id)));
            }
        }
        snapshots.push(name);
    }
    let mut reader = HeadReader { repository, latest: VecDeque::new(), watch };
    // Those that must not lose anything come first: a page that is lost is visited once.
    for (root, locked) in locked.into_iter().chain(roots) {
        if !root.is_page() {
            return Err(Error::UncertainData("the root of a snapshot is not a page".into()));
        }
        mark_tree(&mut reader, root, live, locked)?;
    }
    live.compact();
    Ok(snapshots)
}

fn unreadable(name: SnapshotRef) -> Error {
    let id = name.id;
    Error::UncertainData(format!(
        "snapshot {id} cannot be read: first icecore forget --damaged {id}"
    ))
}

/// Whether all that the tree `root` reaches is in the index, as far as its pages can be read.
pub(super) fn is_complete(repository: &Repository, root: ObjectId) -> Result<bool> {
    let mut live = LiveSet::default();
    let mut reader = HeadReader { repository, latest: VecDeque::new(), watch: &Unwatched };
    match mark_tree(&mut reader, root, &mut live, None) {
        Err(Error::ObjectMissing(_) | Error::ContainerMissing(_) | Error::Damaged { .. }) => {
            return Ok(false);
        }
        marked => marked?,
    }
    live.compact();
    let wanted: Vec<_> = live.sorted().into_iter().map(IdPrefix).collect();
    Ok(crate::check::missing_ids(repository, &wanted)?.is_empty())
}

/// Whether everything that the snapshots of now reach is in the index, as far as their pages can be read.
pub(super) fn are_complete(repository: &Repository, watch: &dyn Watch) -> Result<bool> {
    let mut live = LiveSet::default();
    match mark(repository, &mut live, watch) {
        Err(Error::ObjectMissing(_) | Error::ContainerMissing(_) | Error::Damaged { .. }) => {
            return Ok(false);
        }
        marked => drop(marked?),
    }
    let wanted: Vec<_> = live.sorted().into_iter().map(IdPrefix).collect();
    Ok(crate::check::missing_ids(repository, &wanted)?.is_empty())
}

/// Marks what `root` reaches, which is the tree of the locked snapshot `locked`, if it is of one.
fn mark_tree(
    reader: &mut HeadReader<'_>,
    root: ObjectId,
    live: &mut LiveSet,
    locked: Option<SnapshotId>,
) -> Result<()> {
    let mut stack = vec![root];
    while let Some(page) = stack.pop() {
        if !live.pages.insert(prefix_of(&page)) {
            continue;
        }
        let refs = match reader.refs(&page) {
            Err(error) if live.accepts_loss && is_of_data(&error) => match locked {
                Some(id) => return Err(Error::LockedIsDamaged(id)),
                None => continue,
            },
            refs => refs?,
        };
        for id in refs.iter() {
            if id.is_page() {
                stack.push(*id);
            } else {
                live.add_chunk(prefix_of(id));
            }
        }
    }
    Ok(())
}

type Heads = FxHashMap<ObjectId, Arc<[ObjectId]>>;

/// Reads what pages refer to.
struct HeadReader<'a> {
    repository: &'a Repository,
    latest: VecDeque<(RecordLocation, Arc<Heads>)>,
    watch: &'a dyn Watch,
}

impl HeadReader<'_> {
    fn refs(&mut self, page: &ObjectId) -> Result<Arc<[ObjectId]>> {
        let known = self.latest.iter().find_map(|(_, heads)| heads.get(page));
        if let Some(refs) = known {
            return Ok(refs.clone());
        }
        let location = self.repository.index().find_many(&[*page])?[0];
        let location = location.ok_or(Error::ObjectMissing(*page))?;
        let heads = Arc::new(self.read(location)?);
        let refs = heads.get(page).cloned().ok_or(Error::ObjectMissing(*page))?;
        self.latest.push_front((location, heads));
        self.latest.truncate(RECORDS_MAX);
        Ok(refs)
    }

    /// The heads of a record whose checksum is good: a reference that lost a bit would let the
    /// object that it named die.
    fn read(&self, location: RecordLocation) -> Result<Heads> {
        let mut bytes = Vec::new();
        self.repository.read_good(location, &mut bytes)?;
        self.watch.moved(location.length.into());
        let name = container_name(location.container);
        let damaged = |reason| Error::damaged(&name, reason);
        let record = record::split(&bytes).map_err(damaged)?;
        let heads = heads(&record).map_err(damaged)?;
        Ok(heads.iter().map(|head| (head.id, head.refs().collect())).collect())
    }
}

fn container_name(number: ContainerNo) -> String {
    crate::container::name(number)
}
