//! The options that choose snapshots: by node, tag and path.

use crate::codes::Code;
use crate::escape;
use crate::failure::{Failure, Result};
use pipeline::manifest::Snapshot;

/// Which snapshots to look at.
#[derive(clap::Args, Debug, Default, Clone)]
pub(crate) struct Filter {
    /// Only snapshots of this node.
    #[arg(long, alias = "host", value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Only snapshots with this tag. If given several times: with all of these tags.
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Only snapshots of this path, alone or with others. If given several times: of all of these paths.
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Only snapshots of exactly these paths, as `backup` names them: those of a source that nobody typed.
    #[arg(skip)]
    pub(crate) exactly: Option<Vec<String>>,
}

impl Filter {
    /// Whether it asks for anything.
    pub(crate) fn is_any(&self) -> bool {
        let is_of_paths = !self.paths.is_empty() || self.exactly.is_some();
        self.node.is_some() || !self.tags.is_empty() || is_of_paths
    }

    /// Which part of it none of `all` has; `None` if some snapshot has all of it.
    pub(crate) fn unmet(&self, all: &[Snapshot]) -> Option<String> {
        if all.iter().any(|snapshot| self.takes(snapshot)) {
            return None;
        }
        let none = |flag: &str, value: &str, one: Self| {
            let is_met = all.iter().any(|snapshot| one.takes(snapshot));
            (!is_met).then(|| format!("no snapshot matches {flag} {}", escape::text(value)))
        };
        let node = self.node.iter().find_map(|node| {
            none("--node", node, Self { node: Some(node.clone()), ..Self::default() })
        });
        let tag = || {
            let with = |tag: &String| Self { tags: vec![tag.clone()], ..Self::default() };
            self.tags.iter().find_map(|tag| none("--tag", tag, with(tag)))
        };
        let path = || {
            let with = |path: &String| Self { paths: vec![path.clone()], ..Self::default() };
            self.paths.iter().find_map(|path| none("--path", path, with(path)))
        };
        let exactly = || {
            let paths = self.exactly.as_ref()?;
            let alone = Self { exactly: Some(paths.clone()), ..Self::default() };
            let is_met = all.iter().any(|snapshot| alone.takes(snapshot));
            let paths: Vec<_> = paths.iter().map(|path| escape::text(path)).collect();
            (!is_met).then(|| format!("no snapshot is of exactly these paths: {}", paths.join(" ")))
        };
        let together = || "no snapshot matches all of --node, --tag and --path together".to_owned();
        Some(node.or_else(tag).or_else(path).or_else(exactly).unwrap_or_else(together))
    }

    /// Fails when it asks for what none of `all` has: hardly anybody means to choose nothing.
    pub(crate) fn refuse_unmet(&self, all: &[Snapshot]) -> Result<()> {
        let unmet = self.unmet(all).filter(|_| self.is_any());
        let fail =
            |unmet| Failure::new(Code::Failed, unmet).hint("To list snapshots: icecore snapshots");
        unmet.map_or(Ok(()), |unmet| Err(fail(unmet)))
    }

    /// Whether `snapshot` is meant.
    pub(crate) fn takes(&self, snapshot: &Snapshot) -> bool {
        let body = &snapshot.body;
        self.node.as_ref().is_none_or(|node| *node == body.node)
            && self.tags.iter().all(|tag| body.tags.contains(tag))
            && self.paths.iter().all(|path| is_among(path, &body.paths))
            && self.exactly.as_ref().is_none_or(|paths| *paths == body.paths)
    }
}

/// As it was typed (streams have names), or as `backup` would have taken it.
fn is_among(typed: &str, paths: &[String]) -> bool {
    let taken = crate::paths::absolute(typed.as_ref()).map(|path| escape::escape(&path));
    paths.iter().any(|path| path == typed || taken.as_ref().is_ok_and(|taken| path == taken))
}
