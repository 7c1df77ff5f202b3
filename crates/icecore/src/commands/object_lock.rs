//! `icecore object-lock`.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::{escape, place, time, units};
use api::upkeep;
use format::entry::Time;
use object_storage::{LockMode, LockOptions, Step};
use repository::Repository;
use repository::storage::Storage;
use repository::watch::Unwatched;
use serde::Serialize;
use std::io::ErrorKind;
use std::sync::Arc;

/// Protect the objects of a repository in a bucket with Object Lock, even from those who have its credentials.
///
/// The bucket must have been made with Object Lock. Objects that were deleted or overwritten then come back with
/// `recover`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore object-lock set --mode compliance --for 30d --repo s3://bucket/prefix\n  icecore object-lock recover --before '2026-11-20 08:00' --dry-run --repo s3://bucket/prefix\n\nCopies that a server keeps in a bucket are locked by their upkeep: object_lock in docs/SITE.md."
)]
pub(crate) struct ObjectLock {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Lock every object that the current snapshots need.
    ///
    /// Run it after each backup: what is locked long enough is left alone, and nothing is unlocked. Needs no password.
    /// Locked objects that nobody needs any more take space, and cost money, until their locks end.
    #[command(
        after_help = "Example:\n  icecore object-lock set --mode compliance --for 30d --repo s3://bucket/prefix"
    )]
    Set(Set),
    /// Put every object back to what it was at a time.
    ///
    /// Objects that were deleted or overwritten since come back, as far as the bucket still has that version; objects
    /// that came later are deleted. Change the credentials first, and see that nothing writes to the repository.
    #[command(
        after_help = "Examples:\n  icecore object-lock recover --before '2026-11-20 08:00' --dry-run --repo s3://bucket/prefix\n  icecore object-lock recover --before '2026-11-20 08:00' --repo s3://bucket/prefix\n\nThen: icecore rebuild, and icecore check."
    )]
    Recover(Recover),
}

#[derive(clap::Args, Debug)]
struct Set {
    /// For how long from now on: 30d, 12w, 1y. At most a year counts. What is locked again is locked for a tenth
    /// longer, so that the next runs need not prolong it.
    #[arg(long = "for", value_name = "TIME", value_parser = time::parse_span)]
    secs: u64,
    /// Who can end a lock early: nobody (compliance), or whoever may bypass it (governance).
    #[arg(long, value_name = "MODE", value_enum)]
    mode: LockModeArg,
}

#[derive(clap::Args, Debug)]
struct Recover {
    /// The time, by the clock of the storage: '2026-11-20 08:00', or an age such as 2h.
    #[arg(long, value_name = "TIME", value_parser = time::parse_since)]
    before: Time,
    /// Change nothing, and show what would be done.
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Who can end a lock early.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum LockModeArg {
    Compliance,
    Governance,
}

#[derive(Serialize)]
struct Locked {
    objects: u64,
    prolonged: u64,
    failed: u64,
    lost_pages: u64,
}

#[derive(Serialize)]
struct Recovered {
    dry_run: bool,
    restored: u64,
    removed: u64,
    unchanged: u64,
    failed: u64,
}

#[derive(Serialize)]
struct Row<'a> {
    object: &'a str,
    action: &'static str,
}

impl ObjectLock {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Set(set) => set.run(context),
            Action::Recover(recover) => recover.run(context),
        }
    }
}

impl Set {
    fn run(&self, context: &Context) -> Result<Code> {
        let bucket = Arc::new(place::open_object_storage(&context.repo()?, &context.out)?);
        bucket.can_lock().map_err(|error| failed(error, context))?;
        let storage: Arc<dyn Storage> = bucket.clone();
        let at = |error: repository::Error| {
            Failure::from(store::Error::from(error)).at(&context.location())
        };
        let repository = Repository::open(storage).map_err(at)?;
        let until = jiff::Timestamp::now().as_second().saturating_add_unsigned(self.secs);
        let snapshots = repository.current_snapshots().map_err(at)?;
        let snapshots = snapshots.into_iter().map(|name| (name, until)).collect();
        let files = repository.files_needed(snapshots, &Unwatched).map_err(at)?;
        context.watch_signals();
        let locked = bucket.lock_objects(&files.files, self.options(), &|| context.is_cancelled());
        let locked = locked.map_err(|error| failed(error, context))?;
        let (objects, prolonged) =
            (units::many(locked.objects, "object"), units::count(locked.prolonged));
        context
            .out
            .line(&format!("{objects} locked; {prolonged} of them now, the others before"))?;
        self.tell_failures(context, &locked, files.lost_pages)?;
        let is_whole = locked.failed == 0 && files.lost_pages == 0;
        let report = Locked {
            objects: locked.objects,
            prolonged: locked.prolonged,
            failed: locked.failed,
            lost_pages: files.lost_pages,
        };
        context.out.summary(if is_whole { Code::Complete } else { Code::Partial }, &report)
    }

    fn options(&self) -> LockOptions {
        let spare_secs = i64::try_from(self.secs / 10).unwrap_or(i64::MAX);
        LockOptions { mode: self.mode.of_storage(), spare_secs }
    }

    fn tell_failures(
        &self,
        context: &Context,
        locked: &object_storage::Locked,
        lost_pages: u64,
    ) -> Result<()> {
        for reason in &locked.reasons {
            context.out.line(&format!("not locked: {}", escape::text(reason)))?;
        }
        if locked.failed > locked.reasons.len() as u64 {
            context
                .out
                .line(&format!("not locked in all: {}", units::many(locked.failed, "object")))?;
        }
        if lost_pages > 0 {
            let pages = units::many(lost_pages, "page");
            context.out.line(&format!(
                "{pages} of snapshots cannot be read, so what they need is not locked: icecore check"
            ))?;
        }
        Ok(())
    }
}

impl Recover {
    fn run(&self, context: &Context) -> Result<Code> {
        let repo = context.repo()?;
        let bucket = place::open_object_storage(&repo, &context.out)?;
        let mut told = |name: &str, step: &Step| {
            let action = match step {
                Step::Restore(_) => "restore",
                Step::Remove => "delete",
            };
            let printed = context.out.record("object", &Row { object: name, action });
            if self.dry_run && printed.is_ok() {
                let _ = context.out.line(&format!("{action:<8}{}", escape::text(name))); // a closed pipe is seen later
            }
        };
        let done = bucket.put_back(self.before.secs, self.dry_run, &mut told);
        let done = done.map_err(|error| failed(error, context))?;
        let was = if self.dry_run { "would be " } else { "" };
        context.out.line(&format!(
            "{} {was}restored, {} {was}deleted; {} as they were",
            units::many(done.restored, "object"),
            units::count(done.removed),
            units::count(done.unchanged),
        ))?;
        for reason in &done.reasons {
            context.out.line(&format!("not recovered: {}", escape::text(reason)))?;
        }
        if !self.dry_run && done.restored > 0 {
            let repo = quoted(&repo.display().to_string());
            context.out.line(&format!(
                "Next: icecore rebuild --repo {repo} && icecore check --repo {repo}"
            ))?;
        }
        let report = Recovered {
            dry_run: self.dry_run,
            restored: done.restored,
            removed: done.removed,
            unchanged: done.unchanged,
            failed: done.failed,
        };
        context.out.summary(if done.failed == 0 { Code::Complete } else { Code::Partial }, &report)
    }
}

impl LockModeArg {
    pub(crate) fn of_api(self) -> upkeep::ObjectLock {
        match self {
            Self::Compliance => upkeep::ObjectLock::Compliance,
            Self::Governance => upkeep::ObjectLock::Governance,
        }
    }

    fn of_storage(self) -> LockMode {
        match self {
            Self::Compliance => LockMode::Compliance,
            Self::Governance => LockMode::Governance,
        }
    }
}

fn failed(error: repository::storage::StorageError, context: &Context) -> Failure {
    match error.source.kind() {
        ErrorKind::Unsupported => Failure::from(store::Error::from(error)).at(&context.location()).hint(
            "Make a bucket with Object Lock, which also keeps versions: aws s3api create-bucket --object-lock-enabled-for-bucket --bucket NAME",
        ),
        ErrorKind::InvalidInput => Failure::usage(error.source.to_string()).hint(
            "Nothing was changed. Give a later time, and see first what it does: icecore object-lock recover --before TIME --dry-run",
        ),
        _ => Failure::from(store::Error::from(error)).at(&context.location()),
    }
}
