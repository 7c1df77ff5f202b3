//! Moves that begin in any state in which an earlier one can have been killed.

mod buckets;
mod mounts;
mod readers;

use super::*;
use parking_lot::Mutex;
use repository::lease::Lease;
use repository::watch::Unwatched;
use server_control::Control;
use std::fs;
use std::path::PathBuf;
use stored::{files, page, reopened, store};

/// Two pools with the domain `web` in the first, and a catalog that notes where it lies.
struct Rig {
    _place: tempfile::TempDir,
    shared: Arc<Shared>,
    from: PathBuf,
    to: PathBuf,
    /// What the catalog answers.
    switch: Mutex<Result<(), String>>,
    switched: Mutex<u32>,
    /// What the pools allow.
    may_go_on: Mutex<Result<(), String>>,
}

type Result<T, E> = std::result::Result<T, E>;

impl MoveControl for Rig {
    fn is_free(&self) -> bool {
        true
    }

    fn may_go_on(&self) -> Result<(), String> {
        self.may_go_on.lock().clone()
    }

    fn reopen(&self) {}

    fn switch(&self) -> Result<(), String> {
        assert!(finished(&self.to).exists() || !self.from.exists(), "it is whole by then");
        assert!(self.shared.domains.open(&self.from).is_err(), "nobody uses it meanwhile");
        *self.switched.lock() += 1;
        self.switch.lock().clone()
    }
}

impl Rig {
    /// With three snapshots.
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let [from, to] = ["main", "fast"].map(|pool| place.path().join(pool).join("web"));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let control = Control::open(&place.path().join("data"), &[]).unwrap();
        let (switch, switched) = (Mutex::new(Ok(())), Mutex::default());
        let (shared, may_go_on) = (Shared::new(control), Mutex::new(Ok(())));
        let rig = Self { shared, from, to, switch, switched, may_go_on, _place: place };
        let (first, repository, lease) = stored::made();
        drop((repository, lease));
        fs::create_dir_all(rig.from.parent().unwrap()).unwrap();
        copy_tree(first.path(), &rig.from);
        (1..=3).for_each(|n| rig.back_up(n));
        rig
    }

    fn back_up(&self, n: u16) {
        let (repository, lease) = self.written(&self.from);
        store(&repository, &lease, n, 3_000);
    }

    fn written(&self, folder: &Path) -> (Arc<Repository>, Arc<Lease>) {
        let repository = reopened(folder);
        let lease = repository.lease("test").unwrap();
        (repository, lease)
    }

    fn request(&self, is_switched: bool) -> MoveRequest<'_> {
        MoveRequest {
            from: &self.from,
            to: &self.to,
            others: &[],
            interrupt: false,
            bytes_per_sec: None,
            is_switched,
        }
    }

    fn moved(&self, is_switched: bool) -> Result<Moved, UpkeepError> {
        let mover = Mover(self.shared.clone());
        mover.move_domain(&self.request(is_switched), self, &Unwatched)
    }

    /// All of it is in the second pool, and nothing else is left.
    fn is_moved(&self, snapshots: u16) {
        let repository = reopened(&self.to);
        assert_eq!(repository.snapshots().unwrap().len(), usize::from(snapshots));
        assert!((1..=snapshots).all(|n| repository.is_complete(page(n)).unwrap()));
        let names = |pool: &Path| fs::read_dir(pool.parent().unwrap()).unwrap().count();
        assert_eq!((names(&self.from), names(&self.to)), (0, 1));
        assert!(self.shared.domains.open(&self.from).is_err(), "nobody makes it again");
        assert!(self.shared.domains.open(&self.to).is_ok());
    }

    fn is_where_it_was(&self) {
        assert!(self.shared.domains.open(&self.from).is_ok());
        assert_eq!(fs::read_dir(self.to.parent().unwrap()).unwrap().count(), 0);
    }
}

fn copy_tree(from: &Path, to: &Path) {
    assert!(
        std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success()
    );
}

#[test]
fn a_move_copies_no_faster_than_it_may() {
    let rig = Rig::new();
    let request = MoveRequest { bytes_per_sec: Some(8_000), ..rig.request(false) };
    let begun = Instant::now();
    let moved = Mover(rig.shared.clone()).move_domain(&request, &rig, &Unwatched).unwrap();
    // The last file is paid for, and not waited for as long as it takes at this rate.
    assert!(begun.elapsed() > Duration::from_secs_f64(moved.bytes as f64 / 16_000.0), "{moved:?}");
    assert!(moved.is_done);
}

#[test]
fn a_domain_moves_there_and_back() {
    let rig = Rig::new();
    let moved = rig.moved(false).unwrap();
    assert!(moved.is_done && moved.files > 6 && moved.bytes > 9_000, "{moved:?}");
    rig.is_moved(3);
    let back = MoveRequest { from: &rig.to, to: &rig.from, ..rig.request(false) };
    let (to, from, shared) = (rig.from.clone(), rig.to.clone(), rig.shared.clone());
    let control = Rig { to, from, shared, ..Rig::new() };
    assert!(Mover(rig.shared.clone()).move_domain(&back, &control, &Unwatched).unwrap().is_done);
    rig.back_up(4);
    assert_eq!(
        rig.shared.domains.open(&rig.from).unwrap().repository.snapshots().unwrap().len(),
        4
    );
    assert!(rig.shared.domains.open(&rig.to).is_err());
}

#[test]
fn a_domain_in_which_nothing_was_ever_stored_moves_too() {
    let rig = Rig::new();
    fs::remove_dir_all(&rig.from).unwrap();
    assert!(rig.moved(false).unwrap().is_done);
    assert!(*rig.switched.lock() == 1 && !rig.to.exists());
}

#[test]
fn a_copy_that_is_not_whole_is_gone_on_with() {
    let rig = Rig::new();
    copy_tree(&rig.from, &unfinished(&rig.to));
    let last = files(&unfinished(&rig.to)).pop().unwrap();
    fs::remove_file(&last).unwrap();
    fs::write(last.with_extension("ice.new"), "torn").unwrap();
    fs::write(unfinished(&rig.to).join("containers/00000000/00000000ff.ice"), "removed").unwrap();
    let moved = rig.moved(false).unwrap();
    assert!(moved.bytes < 8_000, "what is there is not copied again: {moved:?}");
    rig.is_moved(3);
}

/// Of a domain that had the same name, with containers of the same numbers and lengths.
#[test]
fn what_was_copied_of_another_repository_is_not_gone_on_with() {
    for says_so in [true, false] {
        let (rig, other) = (Rig::new(), Rig::new());
        copy_tree(&other.from, &unfinished(&rig.to));
        if says_so {
            fs::write(unfinished(&rig.to).join("repository"), "another\n").unwrap();
        }
        for name in ["config", "config.copy"] {
            fs::remove_file(unfinished(&rig.to).join(name)).unwrap();
        }
        let lost = files(&unfinished(&rig.to))
            .into_iter()
            .find(|file| file.extension().is_some_and(|extension| extension == "ice"));
        let lost = lost.unwrap();
        let length = fs::metadata(&lost).unwrap().len();
        fs::write(&lost, vec![7; length as usize]).unwrap();
        rig.moved(false).unwrap();
        rig.is_moved(3);
        let (repository, mut buffer) = (reopened(&rig.to), Vec::new());
        for n in 1..=3 {
            repository.fetch(&page(n), &mut buffer).unwrap();
        }
    }
}

#[test]
fn what_a_move_to_another_pool_left_goes() {
    let rig = Rig::new();
    let third = rig.to.parent().unwrap().with_file_name("third").join("web");
    fs::create_dir(third.parent().unwrap()).unwrap();
    for left in [unfinished(&third), finished(&third), unfinished(&rig.from), finished(&rig.from)] {
        copy_tree(&rig.from, &left);
    }
    let request = MoveRequest { others: std::slice::from_ref(&third), ..rig.request(false) };
    assert!(Mover(rig.shared.clone()).move_domain(&request, &rig, &Unwatched).unwrap().is_done);
    rig.is_moved(3);
    assert_eq!(fs::read_dir(third.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn a_copy_that_was_whole_before_the_catalog_knew_takes_what_came_since() {
    let rig = Rig::new();
    copy_tree(&rig.from, &finished(&rig.to));
    rig.back_up(4);
    rig.moved(false).unwrap();
    rig.is_moved(4);
}

#[test]
fn one_that_was_killed_behind_the_change_of_the_catalog_is_finished() {
    for step in 0..4 {
        let rig = Rig::new();
        let copy = if step == 0 { finished(&rig.to) } else { rig.to.clone() };
        copy_tree(&rig.from, &copy);
        if step > 1 {
            fs::rename(&rig.from, leftover(&rig.from)).unwrap();
        }
        if step > 2 {
            fs::remove_file(leftover(&rig.from).join("config")).unwrap();
        }
        assert!(rig.moved(true).unwrap().is_done, "step {step}");
        assert_eq!(*rig.switched.lock(), 0);
        rig.is_moved(3);
    }
}

#[test]
fn what_is_in_the_first_pool_only_is_never_removed() {
    let rig = Rig::new();
    copy_tree(&rig.from, &rig.to);
    rig.back_up(4);
    let error = rig.moved(true).unwrap_err();
    assert!(matches!(&error, UpkeepError::Doubt(why) if why.contains("both stay")), "{error}");
    assert!(reopened(&rig.from).is_complete(page(4)).unwrap() && rig.to.exists());
}

/// An administrator's copy, or a disk that came back: what has the same name and length may be damaged where the domain
/// lies.
#[test]
fn what_reads_differently_in_the_two_pools_is_never_removed() {
    for whole in [true, false] {
        let rig = Rig::new();
        let copy = if whole { rig.to.clone() } else { finished(&rig.to) };
        copy_tree(&rig.from, &copy);
        let is_container = |path: &PathBuf| path.extension().is_some_and(|it| it == "ice");
        let rotten = files(&copy).into_iter().find(is_container).unwrap();
        let mut bytes = fs::read(&rotten).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&rotten, bytes).unwrap();
        let error = rig.moved(true).unwrap_err();
        let why = error.to_string();
        assert!(matches!(error, UpkeepError::Doubt(_)) && why.contains("both stay"), "{why}");
        assert!(why.contains(".ice") && why.contains("reads differently"), "{why}");
        assert!((1..=3).all(|n| reopened(&rig.from).is_complete(page(n)).unwrap()));
        assert!(copy.exists());
    }
}

#[test]
fn without_the_catalog_it_stays_where_it_was_and_the_next_move_goes_on() {
    let rig = Rig::new();
    *rig.switch.lock() = Err("the database is away".to_owned());
    let error = rig.moved(false).unwrap_err();
    assert!(error.to_string().contains("the database is away"), "{error}");
    assert!(finished(&rig.to).exists());
    assert!(rig.shared.domains.open(&rig.from).is_ok());
    rig.back_up(4);
    *rig.switch.lock() = Ok(());
    rig.moved(false).unwrap();
    rig.is_moved(4);
}

#[test]
fn a_pool_whose_state_changed_meanwhile_ends_the_move() {
    let rig = Rig::new();
    *rig.may_go_on.lock() = Err("the pool 'fast' is offline".to_owned());
    let error = rig.moved(false).unwrap_err().to_string();
    assert!(error.contains("is offline") && error.contains("the next move continues"), "{error}");
    assert!(!unfinished(&rig.to).join("containers").exists(), "nothing was copied meanwhile");
    assert_eq!(*rig.switched.lock(), 0);
    assert!(rig.shared.domains.open(&rig.from).is_ok());
    // What the catalog has said is not taken back.
    fs::rename(unfinished(&rig.to), &rig.to).unwrap();
    fs::remove_dir_all(&rig.to).unwrap();
    copy_tree(&rig.from, &rig.to);
    assert!(rig.moved(true).unwrap().is_done);
    rig.is_moved(3);
}

#[test]
fn a_domain_that_is_taken_out_of_its_pool_meanwhile_is_missed() {
    let rig = Rig::new();
    let taken = rig.from.with_extension("taken");
    let used = rig.shared.domains.open(&rig.from).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !unfinished(&rig.to).join("config").exists() && !unfinished(&rig.to).exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(300));
            fs::rename(&rig.from, &taken).unwrap();
            drop(used);
        });
        let error = rig.moved(false).unwrap_err().to_string();
        assert!(error.contains("is gone, and was there"), "{error}");
    });
    assert_eq!(*rig.switched.lock(), 0);
    fs::rename(&taken, &rig.from).unwrap();
    rig.moved(false).unwrap();
    rig.is_moved(3);
}

/// Ends a move at its `n`-th question.
struct Ends(Mutex<u32>);

impl Watch for Ends {
    fn moved(&self, _: u64) {}

    fn goes_on(&self) -> bool {
        let mut left = self.0.lock();
        *left = left.saturating_sub(1);
        *left > 0
    }

    fn stage(&self, _: &str) {}
}

#[test]
fn one_that_is_told_to_end_leaves_nothing_behind() {
    let rig = Rig::new();
    let mover = Mover(rig.shared.clone());
    for questions in 1.. {
        let moved = mover.move_domain(&rig.request(false), &rig, &Ends(Mutex::new(questions)));
        if moved.unwrap().is_done {
            assert!(questions > 10, "only {questions}");
            return rig.is_moved(3);
        }
        rig.is_where_it_was();
    }
}

#[test]
fn who_uses_the_domain_is_waited_for() {
    let rig = Rig::new();
    let used = rig.shared.domains.open(&rig.from).unwrap();
    let (begun, held_for) = (Instant::now(), Duration::from_millis(700));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(held_for);
            assert!(rig.from.exists());
            drop(used);
        });
        assert!(rig.moved(false).unwrap().is_done);
    });
    assert!(begun.elapsed() >= held_for);
    rig.is_moved(3);
}

#[test]
fn a_domain_that_fits_nowhere_is_not_begun_with() {
    let rig = Rig::new();
    let tmpfs = rig.to.parent().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8k", "tmpfs"])
        .arg(tmpfs)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        testkit::skip("needs root to mount a small file system");
        return;
    }
    let refused = rig.moved(false);
    let left = fs::read_dir(tmpfs).map(Iterator::count);
    assert!(std::process::Command::new("umount").arg(tmpfs).status().unwrap().success());
    let why = refused.unwrap_err().to_string();
    assert!(!why.contains("What was copied stays"), "{why}");
    assert!(why.contains("bytes free") && why.contains("icecore server pool list"), "{why}");
    assert_eq!(left.unwrap(), 0, "nothing was copied");
    assert!(rig.shared.domains.open(&rig.from).is_ok());
}
