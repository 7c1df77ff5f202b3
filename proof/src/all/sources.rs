//! What the parts of a long run are built from, so that a change costs only the parts that it touches.

use crate::options;
use data_encoding::HEXLOWER;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What every part is built or started by.
const ALL_NEED: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    ".cargo",
    "rust-toolchain.toml",
    "Makefile",
    ".ci",
    "fuzz",
    "proof",
];

/// For people alone, or with a memory of its own: where records and tables lie, and the rows of the sabotage of the
/// sources.
const CHANGE_NOTHING: [&str; 6] = [
    "CHANGELOG.md",
    "docs/PROOF.md",
    "docs/TESTING.md",
    "docs/results",
    "bench/results",
    "proof/sabotage",
];

/// The files that are checked out, and which package needs which.
#[derive(Default)]
pub(super) struct Sources {
    /// Lines of `git ls-tree -r`: mode, kind, checksum, path.
    pub(super) listed: Vec<String>,
    /// Paths with uncommitted changes.
    pub(super) changed: Vec<String>,
    pub(super) packages: BTreeMap<String, Package>,
}

/// A package of this workspace.
#[derive(Default)]
pub(super) struct Package {
    /// Below the top folder.
    pub(super) folder: String,
    /// Packages of this workspace, and whether only tests need them.
    pub(super) needs: Vec<(String, bool)>,
}

impl Sources {
    /// `None` where git or cargo do not say: then nothing is known to be the same.
    pub(super) fn read() -> Option<Self> {
        let listed = said("git", &["ls-tree", "-r", "HEAD"])?;
        let changed =
            said("git", &["status", "--porcelain", "--no-renames", "--untracked-files=all"])?;
        let metadata = said("cargo", &["metadata", "--format-version", "1", "--no-deps"])?;
        let path = |line: &str| line.split_whitespace().last().unwrap_or_default().to_owned();
        Some(Self {
            listed: listed.lines().map(str::to_owned).collect(),
            changed: changed.lines().map(path).collect(),
            packages: packages(&serde_json::from_str(&metadata).ok()?)?,
        })
    }

    /// The checksum of what `packages` and their tests are built from; of everything if none is named. `None` if some
    /// of it is not committed or not known: that has no name by which results could be told apart.
    pub(super) fn of(&self, packages: &[&str]) -> Option<String> {
        let mut folders: BTreeSet<&str> = ALL_NEED.into();
        for package in packages {
            self.add(package, true, &mut folders)?;
        }
        let is_part = |path: &str| {
            !is_below(path, &CHANGE_NOTHING) && (packages.is_empty() || is_below(path, &folders))
        };
        if self.changed.iter().any(|path| is_part(path)) {
            return None;
        }
        let files = self.listed.iter().map(String::as_str);
        let files: Vec<_> =
            files.filter(|line| line.split_once('\t').is_some_and(|it| is_part(it.1))).collect();
        Some(HEXLOWER.encode(&format::wire::checksum(&[files.join("\n").as_bytes()])))
    }

    fn add<'a>(
        &'a self,
        package: &str,
        with_tests: bool,
        folders: &mut BTreeSet<&'a str>,
    ) -> Option<()> {
        let Package { folder, needs } = self.packages.get(package)?;
        folders.insert(folder);
        // A package may be a need of its own tests.
        let needed = needs
            .iter()
            .filter(|(name, is_for_tests)| name != package && (with_tests || !is_for_tests));
        needed.map(|(name, _)| self.add(name, false, folders)).collect()
    }
}

fn is_below<'a>(path: &str, folders: impl IntoIterator<Item = &'a &'a str>) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    folders.into_iter().any(|folder| path.strip_prefix(folder).is_some_and(below))
}

fn packages(metadata: &Value) -> Option<BTreeMap<String, Package>> {
    let top = metadata["workspace_root"].as_str()?;
    let package = |it: &Value| {
        let manifest = it["manifest_path"].as_str()?.strip_prefix(top)?;
        let folder = manifest.strip_suffix("/Cargo.toml")?.trim_start_matches('/').to_owned();
        let ours = it["dependencies"].as_array()?.iter().filter(|other| other["path"].is_string());
        let needs =
            ours.map(|other| Some((other["name"].as_str()?.to_owned(), other["kind"] == "dev")));
        Some((
            it["name"].as_str()?.to_owned(),
            Package { folder, needs: needs.collect::<Option<_>>()? },
        ))
    };
    metadata["packages"].as_array()?.iter().map(package).collect()
}

fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).current_dir(options::root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        let package = |folder: &str, needs: &[(&str, bool)]| Package {
            folder: folder.to_owned(),
            needs: needs.iter().map(|(name, dev)| ((*name).to_owned(), *dev)).collect(),
        };
        let paths = ["Cargo.lock", "crates/a/lib.rs", "crates/ab/lib.rs", "crates/b/lib.rs"];
        let more = [
            "docs/PROOF.md",
            "docs/CRYPTO.md",
            "proof/sabotage/run.py",
            "tests/lib.rs",
            "deep/lib.rs",
        ];
        Sources {
            listed: paths
                .iter()
                .chain(&more)
                .map(|path| format!("100644 blob 1\t{path}"))
                .collect(),
            changed: Vec::new(),
            packages: [
                ("a", package("crates/a", &[("b", false), ("tests", true)])),
                ("b", package("crates/b", &[("deep", true)])),
                ("ab", package("crates/ab", &[])),
                ("tests", package("tests", &[("a", false)])),
                ("deep", package("deep", &[])),
            ]
            .map(|(name, package)| (name.to_owned(), package))
            .into(),
        }
    }

    /// The paths whose change changes what `packages` are built from.
    fn needed(packages: &[&str]) -> Vec<String> {
        let same = sources().of(packages).unwrap();
        let path = |line: &str| line.split_once('\t').unwrap().1.to_owned();
        let paths = sources().listed.iter().map(|line| path(line)).collect::<Vec<_>>();
        paths
            .into_iter()
            .filter(|path| {
                let (mut other, mut dirty) = (sources(), sources());
                for line in
                    other.listed.iter_mut().filter(|line| line.ends_with(&format!("\t{path}")))
                {
                    *line = line.replace("blob 1", "blob 2");
                }
                dirty.changed.push(path.clone());
                let is_needed = other.of(packages).unwrap() != same;
                assert_eq!(dirty.of(packages).is_none(), is_needed, "{path}");
                is_needed
            })
            .collect()
    }

    #[test]
    fn a_part_needs_its_packages_their_tests_and_what_is_below() {
        assert_eq!(
            needed(&["a"]),
            ["Cargo.lock", "crates/a/lib.rs", "crates/b/lib.rs", "tests/lib.rs"]
        );
        assert_eq!(needed(&["b"]), ["Cargo.lock", "crates/b/lib.rs", "deep/lib.rs"]);
        assert_eq!(needed(&["ab"]), ["Cargo.lock", "crates/ab/lib.rs"]);
    }

    #[test]
    fn who_names_nothing_needs_everything_but_what_people_read_and_rows_of_sabotage() {
        let all = needed(&[]);
        assert!(all.contains(&"docs/CRYPTO.md".to_owned()));
        assert!(!all.contains(&"docs/PROOF.md".to_owned()));
        assert!(!all.contains(&"proof/sabotage/run.py".to_owned()));
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn packages_that_nobody_knows_have_no_sources() {
        assert_eq!(sources().of(&["c"]), None);
    }

    /// The real workspace: what a part names is there, and is told apart from what it does not need.
    #[test]
    fn the_parts_name_packages_of_this_workspace() {
        let sources = Sources { changed: Vec::new(), ..Sources::read().unwrap() };
        for part in super::super::parts::PARTS.iter().chain(&super::super::parts::NIGHTLY) {
            assert!(sources.of(part.of).is_some(), "{}", part.name);
        }
        let folders = |package| {
            let mut folders = BTreeSet::new();
            sources.add(package, true, &mut folders).unwrap();
            folders
        };
        assert!(folders("fuzzed").contains("crates/format"));
        assert!(folders("pipeline").contains("testkit/simulation"));
        assert!(folders("icecore").contains("crates/restore"));
        assert!(!folders("site").contains("crates/restore"));
    }
}
