//! To which nodes a group or policy applies.

use crate::{Policy, Site};
use std::collections::{BTreeMap, BTreeSet};

/// What groups and policies choose nodes by.
struct Choice<'a> {
    all: bool,
    nodes: &'a [String],
    labels: &'a BTreeMap<String, String>,
}

impl Site {
    /// The nodes to which a policy applies, of those that are enrolled; paused ones too. Whatever
    /// leads to a node counts, and a cycle of groups leads nowhere new.
    pub fn members(&self, policy: &Policy, enrolled: &BTreeSet<String>) -> BTreeSet<String> {
        let own = Choice { all: false, nodes: &policy.nodes, labels: &policy.labels };
        let mut members = BTreeSet::new();
        for choice in self.reached(&policy.groups).into_iter().chain([own]) {
            members.extend(choice.nodes.iter().filter(|node| enrolled.contains(*node)).cloned());
            if choice.all || !choice.labels.is_empty() {
                let fits = |node: &&String| choice.all || self.has_labels(node, choice.labels);
                members.extend(enrolled.iter().filter(fits).cloned());
            }
        }
        members
    }

    fn has_labels(&self, node: &str, labels: &BTreeMap<String, String>) -> bool {
        let Some(node) = self.nodes.get(node) else { return false };
        labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
    }

    /// These groups and all that they consist of, each once.
    fn reached(&self, names: &[String]) -> Vec<Choice<'_>> {
        let mut seen = BTreeSet::new();
        let mut choices = Vec::new();
        let mut next: Vec<&String> = names.iter().collect();
        while let Some(name) = next.pop() {
            if let Some(group) = self.groups.get(name).filter(|_| seen.insert(name)) {
                next.extend(&group.groups);
                choices.push(Choice { all: group.all, nodes: &group.nodes, labels: &group.labels });
            }
        }
        choices
    }

    /// The references by which groups contain themselves: group, and position in its list. Each cycle
    /// has one of them at least.
    pub(crate) fn cycles(&self) -> BTreeMap<&str, usize> {
        let mut search = Search { site: self, seen: BTreeMap::new(), back: BTreeMap::new() };
        self.groups.keys().for_each(|name| search.from(name));
        search.back
    }
}

/// A search into the depth, without recursion: a file could make it too deep.
struct Search<'a> {
    site: &'a Site,
    /// Whether a group that was seen is still above the one that is looked at.
    seen: BTreeMap<&'a str, bool>,
    back: BTreeMap<&'a str, usize>,
}

impl<'a> Search<'a> {
    fn from(&mut self, first: &'a str) {
        if self.seen.contains_key(first) {
            return;
        }
        self.seen.insert(first, true);
        let mut path: Vec<(&'a str, usize)> = vec![(first, 0)];
        while let Some((name, at)) = path.last_mut() {
            let group = self.site.groups.get(*name);
            let Some(inner) = group.and_then(|group| group.groups.get(*at)) else {
                self.seen.insert(*name, false);
                path.pop();
                continue;
            };
            let (outer, position) = (*name, *at);
            *at += 1;
            match self.seen.get(inner.as_str()) {
                Some(true) => {
                    self.back.entry(outer).or_insert(position);
                }
                Some(false) => {}
                None => {
                    self.seen.insert(inner, true);
                    path.push((inner, 0));
                }
            }
        }
    }
}
