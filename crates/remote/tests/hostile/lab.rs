//! A repository with a backup in it, and who restores from it or backs up to it through a server that lies.

use crate::testkit::{self, PASSWORD, TestFolder};
use hostile_server::{Asked, Fake, Reply};
use pipeline::UnlockedRepository;
use remote::{Endpoint, Purpose, Remote};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use store::SnapshotRef;

/// Nothing here takes longer, whatever a server does.
const PATIENCE: Duration = Duration::from_secs(90);

/// A folder with a source of a small and a large file, backed up.
pub(crate) struct Lab {
    pub(crate) folder: TestFolder,
    pub(crate) archive: UnlockedRepository,
    pub(crate) good: SnapshotRef,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = TestFolder::new();
        folder.write("small", b"a small file");
        let mut noise = vec![0; 400 << 10];
        getrandom::fill(&mut noise).unwrap();
        folder.write("large", &noise);
        let archive = folder.init();
        let good = folder.backup(&archive).snapshot;
        Self { folder, archive, good }
    }

    pub(crate) fn lies(&self, lie: impl Fn(Asked<'_>) -> Reply + Send + Sync + 'static) -> Fake {
        Fake::start(Some(self.archive.local().unwrap().clone()), lie)
    }

    /// Restores through `fake`; what comes is as it was, or an error.
    pub(crate) fn restores(&self, fake: &Fake, name: SnapshotRef) -> Result<(), String> {
        let target = tempfile::tempdir_in(self.folder.temp.path()).unwrap();
        let to = target.path().join("target");
        std::fs::create_dir(&to).unwrap();
        let dialed = dial(fake);
        let path = to.clone();
        let done = ends(move || {
            let archive = open(&dialed, Purpose::Restore)?;
            testkit::restore_to(&archive, name, &path).map_err(|error| error.to_string())
        });
        let beside: Vec<_> = std::fs::read_dir(target.path()).unwrap().collect();
        assert_eq!(beside.len(), 1, "something stands beside the target");
        for name in ["small", "large"] {
            let found = std::fs::read(to.join("tree").join(name)).unwrap_or_default();
            let was = std::fs::read(self.folder.source().join(name)).unwrap();
            if matches!(&done, Ok(report) if report.failed == 0) {
                assert_eq!(found, was, "{name} is not whole, and nobody said so");
            }
            let is_part = found.iter().zip(&was).all(|(one, other)| one == other || *one == 0);
            assert!(is_part && found.len() <= was.len(), "{name} holds wrong bytes");
        }
        match done? {
            report if report.failed == 0 => Ok(()),
            report => Err(format!("{} files failed", report.failed)),
        }
    }

    /// Backs up through `fake`.
    pub(crate) fn backs_up(&self, fake: &Fake) -> Result<SnapshotRef, String> {
        self.folder.write("new", format!("{:?}", fake.address).repeat(5_000).as_bytes());
        let (dialed, options) = (dial(fake), self.folder.options());
        ends(move || {
            let archive = open(&dialed, Purpose::Backup)?;
            let (progress, heard) = Default::default();
            let _: &testkit::Heard = &heard;
            let done = pipeline::backup::run(&archive, &options, &progress, &heard);
            done.map(|done| done.snapshot).map_err(|error| error.to_string())
        })
    }
}

pub(crate) fn dial(fake: &Fake) -> Endpoint {
    let tls = pki::client::client_config(&fake.ca_pem, None, protocol::ALPN).unwrap();
    Endpoint {
        host: fake.address.ip().to_string(),
        port: fake.address.port(),
        tls: Arc::new(tls),
        domain: String::new(),
        what: String::new(),
        buffer_bytes: 0,
        streams: 0,
        limits: [0, 0],
        first_patience: Duration::ZERO,
        patience: Duration::from_secs(3),
        wait_control: Default::default(),
    }
}

pub(crate) fn open(target: &Endpoint, purpose: Purpose) -> Result<UnlockedRepository, String> {
    let remote = Remote::connect(target, purpose).map_err(|error| error.to_string())?;
    UnlockedRepository::open_store(remote, PASSWORD).map_err(|error| error.to_string())
}

/// Runs to its end, or fails the test when there is none.
pub(crate) fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waits) = channel();
    let thread = std::thread::spawn(move || done.send(work()));
    match waits.recv_timeout(PATIENCE) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(RecvTimeoutError::Disconnected) => panic!("it panicked: {:?}", thread.join()),
    }
}

pub(crate) fn is_refused<T: std::fmt::Debug>(outcome: Result<T, String>, what: &str) {
    let error = outcome.expect_err(what);
    assert!(!error.is_empty(), "{what}: says nothing");
}
