//! `icecore backup`.

mod flags;
mod lists;
mod source;
mod stream;
mod within;

pub(crate) use flags::{Backup, Choice, parse_tag};
pub(crate) use source::{absolute, excludes, node_name, processors};

use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::node::job::Job;
use crate::node::memory::Memory;
use crate::node::{cache, network};
use crate::out::Out;
use crate::progress::{self, Shown};
use crate::session_report;
use crate::units;
use capture::{CaptureOperation, CaptureProblem, priority};
use client::backup::{BackupMonitor, BackupOptions, BackupOutcome, Progress};
use client::cache::{CacheReport, ChunkCache};
use client::manifest::{ManifestReader, source_id};
use client::report::{BackupReport, Ratios};
use client::{UnlockedRepository, backup};
use format::entry::Entry;
use remote::metrics::NetworkReport;
use serde::Serialize;

/// Snapshots that are looked at for the size of the last run.
const LOOK_BACK: usize = 50;

impl Backup {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        self.check()?;
        let mut options = source::options(self, context)?;
        self.be_gentle(context)?;
        if let Some(parallel) = self.parallel {
            // As many streams as readers would only wait for each other.
            context.wish_streams(parallel.div_ceil(2));
        }
        let archive = context.open_cancellable(remote::Purpose::Backup)?;
        self.is_of_this_node(context)?;
        let missing = leave_out_missing(&mut options, &Told(&context.out))?;
        if self.dry_run {
            return dry_run(context, &archive, &options, missing);
        }
        if let (None, Some(remote)) = (&self.node, context.remote()) {
            options.node = remote.names().0.to_owned();
        }
        self.prepare_cache(context, &archive, &mut options);
        options.is_partial = missing;
        let job = Job::begin(context, "backup", false);
        let shown = Shown::start(&context.progress, &context.out, total_bytes(&archive, &options));
        let monitor = Told(&context.out);
        let done = self
            .wait
            .patiently(context, || self.store(&archive, &options, &context.progress, &monitor));
        drop(shown);
        let done = done.map_err(|error| self.failure(context, error))?;
        tell_idle(context, &options);
        self.remember(context, &archive, &options, &done);
        report(context, done, job, options.cache.as_deref())
    }

    /// A node backs up as itself: what is made in another's name would count for nothing.
    fn is_of_this_node(&self, context: &Context) -> Result<()> {
        let (Some(named), Some(remote)) = (&self.node, context.remote()) else { return Ok(()) };
        let own = remote.names().0;
        if named == own {
            return Ok(());
        }
        let what = format!("this machine is the node '{own}' of its server, not '{named}'");
        Err(Failure::usage(what)
            .hint("Leave --node out; to tell sources apart: --tag NAME, or --as PATH"))
    }

    /// On a node, and for a key that cannot read: the pages of the last snapshot are kept here. Without them a backup works,
    /// too, but who cannot read has nothing else to tell what changed.
    fn prepare_cache(
        &self,
        context: &Context,
        archive: &UnlockedRepository,
        options: &mut BackupOptions,
    ) {
        let helps = context.remote().is_some() || archive.reader_keys().is_err();
        if !helps || self.chunk_cache_size == 0 {
            return;
        }
        let source = source_id(archive, &options.node, &options.paths);
        let folder = cache::folder(context, archive, &source, self.chunk_cache.as_deref());
        match cache::open(&folder, self.chunk_cache_size) {
            Ok(cache @ Some(_)) => options.cache = cache,
            Ok(None) => context.out.note(
                "a backup or restore of the same uses the chunk cache: this one does without",
            ),
            Err(error) => {
                context.out.note(&format!("no chunk cache in {}: {error}", folder.display()))
            }
        }
    }

    /// On a node: what was made is looked for the next time.
    fn remember(
        &self,
        context: &Context,
        archive: &UnlockedRepository,
        options: &BackupOptions,
        done: &BackupOutcome,
    ) {
        if context.remote().is_none() {
            return;
        }
        let source = source_id(archive, &options.node, &options.paths);
        let mut memory = Memory::load(&context.agent_folder(), archive);
        if let Err(failure) = memory.note(&source, done) {
            context.out.note(&format!("the snapshot is not remembered here: {}", failure.message));
        }
    }

    fn store(
        &self,
        archive: &UnlockedRepository,
        options: &BackupOptions,
        progress: &Progress,
        monitor: &Told<'_>,
    ) -> client::Result<BackupOutcome> {
        match (&self.stdin, &self.command) {
            (Some(name), _) => stream::from_stdin(archive, options, name, progress, monitor),
            (_, Some(name)) => {
                stream::from_command(archive, options, name, &self.paths, progress, monitor)
            }
            _ => backup::run(archive, options, progress, monitor),
        }
    }

    fn failure(&self, context: &Context, error: client::Error) -> Failure {
        let failure = context.failure(error);
        match self.command {
            Some(_) if failure.hint.is_none() => failure.hint("No snapshot was made."),
            _ => failure,
        }
    }

    /// Before any thread of the backup is started.
    fn be_gentle(&self, context: &Context) -> Result<()> {
        priority::lower_priority(self.nice, self.idle_io).map_err(|error| {
            Failure::new(Code::NotAllowed, format!("cannot lower the priority: {error}"))
                .hint("Leave out --nice and --idle-io")
        })?;
        if let Err(error) = priority::raise_open_file_limit() {
            context.out.note(&format!("the limit of open files stays as it is: {error}"));
        }
        Ok(())
    }
}

/// A pattern of the command line that matched nothing is often a typing error.
fn tell_idle(context: &Context, options: &BackupOptions) {
    for rule in options.walk.excludes.unused() {
        let pattern = escape::text(&rule.pattern);
        context.out.note(&format!("--exclude '{pattern}' matched nothing; a pattern in question: icecore explain PATH --exclude PATTERN"));
    }
}

/// Named paths that are not there: elsewhere an object that vanished is nobody's fault, but these
/// somebody relies on. The others are backed up; whether any is missing.
fn leave_out_missing(options: &mut BackupOptions, monitor: &Told<'_>) -> Result<bool> {
    let named = options.roots.len();
    options.roots.retain(|root| match rustix::fs::lstat(root.source.as_slice()) {
        Ok(_) => true,
        Err(error) => {
            let (path, operation) = (root.source.clone(), CaptureOperation::Inspect);
            monitor.problem(&CaptureProblem { path, operation, error });
            false
        }
    });
    if named > 0 && options.roots.is_empty() {
        let error = client::Error::NothingRead(options.paths.join(", "));
        return Err(Failure::from(error));
    }
    Ok(options.roots.len() < named)
}

/// What the last backup of the same had, to tell the time left. Only where somebody looks.
fn total_bytes(archive: &UnlockedRepository, options: &BackupOptions) -> Option<u64> {
    if !progress::is_on_terminal() {
        return None;
    }
    let mut reader = ManifestReader::new(archive).ok()?;
    let names = archive.store.snapshots().ok()?;
    let bodies = names.into_iter().rev().take(LOOK_BACK).filter_map(|name| reader.read(name).ok());
    let mut same =
        bodies.filter(|found| found.body.node == options.node && found.body.paths == options.paths);
    same.next().map(|found| found.body.report.bytes_inspected)
}

/// Tells what a backup tells.
pub(crate) struct Told<'a>(pub(crate) &'a Out);

#[derive(Serialize)]
struct ToldProblem {
    #[serde(flatten)]
    path: JsonPath,
    operation: String,
    reason: String,
}

impl BackupMonitor for Told<'_> {
    fn problem(&self, problem: &CaptureProblem) {
        let (operation, reason) = (problem.operation.to_string(), problem.error.to_string());
        let text = format!("cannot {operation} {}: {reason}", escape::escape(&problem.path));
        let told = ToldProblem { path: JsonPath::as_is(&problem.path), operation, reason };
        self.0.beside("problem", &told, &text);
    }

    fn note(&self, text: &str) {
        self.0.note(text);
    }
}

#[derive(Serialize)]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<String>,
    dry_run: bool,
    /// Nothing had changed: the snapshot is the one before.
    is_skipped: bool,
    partial: bool,
    report: &'a BackupReport,
    ratios: Ratios,
    bottleneck: Option<String>,
    /// Of a dry run: bytes of what would be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_to_read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_cache: Option<CacheReport>,
}

/// What the network did, where there was one.
#[derive(Serialize)]
struct Network {
    #[serde(flatten)]
    wire: NetworkReport,
    verdict: Option<String>,
}

impl<'a> Summary<'a> {
    fn new(snapshot_id: Option<String>, report: &'a BackupReport, partial: bool) -> Self {
        let (ratios, bottleneck) = (report.ratios(), report.bottleneck());
        let dry_run = snapshot_id.is_none();
        let (network, chunk_cache, bytes_to_read) = (None, None, None);
        Self {
            dry_run,
            is_skipped: false,
            snapshot_id,
            partial,
            report,
            ratios,
            bottleneck,
            bytes_to_read,
            network,
            chunk_cache,
        }
    }

    fn over(self, wire: Option<NetworkReport>, chunk_cache: Option<CacheReport>) -> Self {
        let verdict = |wire: &NetworkReport| network::verdict(wire, self.report.elapsed_secs);
        let network = wire.map(|wire| Network { verdict: verdict(&wire), wire });
        Self { network, chunk_cache, ..self }
    }
}

/// Whatever becomes of the report, the snapshot is there.
fn report(
    context: &Context,
    done: BackupOutcome,
    job: Job,
    cache: Option<&ChunkCache>,
) -> Result<Code> {
    let id = done.snapshot.id.to_string();
    told(context, &done, &id, job, cache)
        .and_then(|code| Failure::heard_or_not(context.out.flush()).map(|()| code))
        .map_err(|failure| match done.is_skipped {
            true => failure,
            false => failure.hint(format!("The snapshot {} was saved.", &id[..8])),
        })
}

fn told(
    context: &Context,
    done: &BackupOutcome,
    id: &str,
    job: Job,
    cache: Option<&ChunkCache>,
) -> Result<Code> {
    let out = &context.out;
    for line in session_report::lines(&done.report) {
        out.line(&line)?;
    }
    let wire = job.wire();
    for line in wire.iter().flat_map(|wire| network::lines(wire, done.report.elapsed_secs)) {
        out.line(&line)?;
    }
    let cache = cache.map(|cache| cache.report());
    if let Some(CacheReport { hits, misses, damaged, bytes }) = cache {
        out.line(&format!(
            "Chunk cache: {} pages found, {} not, {} damaged; it takes {}",
            units::count(hits),
            units::count(misses),
            units::count(damaged),
            units::bytes(bytes)
        ))?;
    }
    if done.is_skipped {
        out.line(&format!("nothing has changed since snapshot {}: no new one was made", &id[..8]))?;
    }
    let state = if done.partial { " (partial: what could not be read is named above)" } else { "" };
    if !done.is_skipped {
        out.line(&format!("snapshot {} saved{state}", &id[..8]))?;
    }
    let code = if done.partial { Code::Partial } else { Code::Complete };
    let summary = Summary::new(Some(id.to_owned()), &done.report, done.partial).over(wire, cache);
    let summary = Summary { is_skipped: done.is_skipped, ..summary };
    job.end(code, &summary);
    out.summary(code, &summary)
}

fn dry_run(
    context: &Context,
    archive: &UnlockedRepository,
    options: &BackupOptions,
    missing: bool,
) -> Result<Code> {
    let out = &context.out;
    let (mut unwritten, mut bytes_to_read) = (Ok(()), 0_u64);
    let would_read = |entry: &Entry| {
        bytes_to_read = bytes_to_read.saturating_add(entry.size);
        if unwritten.is_ok() {
            let shown = WouldRead { path: JsonPath::new(&entry.path), size: entry.size };
            let row = || format!("{:>11}  {}", units::bytes(entry.size), escape::path(&entry.path));
            unwritten = out.item("would_read", &shown, row);
        }
    };
    let report = backup::dry_run(archive, options, &Told(out), would_read)
        .map_err(|error| context.failure(error))?;
    Failure::heard_or_not(unwritten)?;
    tell_idle(context, options);
    out.line(&format!(
        "would be done: {}; nothing was read or stored",
        session_report::planned(&report, bytes_to_read)
    ))?;
    let partial = report.objects_failed > 0 || missing;
    let code = if partial { Code::Partial } else { Code::Complete };
    let summary = Summary::new(None, &report, partial);
    let summary = Summary { bottleneck: None, bytes_to_read: Some(bytes_to_read), ..summary };
    out.summary(code, &summary)
}

/// An object that a backup would read.
#[derive(Serialize)]
struct WouldRead {
    #[serde(flatten)]
    path: JsonPath,
    size: u64,
}
