//! Where a name is, and whether two names are of one file while others write to it.

use crate::walk::{Directory, Row};
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Result;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// How often both names of a file that is written to all the time are looked at.
const LOOKS_MAX: usize = 64;

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct FoundName {
    directory: Arc<Directory>,
    name: CString,
}

impl FoundName {
    /// This name in this directory.
    pub fn new(directory: &Arc<Directory>, name: &CStr) -> Self {
        FoundName { directory: directory.clone(), name: name.to_owned() }
    }

    /// Whether this name and the other one are of the file that a walk met as `met`. Inode and time of birth do not
    /// tell: behind an overlay, a file and its state in a snapshot of the volume have both in common. Two looks at one
    /// file in a row tell the same, unless something wrote to it in between: then it is looked at again.
    pub fn is_of_one_file_with(&self, other: &FoundName, met: &Row) -> bool {
        are_one(met, || Ok((self.look(met)?, other.look(met)?)))
    }

    fn look(&self, met: &Row) -> Result<Row> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(met.refreshed(&statx(&*self.directory.handle()?, &*self.name, flags, wanted)?))
    }
}

fn are_one(met: &Row, mut look: impl FnMut() -> Result<(Row, Row)>) -> bool {
    let identity = |row: &Row| (row.kind, row.device, row.inode, row.birth);
    let mut before: Option<(Row, Row)> = None;
    for _ in 0..LOOKS_MAX {
        let Ok((one, other)) = look() else { return false };
        if [&one, &other].iter().any(|row| identity(row) != identity(met)) {
            return false;
        }
        if one.is_same_content(&other) {
            return true;
        }
        let rests = |(first, second): &(Row, Row)| {
            first.is_same_content(&one) && second.is_same_content(&other)
        };
        if before.as_ref().is_some_and(rests) {
            return false; // nothing writes to them, and they differ
        }
        before = Some((one, other));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, walk};
    use crate::walk::{DirectoryHandles, SourceRoot, WalkOptions};
    use rustix::io::Errno;
    use std::path::Path;

    fn found_name(at: &Path, name: &CStr) -> FoundName {
        FoundName::new(&Directory::starting_at(bytes(at), &DirectoryHandles::new()), name)
    }

    fn row(at: &Path) -> Row {
        let walked = walk(&[SourceRoot::at(bytes(at))], WalkOptions::default());
        walked.row(&bytes(at)[1..]).clone()
    }

    #[test]
    fn names_of_one_file_are_told_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "x").unwrap();
        std::fs::hard_link(at("a"), at("b")).unwrap();
        std::fs::write(at("c"), "x").unwrap();
        std::os::unix::fs::symlink("a", at("d")).unwrap();
        let is_one = |name: &CStr| {
            found_name(folder.path(), c"a")
                .is_of_one_file_with(&found_name(folder.path(), name), &row(&at("a")))
        };
        assert!(is_one(c"b"));
        for other in [c"c", c"d", c"none"] {
            assert!(!is_one(other), "{other:?}");
        }
        let of_c = row(&at("c"));
        assert!(
            !found_name(folder.path(), c"a")
                .is_of_one_file_with(&found_name(folder.path(), c"b"), &of_c)
        );
    }

    #[test]
    fn a_file_that_is_written_to_is_looked_at_until_both_looks_agree() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "x").unwrap();
        let met = row(&folder.path().join("a"));
        let sized = |size| {
            let mut row = met.clone();
            row.size = size;
            row
        };
        let mut size = 0;
        let grows_until = |end: u64| {
            move || {
                size = end.min(size + 1);
                Ok((sized(size), sized(end.min(size + 1))))
            }
        };
        assert!(are_one(&met, grows_until(20)));
        assert!(!are_one(&met, grows_until(u64::MAX)));
        let mut looks = 0;
        let differ = || {
            looks += 1;
            Ok((sized(1), sized(2)))
        };
        assert!(!are_one(&met, differ));
        assert_eq!(looks, 2, "two files at rest");
        assert!(!are_one(&met, || Err(Errno::NOENT)));
    }
}
