//! Names of one file. The walk meets them at different times, and the file may be written to in between: what differs
//! then is not another file.

use super::batch::{Job, found_name_of};
use capture::FoundName;
use capture::walk::{Row, WalkEntry};
use format::entry::{Attributes, Content, Entry, Kind, LinkGroup, Time};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Of how many states of one inode a further name may be, if its own one is not among them.
const STATES_MAX: usize = 8;
/// The most files that were read and wait for further names: some 80 MiB of memory. A name that comes when its file is
/// forgotten is read itself, which costs time and neither data nor the group of names.
pub(super) const LINKED_MAX: usize = 1 << 18;
/// The most names taken over from the previous snapshot whose further names are still known by them.
const KEPT_MAX: usize = 1 << 16;

/// Whether an object may have more names in the snapshot.
pub(super) fn has_more_names(kind: Kind, links: u32) -> bool {
    kind != Kind::Directory && links > 1
}

/// What all names of a file have in common, whatever happens to its content meanwhile. Two files may have it in common,
/// too: see [`LinkGroup`].
pub(super) fn inode_of(group: LinkGroup) -> LinkGroup {
    LinkGroup { size: 0, mtime: Time::default(), ..group }
}

/// The same of an object of the walk.
pub(super) fn inode_of_found(found: &WalkEntry<'_>) -> LinkGroup {
    let (row, file_system) = (found.row, found.file_system);
    let since = row.birth.unwrap_or(row.ctime);
    LinkGroup { file_system, inode: row.inode, since, size: 0, mtime: Time::default() }
}

/// What further names of a file take over from the first one.
struct Linked {
    attributes: Arc<Attributes>,
    size: u64,
    mtime: Time,
    ctime: Time,
    status: u8,
    content: Content,
    names_left: u32,
    found_name: FoundName,
}

impl Linked {
    fn is_state_of(&self, entry: &Entry) -> bool {
        let (kind, size) = (self.attributes.kind, entry.size);
        // The length of the target of a symbolic link is not known before it is read.
        (kind, self.mtime) == (entry.kind(), entry.mtime)
            && (kind != Kind::File || self.size == size)
    }
}

/// The files with more than one name that were read, by their inodes; in each the states that were met.
pub(super) struct LinkedFiles {
    files: FxHashMap<LinkGroup, Vec<Linked>>,
    max: usize,
}

impl LinkedFiles {
    /// At most `max` inodes, and then none of them any more.
    pub(super) fn at_most(max: usize) -> Self {
        Self { files: FxHashMap::default(), max }
    }

    /// Notes a file that was read, for its further names.
    pub(super) fn add(&mut self, entry: &Entry, found_name: FoundName) {
        let inode = inode_of(entry.link_group());
        if self.files.len() >= self.max && !self.files.contains_key(&inode) {
            self.files.clear();
        }
        let states = self.files.entry(inode).or_insert_with(|| Vec::with_capacity(1));
        states.retain(|known| !known.is_state_of(entry));
        states.push(Linked {
            attributes: entry.attributes.clone(),
            size: entry.size,
            mtime: entry.mtime,
            ctime: entry.ctime,
            status: entry.status,
            content: entry.content.clone(),
            names_left: entry.links - 1,
            found_name,
        });
    }

    /// The entry of a further name of a file that was read: everything but the path comes from the first name.
    pub(super) fn entry_of(&mut self, job: &Job) -> Option<Entry> {
        let inode = inode_of(job.entry.link_group());
        let states = self.files.get_mut(&inode)?;
        let at = position(states, job)?;
        let first = &mut states[at];
        let entry = Entry {
            attributes: first.attributes.clone(),
            size: first.size,
            mtime: first.mtime,
            ctime: first.ctime,
            status: first.status,
            content: first.content.clone(),
            ..job.entry.clone()
        };
        first.names_left = first.names_left.saturating_sub(1);
        if first.names_left == 0 {
            states.remove(at);
        }
        if states.is_empty() {
            self.files.remove(&inode);
        }
        Some(entry)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }
}

fn position(states: &[Linked], job: &Job) -> Option<usize> {
    let same = states.iter().position(|first| first.is_state_of(&job.entry));
    same.or_else(|| {
        let here = found_name_of(job);
        let is_here = |first: &Linked| here.is_of_one_file_with(&first.found_name, &job.row);
        let newest = states.iter().enumerate().rev().take(STATES_MAX);
        newest.filter(|(_, first)| is_here(first)).map(|(at, _)| at).next()
    })
}

/// The files with more than one name of which one was taken over from the previous snapshot, by their inodes. Further
/// names that were met later, when the file had changed, are taken over, too.
#[derive(Default)]
pub(super) struct KeptNames(FxHashMap<LinkGroup, Kept>);

struct Kept {
    found_name: FoundName,
    group: LinkGroup,
    status: u8,
}

impl KeptNames {
    /// Notes a name that is taken over.
    pub(super) fn add(&mut self, before: &Entry, found: &WalkEntry<'_>) {
        if !has_more_names(found.row.kind, found.row.links) {
            return;
        }
        if self.0.len() >= KEPT_MAX {
            self.0.clear();
        }
        let found_name = FoundName::new(found.directory, found.name);
        let kept = Kept { found_name, group: before.link_group(), status: before.status };
        self.0.insert(inode_of_found(found), kept);
    }

    /// Whether this is a further name of what was taken over, and was so in the previous snapshot.
    pub(super) fn have(&self, before: &Entry, found: &WalkEntry<'_>) -> bool {
        let row: &Row = found.row;
        if !has_more_names(row.kind, row.links) || row.links != before.links {
            return false;
        }
        let Some(kept) = self.0.get(&inode_of_found(found)) else { return false };
        let here = || FoundName::new(found.directory, found.name);
        (kept.group, kept.status) == (before.link_group(), before.status)
            && here().is_of_one_file_with(&kept.found_name, row)
    }
}

#[cfg(test)]
mod tests;
