//! Who tries to remove a locked snapshot: somebody with the key, somebody who sets the clock, somebody
//! who removes files of the repository. Time is a parameter here, and signatures are checksums.
#![allow(clippy::unwrap_used)]

use clock::Tick;
use format::manifest::{Head, SIGNATURE_BYTES};
use format::page::{PageKind, put_head};
use format::receipt::{RECEIPT_CONTEXT, Receipt};
use format::record::{self, RecordKind};
use ids::{KeyId, ObjectId, RepositoryId, SnapshotId};
use repository::config::Config;
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::rebuild::FoundManifest;
use repository::reclaim::locked::LockedFiles;
use repository::reclaim::{self, ReclaimOptions};
use repository::snapshots::{SnapshotRef, StoredSnapshot};
use repository::storage::Storage;
use repository::watch::Unwatched;
use repository::{Error, Repository};
use std::path::PathBuf;
use std::sync::Arc;
use stored::{record as sealed, session_record, tombstone};

const OWN: RepositoryId = RepositoryId([1; 16]);
const SERVER: [u8; 32] = [7; 32];
const DAY: i64 = 86_400;
const NOW: i64 = 20_000 * DAY;
const YEARS: i64 = 3650 * DAY;
/// How long snapshots are locked here.
const LOCK_SECS: u64 = 30 * DAY as u64;

fn sign(key: &[u8; 32], message: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let sum = format::wire::checksum(&[key, message]);
    [sum; 4].as_flattened().try_into().unwrap()
}

fn verify(key: &[u8; 32], message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
    sign(key, message) == *signature
}

fn page() -> ObjectId {
    ObjectId([9; 24]).with_type(true)
}

fn head(sequence: u64) -> Head {
    Head {
        sequence,
        source: page(),
        source_sequence: sequence,
        previous: SnapshotId([0; 16]),
        time_secs: 0,
        time_nanos: 0,
        root: page(),
        level: 0,
        body: page(),
        writer: KeyId([1; 8]),
        flags: 0,
        original: None,
    }
}

/// A repository, and what the clocks of its machine show.
struct Rig {
    folder: tempfile::TempDir,
    repository: Arc<Repository>,
    lease: Arc<Lease>,
    time: Tick,
}

/// The receipt that the server would give for the snapshot with this clear part.
fn receipt_of(clear: &[u8], head: &Head) -> Receipt {
    let names = [(); 3].map(|()| String::new());
    let [policy, source_name, class] = names;
    Receipt {
        snapshot: format::manifest::snapshot_id(clear),
        source: head.source,
        root: head.root,
        time_secs: head.time_secs,
        begun_secs: NOW,
        received_secs: NOW,
        counter: head.sequence,
        flags: 0,
        key: SERVER,
        lock: None,
        node: "web".into(),
        policy,
        source_name,
        class,
    }
}

fn signed(receipt: &Receipt, repository: RepositoryId) -> Vec<u8> {
    let unsigned = receipt.encode();
    let message = [RECEIPT_CONTEXT, &repository.0, &unsigned].concat();
    [&unsigned[..], &sign(&receipt.key, &message)].concat()
}

impl Rig {
    fn made() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
        let config = Config::new(OWN, [0; 32], 0, 1, [1, 2, 3]);
        let keys = repository::keys::Keys::default();
        drop(Repository::init(storage, config, &keys).unwrap());
        Self::opened(folder, Tick { wall_secs: NOW, boot: 1, up_secs: 100 })
    }

    /// Another process on the machine opens the repository.
    fn opened(folder: tempfile::TempDir, time: Tick) -> Self {
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
        let repository = Arc::new(Repository::open(storage).unwrap());
        repository.verify_with(verify);
        repository.show_time(time);
        let lease = repository.lease("test").unwrap();
        Self { folder, repository, lease, time }
    }

    fn again(self, time: Tick) -> Self {
        let Self { folder, repository, lease, .. } = self;
        drop((repository, lease));
        Self::opened(folder, time)
    }

    /// The machine runs on, and its wall clock says this.
    fn show(&mut self, ran: i64, wall: i64) {
        self.time = Tick { wall_secs: NOW + wall, up_secs: self.time.up_secs + ran, ..self.time };
        self.repository.show_time(self.time);
    }

    /// A snapshot with what `change` makes of a server's receipt; nothing for none.
    fn store(&self, change: impl FnOnce(Receipt) -> Option<Vec<u8>>) -> SnapshotRef {
        let session = self.repository.begin(&self.lease, None, session_record()).unwrap();
        if session.claim(&page()).unwrap() {
            let mut clear = Vec::new();
            put_head(&mut clear, PageKind::Leaf, page(), &[]);
            session.append(&sealed(RecordKind::Pages, vec![page()], clear, vec![0; 40])).unwrap();
        }
        let head = head(session.next_snapshot());
        let clear = [&head.encode()[..], &[0; SIGNATURE_BYTES]].concat();
        let receipt = change(receipt_of(&clear, &head));
        let manifest = sealed(RecordKind::Manifest, vec![], clear, vec![0; 40]);
        session.commit_received(&manifest, receipt.as_deref()).unwrap().snapshot
    }

    /// A locked snapshot, as a server makes it.
    fn locked(&self) -> SnapshotRef {
        self.repository.add_receipt_key(&self.lease, SERVER).unwrap();
        let lock = self.repository.give_lock(&self.lease, LOCK_SECS, NOW).unwrap();
        self.store(|receipt| Some(signed(&Receipt { lock: Some(lock), ..receipt }, OWN)))
    }

    fn forget(&self, name: SnapshotRef) -> repository::Result<()> {
        self.repository.forget(&self.lease, &[name], &session_record(), &tombstone())
    }

    fn is_locked(&self, name: SnapshotRef) -> bool {
        let is_locked =
            matches!(self.forget(name), Err(Error::Locked { snapshot, .. }) if snapshot == name.id);
        assert_eq!(self.repository.snapshot(name).is_ok(), is_locked);
        is_locked
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Both snapshots need the container that the first one made: it belongs to the longer lock.
#[test]
fn what_locked_snapshots_need_is_named_with_the_last_lock_that_needs_it() {
    let mut rig = Rig::made();
    let needed = |rig: &Rig| rig.repository.locked_files(&Unwatched).unwrap();
    let free = rig.store(|_| None);
    assert_eq!(needed(&rig), LockedFiles::default(), "nothing is locked");
    let first = rig.locked();
    rig.show(10 * DAY, 10 * DAY);
    let second = rig.locked();
    let [early, late] = [0, 10].map(|days| NOW + days * DAY + LOCK_SECS as i64);
    let LockedFiles { files, lost_pages } = needed(&rig);
    let until = |name: &str| files.iter().find(|(file, _)| file == name).map(|(_, until)| *until);
    let container = repository::container::name(ids::ContainerNo(1));
    assert!(rig.path(&container).exists());
    for (name, expected) in [
        (first.path(), Some(early)),
        (second.path(), Some(late)),
        (free.path(), None),
        (container.clone(), Some(late)),
        ("config".into(), Some(late)),
        ("config.copy".into(), Some(late)),
        ("receipts".into(), Some(late)),
        ("index/state".into(), None),
    ] {
        assert_eq!(until(&name), expected, "{name}: {files:?}");
    }
    assert!(files.iter().all(|(name, _)| rig.path(name).is_file()), "{files:?}");
    assert_eq!(lost_pages, 0);
    rig.show(25 * DAY, 35 * DAY);
    assert_eq!(needed(&rig).files.iter().filter(|(name, _)| *name == first.path()).count(), 0);
    std::fs::remove_file(rig.path(&container)).unwrap();
    let rig = rig.again(Tick { wall_secs: NOW + 35 * DAY, boot: 1, up_secs: 100 + 35 * DAY });
    assert_eq!(needed(&rig).lost_pages, 1, "what cannot be read is told");
}

#[test]
fn a_locked_snapshot_goes_when_its_lock_has_ended_and_no_second_earlier() {
    let mut rig = Rig::made();
    let name = rig.locked();
    let expiry = format::expiry::record(&[0; 130]).unwrap();
    rig.show(LOCK_SECS as i64 - 1, 0);
    let refused = rig.repository.expire(&rig.lease, &[name], &expiry).unwrap_err();
    let text = "is locked until 2024-11-03T00:00:00Z; nothing in the program ends a lock earlier";
    assert!(refused.to_string().ends_with(text), "{refused}");
    assert!(rig.is_locked(name));
    rig.show(1, 0);
    assert!(!rig.is_locked(name));
}

#[test]
fn one_locked_snapshot_among_many_keeps_all_of_a_request() {
    let rig = Rig::made();
    let (free, locked, other) = (rig.store(|_| None), rig.locked(), rig.locked());
    let names = [free, locked, other];
    let refused = rig.repository.forget(&rig.lease, &names, &session_record(), &tombstone());
    assert!(matches!(refused, Err(Error::Locked { others: 1, .. })), "{refused:?}");
    assert_eq!(rig.repository.snapshots().unwrap().len(), 3);
    assert!(!rig.is_locked(free));
}

#[test]
fn a_wall_clock_that_is_years_ahead_ends_no_lock() {
    let mut rig = Rig::made();
    let name = rig.locked();
    rig.show(60, YEARS);
    assert!(rig.is_locked(name), "while the machine runs");
    let mut rig = rig.again(Tick { wall_secs: NOW + YEARS, boot: 2, up_secs: 5 });
    assert!(rig.is_locked(name), "after a start");
    for boot in 3..9 {
        rig = rig.again(Tick { wall_secs: NOW + YEARS, boot, up_secs: YEARS });
        assert!(rig.is_locked(name), "after many, and on a machine that runs for long");
    }
}

#[test]
fn a_clock_whose_file_was_removed_or_damaged_ends_no_lock() {
    for damage in [None, Some(&b""[..]), Some(b"ICELOCK1")] {
        let mut rig = Rig::made();
        let name = rig.locked();
        match damage {
            None => std::fs::remove_file(rig.path("lock-clock")).unwrap(),
            Some(bytes) => std::fs::write(rig.path("lock-clock"), bytes).unwrap(),
        }
        rig.show(60, YEARS);
        assert!(rig.is_locked(name));
        rig = rig.again(Tick { wall_secs: NOW + YEARS, boot: 2, up_secs: YEARS });
        assert!(rig.is_locked(name));
        // It ends when another lock proves that its time has passed.
        rig.repository.show_time(Tick { wall_secs: NOW, boot: 2, up_secs: YEARS });
        rig.locked();
        rig.show(LOCK_SECS as i64 + YEARS, 0);
        assert!(!rig.is_locked(name));
    }
}

#[test]
fn a_list_of_keys_that_was_removed_or_replaced_ends_no_lock() {
    let mut rig = Rig::made();
    let first = rig.locked();
    rig.show(20 * DAY, 20 * DAY);
    let second = rig.locked();
    std::fs::remove_file(rig.path("receipts")).unwrap();
    assert!(rig.is_locked(first) && rig.is_locked(second));
    rig.repository.add_receipt_key(&rig.lease, [8; 32]).unwrap();
    assert!(rig.is_locked(first) && rig.is_locked(second));
    // Without the clock as well, time begins again at the oldest lock, not at what a new key may claim.
    std::fs::remove_file(rig.path("lock-clock")).unwrap();
    rig.show(60, YEARS);
    let far = rig.store(|receipt| {
        let lock = format::receipt::Lock::new(NOW + YEARS, 60);
        Some(signed(&Receipt { key: [9; 32], lock, ..receipt }, OWN))
    });
    assert!(rig.is_locked(first) && rig.is_locked(second) && rig.is_locked(far));
}

#[test]
fn what_no_server_signed_for_this_snapshot_here_locks_nothing() {
    let rig = Rig::made();
    let lock = rig.repository.give_lock(&rig.lease, LOCK_SECS, NOW).ok();
    let unsigned = rig.store(|receipt| {
        Some([&Receipt { lock, ..receipt }.encode()[..], &[0; SIGNATURE_BYTES]].concat())
    });
    let elsewhere =
        rig.store(|receipt| Some(signed(&Receipt { lock, ..receipt }, RepositoryId([2; 16]))));
    let snapshot = SnapshotId([5; 16]);
    let another = rig.store(|receipt| Some(signed(&Receipt { snapshot, lock, ..receipt }, OWN)));
    let longer = rig.store(|receipt| {
        let short = signed(&Receipt { lock: None, ..receipt.clone() }, OWN);
        let long = Receipt { lock, ..receipt }.encode();
        Some([&long[..], &short[short.len() - SIGNATURE_BYTES..]].concat())
    });
    for name in [unsigned, elsewhere, another, longer] {
        assert_eq!(rig.repository.received(name).unwrap().locked_until_secs, None);
        assert!(!rig.is_locked(name));
    }
}

/// Who opens a repository without a way to verify signatures is not told that nothing is locked.
#[test]
fn a_program_that_verifies_nothing_believes_every_lock() {
    let rig = Rig::made();
    let name = rig.locked();
    let Rig { folder, repository, lease, time } = rig;
    drop((repository, lease));
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let repository = Arc::new(Repository::open(storage).unwrap());
    repository.show_time(time);
    let lease = repository.lease("test").unwrap();
    assert!(repository.received(name).unwrap().receipt.is_none());
    assert!(Rig { folder, repository, lease, time }.is_locked(name));
}

#[test]
fn a_snapshot_that_cannot_be_read_is_locked_as_long_as_any_lock() {
    let damage = |rig: &Rig, name: SnapshotRef| {
        let path = rig.path(&name.path());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let rig = Rig::made();
    let name = rig.store(|_| None);
    damage(&rig, name);
    rig.forget(name).unwrap();
    assert!(rig.repository.snapshots().unwrap().is_empty(), "nothing was ever locked");

    let mut rig = Rig::made();
    let (name, newer) = (rig.locked(), rig.locked());
    damage(&rig, name);
    for file in ["receipts", "lock-clock"] {
        assert!(matches!(rig.forget(name), Err(Error::Locked { .. })), "before {file} went");
        std::fs::remove_file(rig.path(file)).unwrap();
    }
    assert!(matches!(rig.forget(name), Err(Error::Locked { .. })));
    let give = rig.repository.give_lock(&rig.lease, LOCK_SECS, NOW).unwrap();
    rig.show(LOCK_SECS as i64, 0);
    assert_eq!(give.until_secs, NOW + LOCK_SECS as i64);
    rig.forget(name).unwrap();
    assert!(!rig.is_locked(newer));
}

#[test]
fn a_receipt_of_a_newer_version_is_not_passed_over() {
    let rig = Rig::made();
    let newer = |receipt: Receipt| {
        let bytes = signed(&receipt, OWN);
        Some([&[9, 0], &bytes[2..]].concat())
    };
    let name = rig.store(newer);
    assert!(!rig.is_locked(name), "where nothing was ever locked");
    let name = rig.store(newer);
    rig.locked();
    assert!(rig.is_locked(name));
    assert_eq!(rig.repository.received(name).unwrap().locked_until_secs, Some(i64::MAX));
}

#[test]
fn a_rewritten_snapshot_has_the_lock_of_its_original() {
    let rig = Rig::made();
    let original = rig.locked();
    let stored = rig.repository.snapshot(original).unwrap();
    let session = rig.repository.begin(&rig.lease, Some(original), session_record()).unwrap();
    let head = Head {
        original: Some((original.id, original.sequence)),
        flags: format::manifest::REWRITTEN,
        ..head(session.next_snapshot())
    };
    let clear = [&head.encode()[..], &[0; SIGNATURE_BYTES]].concat();
    let manifest = sealed(RecordKind::Manifest, vec![], clear, vec![0; 40]);
    let rewritten = session.commit_received(&manifest, stored.receipt.as_deref()).unwrap();
    assert!(rig.is_locked(rewritten.snapshot) && rig.is_locked(original));
}

/// A tombstone that somebody wrote past the program changes nothing, wherever the manifest is found.
#[test]
fn a_manifest_in_a_container_has_its_lock_there_too() {
    let mut rig = Rig::made();
    let name = rig.locked();
    let stored: StoredSnapshot = rig.repository.snapshot(name).unwrap();
    let clear = record::split(&stored.record).unwrap().clear.to_vec();
    let found = FoundManifest { id: name.id, clear, file: stored.to_bytes() };
    std::fs::remove_file(rig.path(&name.path())).unwrap();
    std::fs::remove_file(rig.path("lock-clock")).unwrap();
    rig.show(60, YEARS);
    assert!(rig.repository.is_manifest_locked(&found).unwrap());
}

#[test]
fn reclaim_gives_up_no_part_of_a_locked_snapshot() {
    let rig = Rig::made();
    let first = container_files(&rig);
    assert!(first.is_empty());
    let name = rig.locked();
    std::fs::remove_file(&container_files(&rig)[0]).unwrap();
    let folder = {
        let Rig { folder, repository, lease, .. } = rig;
        drop((repository, lease));
        folder
    };
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    drop(repository::rebuild::rebuild(&storage, "test").unwrap());
    let mut rig = Rig::opened(folder, Tick { wall_secs: NOW, boot: 1, up_secs: 100 });
    let options = ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: true,
        free_interrupted: false,
    };
    let refused = reclaim::run(&rig.repository, &rig.lease, options, None).unwrap_err();
    assert!(matches!(refused, Error::LockedIsDamaged(id) if id == name.id), "{refused}");
    rig.show(LOCK_SECS as i64, 0);
    reclaim::run(&rig.repository, &rig.lease, options, None).unwrap();
}

fn container_files(rig: &Rig) -> Vec<PathBuf> {
    let shards = std::fs::read_dir(rig.path("containers")).unwrap();
    let files = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn another_config_is_not_made_over_snapshots_whose_config_was_lost() {
    let rig = Rig::made();
    rig.locked();
    for name in ["config", "config.copy"] {
        std::fs::remove_file(rig.path(name)).unwrap();
    }
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(rig.folder.path()).unwrap());
    let config = Config::new(RepositoryId([2; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let keys = repository::keys::Keys::default();
    let refused = Repository::init(storage, config, &keys).err().unwrap();
    assert!(matches!(refused, Error::Exists { .. }), "{refused}");
}

/// The time that a machine runs counts even if it is started again between two backups.
#[test]
fn every_writer_keeps_the_time_that_was_counted() {
    let mut rig = Rig::made();
    let name = rig.locked();
    for day in 1..=30 {
        assert!(rig.is_locked(name), "day {day}");
        // It is on for half of the day; the backup is at its end.
        let started =
            Tick { wall_secs: NOW + day * DAY - DAY / 2, boot: day as u128 + 9, up_secs: 9 };
        rig = rig.again(started);
        let up_secs = DAY / 2 + 9;
        rig = rig.again(Tick { wall_secs: NOW + day * DAY, up_secs, ..started });
    }
    assert!(!rig.is_locked(name), "no day was lost");
}

#[test]
fn a_lock_is_given_on_the_servers_clock_and_one_of_no_length_is_not_given() {
    let mut rig = Rig::made();
    for secs in [0, format::limits::LOCK_SECS_MAX + 1, u64::MAX] {
        let refused = rig.repository.give_lock(&rig.lease, secs, NOW);
        assert!(matches!(refused, Err(Error::NoSuchLock(_))), "{refused:?}");
    }
    let first = rig.repository.give_lock(&rig.lease, 60, NOW).unwrap();
    rig.show(30, YEARS);
    let second = rig.repository.give_lock(&rig.lease, 60, NOW + YEARS).unwrap();
    assert_eq!((first.given_secs, second.given_secs), (NOW, NOW + 30), "one is locked");
    rig.show(60, YEARS);
    let third = rig.repository.give_lock(&rig.lease, 60, NOW + 9 * DAY).unwrap();
    assert_eq!(third.given_secs, NOW + 9 * DAY, "nothing is locked");
    rig.show(60, YEARS);
    let fourth = rig.repository.give_lock(&rig.lease, 60, NOW).unwrap();
    assert_eq!(fourth.given_secs, NOW + 9 * DAY + 60, "never back");
}
