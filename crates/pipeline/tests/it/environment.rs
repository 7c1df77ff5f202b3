//! Random bytes that cannot be had, clocks that jump, processors without AES.

use crate::testkit::build::small_tree;
use crate::testkit::{
    CHEAP, PASSWORD, SMALL_CHUNKS, TestFolder, Tree, assert_clean, copy_tree, reclaimed, snapshot,
};
use crypto::{Cipher, Role, SlotSecret};
use pipeline::environment::Environment;
use pipeline::unlocked::InitOptions;
use pipeline::{Error, UnlockedRepository, tags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::SnapshotRef;

/// Random bytes that fail at call number `at`, and from then on; half of them were filled.
fn failing(at: u64) -> Environment {
    let calls = AtomicU64::new(0);
    let random = move |bytes: &mut [u8]| {
        if calls.fetch_add(1, Ordering::Relaxed) < at {
            return getrandom::fill(bytes);
        }
        let half = bytes.len() / 2;
        bytes[..half].fill(7);
        Err(getrandom::Error::UNSUPPORTED)
    };
    Environment { random: Arc::new(random), ..Environment::default() }
}

/// A clock that shows one of `times` after the other, again and again.
fn jumping(times: Vec<SystemTime>) -> Environment {
    let calls = AtomicU64::new(0);
    let clock = move || times[calls.fetch_add(1, Ordering::Relaxed) as usize % times.len()];
    Environment { clock: Arc::new(clock), ..Environment::default() }
}

fn times() -> Vec<SystemTime> {
    let day = Duration::from_secs(86_400);
    let now = SystemTime::now();
    let far = UNIX_EPOCH + Duration::from_secs(1 << 60);
    vec![now, now + 3650 * day, UNIX_EPOCH, now - 3650 * day, UNIX_EPOCH - day, far, now]
}

fn options() -> InitOptions {
    InitOptions { chunks: SMALL_CHUNKS, kdf: CHEAP, ..InitOptions::default() }
}

/// A repository with two snapshots, the first of which nobody needs.
struct Lab {
    folder: TestFolder,
    names: [SnapshotRef; 2],
    tree: Tree,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let repository = folder.init();
        let first = folder.backup(&repository).snapshot;
        small_tree(&folder.source(), 2);
        let names = [first, folder.backup(&repository).snapshot];
        let tree = folder.state();
        Self { folder, names, tree }
    }

    fn assert_sound(&self) {
        let repository = self.folder.open();
        assert_clean(&repository);
        self.folder.assert_restores(&repository, self.names[1], &self.tree);
    }
}

type Command = fn(&Lab, &UnlockedRepository) -> pipeline::Result<()>;

const COMMANDS: [(&str, Command); 5] = [
    ("backup", |lab, repository| lab.folder.try_backup(repository).map(drop)),
    ("forget", |lab, repository| repository.forget(&lab.names[..1]).map(drop)),
    ("tag", |lab, repository| {
        let change = tags::TagChange { add: vec!["new".into()], ..Default::default() };
        tags::change(repository, &snapshot(repository, lab.names[0])?, &change).map(drop)
    }),
    ("reclaim", |_, repository| {
        let options = pipeline::reclaim::ReclaimOptions {
            max_waste_percent: 0.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        pipeline::reclaim::run(repository, &options).map(drop)
    }),
    ("key add", |_, repository| {
        let secret = SlotSecret::Password(b"another");
        repository.add_key(Role::Full, secret, CHEAP, "another").map(drop)
    }),
];

#[test]
fn random_bytes_that_cannot_be_had_are_an_error_and_nothing_is_stored() {
    for (name, command) in COMMANDS {
        for at in 0.. {
            let lab = Lab::new();
            let before = lab.folder.files();
            let result = command(&lab, &lab.folder.open().with_environment(failing(at)));
            lab.assert_sound();
            if result.is_ok() {
                assert!(at > 0, "{name} needs no random bytes");
                break;
            }
            assert!(matches!(result, Err(Error::Random(_))), "{name} at {at}: {result:?}");
            // A change of tags is two steps, and the first may have been done.
            if (name, at) != ("tag", 1) {
                assert_eq!(lab.folder.files(), before, "{name} at {at}");
            }
            command(&lab, &lab.folder.open()).unwrap();
            lab.assert_sound();
        }
    }
}

#[test]
fn an_init_without_random_bytes_makes_nothing() {
    for at in 0.. {
        let folder = TestFolder::new();
        let made = UnlockedRepository::init_with_environment(
            folder.storage(),
            PASSWORD,
            options(),
            failing(at),
        );
        match made {
            Ok(_) => {
                assert!(at > 3, "only {at} calls");
                return;
            }
            Err(Error::Random(_)) => assert!(folder.files().is_empty(), "call {at}"),
            Err(error) => panic!("call {at}: {error}"),
        }
    }
}

/// Between commands and within them: each look at the clock shows another time.
#[test]
fn a_clock_that_jumps_at_every_look_costs_nothing() {
    for start in 0..times().len() {
        let mut times = times();
        times.rotate_left(start);
        let (folder, environment) = (TestFolder::new(), jumping(times));
        let made = UnlockedRepository::init_with_environment(
            folder.storage(),
            PASSWORD,
            options(),
            environment.clone(),
        );
        drop(made.unwrap());
        let mut done = Vec::new();
        for number in 0..4 {
            small_tree(&folder.source(), number);
            let repository = folder.open().with_environment(environment.clone());
            done.push((folder.backup(&repository).snapshot, folder.state()));
            if number == 2 {
                repository.forget(&[done.remove(0).0]).unwrap();
                reclaimed(&repository);
            }
            assert_clean(&repository);
        }
        let repository = folder.open().with_environment(environment);
        for (name, tree) in &done {
            folder.assert_restores(&repository, *name, tree);
        }
        crate::testkit::rebuilt(&folder);
        assert_clean(&folder.open());
        assert_eq!(folder.open().local().unwrap().snapshots().unwrap().len(), done.len());
    }
}

/// The second reader restores it too: with `ICECORE_GOLDEN` it gets source and repository there
/// (`proof/reader/golden.py`).
#[test]
fn what_a_machine_without_aes_sealed_is_read_by_all() {
    let folder = TestFolder::new();
    let _ = folder.init();
    let repository = folder.open().with_environment(Environment {
        cipher: Cipher::ChaCha20Poly1305,
        ..Environment::default()
    });
    for seed in 1..3 {
        small_tree(&folder.source(), seed);
        let name = folder.backup(&repository).snapshot;
        folder.assert_restores(&folder.open(), name, &folder.state());
    }
    assert_clean(&folder.open());
    if let Some(golden) = std::env::var_os("ICECORE_GOLDEN") {
        copy_tree(folder.temp.path(), golden.as_ref());
    }
}
