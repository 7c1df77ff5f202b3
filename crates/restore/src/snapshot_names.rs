//! The names that a snapshot has in one directory, and those of its objects that the directory of
//! the target lists under another name.
//!
//! Where names fold (lowntfs-3g with `ignore_case`, casefold of ext4, FAT, SMB), the file `README`
//! of a snapshot may be listed as `readme`. Whoever only compares names finds an object that the
//! snapshot does not have.

use crate::system;
use rustc_hash::FxHashSet;
use rustix::fd::BorrowedFd;
use rustix::fs::{Dir, Statx};
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};

/// The names that a snapshot has in one directory. They are found by hashes, because there may be
/// millions of them; a collision only keeps something.
#[derive(Default)]
pub struct SnapshotNames {
    hashes: FxHashSet<u64>,
    /// Of each restore its own, so that nobody can make names collide.
    hasher: RandomState,
    /// Each name, and a NUL.
    text: Vec<u8>,
}

impl SnapshotNames {
    /// Adds a name; the second time, nothing changes.
    pub fn insert(&mut self, name: &[u8]) {
        if self.hashes.insert(self.hash(name)) {
            self.text.extend_from_slice(name);
            self.text.push(0);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.hashes.contains(&self.hash(name))
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.text.split(|byte| *byte == 0).filter(|name| !name.is_empty())
    }

    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }
}

/// The objects of a snapshot that a directory does not list under the names of the snapshot, but
/// finds there.
#[derive(Default)]
pub(crate) struct Respelled {
    /// Their devices and inodes.
    inodes: FxHashSet<(u64, u64)>,
    /// Their names in lower case: on SMB, each spelling may have an inode number of its own.
    names: FxHashSet<String>,
}

impl Respelled {
    /// Lists the directory, and looks for the names that it does not list.
    pub(crate) fn find(directory: BorrowedFd<'_>, names: &SnapshotNames) -> Result<Self, Errno> {
        let mut listed = FxHashSet::default();
        for item in Dir::read_from(directory)? {
            listed.insert(names.hash(item?.file_name().to_bytes()));
        }
        let is_listed = |name: &[u8]| listed.contains(&names.hash(name));
        Self::among(names, is_listed, |name| system::stat_at(directory, name).map(identity))
    }

    fn among(
        names: &SnapshotNames,
        is_listed: impl Fn(&[u8]) -> bool,
        look: impl Fn(&[u8]) -> Result<(u64, u64), Errno>,
    ) -> Result<Self, Errno> {
        let mut found = Self::default();
        for name in names.iter().filter(|name| !is_listed(name)) {
            match look(name) {
                Ok(inode) => {
                    found.inodes.insert(inode);
                    found.names.insert(lower(name));
                }
                // It is not there, or cannot be: it was not selected, or this is a dry run.
                Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Whether the listed `name` is one of these objects.
    pub(crate) fn has(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
        self.has_seen(name, |name| system::stat_at(directory, name).map(identity))
    }

    fn has_seen(
        &self,
        name: &[u8],
        look: impl Fn(&[u8]) -> Result<(u64, u64), Errno>,
    ) -> Result<bool, Errno> {
        if self.inodes.is_empty() {
            return Ok(false); // nothing to look for: no call of the system
        }
        if self.names.contains(&lower(name)) {
            return Ok(true);
        }
        match look(name) {
            Ok(inode) => Ok(self.inodes.contains(&inode)),
            Err(Errno::NOENT) => Ok(false), // gone meanwhile
            Err(error) => Err(error),
        }
    }
}

fn identity(stat: Statx) -> (u64, u64) {
    system::identity(&stat)
}

fn lower(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> SnapshotNames {
        let mut names = SnapshotNames::default();
        all.iter().for_each(|name| names.insert(name.as_bytes()));
        names
    }

    /// A directory that folds and lists `readme`, `extra` and `LINK`, another name of `readme`.
    fn folding(name: &[u8]) -> Result<(u64, u64), Errno> {
        match lower(name).as_str() {
            "readme" | "link" => Ok((1, 10)),
            "extra" => Ok((1, 11)),
            _ => Err(Errno::NOENT),
        }
    }

    #[test]
    fn names_come_back_once() {
        let names = names(&["b", "a", "b"]);
        assert_eq!(names.iter().collect::<Vec<_>>(), [b"b", b"a"]);
        assert_eq!((names.len(), names.is_empty()), (2, false));
        assert!(names.contains(b"a") && !names.contains(b"A"));
    }

    #[test]
    fn what_has_another_spelling_in_the_list_is_the_object_of_the_snapshot() {
        let names = names(&["README", "not selected"]);
        let found = Respelled::among(&names, |_| false, folding).unwrap();
        assert_eq!(found.has_seen(b"readme", folding), Ok(true));
        assert_eq!(found.has_seen(b"extra", folding), Ok(false));
        assert_eq!(found.has_seen(b"gone", folding), Ok(false));
        // Each spelling has another number: the name decides.
        assert_eq!(found.has_seen(b"ReadMe", |_| Ok((1, 99))), Ok(true));
    }

    #[test]
    fn a_further_link_of_what_is_listed_exactly_is_no_object_of_the_snapshot() {
        let names = names(&["readme"]);
        let found = Respelled::among(&names, |name| name == b"readme", |_| panic!()).unwrap();
        assert_eq!(found.has_seen(b"LINK", |_| panic!()), Ok(false));
    }

    /// Else it would be removed because nobody knows what it is.
    #[test]
    fn what_cannot_be_looked_at_is_an_error() {
        let broken = |_: &[u8]| Err(Errno::IO);
        let names = names(&["README"]);
        assert!(Respelled::among(&names, |_| false, broken).is_err());
        let found = Respelled::among(&names, |_| false, folding).unwrap();
        assert_eq!(found.has_seen(b"x", broken), Err(Errno::IO));
    }
}
