//! `icecore pool`: how containers are written to a directory, and which pool belongs to a server.

mod operations;

use super::bench::pool::{Row, failed, print, tell};
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{time, units};
use api::Name;
use clap::builder::{OsStringValueParser, TypedValueParser};
use format::entry::Time;
use operations::Operation;
use repository::local::LocalStorage;
use repository::local::mode::{IoMode, IoSettings};
use repository::local::superblock::Superblock;
use repository::local::sweep::SweepPlan;
use repository::local::tune::{put_settings, settings, tune};
use repository::storage::{Storage, StorageError};
use serde::Serialize;
use server_contract::folder::Folder;
use server_contract::pool::{self, MAIN, Noted};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Show, measure or set how containers are written: direct, buffered or auto.
///
/// DIR is a repository, or the directory of a server's files, which contains its pool. Without it, the repository of
/// --repo is meant.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore pool show --repo /mnt/backup\n  icecore pool tune /var/lib/icecore/server\n  icecore pool set buffered /mnt/backup\n\nThe mode does not change what is stored. Sessions that begin later use it."
)]
pub(crate) struct Pool {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Show(Show),
    Tune(Tune),
    Set(Set),
    Accept(Accept),
}

/// Show how containers are written, the last measurement, and the free space. Of a server: also how long its operations
/// took.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore pool show /mnt/backup --json\n  icecore pool show /var/lib/icecore/server --pool fast --history"
)]
struct Show {
    #[command(flatten)]
    place: Chosen,
    /// This pool of the server, instead of its first one.
    #[arg(long, value_name = "NAME")]
    pool: Option<Name>,
    /// How long operations took in each hour. The server keeps some months.
    #[arg(long)]
    history: bool,
}

#[derive(clap::Args, Debug)]
struct Chosen {
    /// A repository, or the directory of a server's files.
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    folder: Option<PathBuf>,
}

/// Measure whether direct or buffered writes are faster, and use the faster one from now on.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore pool tune /mnt/backup\n  icecore pool tune /var/lib/icecore/server --seconds 30\n\nWrites 64 MiB at a time, at most 1.5 GiB in all, and removes them again. Measure while nothing else uses the disk."
)]
struct Tune {
    #[command(flatten)]
    place: Chosen,
    /// No measurement begins after this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    seconds: u64,
}

/// Set how containers are written.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore pool set direct /mnt/backup\n  icecore pool set auto --repo /mnt/backup\n\n`auto` is what the last `icecore pool tune` found to be faster; buffered as long as nothing was measured."
)]
struct Set {
    /// How.
    #[arg(value_name = "MODE", value_enum)]
    mode: Mode,
    #[command(flatten)]
    place: Chosen,
}

/// Accept the pool that is mounted now as the pool of this server. Only if the server says that it is a different one.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore pool accept /var/lib/icecore/server\n\nThe server must be stopped. First check that the right file system is mounted: findmnt --target DIR/pool. No repository is created or removed."
)]
struct Accept {
    /// The directory of the server's files.
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    data: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    /// Past the cache of the system, where the file system can do that.
    Direct,
    /// Through the cache of the system.
    Buffered,
    /// What was faster when it was measured.
    Auto,
}

/// What there is to say of a pool.
#[derive(Serialize)]
struct Shown {
    location: String,
    /// `None` for a repository without a server.
    pool: Option<String>,
    generation: Option<u64>,
    /// What somebody wants: `direct`, `buffered` or `auto`.
    mode: String,
    /// How containers are written.
    io: &'static str,
    block_bytes: u64,
    measured: Option<String>,
    free_bytes: u64,
    /// `None` where the file system makes them as it needs them.
    free_inodes: Option<u64>,
    /// Of a server: how long its operations took since it started.
    operations: Vec<Operation>,
}

impl Pool {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Show(show) => show.run(context),
            Action::Tune(tune) => tune.run(context),
            Action::Set(set) => set.run(context),
            Action::Accept(accept) => accept.run(context),
        }
    }
}

impl Show {
    fn run(&self, context: &Context) -> Result<Code> {
        let given = self.place.given(context)?;
        let is_server = given.join("pool/domains").is_dir();
        let name = self.pool.as_ref().filter(|name| name.as_str() != MAIN);
        let folder = match name {
            _ if !is_server && (self.pool.is_some() || self.history) => {
                let text = format!("{} is no directory of a server", given.display());
                return Err(Failure::usage(text).hint("Only servers have pools and their history."));
            }
            None if is_server => given.join("pool"),
            None => self.place.folder(context)?,
            Some(name) => given.join("pools").join(name.as_str()),
        };
        if let Some(name) = name.filter(|_| folder.symlink_metadata().is_err()) {
            let text = format!("the server in {} has no pool '{name}'", given.display());
            return Err(Failure::usage(text).hint("To see its pools: icecore server pool list"));
        }
        let of_pool = |noted: &Noted| noted.pool == name.map_or(MAIN, Name::as_str);
        if self.history {
            let hours = pool::history(&given).into_iter().filter(of_pool).collect();
            operations::print_history(context, hours)?;
            return context.out.summary(Code::Complete, &serde_json::json!({}));
        }
        let noted = is_server.then(|| pool::latencies(&given)).into_iter().flatten();
        let operations: Vec<_> = noted.filter(of_pool).map(Operation::new).collect();
        if is_server && is_in_bucket(&folder)? {
            let location = pool::place_of(&folder.join("domains/any"));
            let location = location.map_err(|error| of_storage(error, &folder))?;
            context.out.print(&format!("location   {location}"))?;
            operations::print(context, &operations)?;
            let shown = serde_json::json!({"location": location, "operations": operations});
            return context.out.summary(Code::Complete, &shown);
        }
        show(context, &folder, operations)
    }
}

impl Chosen {
    fn given(&self, context: &Context) -> Result<PathBuf> {
        self.folder.clone().map_or_else(|| context.repo(), Ok)
    }

    /// The directory that has the settings: of a server it is the pool.
    fn folder(&self, context: &Context) -> Result<PathBuf> {
        let given = self.given(context)?;
        let pool = given.join("pool");
        let is_server = pool.join("domains").is_dir();
        let is_ours =
            is_server || ["config", "superblock"].iter().any(|name| given.join(name).exists());
        if is_server && is_in_bucket(&pool)? {
            let text = format!("the pool of {} lies in a bucket", given.display());
            let hint =
                "How a bucket is written is not set here. What lies there: icecore server domains";
            return Err(Failure::usage(text).hint(hint));
        }
        if is_ours {
            return Ok(if is_server { pool } else { given });
        }
        let text = format!("{} is no repository and no directory of a server", given.display());
        let hint = "If it should be one: is its file system mounted? (findmnt --target DIR)";
        Err(Failure::new(Code::NoRepository, text).hint(hint))
    }
}

impl Tune {
    fn run(&self, context: &Context) -> Result<Code> {
        let folder = self.place.folder(context)?;
        let plan = SweepPlan::short(Duration::from_secs(self.seconds));
        context.listen_for_signals();
        let mut told = 0;
        let tuning = tune(&folder, &plan, &mut |row| {
            told += 1;
            tell(context, row, (told, plan.rows()));
            !context.is_cancelled()
        });
        let tuning = tuning.map_err(|error| failed(&error, &folder, plan.row_bytes))?;
        if context.is_cancelled() {
            return Err(pipeline::Error::Cancelled.into());
        }
        change(&folder, |known| IoSettings { tuning: Some(tuning), ..known })?;
        show(context, &folder, Vec::new())
    }
}

impl Set {
    fn run(&self, context: &Context) -> Result<Code> {
        let folder = self.place.folder(context)?;
        let mode = match self.mode {
            Mode::Direct => IoMode::Direct,
            Mode::Buffered => IoMode::Buffered,
            Mode::Auto => IoMode::Auto,
        };
        change(&folder, |known| IoSettings { mode, ..known })?;
        show(context, &folder, Vec::new())
    }
}

impl Accept {
    fn run(&self, context: &Context) -> Result<Code> {
        Folder::accept_pool(&self.data).map_err(server_control::Error::from)?;
        let pool = self.data.join("pool");
        if is_in_bucket(&pool)? {
            context.out.note("The pool in the bucket belongs to this server now.");
            return Ok(Code::Complete);
        }
        show(context, &pool, Vec::new())
    }
}

/// Whether the first pool of a server lies in a bucket.
fn is_in_bucket(pool: &Path) -> Result<bool> {
    let of_domain = pool.join("domains/any");
    server_contract::pool::is_in_bucket(&of_domain).map_err(|error| of_storage(error, pool))
}

fn open(folder: &Path) -> Result<LocalStorage> {
    LocalStorage::open(folder).map_err(|error| of_storage(error, folder))
}

fn of_storage(error: StorageError, folder: &Path) -> Failure {
    Failure::from(store::Error::from(error)).at(&folder.display().to_string())
}

fn change(folder: &Path, how: impl FnOnce(IoSettings) -> IoSettings) -> Result<()> {
    let storage = open(folder)?;
    let steps = || put_settings(&storage, &how(settings(&storage)?));
    steps().map_err(|error| of_storage(error, folder))
}

fn show(context: &Context, folder: &Path, operations: Vec<Operation>) -> Result<Code> {
    let failed = |error| of_storage(error, folder);
    let storage = open(folder)?;
    let found = settings(&storage).map_err(failed)?;
    let superblock = Superblock::read(&storage).map_err(failed)?;
    let method = found.method();
    let when = found.tuning.as_ref().map(|tuning| Time { secs: tuning.time_secs as i64, nanos: 0 });
    let shown = Shown {
        location: folder.display().to_string(),
        pool: superblock.as_ref().map(|pool| pool.id.clone()),
        generation: superblock.as_ref().map(|pool| pool.generation),
        mode: found.mode.to_string(),
        io: method.name(),
        block_bytes: method.block_bytes,
        measured: when.map(time::json),
        free_bytes: storage.free_bytes().map_err(failed)?,
        free_inodes: storage.free_inodes().map_err(failed)?,
        operations,
    };
    for line in shown.lines(when) {
        context.out.print(&line)?;
    }
    let rows: Vec<Row> =
        found.tuning.iter().flat_map(|tuning| &tuning.rows).map(Row::from).collect();
    print(context, &rows)?;
    operations::print(context, &shown.operations)?;
    context.out.summary(Code::Complete, &shown)
}

impl Shown {
    fn lines(&self, when: Option<Time>) -> Vec<String> {
        let measured = match (when, self.mode.as_str()) {
            (Some(when), _) => format!("; measured {}", time::show(when)),
            (None, "auto") => "; not measured yet: icecore pool tune".to_owned(),
            (None, _) => String::new(),
        };
        let how = if self.io == "direct" {
            format!("direct, {} at a time", units::bytes(self.block_bytes))
        } else {
            "buffered".to_owned()
        };
        let generation = self.generation.unwrap_or_default();
        let pool = self.pool.iter().map(|id| format!("pool       {id}, generation {generation}"));
        let bytes = units::bytes(self.free_bytes);
        let inodes = self.free_inodes.map(|free| format!(", {} inodes", units::count(free)));
        let mut lines = vec![format!("location   {}", self.location)];
        lines.extend(pool);
        lines.push(format!("I/O        {}: {how}{measured}", self.mode));
        lines.push(format!("free       {bytes}{}", inodes.unwrap_or_default()));
        lines
    }
}
