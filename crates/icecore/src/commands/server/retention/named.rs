//! `icecore server snapshot`.

use super::listed;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{escape, units};
use api::retention::{NamedDone, NamedSnapshots, RetainedSnapshot, RetainedSnapshots};
use serde::Serialize;
use std::io::IsTerminal;

/// List the snapshots of all domains with what becomes of them; delete some by name, or bring them back.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server snapshot list --node web-01\n  icecore server snapshot list --policy none\n  icecore server snapshot list --state trash\n  icecore server snapshot show 40db6ceb\n  icecore server snapshot delete 40db6ceb 0703513b\n  icecore server snapshot undelete 40db6ceb\n\nA deleted snapshot lies in the trash until the trash period of its class is over (--now: not at all). What is locked or held cannot be deleted."
)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List them, newest first.
    List(List),
    /// Show one with every reason that keeps it.
    Show {
        /// Its id, or the beginning of it.
        #[arg(value_name = "SNAPSHOT")]
        id: String,
    },
    /// Delete some by name.
    Delete(Delete),
    /// Bring some back from the trash.
    Undelete {
        /// Their ids, or beginnings of them.
        #[arg(value_name = "SNAPSHOT", required = true)]
        ids: Vec<String>,
        /// Show which are meant, and change nothing.
        #[arg(short = 'n', long)]
        dry_run: bool,
    },
}

#[derive(clap::Args, Debug)]
struct List {
    /// Only of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<api::Name>,
    /// Only of this policy; `none` for those that no policy made.
    #[arg(long, value_name = "POLICY")]
    policy: Option<api::Name>,
    /// Only of this domain.
    #[arg(long, value_name = "DOMAIN", value_parser = crate::commands::server::domain_text)]
    domain: Option<String>,
    /// Only in this state.
    #[arg(long, value_name = "STATE", value_parser = ["locked", "held", "kept", "trash", "expired"])]
    state: Option<String>,
    /// Maximum number of snapshots.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

#[derive(clap::Args, Debug)]
struct Delete {
    /// Their ids, or beginnings of them.
    #[arg(value_name = "SNAPSHOT", required = true)]
    ids: Vec<String>,
    /// At once: they do not lie in the trash, and nobody can bring them back.
    #[arg(long)]
    now: bool,
    /// Show which are meant, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Delete them without asking.
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct Count {
    snapshots: usize,
    total: u64,
}

impl SnapshotArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match &self.action {
            Action::List(list) => list.run(reach, context),
            Action::Show { id } => show(id, reach, context),
            Action::Delete(delete) => delete.run(reach, context),
            Action::Undelete { ids, dry_run } => undelete(ids, *dry_run, reach, context),
        }
    }
}

impl List {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let found: RetainedSnapshots = reach.get(&self.path())?;
        listed::table(&found.snapshots, context)?;
        let (snapshots, total) = (found.snapshots.len(), found.total);
        if total == 0 {
            context.out.line("No snapshot matches. All of them: icecore server snapshot list")?;
        } else if (snapshots as u64) < total {
            let (snapshots, total) = (units::count(snapshots as u64), units::count(total));
            context.out.line(&format!("{snapshots} of {total}. More: --limit {total}"))?;
        }
        listed::doubts(&found, context);
        let code = if found.unread.is_empty() { Code::Complete } else { Code::Partial };
        context.out.summary(code, &Count { snapshots, total })
    }

    /// Names and words: nothing that would need to be escaped.
    fn path(&self) -> String {
        let text = |name: &Option<api::Name>| name.as_ref().map(ToString::to_string);
        let words = [
            ("node", text(&self.node)),
            ("policy", text(&self.policy)),
            ("domain", self.domain.clone()),
            ("state", self.state.clone()),
        ];
        let mut path = format!("/retention/snapshots?limit={}", self.limit);
        for (key, word) in words.into_iter().filter_map(|(key, word)| Some((key, word?))) {
            path.push_str(&format!("&{key}={word}"));
        }
        path
    }
}

fn show(id: &str, reach: &Reach, context: &Context) -> Result<Code> {
    let id = checked(id)?;
    let one: RetainedSnapshot = reach.get(&format!("/retention/snapshots/{id}"))?;
    listed::explained(&one, context)?;
    context.out.summary(Code::Complete, &one)
}

/// The id, which is put into a path.
fn checked(id: &str) -> Result<String> {
    if !id.is_empty() && id.len() <= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(id.to_ascii_lowercase());
    }
    let message =
        format!("'{}' is not the id of a snapshot, nor the beginning of one", escape::text(id));
    Err(Failure::usage(message).hint("All of them: icecore server snapshot list"))
}

fn named(ids: &[String], now: bool, dry_run: bool) -> Result<NamedSnapshots> {
    let ids: Result<Vec<_>> = ids.iter().map(|id| checked(id)).collect();
    Ok(NamedSnapshots { ids: ids?, now, dry_run })
}

impl Delete {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let planned: NamedDone =
            reach.post("/retention/delete", &named(&self.ids, self.now, true)?)?;
        if self.dry_run {
            return self.report(&planned, context);
        }
        self.confirm(&planned, context)?;
        let done = reach.post("/retention/delete", &named(&self.ids, self.now, false)?)?;
        self.report(&done, context)
    }

    fn confirm(&self, planned: &NamedDone, context: &Context) -> Result<()> {
        if self.yes || planned.snapshots.is_empty() {
            return Ok(());
        }
        let snapshots = units::many(planned.snapshots.len() as u64, "snapshot");
        let is_watched = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if !is_watched || context.out.json {
            let message = format!("{snapshots} would be deleted: nothing was changed");
            let hint = "To see them: --dry-run. To delete them: --yes";
            return Err(Failure::usage(message).hint(hint));
        }
        listed::table(&planned.snapshots, context)?;
        context.out.flush()?;
        let how = if self.now { " for good" } else { "" };
        if crate::secret::confirm(&format!("Delete {snapshots}{how}?"))? {
            return Ok(());
        }
        Err(Failure::new(Code::Failed, "not confirmed: nothing was changed"))
    }

    fn report(&self, done: &NamedDone, context: &Context) -> Result<Code> {
        listed::table(&done.snapshots, context)?;
        let line = match (self.dry_run, done.deleted.len() as u64, done.snapshots.len() as u64) {
            (true, ..) => "Nothing was changed (--dry-run).".to_owned(),
            (_, 0, 0) => "Nothing was deleted.".to_owned(),
            (_, 0, put) => format!(
                "{} in the trash. To bring some back: icecore server snapshot undelete ID",
                units::many(put, "snapshot")
            ),
            (_, deleted, _) => format!("Deleted {} for good.", units::many(deleted, "snapshot")),
        };
        context.out.line(&line)?;
        refusals(done, context)
    }
}

fn undelete(ids: &[String], dry_run: bool, reach: &Reach, context: &Context) -> Result<Code> {
    let done: NamedDone = reach.post("/retention/undelete", &named(ids, false, dry_run)?)?;
    listed::table(&done.snapshots, context)?;
    let back = units::many(done.snapshots.len() as u64, "snapshot");
    let line = match dry_run {
        true => "Nothing was changed (--dry-run).".to_owned(),
        false => format!("Brought back {back}."),
    };
    context.out.line(&line)?;
    let goes = done.snapshots.iter().find(|one| one.reasons.is_empty());
    if let Some(one) = goes.filter(|_| !dry_run) {
        context.out.note(&format!(
            "nothing keeps {0}: the next expiry puts it into the trash again. To keep it: icecore server hold create NAME --set snapshot={1} --set 'reason=WHY'",
            listed::short(&one.id),
            escape::text(&one.id)
        ));
    }
    refusals(&done, context)
}

/// Those that stay, last.
fn refusals(done: &NamedDone, context: &Context) -> Result<Code> {
    for one in &done.refused {
        context.out.note(&escape::text(&format!("{} stays: {}", listed::short(&one.id), one.why)));
    }
    let code = if done.refused.is_empty() { Code::Complete } else { Code::Partial };
    context.out.summary(code, done)
}
