//! User and group numbers by name, from `/etc/passwd` and `/etc/group`, read once.
//!
//! Not through NSS, as in `capture::owners`: a lookup may hang on a directory server. An owner
//! that only such a server knows is restored by number.

use crate::options::OwnerMapping;
use format::entry::{Attributes, Entry, Kind};
use rustc_hash::FxHashMap;
use std::path::Path;

/// Maps recorded owners to local ones.
#[derive(Debug, Default)]
pub(crate) struct OwnerIds {
    users: FxHashMap<Vec<u8>, u32>,
    groups: FxHashMap<Vec<u8>, u32>,
    /// The owner of everything, whatever was recorded.
    everything: Option<(u32, u32)>,
}

impl OwnerIds {
    pub(crate) fn for_option(owners: OwnerMapping) -> Self {
        match owners {
            OwnerMapping::ById => Self::default(), // without names, numbers stay
            OwnerMapping::Caller => {
                let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
                Self { everything: Some((user.as_raw(), group.as_raw())), ..Self::default() }
            }
            OwnerMapping::ByName => {
                Self::from_files(Path::new("/etc/passwd"), Path::new("/etc/group"))
            }
        }
    }

    fn from_files(passwd: &Path, group: &Path) -> Self {
        OwnerIds { users: numbers_in(passwd), groups: numbers_in(group), everything: None }
    }

    /// The local user and group of an object.
    pub(crate) fn of(&self, attributes: &Attributes) -> (u32, u32) {
        if let Some(owner) = self.everything {
            return owner;
        }
        let uid = self.users.get(&attributes.user).copied().unwrap_or(attributes.uid);
        let gid = self.groups.get(&attributes.group).copied().unwrap_or(attributes.gid);
        (uid, gid)
    }

    /// The mode of an object. A program that was to run as its owner does not run as who restores it, unless that is
    /// the same. On a directory setgid names the group of what is created there, and stays.
    pub(crate) fn mode_of(&self, entry: &Entry) -> u32 {
        let recorded = &entry.attributes;
        let mode = u32::from(recorded.mode);
        let Some((uid, gid)) = self.everything.filter(|_| entry.kind() == Kind::File) else {
            return mode;
        };
        let foreign = |is_other: bool, bit: u32| if is_other { bit } else { 0 };
        mode & !(foreign(uid != recorded.uid, SETUID) | foreign(gid != recorded.gid, SETGID))
    }
}

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

fn numbers_in(file: &Path) -> FxHashMap<Vec<u8>, u32> {
    let text = std::fs::read(file).unwrap_or_default();
    let mut numbers = FxHashMap::default();
    for (name, number) in text.split(|byte| *byte == b'\n').filter_map(name_and_number) {
        numbers.entry(name).or_insert(number); // the first wins, as in the C library
    }
    numbers
}

/// Parses `name:password:number:…`, the form of both files.
fn name_and_number(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut fields = line.split(|byte| *byte == b':');
    let name = fields.next()?;
    let number = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    (!name.is_empty() && !name.starts_with(b"#")).then(|| (name.to_vec(), number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn without_owners_everything_belongs_to_who_restores() {
        let ids = OwnerIds::for_option(OwnerMapping::Caller);
        let mut entry = testing::file("f", 0o644);
        testing::change(&mut entry, |a| (a.uid, a.gid, a.user) = (5, 6, b"root".to_vec()));
        let caller = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert_eq!(ids.of(&entry.attributes), caller);
    }

    #[test]
    fn a_name_known_here_wins_over_the_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passwd");
        std::fs::write(&file, "alice:x:77:7\nbroken\nalice:x:78:7\n").unwrap();
        let ids = OwnerIds::from_files(&file, Path::new("/nonexistent"));
        let mut entry = testing::file("f", 0o644);
        testing::change(&mut entry, |a| (a.uid, a.gid, a.user) = (5, 6, b"alice".to_vec()));
        assert_eq!(ids.of(&entry.attributes), (77, 6));
        testing::change(&mut entry, |a| a.user = b"bob".to_vec());
        assert_eq!(ids.of(&entry.attributes), (5, 6));
    }
}
