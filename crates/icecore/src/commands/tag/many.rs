//! Tags of many snapshots: named, or chosen by what they are of.

use super::parse_tag;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::units;
use crate::wait::Wait;
use pipeline::UnlockedRepository;
use pipeline::manifest::Snapshot;
use pipeline::tags::{self, TagChange};
use serde::Serialize;

/// What to change, and of which snapshots.
#[derive(clap::Args, Debug)]
pub(super) struct Many {
    /// Add these tags.
    #[arg(long, value_name = "TAG[,TAG]", value_delimiter = ',', value_parser = parse_tag)]
    add: Vec<String>,
    /// Remove these tags.
    #[arg(long, value_name = "TAG[,TAG]", value_delimiter = ',', value_parser = parse_tag)]
    remove: Vec<String>,
    /// Replace all tags with these.
    #[arg(long, value_name = "TAG[,TAG]", value_delimiter = ',', value_parser = parse_tag, conflicts_with_all = ["add", "remove"])]
    set: Vec<String>,
    /// Only snapshots of this node.
    #[arg(long, alias = "host", value_name = "NAME")]
    node: Option<String>,
    /// Only snapshots of this path. If given several times: of all of these paths.
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<String>,
    /// Only snapshots with this tag. If given several times: with all of these tags.
    #[arg(long = "with-tag", alias = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The snapshots.
    #[arg(value_name = "SNAP")]
    snapshots: Vec<String>,
}

#[derive(Serialize)]
struct Retagged {
    snapshot_id: String,
    previous_id: String,
}

#[derive(Serialize)]
struct Count {
    changed: usize,
    unchanged: usize,
}

impl Many {
    pub(super) fn run(&self, context: &Context, wait: Wait) -> Result<Code> {
        self.check()?;
        let repository = context.open()?;
        let meant = self.meant(context, &repository)?;
        let mut changed = 0;
        for snapshot in &meant {
            let change = self.change(snapshot);
            let new = wait.patiently(context, || tags::change(&repository, snapshot, &change));
            if let Some(name) = new.map_err(|error| context.failure(error))? {
                changed += 1;
                tell(context, snapshot, &name.id.to_string())?;
            }
        }
        let count = Count { changed, unchanged: meant.len() - changed };
        context.out.line(&format!(
            "Changed the tags of {}; {} had these tags already",
            units::many(changed as u64, "snapshot"),
            units::count(count.unchanged as u64)
        ))?;
        context.out.summary(Code::Complete, &count)
    }

    fn filter(&self) -> Filter {
        let (node, tags, paths) = (self.node.clone(), self.tags.clone(), self.paths.clone());
        Filter { node, tags, paths, exactly: None }
    }

    /// All snapshots are never meant by saying nothing.
    fn check(&self) -> Result<()> {
        let example = "For example: icecore tag --add kept --node web-1";
        let failed = |what: &str| Err(Failure::usage(what).hint(example));
        let is_change = [&self.add, &self.remove, &self.set].iter().any(|tags| !tags.is_empty());
        match (self.snapshots.is_empty(), self.filter().is_any()) {
            _ if !is_change => failed("no tags given to add, remove or set"),
            (true, false) => failed("no snapshot named or selected"),
            (false, true) => failed("name snapshots or select them, not both"),
            _ => Ok(()),
        }
    }

    fn meant(&self, context: &Context, repository: &UnlockedRepository) -> Result<Vec<Snapshot>> {
        if self.snapshots.is_empty() {
            let filter = self.filter();
            let mut all = context.snapshots(repository)?.0;
            filter.refuse_unmet(&all)?;
            all.retain(|snapshot| filter.takes(snapshot));
            return Ok(all);
        }
        let mut named: Vec<Snapshot> = Vec::new();
        for text in &self.snapshots {
            let snapshot = context.snapshot(repository, text)?;
            context.refuse_doubtful_choice(&snapshot)?;
            if named.iter().all(|other| other.name != snapshot.name) {
                named.push(snapshot);
            }
        }
        Ok(named)
    }

    fn change(&self, snapshot: &Snapshot) -> TagChange {
        if self.set.is_empty() {
            return TagChange { add: self.add.clone(), remove: self.remove.clone() };
        }
        TagChange { add: self.set.clone(), remove: snapshot.body.tags.clone() }
    }
}

fn tell(context: &Context, snapshot: &Snapshot, snapshot_id: &str) -> Result<()> {
    let (previous_id, snapshot_id) = (snapshot.id().to_string(), snapshot_id.to_owned());
    let text = format!("Snapshot {} is now {}", &previous_id[..8], &snapshot_id[..8]);
    if context.out.quiet && !context.out.json {
        return Ok(());
    }
    let printed = context.out.item("retagged", &Retagged { snapshot_id, previous_id }, || text);
    Failure::ignore_broken_pipe(printed)
}
