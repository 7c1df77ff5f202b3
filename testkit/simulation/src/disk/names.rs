//! The names on a disk. A change of a directory is durable when the directory was synced.

use super::FileNo;
use crate::random::Random;
use std::collections::{BTreeMap, VecDeque};

/// Earlier states of a directory that a stale list may show.
const HISTORY_MAX: usize = 16;

/// What has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Directory,
    File(FileNo),
}

/// A change of a directory.
#[derive(Clone, Debug)]
enum Change {
    Set(String, Node),
    Unset(String),
    /// One step: both or none.
    Move(String, String),
}

/// All names: those that are seen, and those that are on the disk.
#[derive(Clone, Default)]
pub(super) struct Names {
    seen: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    /// Not yet durable, in order, each with its directory.
    pending: Vec<(String, Change)>,
    /// What each directory was, newest first; kept for a network only.
    history: Option<BTreeMap<String, VecDeque<Vec<String>>>>,
}

/// The directory of `name`.
pub(super) fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Names {
    /// The same names on another disk, durable there.
    pub(super) fn copied(&self) -> Self {
        let (seen, history) = (self.seen.clone(), self.history.as_ref().map(|_| BTreeMap::new()));
        Self { durable: seen.clone(), seen, pending: Vec::new(), history }
    }

    pub(super) fn file(&self, name: &str) -> Option<FileNo> {
        match self.seen.get(name) {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        }
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.seen.contains_key(name)
    }

    pub(super) fn is_directory(&self, name: &str) -> bool {
        matches!(name, "" | ".") || self.seen.get(name) == Some(&Node::Directory)
    }

    pub(super) fn files(&self) -> Vec<String> {
        let files = self.seen.iter().filter(|(_, node)| **node != Node::Directory);
        files.map(|(name, _)| name.clone()).collect()
    }

    /// The files whose loss anybody can bear: all but the configuration and the keys, of which
    /// one keeps a copy.
    pub(super) fn numbers(&self) -> impl Iterator<Item = FileNo> {
        let is_kept = |name: &str| name == "config" || name.starts_with("keys/");
        self.seen.iter().filter_map(move |(name, node)| match node {
            Node::File(file) if !is_kept(name) => Some(*file),
            _ => None,
        })
    }

    /// Names in `directory`, sorted.
    pub(super) fn list(&self, directory: &str) -> Vec<String> {
        let start = if directory == "." { String::new() } else { format!("{directory}/") };
        let below =
            self.seen.range(start.clone()..).map_while(|(name, _)| name.strip_prefix(&start));
        below.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    /// Remembers from now on what directories were.
    pub(super) fn keep_history(&mut self) {
        self.history.get_or_insert_default();
    }

    /// Names in `directory` as they were some changes ago.
    pub(super) fn stale_listing(&self, directory: &str, random: &mut Random) -> Vec<String> {
        let history = self.history.as_ref().and_then(|history| history.get(directory));
        match history.filter(|history| !history.is_empty()) {
            Some(history) => history[random.index(history.len())].clone(),
            None => self.list(directory),
        }
    }

    fn remember(&mut self, directory: &str) {
        let now = self.list(directory);
        let Some(history) = &mut self.history else { return };
        let history = history.entry(directory.to_owned()).or_default();
        history.push_front(now);
        history.truncate(HISTORY_MAX);
    }

    pub(super) fn set(&mut self, name: &str, node: Node) {
        self.change(name, Change::Set(name.to_owned(), node));
    }

    pub(super) fn unset(&mut self, name: &str) {
        self.change(name, Change::Unset(name.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        self.change(to, Change::Move(from.to_owned(), to.to_owned()));
    }

    fn change(&mut self, name: &str, change: Change) {
        if self.history.is_some() {
            self.remember(parent(name));
        }
        apply(&mut self.seen, &change);
        self.pending.push((parent(name).to_owned(), change));
    }

    /// Makes the changes of `directory` durable.
    pub(super) fn sync(&mut self, directory: &str) {
        for (_, change) in self.pending.extract_if(.., |(parent, _)| parent == directory) {
            apply(&mut self.durable, &change);
        }
    }

    /// Of the changes that are not durable some are on the disk: the first ones, as a journal has
    /// it, or any.
    pub(super) fn lose_power(&mut self, random: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        let in_order = random.one_in(2);
        let first = random.index(pending.len() + 1);
        for (number, (_, change)) in pending.iter().enumerate() {
            if if in_order { number < first } else { random.one_in(2) } {
                apply(&mut self.durable, change);
            }
        }
        let names: Vec<_> = self.durable.keys().cloned().collect();
        for name in names {
            let parent = parent(&name);
            if !parent.is_empty() && !self.durable.contains_key(parent) {
                self.durable.remove(&name);
            }
        }
        self.seen.clone_from(&self.durable);
        if let Some(history) = &mut self.history {
            history.clear();
        }
    }
}

fn apply(names: &mut BTreeMap<String, Node>, change: &Change) {
    match change {
        Change::Set(name, node) => {
            names.insert(name.clone(), *node);
        }
        Change::Unset(name) => {
            names.remove(name);
        }
        Change::Move(from, to) => {
            // The creation of `from` may be lost and its move not: then `to` has what it had.
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_durable_when_its_directory_was_synced() {
        let mut lost = 0;
        for seed in 0..100 {
            let mut names = Names::default();
            names.set("a", Node::Directory);
            names.sync("");
            names.set("a/one.part", Node::File(1));
            names.rename("a/one.part", "a/one");
            names.sync("a");
            names.set("a/two", Node::File(2));
            names.lose_power(&mut Random::new(seed));
            assert_eq!(names.file("a/one"), Some(1));
            assert!(!names.exists("a/one.part"));
            lost += u32::from(!names.exists("a/two"));
        }
        assert!((20..80).contains(&lost), "{lost}");
    }

    #[test]
    fn a_stale_list_is_a_true_one_of_before() {
        let mut names = Names::default();
        names.keep_history();
        names.set("a", Node::Directory);
        names.set("a/one", Node::File(1));
        names.set("a/two", Node::File(2));
        names.unset("a/one");
        assert_eq!(names.list("a"), ["two"]);
        let mut random = Random::new(1);
        let mut seen: Vec<_> = (0..50).map(|_| names.stale_listing("a", &mut random)).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [vec![], vec!["one"], vec!["one", "two"]]);
    }

    #[test]
    fn a_directory_that_is_lost_takes_its_files_along() {
        for seed in 0..50 {
            let mut names = Names::default();
            names.set("a", Node::Directory);
            names.set("a/one", Node::File(1));
            names.sync("a");
            names.lose_power(&mut Random::new(seed));
            assert!(names.is_directory("a") || !names.exists("a/one"));
        }
    }
}
