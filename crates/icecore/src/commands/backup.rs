//! `icecore backup`.

mod flags;
mod links;
mod lists;
mod source;
mod stream;
mod untagged;
mod within;

use flags::Detail;
pub(crate) use flags::{Backup, Choice, parse_tag};
pub(crate) use source::{Identity, excludes, node_name, paths_of_file, processors};

use crate::client_options::apply::check;
use crate::client_options::{Candidate, Layer};
use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::hooks::{HookReport, Hooks, Stage};
use crate::node::job::Job;
use crate::node::memory::Memory;
use crate::node::source_lock::SourceLock;
use crate::node::{cache, network};
use crate::options::Global;
use crate::out::Out;
use crate::proc;
use crate::progress::{self, Shown, Total};
use crate::session_report::{self, Failed, Saved};
use crate::units;
use api::options::OptionReport;
use capture::{CaptureOperation, CaptureProblem, priority};
use format::entry::Entry;
use pipeline::backup::{
    BackupMonitor, BackupOptions, BackupOutcome, FailedObject, FailedObjects, Progress,
};
use pipeline::cache::CacheReport;
use pipeline::manifest::{ManifestReader, source_id};
use pipeline::report::{BackupReport, Ratios};
use pipeline::{UnlockedRepository, backup};
use remote::metrics::NetworkReport;
use serde::Serialize;

/// Snapshots that are looked at for the size of the last run.
const LOOK_BACK: usize = 50;

impl Backup {
    /// Runs with what was typed, and with what stands elsewhere where nothing was.
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let mut effective = self.clone();
        context.resolved.apply_to(&mut effective)?;
        tell_forced(context);
        // Before hooks: those of another backup would get in the way of the one that runs. What a list names is known
        // only when it is read, once and after the hooks, which may write it.
        let _lock = match effective.lists_paths() {
            true => None,
            false => effective.lock(context)?,
        };
        if effective.dry_run || !Hooks::are_named(&context.resolved) {
            return effective.run_effective(context);
        }
        // Who asks us to stop during a hook wants the others to clean up.
        context.listen_for_signals();
        let hooks = Hooks::new(context);
        let done = hooks.run(Stage::Pre, None).and_then(|hooks_run| {
            effective.hooks_run = hooks_run;
            effective.runs_hooks = true;
            effective.run_effective(context)
        });
        if let (Err(failure), false) = (&done, effective.has_run_hooks.get()) {
            hooks.after_bad(failure.code);
        }
        done
    }

    /// On a node of a server: nobody else backs up this source at the same time.
    fn lock(&self, context: &Context) -> Result<Option<SourceLock>> {
        if self.dry_run || context.node()?.is_none() {
            return Ok(None);
        }
        self.check()?;
        let mut paths = source::named(self, context)?.paths;
        paths.extend(source::marks(self));
        self.lock_paths(context, &paths)
    }

    fn lock_paths(&self, context: &Context, paths: &[String]) -> Result<Option<SourceLock>> {
        if self.dry_run || context.node()?.is_none() {
            return Ok(None);
        }
        SourceLock::take_patiently(context, self.wait, paths).map(Some)
    }

    fn lists_paths(&self) -> bool {
        !self.files_from.is_empty() || !self.files_from_raw.is_empty()
    }

    /// The hooks after a good backup, before it is told how it ended.
    fn hooks_after(&self, context: &Context, code: Code) -> (Vec<HookReport>, Result<()>) {
        if !self.runs_hooks {
            return (Vec::new(), Ok(()));
        }
        self.has_run_hooks.set(true);
        Hooks::new(context).after_good(code)
    }

    /// Runs the hooks after a backup that failed, so that the server learns what they said together with why.
    fn end_failed(&self, context: &Context, job: Job, failure: &Failure) {
        let after = match self.runs_hooks {
            true => Hooks::new(context).after_bad(failure.code),
            false => Vec::new(),
        };
        self.has_run_hooks.set(self.runs_hooks);
        job.fail(failure, &[self.hooks_run.clone(), after].concat());
    }

    fn run_effective(&self, context: &Context) -> Result<Code> {
        self.check()?;
        let mut options = source::options(self, context)?;
        let _listed = match self.lists_paths() {
            true => self.lock_paths(context, &options.paths)?,
            false => None,
        };
        self.be_gentle(context)?;
        let is_in_effect = context.resolved.chosen("threads").is_empty();
        if let Some(parallel) = self.parallel.filter(|_| is_in_effect) {
            // As many streams as readers would only wait for each other.
            context.wish_streams(parallel.div_ceil(2));
        }
        let repository = context.open_cancellable(remote::Purpose::Backup)?;
        self.is_of_this_node(context)?;
        let monitor = Reporter::new(&context.out);
        let missing = leave_out_missing(&mut options, &monitor)?;
        links::tell(context, &options.roots);
        proc::tell_if_missing(context);
        if self.dry_run {
            return dry_run(context, &repository, &options, missing);
        }
        if let (None, Some(remote)) = (&self.node, context.remote()) {
            options.node = remote.names().0.to_owned();
        }
        self.prepare_cache(context, &repository, &mut options);
        options.is_partial = missing;
        untagged::keep_tags(context, &repository, &mut options);
        let job = context.job("backup");
        let shown = Shown::start(&context.progress, &context.out, expected(&repository, &options));
        let done = self
            .wait
            .patiently(context, || self.store(&repository, &options, &context.progress, &monitor));
        drop(shown);
        let done = match done.map_err(|error| self.failure(context, error)) {
            Ok(done) => done,
            Err(failure) => {
                self.end_failed(context, job, &failure);
                return Err(failure);
            }
        };
        tell_idle(context, &options);
        untagged::tell(context, &repository, &options, &done);
        self.remember(context, &repository, &options, &done);
        self.report(context, &done, job, &Ended { options: &options, failed: &monitor.failed })
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
            .hint("Leave out --node. To tell sources apart, use --tag NAME or --as PATH"))
    }

    /// On a node, with a bucket, and for a key that cannot read: the pages of the last snapshot are kept here. Without
    /// them a backup works, too, but a key that cannot read has no other means to see what changed.
    fn prepare_cache(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
        options: &mut BackupOptions,
    ) {
        let helps = context.is_far() || repository.reader_keys().is_err();
        if !helps || self.chunk_cache_size == 0 {
            return;
        }
        let source = source_id(repository, &options.node, &options.paths);
        let caches = self.chunk_cache.clone().unwrap_or_else(|| context.caches());
        let folder = cache::folder(&caches, repository, &source);
        match cache::open(&folder, self.chunk_cache_size) {
            Ok(cache @ Some(_)) => options.cache = cache,
            Ok(None) => context
                .out
                .note("another backup or restore uses the chunk cache: continuing without it"),
            Err(error) => context.out.note(&format!(
                "cannot use the chunk cache in {} ({error}): continuing without it",
                folder.display()
            )),
        }
    }

    /// On a node: what was made is looked for the next time.
    fn remember(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
        options: &BackupOptions,
        done: &BackupOutcome,
    ) {
        if context.remote().is_none() {
            return;
        }
        let source = source_id(repository, &options.node, &options.paths);
        let was_told = context.has_doubted(&source);
        let noted = Memory::load(&context.agent_folder(), repository)
            .and_then(|mut memory| memory.note(&source, done, was_told));
        match noted {
            Ok(doubt) => doubt.into_iter().for_each(|doubt| context.doubt(doubt)),
            Err(failure) => context.out.note(&format!(
                "cannot note the new snapshot on this machine: {}",
                failure.message
            )),
        }
    }

    fn store(
        &self,
        repository: &UnlockedRepository,
        options: &BackupOptions,
        progress: &Progress,
        monitor: &Reporter<'_>,
    ) -> pipeline::Result<BackupOutcome> {
        repository.refuse_other_node(&options.node)?;
        match (&self.stdin, &self.command) {
            (Some(name), _) => stream::from_stdin(repository, options, name, progress, monitor),
            (_, Some(name)) => {
                stream::from_command(repository, options, name, &self.paths, progress, monitor)
            }
            _ => backup::run(repository, options, progress, monitor),
        }
    }

    fn failure(&self, context: &Context, error: pipeline::Error) -> Failure {
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
                .hint("Leave out --nice and --idle-io.")
        })?;
        if let Err(error) = priority::raise_open_file_limit() {
            context.out.note(&format!("cannot raise the limit of open files: {error}"));
        }
        Ok(())
    }
}

/// Whether the flags of a backup take what `candidate` says.
pub(crate) fn takes(candidate: &Candidate) -> std::result::Result<(), String> {
    let is_global = matches!(candidate.option, "streams" | "socket-buffer");
    if is_global { check::<Global>(candidate) } else { check::<Backup>(candidate) }
}

/// What was typed and does not count.
fn tell_forced(context: &Context) {
    for effective in context.resolved.iter() {
        let is_forced = effective.chosen.last().is_some_and(|one| one.layer == Layer::Forced);
        let typed = effective.overridden.iter().find(|one| one.layer == Layer::CommandLine);
        if let (true, Some(typed)) = (is_forced, typed) {
            let name = effective.row.name;
            context.out.note(&format!(
                "{} does not apply: the server forces {name}. See: icecore options --set",
                typed.place
            ));
        }
    }
}

/// A pattern of the command line that matched nothing is often a typing error.
fn tell_idle(context: &Context, options: &BackupOptions) {
    for rule in options.walk.excludes.unused() {
        let pattern = escape::text(&rule.pattern);
        context.out.note(&format!("--exclude '{pattern}' matched nothing. To see why: icecore explain PATH --exclude PATTERN"));
    }
}

/// Named paths that are not there: elsewhere an object that vanished is nobody's fault, but these
/// somebody relies on. The others are backed up; whether any is missing.
fn leave_out_missing(options: &mut BackupOptions, monitor: &Reporter<'_>) -> Result<bool> {
    let named = options.roots.len();
    options.roots.retain(|root| match rustix::fs::lstat(root.source.as_slice()) {
        Ok(_) => true,
        Err(error) => {
            let (path, operation) = (root.source.clone(), CaptureOperation::Inspect);
            let problem = CaptureProblem { path, operation, error };
            monitor.missing.note(&problem);
            monitor.tell(&problem);
            false
        }
    });
    if named > 0 && options.roots.is_empty() {
        let error = pipeline::Error::NothingRead(options.paths.join(", "));
        return Err(Failure::from(error));
    }
    Ok(options.roots.len() < named)
}

/// Objects and bytes of the last backup of the same source, to show how much is left. Only on a terminal.
fn expected(repository: &UnlockedRepository, options: &BackupOptions) -> Option<Total> {
    if !progress::is_on_terminal() {
        return None;
    }
    let mut reader = ManifestReader::new(repository).ok()?;
    let names = repository.store.snapshots().ok()?;
    let bodies = names.into_iter().rev().take(LOOK_BACK).filter_map(|name| reader.read(name).ok());
    let mut same =
        bodies.filter(|found| found.body.node == options.node && found.body.paths == options.paths);
    let report = same.next()?.body.report;
    Some(Total { objects: report.objects_inspected, bytes: report.bytes_inspected })
}

/// Reports what happens during a backup.
pub(crate) struct Reporter<'a> {
    out: &'a Out,
    failed: Failed,
    /// More of them, for the manifest.
    named: FailedObjects,
    /// Named paths that are not there: no session reads them again.
    missing: FailedObjects,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(out: &'a Out) -> Self {
        let (failed, named, missing) = Default::default();
        Self { out, failed, named, missing }
    }

    fn tell(&self, problem: &CaptureProblem) {
        let (operation, reason) = (problem.operation.to_string(), problem.reason());
        let text = format!("cannot {operation} {}: {reason}", escape::escape(&problem.path));
        self.failed.note(&problem.path, &reason);
        let line = ProblemLine { path: JsonPath::as_is(&problem.path), operation, reason };
        self.out.beside("problem", &line, &text);
    }
}

#[derive(Serialize)]
struct ProblemLine {
    #[serde(flatten)]
    path: JsonPath,
    operation: String,
    reason: String,
}

impl BackupMonitor for Reporter<'_> {
    fn problem(&self, problem: &CaptureProblem) {
        self.named.note(problem);
        self.tell(problem);
    }

    fn take_failed(&self) -> Vec<FailedObject> {
        [self.missing.list(), self.named.take()].concat()
    }

    fn note(&self, text: &str) {
        self.out.note(text);
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
    /// Those that ran before and after.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    hooks: &'a [HookReport],
    /// Options of the server that this machine did not follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored_options: Option<&'a OptionReport>,
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
            hooks: &[],
            ignored_options: None,
        }
    }

    fn over(self, wire: Option<NetworkReport>, chunk_cache: Option<CacheReport>) -> Self {
        let verdict = |wire: &NetworkReport| network::verdict(wire, self.report.elapsed_secs);
        let network = wire.map(|wire| Network { verdict: verdict(&wire), wire });
        Self { network, chunk_cache, ..self }
    }
}

/// What the report of a backup needs to know of it, beside its result.
struct Ended<'a> {
    options: &'a BackupOptions,
    failed: &'a Failed,
}

impl Backup {
    /// Whatever becomes of the report, the snapshot is there.
    fn report(
        &self,
        context: &Context,
        done: &BackupOutcome,
        job: Job,
        ended: &Ended<'_>,
    ) -> Result<Code> {
        let id = done.snapshot.id.to_string();
        self.print_report(context, done, &id, job, ended)
            .and_then(|code| Failure::ignore_broken_pipe(context.out.flush()).map(|()| code))
            .map_err(|failure| match done.is_skipped {
                true => failure,
                false => failure.hint(format!("The snapshot {} was saved.", &id[..8])),
            })
    }

    fn print_report(
        &self,
        context: &Context,
        done: &BackupOutcome,
        id: &str,
        job: Job,
        Ended { options, failed }: &Ended<'_>,
    ) -> Result<Code> {
        let wire = job.wire();
        let cache = options.cache.as_ref().map(|cache| cache.report());
        let verdict = |wire: &NetworkReport| network::bottleneck(wire, done.report.elapsed_secs);
        let saved = Saved {
            report: &done.report,
            id: &id[..8],
            node: &escape::text(&options.node),
            is_partial: done.partial,
            is_skipped: done.is_skipped,
            is_full: options.full,
            network: wire.as_ref().and_then(verdict),
            failed,
        };
        if self.report == Detail::Full {
            let full = full_report(&done.report, wire.as_ref(), cache.as_ref());
            full.iter().try_for_each(|line| context.out.line(line))?;
        }
        saved.lines().iter().try_for_each(|line| context.out.line(line))?;
        let code = if done.partial { Code::Partial } else { Code::Complete };
        let summary = Summary::new(Some(id.to_owned()), &done.report, done.partial);
        let (after, hooks_done) = self.hooks_after(context, code);
        let hooks = [self.hooks_run.clone(), after].concat();
        let (is_skipped, hooks) = (done.is_skipped, hooks.as_slice());
        let is_followed = context.ignored == OptionReport::default();
        let ignored_options = (!is_followed).then_some(&context.ignored);
        let summary = Summary { is_skipped, hooks, ignored_options, ..summary.over(wire, cache) };
        job.end(code, &summary);
        let code = context.out.summary(code, &summary)?;
        hooks_done.map(|()| code)
    }
}

/// Every field, what the network did, and what the cache was good for.
fn full_report(
    report: &BackupReport,
    wire: Option<&NetworkReport>,
    cache: Option<&CacheReport>,
) -> Vec<String> {
    let mut lines = session_report::lines(report);
    lines.extend(wire.iter().flat_map(|wire| network::lines(wire, report.elapsed_secs)));
    lines.extend(cache.map(|CacheReport { hits, misses, damaged, bytes }| {
        format!(
            "Chunk cache: {} found, {} not found, {} damaged; {} on disk",
            units::many(*hits, "page"),
            units::count(*misses),
            units::count(*damaged),
            units::bytes(*bytes)
        )
    }));
    lines
}

fn dry_run(
    context: &Context,
    repository: &UnlockedRepository,
    options: &BackupOptions,
    missing: bool,
) -> Result<Code> {
    let (out, monitor) = (&context.out, Reporter::new(&context.out));
    let (mut unwritten, mut bytes_to_read) = (Ok(()), 0_u64);
    let would_read = |entry: &Entry| {
        bytes_to_read = bytes_to_read.saturating_add(entry.size);
        if unwritten.is_ok() {
            let shown = WouldRead { path: JsonPath::new(&entry.path), size: entry.size };
            let row = || format!("{:>11}  {}", units::bytes(entry.size), escape::path(&entry.path));
            unwritten = out.item("would_read", &shown, row);
        }
    };
    let report = backup::dry_run(repository, options, &monitor, would_read)
        .map_err(|error| context.failure(error))?;
    Failure::ignore_broken_pipe(unwritten)?;
    tell_idle(context, options);
    out.line(&format!(
        "{}. Nothing was read or stored (--dry-run).",
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
