//! Names of objects, and what is known of those that exist.

use std::collections::BTreeMap;
use std::ops::Bound;

/// All names behind this one, without containers and what sorts before them: one listing shows what is small.
pub(crate) const BEHIND_CONTAINERS: &str = "containers0";
/// An object without content that says that its directory was made.
pub(crate) const DIRECTORY_MARK: &str = ".directory";
/// Files that change: rows of numbered objects.
pub(crate) const ROOTS: [&str; 7] =
    ["index/state", "keys/list", "keys/list.copy", "lock-clock", "copied", ENDED, REMOVED];
/// Containers that the holder of the lease is about to remove.
pub(crate) const REMOVED: &str = "removed";
/// Which snapshots count of writers that did not end their lease.
pub(crate) const ENDED: &str = "ended";
/// What else the names in a repository begin with.
const OTHERS: [&str; 10] = [
    "README",
    "config",
    "config.copy",
    "containers",
    "index",
    "keys",
    "receipts",
    "readers",
    "snapshots",
    "storage-class",
];
pub(crate) const STATE: &str = "index/state";
pub(crate) const SNAPSHOTS: &str = "snapshots";
pub(crate) const LEASE: &str = "lease";
/// More objects than a row will ever have.
pub(crate) const NUMBER_MAX: u64 = 1 << 48;

/// Whether a repository can have an object of this name: other things can lie in the same bucket.
pub(crate) fn is_ours(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    first == LEASE
        || ROOTS.into_iter().chain(OTHERS).any(|ours| ours.split('/').next() == Some(first))
}

/// The object number `number` of the row `root`.
pub(crate) fn numbered(root: &str, number: u64) -> String {
    format!("{root}/{number:016x}")
}

/// The object of the snapshot file `file` that the holder of the lease `lease` writes.
pub(crate) fn snapshot(file: &str, lease: u64) -> String {
    format!("{file}.{lease:016x}")
}

/// File and lease of the object of a snapshot.
pub(crate) fn parse_snapshot(name: &str) -> Option<(&str, u64)> {
    let (file, lease) = name.rsplit_once('.')?;
    Some((file, number(lease)?))
}

/// The number that this part of a name says, as it would be written here. None is so high that there could be no next
/// one: nobody but a stranger writes such a name, and nothing may end because of it.
pub(crate) fn number(digits: &str) -> Option<u64> {
    let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 16 || !digits.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().filter(|number| *number <= NUMBER_MAX)
}

/// Objects that exist, by name.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, Listed>);

/// What a listing says of an object.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) length: u64,
    /// By which the storage tells contents apart, if it does.
    pub(crate) tag: Option<String>,
}

impl Names {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn length(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|listed| listed.length)
    }

    /// The tag of the object `name`, if the storage has said it.
    pub(crate) fn tag(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.tag.as_deref()
    }

    pub(crate) fn insert(&mut self, name: &str, length: u64) {
        self.insert_tagged(name, length, None);
    }

    pub(crate) fn insert_tagged(&mut self, name: &str, length: u64, tag: Option<String>) {
        self.0.insert(name.to_owned(), Listed { length, tag });
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// From now on, just `found` have names behind `after` that begin with `prefix`.
    pub(crate) fn replace(&mut self, prefix: &str, after: &str, found: Vec<(String, Listed)>) {
        self.0.retain(|name, _| !name.starts_with(prefix) || name.as_str() <= after);
        self.0.extend(found);
    }

    /// What follows `directory/` in the names below it.
    pub(crate) fn below<'a>(
        &'a self,
        directory: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a str> {
        // `0` is the sign behind `/`.
        let (first, end) = (format!("{directory}/"), format!("{directory}0"));
        let skip = first.len();
        let range = (Bound::Excluded(first), Bound::Excluded(end));
        self.0.range::<String, _>(range).filter_map(move |(name, _)| name.get(skip..))
    }

    /// The names that begin with `start`, in order.
    pub(crate) fn starting_with<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let range = (Bound::Included(start), Bound::Unbounded);
        let names = self.0.range::<str, _>(range).map(|(name, _)| name.as_str());
        names.take_while(move |name| name.starts_with(start))
    }

    /// The highest number of the row `root`.
    pub(crate) fn highest(&self, root: &str) -> Option<u64> {
        self.below(root).rev().find_map(number)
    }

    /// The objects of the row `root` with a tag, in order.
    pub(crate) fn tagged(&self, root: &str) -> Vec<(u64, String)> {
        let numbers = self.below(root).filter_map(number);
        let tag = |number: u64| Some((number, self.0.get(&numbered(root, number))?.tag.clone()?));
        numbers.filter_map(tag).collect()
    }

    /// Names in `directory`, and of the directories in it, sorted.
    pub(crate) fn entries(&self, directory: &str) -> Vec<String> {
        let first = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let mut entries: Vec<_> = self.below(directory).map(first).collect();
        entries.dedup();
        entries.retain(|name| name != DIRECTORY_MARK);
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_a_row_is_found_and_directories_are_told_apart() {
        let mut names = Names::default();
        for name in
            ["index/.directory", "index/run-1", "keys/list.copy/0000000000000009", "snapshots/a"]
        {
            names.insert(name, 1);
        }
        for number in [3, 0x10, 2] {
            names.insert(&numbered("index/state", number), 1);
        }
        names.insert("index/state/0000000000000011.other", 1);
        assert_eq!(names.highest("index/state"), Some(0x10));
        assert_eq!((names.highest("keys/list"), names.highest("keys/list.copy")), (None, Some(9)));
        assert_eq!(names.entries("index"), ["run-1", "state"]);
        let of_row: Vec<_> = names.starting_with("index/state/0000000000000011").collect();
        assert_eq!(of_row, ["index/state/0000000000000011.other"]);
        names.replace("index/", "", vec![("index/run-2".into(), Listed::default())]);
        assert_eq!(
            (names.entries("index"), names.highest("keys/list.copy")),
            (vec!["run-2".into()], Some(9))
        );
    }

    #[test]
    fn what_a_repository_has_is_told_from_what_lies_beside_it() {
        for ours in
            ["config", "containers/00000000/0000000001.ice", "ended/0000000000000001", "lease/1"]
        {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["", "photo.jpg", "web/config", "config.old", "containers2/x", ".directory"] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn a_number_is_what_would_be_written_here() {
        assert_eq!(number("00000000000000ff"), Some(255));
        for strange in
            ["ffffffffffffffff", "0001000000000001", "00000000000000FF", "+0000000000000ff", "ff"]
        {
            assert_eq!(number(strange), None, "{strange}");
        }
    }

    #[test]
    fn the_name_of_a_snapshot_says_under_which_lease_it_was_written() {
        let name = snapshot("snapshots/0000000001-ab", 0x1f);
        assert_eq!(parse_snapshot(&name), Some(("snapshots/0000000001-ab", 0x1f)));
        assert_eq!(parse_snapshot("snapshots/x"), None);
        assert_eq!(parse_snapshot("snapshots/x.y"), None);
    }
}
