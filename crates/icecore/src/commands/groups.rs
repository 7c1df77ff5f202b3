//! Snapshots in groups: by node, paths and tags.

use pipeline::manifest::Snapshot;
use pipeline::retention::{GroupBy, GroupKey};
use std::collections::BTreeMap;

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
            "source" => {
                (by.node, by.paths) = (true, true);
                continue;
            }
            _ => {
                return Err(format!("cannot group by '{word}'; write source, node, paths or tags"));
            }
        };
        *part = true;
    }
    Ok(by)
}

/// The groups of `all`, which are oldest first; of each the newest `latest`. Without a word of groups all are one,
/// but the newest are those of each source.
pub(crate) fn groups(by: GroupBy, all: &[Snapshot], latest: Option<u32>) -> Vec<Group<'_>> {
    let is_asked = by != GroupBy::default();
    if !is_asked && latest.is_none() {
        return vec![(String::new(), all.iter().collect())];
    }
    let by = if is_asked { by } else { GroupBy::SOURCE };
    let mut groups: BTreeMap<String, Vec<&Snapshot>> = BTreeMap::new();
    let key = |snapshot| name(&by.key(snapshot));
    all.iter().for_each(|snapshot| groups.entry(key(snapshot)).or_default().push(snapshot));
    if let Some(latest) = latest {
        for snapshots in groups.values_mut() {
            snapshots.drain(..snapshots.len().saturating_sub(latest as usize));
        }
    }
    groups.into_iter().collect()
}

/// What people call a group.
pub(crate) fn name(key: &GroupKey<'_>) -> String {
    let parts = [
        key.node.map(|node| format!("node {node}")),
        key.paths.map(|paths| format!("paths {}", paths.join(" "))),
        key.tags.as_ref().map(|tags| match tags[..] {
            [] => "no tags".to_owned(),
            _ => format!("tags {}", tags.join(",")),
        }),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_groups_are_read() {
        let both = GroupBy { node: true, paths: false, tags: true };
        assert_eq!((parse_groups("node,tags"), parse_groups("tag,host")), (Ok(both), Ok(both)));
        assert_eq!(parse_groups("source"), parse_groups("node,paths"));
        ["", "node,", "day", "node;tags"]
            .iter()
            .for_each(|text| assert!(parse_groups(text).is_err(), "{text}"));
    }
}
