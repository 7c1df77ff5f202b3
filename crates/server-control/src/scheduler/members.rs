//! Which nodes a policy chooses: by name, by groups, by labels.

use super::lines::Member;
use site::{Policy, Site};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of a policy that are enrolled, each once.
pub(super) fn members<'a>(site: &Site, policy: &Policy, nodes: &'a [Member]) -> Vec<&'a Member> {
    let mut chosen =
        Chosen { site, names: BTreeSet::new(), labels: Vec::new(), seen: BTreeSet::new() };
    chosen.add(&policy.nodes, &policy.labels);
    policy.groups.iter().for_each(|group| chosen.add_group(group));
    nodes.iter().filter(|node| chosen.has(node.name.as_str())).collect()
}

/// Names and labels of everything that a policy names.
struct Chosen<'s> {
    site: &'s Site,
    names: BTreeSet<&'s str>,
    labels: Vec<&'s BTreeMap<String, String>>,
    /// Groups that were looked at: a cycle ends.
    seen: BTreeSet<&'s str>,
}

impl<'s> Chosen<'s> {
    fn add<'p: 's>(&mut self, names: &'p [String], labels: &'p BTreeMap<String, String>) {
        self.names.extend(names.iter().map(String::as_str));
        self.labels.extend(Some(labels).filter(|labels| !labels.is_empty()));
    }

    fn add_group(&mut self, name: &str) {
        let Some((name, group)) = self.site.groups.get_key_value(name) else { return };
        if self.seen.insert(name) {
            self.add(&group.nodes, &group.labels);
            group.groups.iter().for_each(|group| self.add_group(group));
        }
    }

    fn has(&self, node: &str) -> bool {
        let known = self.site.nodes.get(node).map(|node| &node.labels);
        let fits = |wanted: &&BTreeMap<String, String>| {
            wanted.iter().all(|(key, value)| known.and_then(|known| known.get(key)) == Some(value))
        };
        self.names.contains(node) || self.labels.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use site::Kind;

    #[test]
    fn nodes_are_chosen_by_name_by_label_and_by_groups_of_groups() {
        let mut site = Site::default();
        let mut set = |kind, name: &str, body| site.set(kind, name, &body).unwrap();
        set(Kind::Node, "db", json!({"labels": {"role": "db", "city": "x"}}));
        set(Kind::Group, "a", json!({"nodes": ["web"], "groups": ["b"]}));
        set(Kind::Group, "b", json!({"labels": {"role": "db"}, "groups": ["a"]}));
        set(Kind::Policy, "by-group", json!({"groups": ["a"]}));
        set(Kind::Policy, "by-label", json!({"labels": {"role": "db", "city": "y"}}));
        set(Kind::Policy, "by-name", json!({"nodes": ["mail", "not-enrolled"]}));
        let node =
            |name: &str| Member { name: name.parse().unwrap(), domain: name.parse().unwrap() };
        let nodes = ["db", "mail", "web"].map(node);
        let of = |policy: &str| -> Vec<&str> {
            let chosen = members(&site, &site.policies[policy], &nodes);
            chosen.iter().map(|member| member.name.as_str()).collect()
        };
        assert_eq!(of("by-group"), ["db", "web"]);
        assert_eq!(of("by-label"), [""; 0]);
        assert_eq!(of("by-name"), ["mail"]);
    }
}
