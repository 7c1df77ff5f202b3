//! Merges the walk with the previous snapshot: two sorted streams, in constant memory. Decides what
//! has to be read.

use super::batch::{Batch, Item, Job};
use super::counters::Counters;
use super::emptied::Emptied;
use super::failed::FailedObject;
use super::links::{KeptNames, LINKED_MAX, has_more_names, inode_of, inode_of_found};
use super::monitor::BackupMonitor;
use super::options::BackupOptions;
use crate::pages::PageReader;
use crate::{Error, Result};
use capture::CaptureProblem;
use capture::excludes::Only;
use capture::owners::OwnerNames;
use capture::walk::{Row, WalkEntry};
use format::entry::{
    Attributes, Content, Entry, Kind, LinkGroup, STATUS_CHANGED, STATUS_NOT_ENTERED,
    STATUS_PARTIAL, STATUS_RACY, Segment, Time, compare_paths,
};
use format::manifest::Head;
use ids::ObjectId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;
use std::sync::Arc;
use store::WriteSession;
use tree::Cursor;
use tree::cursor::NamedLeaf;

/// Distinct attribute sets that are cached, so that entries share them.
const ATTRIBUTES_MAX: usize = 4096;

/// The merge.
pub(super) struct Merge<'a> {
    full: bool,
    read_since: Option<Time>,
    ignore_inode: bool,
    /// What the walk takes: what it takes no more is bound to another class.
    only: Option<Arc<Only>>,
    previous: Option<Previous<'a>>,
    /// Set if chunks of the previous snapshot may be lost: then each is looked up.
    distrust: Option<&'a dyn WriteSession>,
    /// Chunks of the current page that are lost.
    missing: FxHashSet<ObjectId>,
    owners: OwnerNames,
    attributes: FxHashMap<AttributeKey, Arc<Attributes>>,
    /// Inodes with more than one name that are being read in this run.
    linked: FxHashSet<LinkGroup>,
    /// Names of files that have more, taken over from the previous snapshot.
    kept: KeptNames,
    counters: Counters,
    emptied: Emptied,
    /// Attributes of the previous snapshot, and the same with the new identity of the file system.
    moved: Option<(Arc<Attributes>, Arc<Attributes>)>,
}

type AttributeKey = (Kind, u16, u32, u32, u64, u32);

/// What the previous snapshot says of an object.
struct Known {
    is_known: bool,
    is_unchanged: bool,
}

/// The part of the previous snapshot that is not merged yet.
struct Previous<'a> {
    cursor: Cursor<'a, PageReader<'a>>,
    page: Option<NamedLeaf>,
    /// Those of the current page. What it has allocated serves the next page.
    entries: Vec<Entry>,
    /// The first that was not met.
    next: usize,
    /// All before `next` are unchanged, and not passed on yet.
    is_held: bool,
}

impl Previous<'_> {
    fn front(&self) -> Option<&Entry> {
        self.entries.get(self.next)
    }

    fn take(&mut self) -> Option<Entry> {
        let entry = self.entries.get_mut(self.next).map(taken)?;
        self.next += 1;
        Some(entry)
    }

    /// The page, if none of its entries changed.
    fn take_page(&mut self) -> Option<NamedLeaf> {
        let is_whole = |(page, _): &NamedLeaf| page.sums.entries == self.entries.len() as u64;
        let page = self.page.take().filter(is_whole)?;
        if self.entries.is_empty() || !std::mem::take(&mut self.is_held) {
            return None;
        }
        Some(page)
    }
}

/// Takes an entry out of its place.
fn taken(place: &mut Entry) -> Entry {
    let hollow = Entry::new(b"", place.attributes.clone());
    std::mem::replace(place, hollow)
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        options: &BackupOptions,
        pages: Option<&'a PageReader<'a>>,
        head: Option<Head>,
        distrust: Option<&'a dyn WriteSession>,
        failed: &[FailedObject],
    ) -> Self {
        let previous = pages.zip(head).map(|(pages, head)| Previous {
            cursor: Cursor::new(pages, head.root, head.level),
            page: None,
            entries: Vec::new(),
            next: 0,
            is_held: false,
        });
        Self {
            full: options.full,
            read_since: options.read_since,
            ignore_inode: options.ignore_inode,
            only: options.walk.only.clone(),
            previous,
            distrust,
            missing: FxHashSet::default(),
            owners: OwnerNames::of_this_machine(),
            attributes: FxHashMap::default(),
            linked: FxHashSet::default(),
            kept: KeptNames::default(),
            counters: Counters::default(),
            emptied: Emptied::new(options, failed),
            moved: None,
        }
    }

    /// Merges one object of the walk.
    pub(super) fn entry(
        &mut self,
        found: &WalkEntry<'_>,
        batch: &mut Batch,
        monitor: &dyn BackupMonitor,
    ) -> Result<()> {
        if found.path.is_empty() {
            // The root of the snapshot has no entry.
            return Ok(());
        }
        self.counters.report.objects_inspected += 1;
        if found.row.kind == Kind::File {
            // Files that are nothing but holes can be as long as a number can be.
            let sum = &mut self.counters.report.bytes_inspected;
            *sum = sum.saturating_add(found.row.size);
        }
        self.skip_to(found.path, batch, monitor)?;
        let front = self.previous.as_ref().and_then(Previous::front);
        let before = front.filter(|front| front.path == found.path);
        let is_known = before.is_some();
        let is_taken_over = before.is_some_and(|before| self.is_taken_over(before, found));
        let emptied = self.emptied.met(found, before);
        self.empty_root(emptied, monitor);
        if is_taken_over && !self.is_name_of_read(found) {
            self.unchanged(found, batch);
        } else {
            self.changed(found, Known { is_known, is_unchanged: is_taken_over }, batch);
        }
        Ok(())
    }

    fn is_taken_over(&self, before: &Entry, found: &WalkEntry<'_>) -> bool {
        !self.full
            && !self.is_read_again(found)
            && (self.is_unchanged(before, found) || self.kept.have(before, found))
            && self.is_there(before)
    }

    /// Whether the file is being read under another name: that was met when it had changed.
    fn is_name_of_read(&self, found: &WalkEntry<'_>) -> bool {
        has_more_names(found.row.kind, found.row.links)
            && self.linked.contains(&inode_of_found(found))
    }

    /// Counts and reports a problem of the walk.
    pub(super) fn problem(
        &mut self,
        _path: &[u8],
        problem: &CaptureProblem,
        monitor: &dyn BackupMonitor,
    ) {
        if problem.vanished() {
            self.counters.report.objects_vanished += 1;
            return;
        }
        self.counters.report.objects_inspected += 1;
        self.counters.report.objects_failed += 1;
        monitor.problem(problem);
    }

    fn empty_root(&mut self, problem: Option<CaptureProblem>, monitor: &dyn BackupMonitor) {
        if let Some(problem) = problem {
            // It was inspected, and is in the snapshot: what was in it is not.
            self.counters.report.objects_failed += 1;
            self.counters.report.objects_inspected += 1;
            monitor.problem(&problem);
        }
    }

    /// Ends the merge: what is left of the previous snapshot no longer exists.
    pub(super) fn end(&mut self, batch: &mut Batch, monitor: &dyn BackupMonitor) -> Result<()> {
        self.flush(batch);
        loop {
            self.load_page(batch, monitor)?;
            if !self.take_gone(batch) {
                break;
            }
        }
        let emptied = self.emptied.ended();
        self.empty_root(emptied, monitor);
        Ok(())
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Passes over the entries of the previous snapshot before `path`: they no longer exist.
    fn skip_to(
        &mut self,
        path: &[u8],
        batch: &mut Batch,
        monitor: &dyn BackupMonitor,
    ) -> Result<()> {
        loop {
            self.load_page(batch, monitor)?;
            let Some(front) = self.previous.as_ref().and_then(Previous::front) else {
                return Ok(());
            };
            if compare_paths(&front.path, path) != Ordering::Less {
                return Ok(());
            }
            self.take_gone(batch);
        }
    }

    /// Takes the next entry, which no longer exists; `false` if there is none.
    fn take_gone(&mut self, batch: &mut Batch) -> bool {
        self.flush(batch);
        let gone = self.previous.as_mut().and_then(Previous::take);
        gone.as_ref().inspect(|gone| self.gone(gone)).is_some()
    }

    /// Goes to the next page of the previous snapshot when the current one is used up. A page whose
    /// entries are all unchanged is taken over as a page.
    fn load_page(&mut self, batch: &mut Batch, monitor: &dyn BackupMonitor) -> Result<()> {
        let Some(previous) = &mut self.previous else { return Ok(()) };
        if previous.front().is_some() {
            return Ok(());
        }
        if let Some((page, data)) = previous.take_page() {
            batch.push(Item::Page(page, data));
        }
        self.flush(batch);
        let Some(previous) = &mut self.previous else { return Ok(()) };
        previous.next = 0;
        match previous.cursor.next_leaf(&mut previous.entries) {
            Ok(page) => {
                previous.page = page;
                // A page that may be lost is rebuilt from its entries.
                previous.is_held = self.distrust.is_none();
                self.missing = missing_of(self.distrust, &previous.entries)?;
            }
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => {
                // The old tree is damaged: continue without it. Everything that follows is read
                // again, and what is missing is stored again.
                monitor.note(&format!(
                    "the previous snapshot cannot be read ({error}): files are read again"
                ));
                self.previous = None;
            }
        }
        Ok(())
    }

    /// Takes over the next entry of the previous snapshot.
    fn unchanged(&mut self, found: &WalkEntry<'_>, batch: &mut Batch) {
        let file_system = found.file_system;
        let Some(previous) = &mut self.previous else { return };
        let Some(front) = previous.front() else { return };
        self.kept.add(front, found);
        let is_moved = front.attributes.file_system != file_system;
        if previous.is_held && !is_moved {
            previous.next += 1;
            return;
        }
        self.flush(batch);
        let Some(before) = self.previous.as_mut().and_then(Previous::take) else { return };
        let attributes = match is_moved {
            true => self.moved_to(file_system, &before.attributes),
            false => before.attributes,
        };
        batch.push(Item::Unchanged(Entry { attributes, ..before }));
    }

    /// Passes on the unchanged entries one by one, because the page changed.
    fn flush(&mut self, batch: &mut Batch) {
        let Some(previous) = &mut self.previous else { return };
        if std::mem::take(&mut previous.is_held) {
            let held = previous.entries.iter_mut().take(previous.next);
            held.map(taken).for_each(|entry| batch.push(Item::Unchanged(entry)));
        }
    }

    /// Reads an object. If it is known, the previous snapshot has it next.
    fn changed(&mut self, found: &WalkEntry<'_>, known: Known, batch: &mut Batch) {
        self.flush(batch);
        let previous = self.previous.as_mut().filter(|_| known.is_known);
        let before = previous.and_then(Previous::take);
        let row = found.row;
        let entry = self.new_entry(found);
        let inode = inode_of(entry.link_group());
        let job = Box::new(Job {
            entry,
            directory: found.directory.clone(),
            name: found.name.to_owned(),
            row: row.clone(),
            previous: before,
            is_unchanged: known.is_unchanged,
        });
        if self.linked.len() >= LINKED_MAX {
            self.linked.clear();
        }
        let is_further_name = has_more_names(row.kind, row.links) && !self.linked.insert(inode);
        batch.push(if is_further_name { Item::Link(job) } else { Item::Job(job) });
    }

    /// Counts an object of the previous snapshot that this one does not have.
    fn gone(&mut self, before: &Entry) {
        self.emptied.gone(before);
        let is_directory = before.attributes.kind == Kind::Directory;
        let is_ours = |only: &Arc<Only>| only.includes(&before.path, is_directory);
        let report = &mut self.counters.report;
        match self.only.as_ref().is_none_or(is_ours) {
            true => report.objects_expired += 1,
            false => report.objects_rebound += 1,
        }
    }

    /// Whether a catch-up reads it, whatever the previous snapshot says.
    fn is_read_again(&self, found: &WalkEntry<'_>) -> bool {
        let row = found.row;
        self.read_since.is_some_and(|since| row.mtime >= since || row.ctime >= since)
    }

    fn is_unchanged(&self, before: &Entry, found: &WalkEntry<'_>) -> bool {
        const AGAIN: u8 = STATUS_RACY | STATUS_CHANGED | STATUS_PARTIAL;
        let row = found.row;
        let attributes = &before.attributes;
        attributes.kind == row.kind
            && before.mtime == row.mtime
            && before.ctime == row.ctime
            && (row.kind != Kind::File || before.size == row.size)
            && self.is_same_inode(before, found)
            && before.status & AGAIN == 0
            && before.status & STATUS_NOT_ENTERED == not_entered(row)
            && attributes.mode == row.mode
            && (attributes.uid, attributes.gid) == (row.uid, row.gid)
            && attributes.inode_flags == row.inode_flags
            && before.links == links_of(row)
    }

    /// Whether it is the same inode. The birth time shows whether the inode number was reused, and,
    /// if the file system has another identity now (a snapshot of it, or another device number),
    /// that it is still the same file.
    fn is_same_inode(&self, before: &Entry, found: &WalkEntry<'_>) -> bool {
        let is_same_system = before.attributes.file_system == found.file_system;
        if self.ignore_inode {
            return is_same_system;
        }
        let is_same_birth = match (before.birth, found.row.birth) {
            (Some(before), Some(now)) => before == now,
            _ => is_same_system,
        };
        before.inode == found.row.inode && is_same_birth
    }

    /// The same attributes, on another file system.
    fn moved_to(&mut self, file_system: u64, attributes: &Arc<Attributes>) -> Arc<Attributes> {
        match &self.moved {
            Some((before, now))
                if Arc::ptr_eq(before, attributes) && now.file_system == file_system =>
            {
                now.clone()
            }
            _ => {
                let now = Arc::new(Attributes { file_system, ..attributes.as_ref().clone() });
                self.moved = Some((attributes.clone(), now.clone()));
                now
            }
        }
    }

    /// Whether all chunks of an entry are stored, if there is a reason to look.
    fn is_there(&self, before: &Entry) -> bool {
        match &before.content {
            _ if self.distrust.is_none() => true,
            _ if ids_of(&before.attributes.xattr_runs).any(|id| self.missing.contains(&id)) => {
                false
            }
            Content::None | Content::Inline(_) => true,
            Content::Lists(_) => false,
            Content::Segments(segments) => ids_of(segments).all(|id| !self.missing.contains(&id)),
        }
    }

    fn new_entry(&mut self, found: &WalkEntry<'_>) -> Entry {
        let row = found.row;
        Entry {
            path: found.path.to_vec(),
            attributes: self.attributes_of(found),
            size: if row.kind == Kind::File { row.size } else { 0 },
            mtime: row.mtime,
            ctime: row.ctime,
            inode: row.inode,
            birth: row.birth,
            links: links_of(row),
            rdev: row.rdev,
            status: not_entered(row),
            content: Content::None,
            extension: Vec::new(),
        }
    }

    fn attributes_of(&mut self, found: &WalkEntry<'_>) -> Arc<Attributes> {
        let row = found.row;
        let key = (row.kind, row.mode, row.uid, row.gid, found.file_system, row.inode_flags);
        if let Some(known) = self.attributes.get(&key) {
            return known.clone();
        }
        let attributes = Arc::new(Attributes {
            uid: row.uid,
            gid: row.gid,
            user: self.owners.user(row.uid).to_vec(),
            group: self.owners.group(row.gid).to_vec(),
            file_system: found.file_system,
            inode_flags: row.inode_flags,
            ..Attributes::new(row.kind, row.mode)
        });
        if self.attributes.len() >= ATTRIBUTES_MAX {
            self.attributes.clear();
        }
        self.attributes.insert(key, attributes.clone());
        attributes
    }
}

/// The chunks of these entries that are lost, queried for a page at a time.
fn missing_of(
    distrust: Option<&dyn WriteSession>,
    entries: &[Entry],
) -> Result<FxHashSet<ObjectId>> {
    let Some(session) = distrust else { return Ok(FxHashSet::default()) };
    let chunks = |entry: &Entry| match &entry.content {
        Content::Segments(segments) => ids_of(segments).collect(),
        _ => Vec::new(),
    };
    let of_xattrs = entries.iter().flat_map(|entry| ids_of(&entry.attributes.xattr_runs));
    let ids: Vec<_> = entries.iter().flat_map(chunks).chain(of_xattrs).collect();
    let held = session.are_stored(&ids)?;
    Ok(ids.into_iter().zip(held).filter(|(_, held)| !held).map(|(id, _)| id).collect())
}

fn ids_of(runs: &[Segment]) -> impl Iterator<Item = ObjectId> {
    runs.iter().filter_map(Segment::id)
}

/// The bit of the status that says that a directory was not looked into.
fn not_entered(row: &Row) -> u8 {
    if row.not_entered.is_some() { STATUS_NOT_ENTERED } else { 0 }
}

/// The link count of a directory only reflects its subdirectories.
fn links_of(row: &Row) -> u32 {
    if row.kind == Kind::Directory { 1 } else { row.links }
}
