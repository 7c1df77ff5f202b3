//! Snapshots of the classes of one policy: one backup makes one for each of them, and each is a source of its own.
//!
//! All of them may contain a path: that of a class has the directories above what it takes, that of the usual class an
//! empty directory in place of what another class takes.

use super::{Candidate, Search};
use crate::browse;
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use crate::{Error, Result};
use ids::ObjectId;
use rustc_hash::FxHashSet;

/// What begins the last line of the paths of a source that is a class of another one.
const CLASS: &str = "class ";

/// How much of a path a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// A directory in which nothing is.
    Empty,
    Something,
}

/// A snapshot that contains the path.
pub(super) struct Found {
    pub(super) snapshot: Snapshot,
    pub(super) extent: Extent,
    /// Its place among the candidates.
    pub(super) at: usize,
}

impl Found {
    /// The best is the greatest: something of it, and of the usual class.
    fn rank(&self) -> (Extent, bool) {
        (self.extent, self.class().is_none())
    }

    fn is_best(&self) -> bool {
        self.rank() == (Extent::Something, true)
    }

    /// Its class, unless it is the usual one.
    fn class(&self) -> Option<&str> {
        split(&self.snapshot.body.paths).1
    }

    fn is_of_source_of(&self, other: &Self) -> bool {
        let (own, others) = (&self.snapshot.body, &other.snapshot.body);
        own.node == others.node && split(&own.paths).0 == split(&others.paths).0
    }
}

/// The paths of a source, and the class that its snapshots are of, unless that is the usual one.
pub(super) fn split(paths: &[String]) -> (&[String], Option<&str>) {
    let last = paths.split_last().filter(|(_, others)| !others.is_empty());
    let class = last.and_then(|(last, others)| Some((others, last.strip_prefix(CLASS)?)));
    class.map_or((paths, None), |(others, class)| (others, Some(class)))
}

impl Search<'_> {
    /// Of the snapshots that were made together with `found`, the one that has most of the path; of equal ones that of
    /// the usual class. `passed` are the sources that were looked at.
    pub(super) fn best_class(
        &mut self,
        found: Found,
        candidates: &[Candidate],
        passed: &mut FxHashSet<ObjectId>,
    ) -> Result<Found> {
        if found.is_best() {
            return Ok(found);
        }
        let (source, newest) = (found.snapshot.head.source, found.snapshot.id().to_string());
        let mut best = found;
        for (at, (name, head, _)) in candidates.iter().enumerate().skip(best.at + 1) {
            // What is older than the one before it was not made together with it.
            if best.is_best() || head.source == source {
                break;
            }
            if !passed.insert(head.source) {
                continue;
            }
            let Some(snapshot) = self.read(*name)? else { continue };
            let Some(extent) = self.extent(&snapshot)? else { continue };
            let other = Found { snapshot, extent, at };
            if other.is_of_source_of(&best) && other.rank() > best.rank() {
                best = other;
            }
        }
        self.tell(&best, &newest);
        Ok(best)
    }

    /// Says what was picked, where another could have been meant.
    fn tell(&mut self, best: &Found, newest: &str) {
        let id = best.snapshot.id().to_string();
        match best.class() {
            Some(class) => (self.note)(&format!(
                "snapshot {id:.8} is of the class {class}: it has only what that class takes. All classes: icecore snapshots -l"
            )),
            None if id != newest => (self.note)(&format!(
                "snapshot {id:.8} is of the usual class; {newest:.8}, of another class, has only what that class takes"
            )),
            None => {}
        }
    }

    /// How much of the path `snapshot` has; `None` for nothing.
    pub(super) fn extent(&self, snapshot: &Snapshot) -> Result<Option<Extent>> {
        if self.filter.path.is_empty() {
            return Ok(Some(Extent::Something));
        }
        let pages = PageReader::new(self.repository)?;
        match extent(&pages, snapshot, self.filter.path) {
            Ok(extent) => Ok(Some(extent)),
            Err(Error::PathNotFound(_)) => Ok(None),
            Err(error) if error.is_unreachable() => Err(error),
            // Whoever reads damaged pages reports them.
            Err(_) => Ok(Some(Extent::Something)),
        }
    }
}

fn extent(pages: &PageReader<'_>, snapshot: &Snapshot, path: &[u8]) -> Result<Extent> {
    if browse::entry(pages, snapshot, path)?.kind() != format::entry::Kind::Directory {
        return Ok(Extent::Something);
    }
    let mut cursor = browse::cursor(pages, snapshot);
    cursor.seek(path)?;
    cursor.next_entry()?;
    let next = cursor.next_entry()?;
    let has_more = next.is_some_and(|next| tree::cursor::is_below(&next.path, path));
    Ok(if has_more { Extent::Something } else { Extent::Empty })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_last_line_behind_paths() {
        for (paths, count, class) in [
            (&["/etc", "/srv", "class logs"][..], 2, Some("logs")),
            (&["/etc", "/srv"], 2, None),
            (&["class logs"], 1, None),
            (&["/etc", "only *.log"], 2, None),
            (&[], 0, None),
        ] {
            let paths: Vec<_> = paths.iter().map(|path| (*path).to_owned()).collect();
            let (left, found) = split(&paths);
            assert_eq!((left.len(), found), (count, class), "{paths:?}");
        }
    }
}
