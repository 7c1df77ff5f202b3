//! Every command of the client on the simulated disk: the k-th operation fails or the power goes,
//! then what settles that is broken off at its j-th operation too, and after that all that was
//! acknowledged is there, byte for byte.
//!
//! A slice runs by default; `ICECORE_SIMULATED=all` runs every k.

use crate::testkit::build::{noise, small_tree, write};
use crate::testkit::{
    CHEAP, NAME, PASSWORD, SMALL_CHUNKS, TestFolder, Tree, assert_clean, assert_same, checked,
    init, is_all, reclaimed, restore_with, snapshot, stride,
};
use crypto::{Role, SlotSecret};
use pipeline::backup::Progress;
use pipeline::{UnlockedRepository, check, rebuild, tags};
use simulation::Random;
use simulation::disk::{Disk, Fault, Faults};
use std::sync::Arc;
use store::SnapshotRef;

/// In the slice something happens at every so many operations of a command.
const STEP: u64 = 17;
/// Operations of a recovery, of which the slice breaks one off for each command that was.
const RECOVERY: u64 = 60;

/// A repository with two snapshots, and a source that has moved on.
struct Lab {
    folder: TestFolder,
    disk: Arc<Disk>,
    snapshots: Vec<(SnapshotRef, Tree)>,
    now: Tree,
}

impl Lab {
    fn new() -> Self {
        let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(1), false));
        disk.make_network_file_system();
        drop(init(Arc::new(disk.process()), SMALL_CHUNKS));
        let mut lab = Self { now: folder.state(), folder, disk, snapshots: Vec::new() };
        for number in 0..2 {
            small_tree(&lab.folder.source(), number);
            let name = lab.folder.backup(&open(&lab.disk).unwrap()).snapshot;
            lab.snapshots.push((name, lab.folder.state()));
        }
        write(&lab.folder.source(), "new", &noise(3, 60_000));
        lab.now = lab.folder.state();
        lab
    }

    /// What must hold of `disk`, on which `done` happened, now and after the next commands.
    fn assert_sound(&self, disk: &Arc<Disk>, done: &Done, what: &str) {
        let repository = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(checked(&repository).unwrap().damages, [], "{what}");
        self.assert_restores(&repository, done, what);
        let next = self.folder.backup(&repository);
        self.folder.assert_restores(&repository, next.snapshot, &self.now);
        reclaimed(&repository);
        assert_clean(&repository);
        self.assert_restores(&repository, done, what);
        self.folder.assert_restores(&repository, next.snapshot, &self.now);
        let left = |name: &String| name.ends_with(".part") || name.ends_with(".new");
        let left: Vec<_> = disk.files().into_iter().filter(left).collect();
        assert_eq!(left, Vec::<String>::new(), "{what}");
    }

    fn assert_restores(&self, repository: &UnlockedRepository, done: &Done, what: &str) {
        let listed = repository.local().unwrap().snapshots().unwrap();
        for (name, tree) in self.snapshots.iter().filter(|(name, _)| !done.may_lack.contains(name))
        {
            assert!(listed.contains(name), "{what}: snapshot {} is gone", name.sequence);
            self.folder.assert_restores(repository, *name, tree);
        }
        if let Some(name) = done.made {
            self.folder.assert_restores(repository, name, &self.now);
        }
    }
}

fn open(disk: &Arc<Disk>) -> pipeline::Result<UnlockedRepository> {
    UnlockedRepository::open(Arc::new(disk.process()), PASSWORD)
}

/// What a command changes.
#[derive(Default)]
struct Done {
    /// The snapshot that it reported.
    made: Option<SnapshotRef>,
    /// Snapshots that may be gone.
    may_lack: Vec<SnapshotRef>,
}

type Run = fn(&Lab, &Arc<Disk>) -> pipeline::Result<Option<SnapshotRef>>;

/// A command, and how many of the first snapshots it may forget.
struct Command {
    name: &'static str,
    forgets: usize,
    run: Run,
}

fn no_waste() -> pipeline::reclaim::ReclaimOptions {
    pipeline::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    }
}

const COMMANDS: [Command; 7] = [
    Command {
        name: "backup",
        forgets: 0,
        run: |lab, disk| Ok(Some(lab.folder.try_backup(&open(disk)?)?.snapshot)),
    },
    Command {
        name: "forget",
        forgets: 1,
        run: |lab, disk| open(disk)?.forget(&[lab.snapshots[0].0]).map(|_| None),
    },
    Command {
        name: "forget and reclaim",
        forgets: 1,
        run: |lab, disk| {
            let repository = open(disk)?;
            repository.forget(&[lab.snapshots[0].0])?;
            pipeline::reclaim::run(&repository, &no_waste()).map(|_| None)
        },
    },
    Command {
        name: "rebuild",
        forgets: 0,
        run: |_, disk| rebuild::run(Arc::new(disk.process()), PASSWORD, false).map(|_| None),
    },
    Command {
        name: "tag",
        forgets: 1,
        run: |lab, disk| {
            let repository = open(disk)?;
            let change = tags::TagChange { add: vec!["new".into()], ..Default::default() };
            let old = snapshot(&repository, lab.snapshots[0].0)?;
            tags::change(&repository, &old, &change).map(|_| None)
        },
    },
    Command {
        name: "key add and remove",
        forgets: 0,
        run: |_, disk| {
            let (repository, secret) = (open(disk)?, SlotSecret::Password(b"another"));
            let id = repository.add_key(Role::Full, secret, CHEAP, "another")?;
            repository.remove_key(id).map(|_| None)
        },
    },
    Command {
        name: "check and restore",
        forgets: 0,
        run: |lab, disk| {
            let repository = open(disk)?;
            checked(&repository)?;
            let target = tempfile::tempdir_in(lab.folder.temp.path()).unwrap();
            let ((name, tree), options) = (&lab.snapshots[1], Default::default());
            let (report, _) = restore_with(&repository, *name, b"", target.path(), &options)?;
            if report.failed == 0 {
                assert_same(tree, &Tree::of(&target.path().join(NAME)));
            }
            Ok(None)
        },
    },
];

impl Command {
    /// Runs on a copy of the disk with what `arm` lets happen. The disk, what was done, and whether
    /// anything happened.
    fn on_a_copy(&self, lab: &Lab, fate: u64, arm: impl Fn(&Disk)) -> (Arc<Disk>, Done, bool) {
        let disk = lab.disk.copy(Random::new(fate));
        arm(&disk);
        let result = (self.run)(lab, &disk);
        let has_fired = disk.disarm();
        assert!(has_fired || result.is_ok(), "{}: {result:?}", self.name);
        let first = lab.snapshots[..self.forgets].iter().map(|(name, _)| *name);
        (disk, Done { made: result.ok().flatten(), may_lack: first.collect() }, has_fired)
    }

    /// `fault` at every few operations, until none happens.
    fn with(&self, fault: Fault) {
        let (lab, step) = (Lab::new(), stride(STEP));
        let mut runs = 0;
        for k in (self.name.len() as u64 % step..).step_by(step as usize) {
            let armed = |disk: &Disk| disk.arm(Faults::after(k, fault));
            let (disk, done, has_fired) = self.on_a_copy(&lab, k, armed);
            let what = format!("{} with {fault:?} at {k}", self.name);
            runs += recoveries(&lab, &disk, &done, k, &what);
            if !has_fired {
                println!("{}, {fault:?}: {runs} runs", self.name);
                return;
            }
        }
    }
}

/// The next one settles what was left, and the power goes at its j-th operation, or it is killed.
/// One j for each k, and all of them for every eighth k when all is asked for.
/// How many there were.
fn recoveries(lab: &Lab, disk: &Arc<Disk>, done: &Done, k: u64, what: &str) -> u64 {
    let goes_on = is_all() && k.is_multiple_of(8);
    let first = if goes_on { 0 } else { k * 13 % RECOVERY };
    for j in first.. {
        let disk = disk.copy(Random::new(j));
        let fault = if j % 2 == 0 { Fault::PowerCut } else { Fault::Kill };
        disk.arm(Faults::after(j, fault));
        let settled = open(&disk).and_then(|repository| repository.lease("recovery"));
        let has_fired = disk.disarm();
        drop(settled);
        lab.assert_sound(&disk, done, &format!("{what}, then {fault:?} at {j}"));
        if !has_fired || !goes_on {
            return j - first + 1;
        }
    }
    0
}

macro_rules! tests {
    ($($name:ident: $fault:ident;)*) => {
        $(#[test]
        fn $name() {
            COMMANDS.iter().for_each(|command| command.with(Fault::$fault));
        })*
    };
}

tests! {
    one_error_at_any_operation_of_any_command_loses_nothing: IoError;
    a_full_disk_at_any_operation_of_any_command_loses_nothing: DiskFull;
    a_power_cut_at_any_operation_of_any_command_loses_nothing: PowerCut;
    a_kill_at_any_operation_of_any_command_loses_nothing: Kill;
    a_failed_sync_of_any_command_loses_nothing: FailedSync;
    a_short_write_of_any_command_loses_nothing: ShortWrite;
}

/// What the next writer lists of a killed one is as durable as what it rests on: the power goes right after.
#[test]
fn what_a_killed_backup_left_pending_is_listed_durably() {
    let (lab, backup) = (Lab::new(), &COMMANDS[0]);
    let mut listed = 0;
    for k in 0.. {
        let (disk, done, has_fired) =
            backup.on_a_copy(&lab, k, |disk| disk.arm(Faults::after(k, Fault::Kill)));
        if !has_fired {
            break;
        }
        drop(open(&disk).unwrap().lease("recovery").unwrap());
        let count =
            |disk: &Arc<Disk>| open(disk).unwrap().local().unwrap().snapshots().unwrap().len();
        listed += usize::from(done.made.is_none() && count(&disk) > lab.snapshots.len());
        for fate in 0..8 {
            let disk = disk.copy(Random::new(fate));
            disk.lose_power();
            let repository = open(&disk).unwrap_or_else(|error| panic!("killed at {k}: {error}"));
            assert_eq!(checked(&repository).unwrap().damages, [], "killed at {k}, fate {fate}");
        }
    }
    assert!(listed > 1, "{listed}");
}

/// A network file system lists what directories were some changes ago.
#[test]
fn stale_listings_lose_nothing_in_any_command() {
    let (lab, fates) = (Lab::new(), if is_all() { 300 } else { 8 });
    for command in &COMMANDS {
        for fate in 0..fates {
            let (disk, done, _) = command.on_a_copy(&lab, fate, Disk::serve_stale_listings);
            lab.assert_sound(&disk, &done, &format!("{}, fate {fate}", command.name));
        }
    }
}

/// Who only looks has no way to see a list of now; but what a list lacks can be looked for.
#[test]
fn a_check_calls_no_stale_listing_damage() {
    for fate in 0..if is_all() { 400 } else { 12 } {
        let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(fate), false));
        disk.make_network_file_system();
        drop(init(Arc::new(disk.process()), SMALL_CHUNKS));
        let generation = |number: u64| {
            small_tree(&folder.source(), number);
            folder.backup(&open(&disk).unwrap()).snapshot
        };
        let first = generation(1);
        generation(2);
        open(&disk).unwrap().forget(&[first]).unwrap();
        generation(3);
        let repository = open(&disk).unwrap();
        disk.serve_stale_listings();
        let report = check::run(&repository, &check::CheckOptions::default(), &Progress::default());
        disk.disarm();
        let report = report.unwrap();
        assert_eq!((report.damages, report.notes), (vec![], vec![]), "fate {fate}");
    }
}

/// The snapshot file of a key that no list shows yet is lost as well: its manifest is believed, and
/// its data stays.
#[test]
fn what_a_new_key_signed_is_believed_although_no_list_has_it() {
    for fate in 0..20 {
        let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(fate), false));
        disk.make_network_file_system();
        let secret = SlotSecret::Password(b"new");
        small_tree(&folder.source(), 1);
        let repository = init(Arc::new(disk.process()), SMALL_CHUNKS);
        repository.add_key(Role::Full, secret, CHEAP, "new").unwrap();
        let newer = UnlockedRepository::open(Arc::new(disk.process()), secret).unwrap();
        let (name, tree) = (folder.backup(&newer).snapshot, folder.state());
        let file = disk.files().into_iter().find(|file| file.starts_with("snapshots/")).unwrap();
        disk.hide_file(&file);
        disk.serve_stale_listings();
        let result = pipeline::reclaim::run(&repository, &no_waste());
        disk.disarm();
        let is_stale = |error: &pipeline::Error| {
            let pipeline::Error::Repository(error) = error else { return false };
            matches!(error.specific(), Some(repository::Error::StaleListing { .. }))
        };
        assert!(result.as_ref().map_or_else(is_stale, |_| true), "{result:?}");
        reclaimed(&open(&disk).unwrap());
        folder.assert_restores(&open(&disk).unwrap(), name, &tree);
    }
}
