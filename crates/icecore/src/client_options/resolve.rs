//! Which of several values of an option is in effect.

use super::table::{Kind, Row, TABLE};
use super::{Candidate, Layer};
use std::ffi::OsStr;

/// An option with its value.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(crate) row: &'static Row,
    /// What is in effect: nothing (the default), one value, or, for a sum, those of several layers, the last of
    /// which is the strongest.
    pub(crate) chosen: Vec<Candidate>,
    /// What was said and is not in effect, strongest first.
    pub(crate) overridden: Vec<Candidate>,
}

/// All options with their values.
#[derive(Debug)]
pub(crate) struct Resolved(Vec<Effective>);

impl Resolved {
    /// Decides between `candidates`. Of equally strong ones the first is in effect.
    pub(crate) fn new(mut candidates: Vec<Candidate>) -> Self {
        candidates.retain(says_something);
        candidates.sort_by_key(|candidate| candidate.layer);
        let all = TABLE.iter().map(|row| {
            let (own, rivals) = split(row, &candidates);
            let strongest = rivals.iter().map(|rival| rank(rival)).min();
            let loses = |own: &Candidate| strongest.is_some_and(|rival| rival < rank(own));
            effective(row, own, loses)
        });
        Self(all.collect())
    }

    /// In the order of the table.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Effective> {
        self.0.iter()
    }

    /// What is in effect for the option `name`, strongest last; nothing for its default.
    pub(crate) fn chosen(&self, name: &str) -> &[Candidate] {
        let found = self.0.iter().find(|effective| effective.row.name == name);
        found.map_or(&[], |effective| &effective.chosen)
    }

    /// The value of an option that has one; `None` for its default.
    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        Some(self.chosen(name).last()?.values.first()?)
    }
}

/// The candidates of `row`, and those of other rows of its group.
fn split<'a>(row: &Row, all: &'a [Candidate]) -> (Vec<&'a Candidate>, Vec<&'a Candidate>) {
    let own = all.iter().filter(|candidate| candidate.option == row.name).collect();
    let mates = TABLE.iter().filter(|mate| mate.group == row.group && mate.name != row.name);
    let mates: Vec<_> = mates.filter(|_| !row.group.is_empty()).map(|mate| mate.name).collect();
    (own, all.iter().filter(|candidate| mates.contains(&candidate.option)).collect())
}

/// In a group, the stronger layer counts, then the order of the table.
fn rank(candidate: &Candidate) -> (Layer, Option<usize>) {
    (candidate.layer, TABLE.iter().position(|row| row.name == candidate.option))
}

fn effective(
    row: &'static Row,
    own: Vec<&Candidate>,
    loses: impl Fn(&Candidate) -> bool,
) -> Effective {
    let mut found = Effective { row, chosen: Vec::new(), overridden: Vec::new() };
    for candidate in own {
        let is_hidden =
            |better: &Candidate| row.kind != Kind::Sum || is_same_file(better, candidate);
        if loses(candidate) || found.chosen.iter().any(is_hidden) {
            found.overridden.push(candidate.clone());
        } else {
            found.chosen.push(candidate.clone());
        }
    }
    found.chosen.reverse();
    found
}

/// A profile replaces what the rest of its file says, sums too.
fn is_same_file(better: &Candidate, candidate: &Candidate) -> bool {
    better.layer == Layer::Profile && candidate.layer == Layer::File
}

/// An empty value is as good as none, except for a password: an empty one is refused later.
fn says_something(candidate: &Candidate) -> bool {
    let is_empty = candidate.values.iter().all(|value| value.is_empty());
    let row = super::table::row(candidate.option);
    row.is_some_and(|row| match row.kind {
        Kind::Secret => true,
        // Said, and nothing: no tags, no paths.
        Kind::List => matches!(candidate.layer, Layer::Profile | Layer::File) || !is_empty,
        _ => !is_empty,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(option: &'static str, layer: Layer, value: &str) -> Candidate {
        let place = format!("{}:{value}", layer.name());
        Candidate { option, layer, place, values: vec![value.into()] }
    }

    fn values(all: &[Candidate]) -> Vec<&str> {
        all.iter().flat_map(|one| one.values.iter().filter_map(|value| value.to_str())).collect()
    }

    const LAYERS: [Layer; 6] = [
        Layer::Forced,
        Layer::CommandLine,
        Layer::Environment,
        Layer::Profile,
        Layer::File,
        Layer::Suggested,
    ];

    #[test]
    fn every_set_of_layers_is_decided_by_the_first_of_them() {
        for set in 0_u32..1 << LAYERS.len() {
            let given: Vec<_> = (0..LAYERS.len()).filter(|bit| set >> bit & 1 == 1).collect();
            let mut all: Vec<_> =
                given.iter().map(|at| said("compression", LAYERS[*at], &at.to_string())).collect();
            all.reverse();
            let resolved = Resolved::new(all);
            let expected: Vec<_> = given.iter().map(ToString::to_string).collect();
            let found = resolved.iter().find(|one| one.row.name == "compression").unwrap();
            assert_eq!(values(&found.chosen), &expected[..expected.len().min(1)]);
            assert_eq!(values(&found.overridden), expected.get(1..).unwrap_or_default());
        }
    }

    #[test]
    fn sums_add_up_and_a_profile_replaces_its_file() {
        let all = LAYERS.map(|layer| said("exclude", layer, layer.name()));
        let resolved = Resolved::new(all.into());
        assert_eq!(
            values(resolved.chosen("exclude")),
            ["server-suggested", "profile", "environment", "command-line", "server-forced"]
        );
        let lists = LAYERS.map(|layer| said("tags", layer, layer.name()));
        assert_eq!(values(Resolved::new(lists.into()).chosen("tags")), ["server-forced"]);
    }

    #[test]
    fn options_of_a_group_exclude_each_other_by_layer_and_then_by_order() {
        let of = |all: &[(&'static str, Layer)]| {
            let all = all.iter().map(|(name, layer)| said(name, *layer, name)).collect();
            let resolved = Resolved::new(all);
            let names = ["password", "password-file", "password-command"];
            let chosen = names.iter().filter(|name| !resolved.chosen(name).is_empty());
            chosen.copied().collect::<Vec<_>>()
        };
        use Layer::{CommandLine, Environment, File, Profile};
        assert_eq!(
            of(&[("password", CommandLine), ("password-file", Layer::Forced)]),
            ["password-file"]
        );
        assert_eq!(
            of(&[("password-command", Profile), ("password-file", File)]),
            ["password-command"]
        );
        assert_eq!(
            of(&[("password", Environment), ("password-file", CommandLine)]),
            ["password-file"]
        );
        assert_eq!(
            of(&[("password-command", Environment), ("password", Environment)]),
            ["password"]
        );
        assert_eq!(of(&[("password-command", File), ("password-file", File)]), ["password-file"]);
    }

    #[test]
    fn empty_values_say_nothing() {
        let all = vec![
            said("repo", Layer::CommandLine, ""),
            said("repo", Layer::Environment, ""),
            said("repo", Layer::File, "/a"),
        ];
        assert_eq!(Resolved::new(all).value("repo"), Some(OsStr::new("/a")));
        let all = vec![said("password", Layer::Environment, "")];
        assert_eq!(Resolved::new(all).value("password"), Some(OsStr::new("")));
    }
}
