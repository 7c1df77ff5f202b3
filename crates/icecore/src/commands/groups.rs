//! Snapshots in groups: by node, paths and tags.

use client::manifest::Snapshot;
use std::collections::BTreeMap;

/// What snapshots of a group have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupBy {
    node: bool,
    paths: bool,
    tags: bool,
}

/// A name for people, and the snapshots, oldest first.
pub(crate) type Group<'a> = (String, Vec<&'a Snapshot>);

/// Reads `node,paths`.
pub(crate) fn parse_groups(text: &str) -> Result<GroupBy, String> {
    let mut by = GroupBy::default();
    for word in text.split(',') {
        let part = match word {
            "node" | "host" => &mut by.node,
            "paths" | "path" => &mut by.paths,
            "tags" | "tag" => &mut by.tags,
            _ => return Err(format!("'{word}' makes no group; write node, paths or tags")),
        };
        *part = true;
    }
    Ok(by)
}

impl GroupBy {
    /// The groups of `all`, which are oldest first; of each the newest `latest`. Without a word of groups all
    /// are one, but the newest are those of each source.
    pub(crate) fn groups<'a>(self, all: &'a [Snapshot], latest: Option<u32>) -> Vec<Group<'a>> {
        let is_asked = self != Self::default();
        if !is_asked && latest.is_none() {
            return vec![(String::new(), all.iter().collect())];
        }
        let by = if is_asked { self } else { Self { node: true, paths: true, tags: false } };
        let mut groups: BTreeMap<String, Vec<&Snapshot>> = BTreeMap::new();
        all.iter().for_each(|snapshot| groups.entry(by.name(snapshot)).or_default().push(snapshot));
        if let Some(latest) = latest {
            for snapshots in groups.values_mut() {
                snapshots.drain(..snapshots.len().saturating_sub(latest as usize));
            }
        }
        groups.into_iter().collect()
    }

    fn name(self, snapshot: &Snapshot) -> String {
        let body = &snapshot.body;
        let mut tags = body.tags.clone();
        tags.sort_unstable();
        let parts = [
            self.node.then(|| format!("node {}", body.node)),
            self.paths.then(|| format!("paths {}", body.paths.join(" "))),
            self.tags.then(|| format!("tags {}", tags.join(","))),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_groups_are_read() {
        let both = GroupBy { node: true, paths: false, tags: true };
        assert_eq!((parse_groups("node,tags"), parse_groups("tag,host")), (Ok(both), Ok(both)));
        ["", "node,", "day", "node;tags"]
            .iter()
            .for_each(|text| assert!(parse_groups(text).is_err(), "{text}"));
    }
}
