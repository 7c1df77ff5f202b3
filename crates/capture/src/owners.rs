//! Names of users and groups, from `/etc/passwd` and `/etc/group`, read once.
//!
//! Not through NSS: `getpwuid_r` may query a directory server for each owner, may hang, and is not
//! safe in a static binary. An owner that only LDAP knows is stored by number; the restore uses the
//! number then.

use format::limits::OWNER_BYTES_MAX;
use rustc_hash::FxHashMap;
use std::path::Path;

/// Maps user and group numbers to names.
#[derive(Clone, Debug, Default)]
pub struct OwnerNames {
    users: FxHashMap<u32, Vec<u8>>,
    groups: FxHashMap<u32, Vec<u8>>,
}

impl OwnerNames {
    /// The names of this machine. A file that cannot be read has no names.
    pub fn of_this_machine() -> Self {
        Self::from_files(Path::new("/etc/passwd"), Path::new("/etc/group"))
    }

    /// The names in these two files.
    pub fn from_files(passwd: &Path, group: &Path) -> Self {
        OwnerNames { users: names_in(passwd), groups: names_in(group) }
    }

    /// The name of a user; empty if unknown.
    pub fn user(&self, uid: u32) -> &[u8] {
        self.users.get(&uid).map_or(b"", Vec::as_slice)
    }

    /// The name of a group; empty if unknown.
    pub fn group(&self, gid: u32) -> &[u8] {
        self.groups.get(&gid).map_or(b"", Vec::as_slice)
    }
}

fn names_in(file: &Path) -> FxHashMap<u32, Vec<u8>> {
    let text = std::fs::read(file).unwrap_or_default();
    let mut names = FxHashMap::default();
    for (number, name) in text.split(|byte| *byte == b'\n').filter_map(number_and_name) {
        names.entry(number).or_insert(name); // the first wins, as in the C library
    }
    names
}

/// Parses `name:password:number:…`, the form of both files. A name longer than a snapshot can hold
/// is ignored.
fn number_and_name(line: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut fields = line.split(|byte| *byte == b':');
    let name = fields.next()?;
    let number = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    let is_name = !name.is_empty() && !name.starts_with(b"#") && name.len() <= OWNER_BYTES_MAX;
    is_name.then(|| (number, name.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_a_name() {
        let names = OwnerNames::of_this_machine();
        assert_eq!(names.user(0), b"root");
        assert_eq!(names.group(0), b"root");
        assert_eq!(names.user(4_000_000_000), b"");
    }

    #[test]
    fn broken_lines_are_passed_over_and_the_first_name_wins() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passwd");
        std::fs::write(&file, "a:x:7:7\n\n+\nb:x:seven:7\n#c:x:9:9\nd:x:7:7\n").unwrap();
        let names = OwnerNames::from_files(&file, Path::new("/nonexistent"));
        assert_eq!(names.user(7), b"a");
        assert_eq!(names.user(9), b"");
        assert_eq!(names.group(7), b"");
    }
}
