//! Marking: every object that a snapshot reaches, by walking pages through what they show in the clear.
//!
//! What is marked stays marked, so a second marking costs only what is new. The last one runs while nobody can commit:
//! it visits few pages, or gives up.

use super::live::LiveSet;
use super::scan::is_of_data;
use crate::guard::{Guard, guarded};
use crate::index::prefix_of;
use crate::page_heads::{LatestHeads, RecordHeads};
use crate::snapshots::{self, SnapshotRef};
use crate::watch::{Unwatched, Watch};
use crate::{Error, Repository, Result};
use format::page::heads;
use format::record;
use ids::{ContainerNo, ObjectId, RecordLocation};
use std::sync::Arc;

/// Pages that are visited while nobody can commit: a tenth of a second, at a millisecond for each.
const LAST_PAGES_MAX: usize = 100;
/// So often the commits of a marking are marked without holding up others. Then they wait: it ends.
const ROUNDS_MAX: usize = 8;

/// Marks what the snapshots of now and the running sessions reach. Any error is an error of the whole: an object that
/// cannot be seen is not dead.
pub(super) fn mark(repository: &Repository, live: &mut LiveSet, watch: &dyn Watch) -> Result<()> {
    if live.accepts_loss && has_new(repository, live)? {
        // A page that is lost is visited once: who must not lose it has to come first.
        *live = LiveSet::accepting_damage(true);
    }
    add_new(repository, live, false)?;
    visit(repository, live, watch, usize::MAX)?;
    live.compact()
}

/// Marks what is new, then does `work` while nobody can commit and everything is marked.
pub(super) fn with_all_marked<T>(
    repository: &Repository,
    live: &mut LiveSet,
    watch: &dyn Watch,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    for round in 1.. {
        if guarded(Guard::Remark) {
            mark(repository, live, watch)?;
        }
        let _commit = repository.commit.lock();
        let pages_max = if round < ROUNDS_MAX { LAST_PAGES_MAX } else { usize::MAX };
        if mark_last(repository, live, pages_max)? {
            // A snapshot whose removal is not durable would come back without its data.
            if guarded(Guard::RemovalSync) {
                repository.storage.sync_directory(snapshots::DIRECTORY)?;
            }
            return work();
        }
    }
    Err(Error::UncertainData("snapshots kept changing while they were marked".into()))
}

/// Marks what was committed since, with a visit of at most `pages_max` pages; whether that was all. Nobody can commit
/// meanwhile.
fn mark_last(repository: &Repository, live: &mut LiveSet, pages_max: usize) -> Result<bool> {
    if !guarded(Guard::Remark) {
        return Ok(true);
    }
    if live.accepts_loss && has_new(repository, live)? {
        if pages_max < usize::MAX {
            return Ok(false);
        }
        *live = LiveSet::accepting_damage(true);
    }
    add_new(repository, live, true)?;
    visit(repository, live, &Unwatched, pages_max)?;
    Ok(live.is_done())
}

fn has_new(repository: &Repository, live: &LiveSet) -> Result<bool> {
    let names = repository.current_snapshots()?;
    let roots = repository.pins.lock().roots();
    Ok(names.iter().any(|name| !live.has_snapshot(*name))
        || roots.iter().any(|root| !live.has_visited(root)))
}

/// Adds the roots of snapshots and running sessions that are not marked. A snapshot that is listed and not there was
/// forgotten at this moment, unless nobody can forget.
fn add_new(repository: &Repository, live: &mut LiveSet, is_last: bool) -> Result<()> {
    let mut roots = Vec::new();
    let mut locked = Vec::new();
    let read = still_there(repository, repository.roots_of_readers()?)?;
    for root in repository.pins.lock().roots().into_iter().chain(read) {
        live.add_page((root, None));
    }
    let mut names = repository.current_snapshots()?;
    names.retain(|name| !live.has_snapshot(*name));
    for (name, read) in repository.each_snapshot(&names) {
        let stored = match read {
            Err(Error::SnapshotMissing(_)) if is_last => return Err(not_there()),
            Err(Error::SnapshotMissing(_)) => continue,
            // Nobody knows what it needs: only who forgets it gives that up.
            Err(Error::Damaged { .. }) => return Err(unreadable(name)),
            stored => stored?,
        };
        let root = stored.head.root;
        if !root.is_page() {
            return Err(Error::UncertainData("the root of a snapshot is not a page".into()));
        }
        let is_locked = live.accepts_loss && repository.is_locked(&stored)?;
        let of = if is_locked { &mut locked } else { &mut roots };
        of.push((name, (root, is_locked.then_some(name.id))));
    }
    // The last is visited first, with all below it: those that must not lose anything.
    roots.into_iter().chain(locked).for_each(|(name, root)| live.add_snapshot(name, root));
    Ok(())
}

/// The roots that are stored. A reader may name a tree that was removed just before its pin was there; nothing is left
/// of that to be kept, and the reader tells what it misses.
fn still_there(repository: &Repository, roots: Vec<ObjectId>) -> Result<Vec<ObjectId>> {
    let places = repository.index().find_many(&roots)?;
    let both = roots.into_iter().zip(places);
    Ok(both.filter_map(|(root, place)| place.map(|_| root)).collect())
}

fn not_there() -> Error {
    Error::UncertainData("the listing of snapshots names one that does not exist".into())
}

fn unreadable(name: SnapshotRef) -> Error {
    let id = name.id;
    Error::UncertainData(format!(
        "snapshot {id} cannot be read. First icecore rebuild, which writes it again from its container. If it is still \
         unreadable after that: icecore forget --damaged {id}"
    ))
}

/// Whether all that the tree `root` reaches is in the index, as far as its pages can be read.
pub(super) fn is_complete(repository: &Repository, root: ObjectId) -> Result<bool> {
    let mut live = LiveSet::default();
    live.add_page((root, None));
    match visit(repository, &mut live, &Unwatched, usize::MAX) {
        Err(Error::ObjectMissing(_) | Error::ContainerMissing(_) | Error::Damaged { .. }) => {
            return Ok(false);
        }
        visited => visited?,
    }
    has_all(repository, &live)
}

/// Whether everything that the snapshots of now reach is in the index, as far as their pages can be read.
pub(super) fn are_complete(repository: &Repository, watch: &dyn Watch) -> Result<bool> {
    let mut live = LiveSet::default();
    match mark(repository, &mut live, watch) {
        Err(
            Error::ObjectMissing(_)
            | Error::ContainerMissing(_)
            | Error::Damaged { .. }
            | Error::UncertainData(_),
        ) => return Ok(false),
        marked => marked?,
    }
    has_all(repository, &live)
}

fn has_all(repository: &Repository, live: &LiveSet) -> Result<bool> {
    let pages = live.sorted_pages();
    Ok(crate::check::missing_ids(repository, live.in_order(&pages))?.is_empty())
}

/// Visits the pages that are pending and those below them, at most `pages_max`.
fn visit(
    repository: &Repository,
    live: &mut LiveSet,
    watch: &dyn Watch,
    pages_max: usize,
) -> Result<()> {
    let mut reader = HeadReader::new(repository, watch);
    for _ in 0..pages_max {
        let Some((page, locked)) = live.next_page() else { break };
        let refs = match reader.refs(&page) {
            Err(error) if live.accepts_loss && is_of_data(&error) => match locked {
                Some(id) => return Err(Error::LockedIsDamaged(id)),
                None => continue,
            },
            refs => refs?,
        };
        for id in refs.iter() {
            if id.is_page() {
                live.add_page((*id, locked));
            } else {
                live.add_chunk(id)?;
            }
        }
    }
    live.sort_recent();
    Ok(())
}

/// Reads what pages refer to.
pub(super) struct HeadReader<'a> {
    repository: &'a Repository,
    latest: LatestHeads,
    watch: &'a dyn Watch,
}

impl<'a> HeadReader<'a> {
    pub(super) fn new(repository: &'a Repository, watch: &'a dyn Watch) -> Self {
        Self { repository, latest: LatestHeads::default(), watch }
    }

    pub(super) fn refs(&mut self, page: &ObjectId) -> Result<Arc<[ObjectId]>> {
        let location = self.repository.index().find(page)?;
        let location = location.ok_or(Error::ObjectMissing(*page))?;
        let heads = match self.latest.at(&location) {
            Some(heads) => heads.clone(),
            None => self.read(location)?,
        };
        heads.get(&prefix_of(page)).cloned().ok_or(Error::ObjectMissing(*page))
    }

    /// The heads of a record whose checksum is good: a reference that lost a bit would let the
    /// object that it named die.
    fn read(&mut self, location: RecordLocation) -> Result<Arc<RecordHeads>> {
        let mut bytes = Vec::new();
        self.repository.read_good(location, &mut bytes)?;
        self.watch.moved(location.length.into());
        let name = container_name(location.container);
        let damaged = |reason| Error::damaged(&name, reason);
        let record = record::split(&bytes).map_err(damaged)?;
        let heads = heads(&record).map_err(damaged)?;
        Ok(self.latest.keep(location, &heads))
    }
}

fn container_name(number: ContainerNo) -> String {
    crate::container::name(number)
}
