//! Searching all snapshots: each distinct version of an object once, with the snapshots that
//! contain it.
//!
//! The first tree of a source is read completely; of every later one, only what differs.

use super::{below, cursor};
use crate::Result;
use crate::manifest::Snapshot;
use crate::pages::{LostPage, PageReader};
use format::entry::{Attributes, Content, Entry, Segment, compare_paths};
use ids::ObjectId;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tree::{Change, Cursor, PageSource, Side, diff_past};

/// A version of an object.
#[derive(Clone, Debug)]
pub struct Version<'a> {
    /// The object.
    pub entry: Entry,
    /// The snapshots that contain it, the oldest first.
    pub snapshots: Vec<&'a Snapshot>,
}

/// A page that a search could not read, and the first snapshot that has it.
#[derive(Clone, Debug)]
pub struct Unread<'a> {
    /// The snapshot. Later ones may share the page.
    pub snapshot: &'a Snapshot,
    /// The page.
    pub page: LostPage,
}

/// All versions of the objects for which `wanted` is true, by path and then by time. `snapshots`
/// must be in the order of their times. Pages that cannot be read are added to `lost`, each once:
/// of what they name, nothing is found there.
pub fn versions<'a>(
    pages: &PageReader<'_>,
    snapshots: &'a [Snapshot],
    wanted: &dyn Fn(&Entry) -> bool,
    lost: &mut Vec<Unread<'a>>,
) -> Result<Vec<Version<'a>>> {
    let mut by_source: BTreeMap<ObjectId, Vec<&Snapshot>> = BTreeMap::new();
    snapshots
        .iter()
        .for_each(|snapshot| by_source.entry(snapshot.head.source).or_default().push(snapshot));
    let mut found = Vec::new();
    for chain in by_source.values() {
        search(pages, chain, wanted, &mut found, lost)?;
    }
    found.sort_by(|a, b| {
        compare_paths(&a.entry.path, &b.entry.path).then_with(|| since(a).cmp(&since(b)))
    });
    Ok(collapsed(pages, found))
}

fn since(version: &Version<'_>) -> Option<format::entry::Time> {
    version.snapshots.first().map(|snapshot| snapshot.time())
}

/// Versions of one source.
fn search<'a>(
    pages: &PageReader<'_>,
    chain: &[&'a Snapshot],
    wanted: &dyn Fn(&Entry) -> bool,
    found: &mut Vec<Version<'a>>,
    lost: &mut Vec<Unread<'a>>,
) -> Result<()> {
    let Some(first) = chain.first() else { return Ok(()) };
    let mut open = Open { chain, wanted, found, since: HashMap::new() };
    let mut of_first = Vec::new();
    let read = below(pages, first, b"", &mut of_first, |entry| {
        open.begin(entry, 0);
        Ok(())
    });
    of_first.into_iter().for_each(|page| note(lost, first, page));
    read?;
    for (at, pair) in chain.windows(2).enumerate() {
        let (mut left, mut right) = (cursor(pages, pair[0]), cursor(pages, pair[1]));
        let pass = |side, cursor: &mut Cursor<'_, PageReader<'_>>, error| {
            let page = LostPage::at(cursor, &error).ok_or(error)?;
            note(lost, if side == Side::Left { pair[0] } else { pair[1] }, page);
            Ok(())
        };
        diff_past(&mut left, &mut right, pass, |change, _| {
            open.change(pages, change, at);
            Ok(())
        })?;
    }
    open.end_all();
    Ok(())
}

/// Notes a page that is lost, unless it is known: snapshots share pages.
fn note<'a>(lost: &mut Vec<Unread<'a>>, snapshot: &'a Snapshot, page: LostPage) {
    if !lost.iter().any(|other| other.page.id == page.id) {
        lost.push(Unread { snapshot, page });
    }
}

/// Versions whose last snapshot is not known yet.
struct Open<'f, 'c, 'a> {
    /// The snapshots of the source.
    chain: &'c [&'a Snapshot],
    wanted: &'f dyn Fn(&Entry) -> bool,
    found: &'f mut Vec<Version<'a>>,
    /// By path: the entry, and the index of the first snapshot that contains it.
    since: HashMap<Vec<u8>, (Entry, usize)>,
}

impl Open<'_, '_, '_> {
    /// A change from the snapshot `at` to the next one.
    fn change(&mut self, pages: &PageReader<'_>, change: Change, at: usize) {
        match change {
            Change::Added(entry) => self.begin(entry, at + 1),
            Change::Removed(entry) => self.end(&entry.path, at + 1),
            Change::Modified(before, now) if !same_version(pages, &before, &now) => {
                self.end(&before.path, at + 1);
                self.begin(now, at + 1);
            }
            Change::Modified(..) => {}
        }
    }

    fn begin(&mut self, entry: Entry, at: usize) {
        if !(self.wanted)(&entry) {
            return;
        }
        // It can be open still if a page could not be read at one time and can be now.
        self.end(&entry.path, at);
        self.since.insert(entry.path.clone(), (entry, at));
    }

    /// Ends the version at `path`: the snapshot before `until` was the last one that contains it.
    fn end(&mut self, path: &[u8], until: usize) {
        if let Some((entry, from)) = self.since.remove(path) {
            let snapshots = self.chain.get(from..until).unwrap_or_default().to_vec();
            self.found.push(Version { entry, snapshots });
        }
    }

    fn end_all(mut self) {
        for (entry, from) in std::mem::take(&mut self.since).into_values() {
            let snapshots = self.chain.get(from..).unwrap_or_default().to_vec();
            self.found.push(Version { entry, snapshots });
        }
    }
}

/// Merges equal versions that disappeared and came back, or that several sources contain.
fn collapsed<'a>(pages: &PageReader<'_>, found: Vec<Version<'a>>) -> Vec<Version<'a>> {
    let mut all: Vec<Version<'a>> = Vec::with_capacity(found.len());
    for version in found {
        let of_path =
            all.iter_mut().rev().take_while(|other| other.entry.path == version.entry.path);
        match of_path.into_iter().find(|other| same_version(pages, &other.entry, &version.entry)) {
            Some(same) => same.snapshots.extend(version.snapshots),
            None => all.push(version),
        }
    }
    all.iter_mut().for_each(|version| {
        version.snapshots.sort_by_key(|snapshot| (snapshot.time(), snapshot.name))
    });
    all
}

/// Whether two entries are the same version to a user: inode numbers and change times do not count.
fn same_version(pages: &PageReader<'_>, a: &Entry, b: &Entry) -> bool {
    let (a, b) = (&*comparable(pages, a), &*comparable(pages, b));
    a.content == b.content && a.size == b.size && a.mtime == b.mtime && same_attributes(a, b)
}

/// `entry` with ids that are those of all snapshots with the same content: without deduplication each backup has its
/// own.
pub(crate) fn comparable<'e>(pages: &PageReader<'_>, entry: &'e Entry) -> Cow<'e, Entry> {
    if pages.has_dedup() {
        return Cow::Borrowed(entry);
    }
    let segment = |segment: &Segment| match segment {
        Segment::Data(id, length) => Segment::Data(pages.content_of(id), *length),
        Segment::Hole(length) => Segment::Hole(*length),
    };
    let content = match &entry.content {
        Content::Segments(segments) => Content::Segments(segments.iter().map(segment).collect()),
        Content::Lists(lists) => {
            Content::Lists(lists.iter().map(|id| pages.content_of(id)).collect())
        }
        other => other.clone(),
    };
    let xattr_runs = entry.attributes.xattr_runs.iter().map(segment).collect();
    let attributes = Arc::new(Attributes { xattr_runs, ..entry.attributes.as_ref().clone() });
    Cow::Owned(Entry { content, attributes, ..entry.clone() })
}

/// Whether kind, mode, owner, flags and extended attributes are equal.
pub(crate) fn same_attributes(a: &Entry, b: &Entry) -> bool {
    let (left, right) = (&a.attributes, &b.attributes);
    left.kind == right.kind
        && left.mode == right.mode
        && (left.uid, left.gid) == (right.uid, right.gid)
        && left.inode_flags == right.inode_flags
        && left.xattrs == right.xattrs
        && left.xattr_runs == right.xattr_runs
        && a.rdev == b.rdev
}
