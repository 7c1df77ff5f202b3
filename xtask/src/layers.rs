//! A crate belongs to a layer and depends only on lower ones. The table is the one that people read, in
//! `ARCHITECTURE.md`, so that the two cannot differ.

use crate::{files, purity, source};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// What the document says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Layers {
    /// Layer of each crate.
    pub(crate) layers: BTreeMap<String, u32>,
    /// Crates that do no I/O.
    pub(crate) pure: BTreeSet<String>,
    /// What a crate must not reach, not even through others.
    pub(crate) unreachable: BTreeMap<String, Vec<String>>,
}

/// Names of the crates that each crate names as normal or build dependency.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// What is wrong with the layers of this repository.
pub(crate) fn problems() -> Vec<String> {
    let Some(text) = files::read(DOCUMENT) else {
        return vec![format!("{DOCUMENT} is missing")];
    };
    let rules = parse(&text);
    if rules.layers.is_empty() {
        return vec![format!("{DOCUMENT} has no table `| layer | crates | pure |`")];
    }
    match dependencies() {
        Ok(dependencies) => {
            let mut problems = check(&rules, &dependencies);
            problems.extend(purity::problems(&rules.pure));
            problems
        }
        Err(error) => vec![error],
    }
}

/// Reads the two tables, by their headings.
pub(crate) fn parse(text: &str) -> Layers {
    let mut rules = Layers::default();
    for cells in source::tables(text, &["layer", "crates", "pure"]) {
        let Ok(layer) = cells[0].trim().parse() else {
            continue;
        };
        rules.layers.extend(names(cells[1]).into_iter().map(|name| (name, layer)));
        rules.pure.extend(names(cells[2]));
    }
    for cells in source::tables(text, &["crate", "must not reach", "so that"]) {
        for name in names(cells[0]) {
            rules.unreachable.insert(name, names(cells[1]));
        }
    }
    rules
}

/// What stands in backticks.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn check(rules: &Layers, dependencies: &Dependencies) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, needs) in dependencies {
        let Some(layer) = rules.layers.get(name) else {
            problems.push(format!("{name} belongs to no layer: add it to {DOCUMENT}"));
            continue;
        };
        for need in needs {
            if rules.layers.get(need).is_some_and(|below| below >= layer) {
                problems
                    .push(format!("{name} (layer {layer}) depends on {need}, which is not lower"));
            }
        }
    }
    for name in rules.layers.keys().filter(|name| !dependencies.contains_key(*name)) {
        problems.push(format!("{DOCUMENT} names the crate {name}, which does not exist"));
    }
    for (name, forbidden) in &rules.unreachable {
        let reached = reach(name, dependencies);
        for other in forbidden.iter().filter(|other| reached.contains(*other)) {
            problems.push(format!("{name} reaches {other}, which it must not"));
        }
    }
    problems
}

/// All that `name` needs, and what that needs, as far as the crates of this repository say.
fn reach(name: &str, dependencies: &Dependencies) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![name.to_owned()];
    while let Some(next) = waiting.pop() {
        for need in dependencies.get(&next).into_iter().flatten() {
            if reached.insert(need.clone()) {
                waiting.push(need.clone());
            }
        }
    }
    reached
}

fn dependencies() -> Result<Dependencies, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(files::root())
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("cargo metadata: {error}: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let crates = packages.iter().filter_map(|package| {
        let name =
            package["name"].as_str().filter(|name| !["xtask", "proof", "wan"].contains(name))?;
        let needs = package["dependencies"].as_array().into_iter().flatten();
        // Tests may look down and sideways.
        let needs = needs.filter(|need| need["kind"].as_str() != Some("dev"));
        let needs = needs.filter_map(|need| need["name"].as_str().map(str::to_owned));
        Some((name.to_owned(), needs.collect()))
    });
    Ok(crates.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\
| layer | crates | pure |
|---|---|---|
| 0 | `a` | `a` |
| 1 | `b` `c` | |

| crate | must not reach | so that |
|---|---|---|
| `c` | `b` `z` | it cannot |
";

    fn dependencies_of(list: &[(&str, &[&str])]) -> Dependencies {
        let set = |needs: &[&str]| needs.iter().map(|need| (*need).to_owned()).collect();
        list.iter().map(|(name, needs)| ((*name).to_owned(), set(needs))).collect()
    }

    #[test]
    fn the_layers_hold_and_each_crate_reaches_only_what_it_may() {
        assert_eq!(problems(), Vec::<String>::new());
    }

    #[test]
    fn the_tables_are_read() {
        let rules = parse(TABLES);
        assert_eq!(rules.layers.len(), 3);
        assert_eq!(rules.layers["c"], 1);
        assert!(rules.pure.contains("a") && rules.pure.len() == 1);
        assert_eq!(rules.unreachable["c"], ["b", "z"]);
    }

    #[test]
    fn wrong_arrows_are_found() {
        let rules = parse(TABLES);
        let good = dependencies_of(&[("a", &[]), ("b", &["a", "x"]), ("c", &["a"])]);
        assert_eq!(check(&rules, &good), Vec::<String>::new());
        let up = dependencies_of(&[("a", &["b"]), ("b", &[]), ("c", &[])]);
        assert_eq!(check(&rules, &up).len(), 1);
        let sideways = dependencies_of(&[("a", &[]), ("b", &[]), ("c", &["b"])]);
        assert_eq!(check(&rules, &sideways).len(), 2, "not lower, and must not be reached");
        let through = dependencies_of(&[("a", &["z"]), ("b", &[]), ("c", &["a"])]);
        assert_eq!(check(&rules, &through), ["c reaches z, which it must not"]);
        let unknown = dependencies_of(&[("a", &[]), ("b", &[]), ("d", &[])]);
        assert_eq!(check(&rules, &unknown).len(), 2, "d has no layer, c does not exist");
    }
}
