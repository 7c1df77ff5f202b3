//! A whole server on loopback with real TLS, and honest machines that use it.

use access::{Admin, Client, Identity};
use api::enroll::{IssuedToken, KeyMode, NewToken, Role};
use capture::CaptureProblem;
use capture::walk::SourceRoot;
use crypto::SlotSecret;
use pipeline::UnlockedRepository;
use pipeline::backup::{self, BackupMonitor, Progress};
use pipeline::manifest::ManifestReader;
use remote::{Endpoint, Purpose, Remote};
use repository::snapshots::SnapshotRef;
use server::listen::{self, Listening};
use server_control::Control;
use server_control::http::router;
use server_data::Shared;
use server_data::receipts::Receipts;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Panics of threads of servers and their clients: a server that goes on has hidden them.
static PANICS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Whole {
    pub(crate) control: Arc<Control>,
    pub(crate) shared: Arc<Shared>,
    place: tempfile::TempDir,
    listening: JoinHandle<()>,
    panics: usize,
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.listening.abort();
        if !std::thread::panicking() {
            assert_eq!(PANICS.load(Ordering::SeqCst), self.panics, "something panicked");
        }
    }
}

impl Whole {
    pub(crate) async fn start() -> Self {
        count_panics();
        let place = tempfile::tempdir().unwrap();
        let control = Control::open(&place.path().join("data"), &[]).unwrap();
        let listener = transport::socket::listen((Ipv4Addr::LOCALHOST, 0).into(), 0).unwrap();
        control.listens_at(listener.local_addr().unwrap()).unwrap();
        let receipts = Receipts::open(&place.path().join("data")).unwrap();
        let shared = Shared::with_receipts(control.clone(), Some(receipts));
        control.set_repositories(shared.domains.clone());
        let (tls, http) = (control.tls(), router(control.clone()));
        let listening = Listening { listener, tls, shared: shared.clone(), http };
        let listening = tokio::spawn(listen::run(listening));
        let panics = PANICS.load(Ordering::SeqCst);
        Self { control, shared, place, listening, panics }
    }

    /// Stops as a server does that is asked to: nobody is accepted any more, and all are told.
    pub(crate) async fn stop(&mut self) {
        self.listening.abort();
        let _ = (&mut self.listening).await;
        self.shared.stop().await;
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn admin(&self) -> Client {
        Admin { data: Some(self.folder("data")), ..Admin::default() }.client().unwrap()
    }

    /// A machine that was let in.
    pub(crate) async fn node(&self, name: &str, domain: &str, role: Role) -> Machine {
        self.node_with(name, domain, role, KeyMode::Managed).await
    }

    /// The same in a domain whose keys these know.
    pub(crate) async fn node_with(
        &self,
        name: &str,
        domain: &str,
        role: Role,
        keys: KeyMode,
    ) -> Machine {
        let (node, domain) = (name.parse().unwrap(), Some(domain.parse().unwrap()));
        let new = NewToken { domain, role: Some(role), keys, ..NewToken::of(node) };
        let made: IssuedToken = self.admin().post("/tokens", &new).await.unwrap();
        let folder = self.folder(name);
        let url = self.control.address();
        access::enroll::enroll(&url, &made.token, &folder, false).await.unwrap();
        let source = self.folder(&format!("source of {name}"));
        std::fs::create_dir(&source).unwrap();
        Machine { identity: Arc::new(Identity::load(&folder).unwrap()), source }
    }

    /// The head of the newest snapshot of `domain`.
    pub(crate) fn newest_head(&self, domain: &str) -> format::manifest::Head {
        let (_, file) = self.snapshots(domain).pop().unwrap();
        let session = format::record::split(&file).unwrap().header.record_bytes();
        let manifest = format::record::verify(&file[session..]).unwrap();
        format::manifest::Head::decode(manifest.clear).unwrap().0
    }

    /// What the files of snapshots of `domain` are called, and hold.
    pub(crate) fn snapshots(&self, domain: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = self.folder("data/pool/domains").join(domain).join("snapshots");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> =
            files.map(|file| (file.clone(), std::fs::read(&file).unwrap())).collect();
        all.sort();
        all
    }
}

fn count_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !is_of_a_test() {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
    });
}

/// Whether this is the thread of a test, which has the test's name: a test that fails is not the server's fault, and
/// the others go on.
fn is_of_a_test() -> bool {
    std::thread::current().name().is_some_and(|name| name == "main" || name.contains("::"))
}

/// An enrolled machine with a source.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) identity: Arc<Identity>,
    pub(crate) source: PathBuf,
}

pub(crate) struct Quiet;

impl BackupMonitor for Quiet {
    fn problem(&self, problem: &CaptureProblem) {
        eprintln!("{problem}");
    }
    fn note(&self, text: &str) {
        eprintln!("{text}");
    }
}

impl pipeline::restore::RestoreMonitor for Quiet {
    fn problem(&self, _: &[u8], text: &str) {
        eprintln!("{text}");
    }
}

impl Machine {
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.source.join(name), bytes).unwrap();
    }

    pub(crate) fn target(&self) -> Endpoint {
        Endpoint {
            host: self.identity.server.host.clone(),
            port: self.identity.server.port,
            tls: self.identity.tls(protocol::ALPN).unwrap(),
            domain: String::new(),
            what: String::new(),
            buffer_bytes: 0,
            streams: 0,
            limits: [0, 0],
            first_patience: Duration::ZERO,
            patience: Duration::from_secs(10),
            wait_control: Default::default(),
        }
    }

    pub(crate) fn archive(&self, purpose: Purpose) -> UnlockedRepository {
        let remote = Remote::connect(&self.target(), purpose).unwrap();
        let secret = self.identity.slot_secret.clone().unwrap();
        UnlockedRepository::open_store(remote, SlotSecret::Recovery(*secret)).unwrap()
    }

    /// An honest backup.
    pub(crate) async fn backup(&self) -> SnapshotRef {
        let machine = self.clone();
        tokio::task::spawn_blocking(move || machine.back_up()).await.unwrap()
    }

    /// What a plain client makes that says it is another node.
    pub(crate) async fn backup_as(&self, node: &str) -> SnapshotRef {
        let (machine, node) = (self.clone(), node.to_owned());
        tokio::task::spawn_blocking(move || machine.back_up_as(&node)).await.unwrap()
    }

    fn back_up(&self) -> SnapshotRef {
        self.back_up_as(self.identity.agent.node.as_str())
    }

    fn back_up_as(&self, node: &str) -> SnapshotRef {
        let archive = self.archive(Purpose::Backup);
        let options = options(&self.source, node);
        backup::run(&archive, &options, &Progress::default(), &Quiet).unwrap().snapshot
    }

    /// What a snapshot restores, one file of it.
    pub(crate) async fn restored(&self, name: SnapshotRef, file: &str) -> Vec<u8> {
        let (machine, file) = (self.clone(), file.to_owned());
        tokio::task::spawn_blocking(move || machine.restore(name, &file)).await.unwrap()
    }

    fn restore(&self, name: SnapshotRef, file: &str) -> Vec<u8> {
        let archive = self.archive(Purpose::Restore);
        let snapshot = ManifestReader::new(&archive).unwrap().read(name).unwrap();
        let target = tempfile::tempdir().unwrap();
        let options = pipeline::restore::RestoreOptions { no_sync: true, ..Default::default() };
        let (progress, to) = (Progress::default(), target.path());
        let report =
            pipeline::restore::run(&archive, &snapshot, b"", to, &options, &progress, &Quiet);
        assert_eq!(report.unwrap().failed, 0);
        std::fs::read(to.join("tree").join(file)).unwrap()
    }
}

pub(crate) fn options(source: &Path, node: &str) -> backup::BackupOptions {
    let shown_as = Some(b"/tree".to_vec());
    backup::BackupOptions {
        roots: vec![SourceRoot { source: source.as_os_str().as_bytes().to_vec(), shown_as }],
        node: node.into(),
        paths: vec!["/tree".into()],
        tags: Vec::new(),
        walk: capture::walk::WalkOptions::default(),
        read: capture::read::ReadOptions::default(),
        threads: 1,
        level: seal::Level::Fixed(1),
        full: false,
        read_since: None,
        ignore_inode: false,
        verify_blocks: false,
        limits: Default::default(),
        checkpoint_after: Default::default(),
        cache: None,
        is_partial: false,
        time: None,
        skip_if_unchanged: false,
        mount_points: Vec::new(),
    }
}
