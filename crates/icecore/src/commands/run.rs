//! `icecore run`: what a file declares, on one machine without a server. Each call does what is due, then ends; a timer
//! calls again. What schedules and retention mean is the same as on a server, and comes from the same crates.

mod child;
mod due;
mod expiring;
mod state;

use crate::client_options::Layer;
use crate::clock_advice::advised;
use crate::codes::Code;
use crate::commands::backup::node_name;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::table::{Table, flexible, left};
use crate::text_file;
use crate::units;
use clock::Reading;
use due::{Ran, Runs};
use expiring::Expired;
use jiff::tz::TimeZone;
use serde::Serialize;
use site::{Known, Site, file};
use state::State;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  icecore run ~/backups.toml --dry-run
  icecore run /etc/icecore/backups.toml
  icecore run /etc/icecore/backups.toml --force home

Call it from a timer, as often as a schedule may be due: every five minutes is usual. Each call starts the backups \
that are due, one after the other, then forgets what no rule keeps, and frees the space. What was missed while the \
machine was off is made up for, as the schedule says.

The file has policies, schedules, retentions and holds as for a server (docs/SITE.md). A policy that names no nodes or \
groups applies to this machine. On a node of a server, the server does all of this: icecore server apply.";

/// Back up what is due, and forget what no rule keeps, as a file declares it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Show what is due, and what would be forgotten; change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Back up the sources of this policy now, whatever its schedules say. Can be given several times.
    #[arg(long, value_name = "POLICY")]
    force: Vec<String>,
    /// The clock of this machine is right, although it disagreed with the time that the machine was running.
    #[arg(long)]
    confirm_clock: bool,
    /// Directory of what is remembered between calls [default: /var/lib/icecore/run for root, otherwise in the user's
    /// state directory].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// What a call comes to.
#[derive(Serialize)]
struct Summary {
    ran: usize,
    missed: u64,
    #[serde(flatten)]
    expired: Expired,
    dry_run: bool,
}

impl Run {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        if context.node()?.is_some() {
            return Err(Failure::usage(
                "this machine is a node of a server, which starts its backups",
            )
            .hint("On the server: icecore server apply FILE. For another repository: --repo DIR"));
        }
        let repository = repository::config::read(&*context.storage()?);
        let repository = repository.map_err(|error| Failure::from(store::Error::from(error)))?;
        let site = read(&self.file)?;
        let node = node_name(None, context)?;
        let mut state = State::open(&self.folder(context), &repository.repository.to_string())?;
        let now = if self.confirm_clock { state.confirm_clock() } else { state.read_clock() };
        self.tell_doubt(context, now);
        if self.confirm_clock && !self.dry_run {
            state.store()?;
        }
        let runs = Runs::new(context, &site, &node, &self.force)?;
        if runs.sources.is_empty() {
            let file = self.file.display();
            let message = format!("no policy in {file} is for this machine, '{node}'");
            return Err(Failure::usage(message).hint("What a file can say: docs/SITE.md"));
        }
        let mut ran = runs.decide(&mut state, now, self.dry_run)?;
        if !self.dry_run {
            due::carry_out(context, &mut state, &mut ran)?;
        }
        let expired = expiring::expire(context, (&site, &runs, &ran), &mut state, self.dry_run)?;
        self.report(context, &ran, expired)
    }

    /// Schedules go on by what was counted; nothing is deleted by a clock that is in doubt.
    fn tell_doubt(&self, context: &Context, now: Reading) {
        if let Some(doubt) = now.doubt {
            let doubt = advised(&doubt.to_string(), &self.confirming(context));
            context.out.note(&format!("nothing is forgotten while {doubt}"));
        }
    }

    /// The command that confirms the clock: what was typed has to be typed again.
    fn confirming(&self, context: &Context) -> String {
        let typed = context.resolved.chosen("repo").last();
        let typed = typed.filter(|chosen| chosen.layer == Layer::CommandLine);
        let repo = typed.map(|_| format!(" --repo {}", quoted(&context.location())));
        let folder = self.state.as_ref().map(|folder| quoted(&folder.display().to_string()));
        let state = folder.map(|folder| format!(" --state {folder}"));
        let file = quoted(&self.file.display().to_string());
        let flags = [repo, state].into_iter().flatten().collect::<String>();
        format!("icecore run {file} --confirm-clock{flags}")
    }

    /// Beside the state of an agent, which is another thing.
    fn folder(&self, context: &Context) -> PathBuf {
        self.state.clone().unwrap_or_else(|| context.agent_folder().with_file_name("run"))
    }

    fn report(&self, context: &Context, ran: &[Ran], expired: Expired) -> Result<Code> {
        let mut table = Table::new(&[
            left("POLICY"),
            left("SOURCE"),
            left("SCHEDULE"),
            flexible("RESULT"),
            left("NEXT"),
        ]);
        for one in ran {
            context.out.record("run", one)?;
            let schedule = one.schedule.clone().unwrap_or_default();
            let (result, next) = (one.shown(), one.shown_next());
            table.row([one.policy.clone(), one.source.clone(), schedule, result, next]);
        }
        table.print(&context.out)?;
        expired.show(context, self.dry_run)?;
        let missed = ran.iter().map(|one| one.missed).sum();
        let count = ran.iter().filter(|one| one.code.is_some()).count();
        let summary = Summary { ran: count, missed, expired, dry_run: self.dry_run };
        context.out.summary(worst(ran), &summary)
    }
}

/// The code of the first backup that failed; else that of one that is partial.
fn worst(ran: &[Ran]) -> Code {
    let codes = || ran.iter().filter_map(|one| one.code);
    let failed = codes().find(|code| !matches!(code, Code::Complete | Code::Partial));
    failed.or_else(|| codes().find(|code| *code == Code::Partial)).unwrap_or(Code::Complete)
}

/// The site in a file, as a whole or not at all.
fn read(path: &Path) -> Result<Site> {
    let text = text_file::named(path, file::FILE_BYTES_MAX as u64);
    let text = text.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Failure::usage(format!("{}: {error}", path.display()))
            .hint("What a file can say: docs/SITE.md"),
        _ => Failure::file(path, &error),
    })?;
    let known = Known { zones: Some(&zone), ..Known::default() };
    file::read_with(&text, &known).map_err(|mistakes| {
        let count = units::many(mistakes.len() as u64, "mistake");
        let mut failure = Failure::usage(format!("{}: {count}", path.display()));
        failure.mistakes = mistakes.into_iter().map(shown).collect();
        failure
    })
}

fn shown(mistake: file::Mistake) -> api::sites::Mistake {
    api::sites::Mistake {
        line: Some(mistake.line as u64),
        column: Some(mistake.column as u64),
        message: mistake.message,
        fix: Some(mistake.fix),
    }
}

/// The time zone of a name, if this machine knows it.
fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}
