//! What every command works with: the repository, the password, the output.

mod chosen;
mod doubts;

use crate::client_options::Candidate;
use crate::client_options::resolve::Resolved;
use crate::client_options::typed::environment;
use crate::failure::{Failure, Result};
use crate::home;
use crate::node::cache;
use crate::node::job::Job;
use crate::node::policy::{Check, Received};
use crate::node::renewal::Renewal;
use crate::node::{Caller, Node, not_enrolled};
use crate::options::Global;
use crate::out::Out;
use crate::place::Reads;
use crate::profile::Profile;
use crate::secret::{self, Ask, Secret};
use crate::signals::Signalled;
use api::options::OptionReport;
use doubts::Doubts;
use object_storage::Patience;
use pipeline::UnlockedRepository;
use pipeline::backup::Progress;
use pipeline::manifest::{ManifestReader, Snapshot};
use remote::{Purpose, Remote};
use repository::fallback::WithCopies;
use repository::storage::Storage;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::SnapshotRef;

/// What every command works with.
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) profile: Profile,
    /// Every client option with its value, and where that comes from.
    pub(crate) resolved: Resolved,
    /// Options of the server for this backup that this machine does not follow.
    pub(crate) ignored: OptionReport,
    /// What command line, environment and config file say.
    given: Vec<Candidate>,
    pub(crate) out: Arc<Out>,
    pub(crate) progress: Arc<Progress>,
    signalled: Signalled,
    remote: OnceLock<Arc<Remote>>,
    with_copies: OnceLock<Arc<WithCopies>>,
    streams: OnceLock<u8>,
    /// What the server shows that is older or other than what this machine remembers.
    doubts: Arc<Doubts>,
    /// How often a bucket is asked whether something was brought back, for who waits for that.
    patience: OnceLock<Duration>,
    /// A snapshot was taken that may not be the one that was meant, because a newer one cannot be read.
    is_choice_doubtful: AtomicBool,
}

/// The flag that a signal sets.
struct Cancel(Arc<Progress>);

impl AsRef<AtomicBool> for Cancel {
    fn as_ref(&self) -> &AtomicBool {
        &self.0.cancel
    }
}

/// A file or a unit of the system has nobody who writes the home directory for `~/`.
fn at_home(path: &OsStr) -> PathBuf {
    match (Path::new(path).strip_prefix("~"), home::folder()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

impl Context {
    /// `typed` are the client options on the command line.
    pub(crate) fn new(mut global: Global, typed: Vec<Candidate>, out: &Arc<Out>) -> Result<Self> {
        let name = global.profile.as_deref().filter(|name| !name.is_empty());
        let profile = Profile::load(name)?;
        let given = environment(|name| std::env::var_os(name));
        let given = [typed, given, profile.options.clone()].concat();
        let resolved = Resolved::new(given.clone());
        resolved.apply_to(&mut global)?;
        let (progress, signalled) = (Arc::default(), Signalled::default());
        let (remote, with_copies, streams, patience) = Default::default();
        let out = out.clone();
        let doubts = Arc::new(Doubts::new(out.clone()));
        let mut context = Self {
            global,
            profile,
            resolved,
            ignored: OptionReport::default(),
            given,
            out,
            progress,
            signalled,
            remote,
            with_copies,
            streams,
            doubts,
            patience,
            is_choice_doubtful: AtomicBool::new(false),
        };
        // The options of a server are for what is stored on it.
        if context.named_repo().is_none() {
            context.follow(&Received::load(&context.agent_folder()))?;
        }
        Ok(context)
    }

    /// Asks the server, if there is one, which options it sets. `check` says which values are good.
    pub(crate) fn ask_for_options(&mut self, check: Check) -> Result<()> {
        let Some(node) = self.node()? else { return Ok(()) };
        let received = Received::exchange(&node, check).unwrap_or_else(|failure| {
            let why = failure.message;
            self.out.note(&format!(
                "cannot ask the server for options; using the last known ones: {why}"
            ));
            Received::load(&self.agent_folder())
        });
        let Some(json) = self.global.server.job_options.take() else {
            return self.follow(&received);
        };
        let received = received.with_job(&self.agent_folder(), &json, check)?;
        self.ignored = received.report().clone();
        self.follow(&received)
    }

    /// Decides again, with the options of the server.
    fn follow(&mut self, received: &Received) -> Result<()> {
        let all = [received.candidates(), self.given.clone()].concat();
        self.resolved = Resolved::new(all);
        self.resolved.apply_to(&mut self.global)
    }

    /// The repository's directory.
    pub(crate) fn repo(&self) -> Result<PathBuf> {
        let named = self.named_repo().ok_or_else(|| {
            let failure = Failure::usage("no repository given");
            failure.hint(
                "Use --repo DIR (or s3://BUCKET/PREFIX) or set ICECORE_REPO. On a node of a server: icecore agent status",
            )
        })?;
        self.refuse_domain_beside(&named)?;
        crate::location::refuse_addresses(&named)?;
        Ok(named)
    }

    /// A domain is on a server. If a local repository were used instead, the domain would be ignored, and
    /// somebody would take the one for the other.
    fn refuse_domain_beside(&self, repo: &Path) -> Result<()> {
        let Some(domain) = &self.global.server.domain else { return Ok(()) };
        let failure = Failure::usage(format!(
            "--domain {domain} is on a server, but the repository {} was given too (by --repo, ICECORE_REPO or the config file)",
            repo.display()
        ));
        Err(failure.hint("Leave out one of them. For the domain: env -u ICECORE_REPO icecore ..."))
    }

    fn named_repo(&self) -> Option<PathBuf> {
        if self.global.server.node_command {
            return None;
        }
        self.resolved.value("repo").map(at_home)
    }

    /// The folder of what this machine is to its server.
    pub(crate) fn agent_folder(&self) -> PathBuf {
        let given = self.global.server.agent_dir.clone();
        given.filter(|path| !path.as_os_str().is_empty()).unwrap_or_else(access::default_folder)
    }

    /// This machine as a node, when no repository is named and it is one.
    pub(crate) fn node(&self) -> Result<Option<Node>> {
        match self.named_repo() {
            Some(named) => self.refuse_domain_beside(&named).map(|()| None),
            None => self.agent(),
        }
    }

    /// This machine as a node, whatever repository is named.
    pub(crate) fn agent(&self) -> Result<Option<Node>> {
        Node::find(self.agent_folder(), &self.out)
    }

    /// The same, for a command that needs one.
    pub(crate) fn enrolled(&self) -> Result<Node> {
        self.agent()?.ok_or_else(|| not_enrolled(&self.agent_folder()))
    }

    /// As whom this command works with a node.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller {
            options: &self.global,
            resolved: &self.resolved,
            out: &self.out,
            streams: self.streams(),
            wait_control: self.wait_control(),
        }
    }

    /// Opens the repository of `node`.
    pub(crate) fn open_node(&self, node: &Node, purpose: Purpose) -> Result<UnlockedRepository> {
        let opened = node.open(&self.caller(), purpose)?;
        self.doubt_of(&opened.remote, opened.compared);
        let _ = self.remote.set(opened.remote); // one command opens once
        Ok(opened.repository)
    }

    /// A job that reports to the server, if there is one.
    pub(crate) fn job(&self, stage: &'static str) -> Job {
        let Some(remote) = self.remote().cloned() else { return Job::local() };
        let (progress, out) = (self.progress.clone(), self.out.clone());
        Job::begin(remote, (progress, out), Renewal::new(&self.agent_folder()), (stage, false))
    }

    /// Where the chunk caches are.
    pub(crate) fn caches(&self) -> PathBuf {
        self.bucket_caches().unwrap_or_else(|| cache::default_folder(&self.agent_folder()))
    }

    /// Whether pages are far away, so that a chunk cache spares the way.
    pub(crate) fn is_far(&self) -> bool {
        self.remote().is_some() || self.bucket_caches().is_some()
    }

    fn bucket_caches(&self) -> Option<PathBuf> {
        self.named_repo().as_deref().and_then(crate::place::chunk_caches)
    }

    /// A command's own wish for the number of streams; `--streams` comes first.
    pub(crate) fn wish_streams(&self, streams: u8) {
        let _ = self.streams.set(streams); // one command has one wish
    }

    /// Streams of a job; 0 for as many as help.
    pub(crate) fn streams(&self) -> u8 {
        self.global.server.streams.or_else(|| self.streams.get().copied()).unwrap_or(0)
    }

    /// The connected server, if the repository is on one.
    pub(crate) fn remote(&self) -> Option<&Arc<Remote>> {
        self.remote.get()
    }

    /// Tells the server, if there is one, that the job failed, and why. A job that has ended is as it was.
    pub(crate) fn tell_failed(&self, failure: &Failure) {
        if let Some(remote) = self.remote() {
            remote.abandon_because(&failure.message);
        }
    }

    /// The repository's directory as text, for hints.
    pub(crate) fn location(&self) -> String {
        match self.named_repo() {
            Some(repo) => repo.display().to_string(),
            None => "DIR".to_owned(),
        }
    }

    /// The storage of a repository that should exist. What is read comes from there, and from no cache.
    pub(crate) fn storage(&self) -> Result<Arc<dyn Storage>> {
        self.storage_with(Reads::Fresh)
    }

    /// From now on, whoever reads from a bucket waits for what is being brought back, and asks `every` so often.
    pub(crate) fn wait_for_archived(&self, every: Duration) {
        let _ = self.patience.set(every); // one command waits in one way
    }

    fn patience_of(&self, every: Duration) -> Patience {
        let (progress, out, told) =
            (self.progress.clone(), self.out.clone(), AtomicBool::default());
        let goes_on = move |name: Option<&str>| {
            if let Some(name) = name
                && !told.swap(true, Ordering::Relaxed)
            {
                out.note(&format!("waiting for {name}, which is being brought back; what was restored until now stays, and the same command continues after an interruption"));
            }
            !progress.cancel.load(Ordering::Relaxed)
        };
        Patience { every, goes_on: Box::new(goes_on) }
    }

    pub(crate) fn storage_with(&self, reads: Reads) -> Result<Arc<dyn Storage>> {
        crate::descriptors::make_room()?;
        let repo = self.repo()?;
        let patience = self.patience.get().map(|every| self.patience_of(*every));
        crate::place::open_patiently(&repo, reads, &self.out, patience)
    }

    /// The password; a person is asked `ask`.
    pub(crate) fn secret(&self, ask: Ask) -> Result<Secret> {
        secret::get(&self.resolved, ask)
    }

    /// Opens the repository. Signals are watched from here on: before, a prompt may be open, and
    /// the terminal itself deals with them.
    pub(crate) fn open(&self) -> Result<UnlockedRepository> {
        self.open_for(Purpose::Read, Reads::Cached)
    }

    /// The same for who deletes: nothing that it reads comes from a cache of this machine.
    pub(crate) fn open_fresh(&self) -> Result<UnlockedRepository> {
        self.open_for(Purpose::Read, Reads::Fresh)
    }

    fn open_for(&self, purpose: Purpose, reads: Reads) -> Result<UnlockedRepository> {
        if let Some(node) = self.node()? {
            self.watch_signals();
            crate::descriptors::make_room()?;
            return self.open_node(&node, purpose);
        }
        let created = |failure| crate::copies::before_creating(self, failure);
        let storage = self.storage_with(reads).map_err(created)?;
        let secret = self.secret(Ask::Once)?;
        self.watch_signals();
        let opened = UnlockedRepository::open(storage, secret.slot());
        opened.map_err(|error| created(self.failure(error)))
    }

    /// As [`Context::open`], for commands that only read: what is lost is read from the copies.
    pub(crate) fn open_to_read(&self) -> Result<UnlockedRepository> {
        let copies = crate::copies::named(self)?;
        if copies.is_empty() || self.node()?.is_some() {
            return self.open();
        }
        let opened = crate::copies::open(self, copies)?;
        self.watch_signals();
        Ok(opened)
    }

    /// The same for commands that look at `progress.cancel`.
    pub(crate) fn open_to_restore(&self) -> Result<UnlockedRepository> {
        if self.node()?.is_some() {
            return self.open_cancellable(Purpose::Restore);
        }
        let repository = self.open_to_read()?;
        self.signalled.listen();
        Ok(repository)
    }

    /// The copies that stand in for what the repository has lost.
    pub(crate) fn read_through(&self, copies: Arc<WithCopies>) {
        let _ = self.with_copies.set(copies); // one command opens once
    }

    /// Says what was read from copies.
    pub(crate) fn tell_copies(&self) {
        if let Some(copies) = self.with_copies.get() {
            crate::copies::tell(self, &copies.uses());
        }
    }

    /// As [`Context::open`], for commands that look at `progress.cancel`.
    pub(crate) fn open_cancellable(&self, purpose: Purpose) -> Result<UnlockedRepository> {
        self.open_to_cancel(purpose, Reads::Cached)
    }

    /// The same for a check: it has to see what the repository has.
    pub(crate) fn open_to_check(&self) -> Result<UnlockedRepository> {
        self.open_to_cancel(Purpose::Check, Reads::Fresh)
    }

    fn open_to_cancel(&self, purpose: Purpose, reads: Reads) -> Result<UnlockedRepository> {
        // Until it is open there is nothing to be ended in order, and the server may be away for long.
        let repository = self.open_for(purpose, reads)?;
        self.signalled.listen();
        Ok(repository)
    }

    /// For a command that looks at [`Context::is_cancelled`] by itself.
    pub(crate) fn listen_for_signals(&self) {
        self.signalled.listen();
        self.watch_signals();
    }

    /// For waiting for a server: a signal ends the wait at once, and people see why they wait.
    pub(crate) fn wait_control(&self) -> remote::WaitControl {
        let (progress, out) = (self.progress.clone(), self.out.clone());
        remote::WaitControl {
            cancel: Some(Arc::new(Cancel(progress))),
            tell: Some(Arc::new(move |text| out.note(text))),
        }
    }

    /// Whether a signal asked to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.progress.cancel.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn watch_signals(&self) {
        self.signalled.watch(self.progress.clone(), self.out.clone());
    }

    /// The error of a command on the repository, with what to type.
    pub(crate) fn failure(&self, error: pipeline::Error) -> Failure {
        // Whatever it was at: it was asked to stop.
        if self.is_cancelled() && self.remote().is_some() {
            return Failure::from(pipeline::Error::Cancelled);
        }
        let failure = Failure::from(error);
        if self.remote().is_some() || self.named_repo().is_none() {
            return failure.at_server();
        }
        failure.at(&self.location())
    }

    /// All usable snapshots, oldest first, and the unusable ones, which are reported.
    pub(crate) fn snapshots(
        &self,
        repository: &UnlockedRepository,
    ) -> Result<(Vec<Snapshot>, Vec<Unread>)> {
        let (all, unread) = self.listed(repository)?;
        unread.iter().for_each(|unread| self.out.note(&unread_text(unread)));
        Ok((all, unread))
    }

    /// The same without reporting.
    pub(crate) fn listed(
        &self,
        repository: &UnlockedRepository,
    ) -> Result<(Vec<Snapshot>, Vec<Unread>)> {
        let failed = |error| self.failure(error);
        repository.reader_keys().map_err(failed)?;
        let mut unread = Vec::new();
        let all = ManifestReader::new(repository).map_err(failed)?.all(|name, error| {
            // What another process forgot meanwhile is not damaged.
            if !matches!(error, pipeline::Error::Repository(store::Error::SnapshotMissing(_))) {
                unread.push((name, error));
            }
        });
        let mut all = all.map_err(failed)?;
        all.sort_by_key(|snapshot| pipeline::effective_time::creation_order(&snapshot.head));
        Ok((all, unread))
    }
}

/// A snapshot that does not count, and why.
pub(crate) type Unread = (SnapshotRef, pipeline::Error);

fn unread_text((name, error): &Unread) -> String {
    match error {
        pipeline::Error::Untrusted { .. } => error.to_string(),
        _ => format!("snapshot {} cannot be read: {error}", name.id),
    }
}
