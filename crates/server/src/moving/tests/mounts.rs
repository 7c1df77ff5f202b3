//! Pools that are unmounted while a domain moves: nothing lands below the mount point, and nothing is believed to be
//! gone, or to be there, because nobody can see it.

use super::{Rig, copy_tree};
use parking_lot::Mutex;
use repository::watch::Watch;
use server_contract::folder::Folder;
use server_contract::moving::{DomainMover, MoveControl, finished};
use std::fs;
use std::path::{Path, PathBuf};

/// A server with the pools `one`, in which the domain lies, and `two`.
struct Pools {
    rig: Rig,
    _folder: Folder,
    /// Where the two are mounted.
    mounts: [PathBuf; 2],
}

impl Pools {
    fn new() -> Self {
        let mut rig = Rig::new();
        let data = rig._place.path().join("server");
        let folder = Folder::open(&data).unwrap();
        let names = ["one", "two"];
        let mounts = names.map(|name| rig._place.path().join(name));
        for (name, mount) in names.iter().zip(&mounts) {
            fs::create_dir(mount).unwrap();
            folder.add_pool(&name.parse().unwrap(), mount, false).unwrap();
        }
        let [from, to] =
            names.map(|name| folder.domain(Some(&name.parse().unwrap()), &"web".parse().unwrap()));
        copy_tree(&rig.from, &from);
        (rig.from, rig.to) = (from, to);
        Self { rig, _folder: folder, mounts }
    }
}

/// The file system of a pool, as it looks without the one that was mounted there: an empty directory.
fn away(mount: &Path) -> PathBuf {
    mount.with_extension("away")
}

fn unmount(mount: &Path) {
    fs::rename(mount, away(mount)).unwrap();
    fs::create_dir(mount).unwrap();
}

/// Fails if anything was written meanwhile.
fn mount_again(mount: &Path) {
    fs::remove_dir(mount).expect("nothing lies below the mount point");
    fs::rename(away(mount), mount).unwrap();
}

/// Unmounts a pool when the move says or asks something for the `n`-th time.
struct Unmounts<'a> {
    left: Mutex<u32>,
    mount: &'a Path,
    rig: &'a Rig,
}

impl Unmounts<'_> {
    fn said(&self) {
        let mut left = self.left.lock();
        *left = left.saturating_sub(1);
        if *left == 0 && !away(self.mount).exists() {
            unmount(self.mount);
        }
    }
}

impl MoveControl for Unmounts<'_> {
    fn is_free(&self) -> bool {
        self.said();
        true
    }

    fn may_go_on(&self) -> Result<(), String> {
        self.said();
        Ok(())
    }

    fn reopen(&self) {
        self.said();
    }

    fn switch(&self) -> Result<(), String> {
        let switched = self.rig.switch();
        self.said();
        switched
    }
}

impl Watch for Unmounts<'_> {
    fn moved(&self, _: u64) {
        self.said();
    }

    fn goes_on(&self) -> bool {
        self.said();
        true
    }

    fn stage(&self, _: &str) {
        self.said();
    }
}

/// Whether the pool was unmounted before the move ended.
fn moves_on(pools: &Pools, which: usize, n: u32, is_switched: bool) -> bool {
    let (rig, mount) = (&pools.rig, pools.mounts[which].as_path());
    let unmounts = Unmounts { left: Mutex::new(n), mount, rig };
    let mover = super::Mover(rig.shared.clone());
    let moved = mover.move_domain(&rig.request(is_switched), &unmounts, &unmounts);
    let was_unmounted = away(mount).exists();
    if was_unmounted {
        mount_again(mount);
    }
    let is_done = moved.as_ref().is_ok_and(|moved| moved.is_done);
    let is_switched = is_switched || *rig.switched.lock() > 0;
    assert!(is_done || was_unmounted, "{moved:?}");
    assert!(!is_switched || rig.to.exists() || finished(&rig.to).exists(), "{n}: {moved:?}");
    if !is_done {
        assert!(rig.moved(is_switched).unwrap().is_done, "{n}: after {moved:?}");
    }
    rig.is_moved(3);
    was_unmounted
}

/// Unmounts each of the two pools at each step; how many there were for the one that has fewer.
fn at_each_step(new: impl Fn() -> Pools + Sync, is_switched: bool) -> usize {
    let new = &new;
    // Most of the time is waiting for the disk.
    let steps = |which: usize, first: u32| {
        let reached = (first..).step_by(2).take_while(|n| moves_on(&new(), which, *n, is_switched));
        reached.count()
    };
    std::thread::scope(|scope| {
        let run = |which| [1, 2].map(|first| scope.spawn(move || steps(which, first)));
        let counts = [0, 1].map(run).map(|both| both.map(|one| one.join().unwrap()));
        counts.map(|both| both.iter().sum()).into_iter().min().unwrap()
    })
}

#[test]
fn a_pool_that_is_unmounted_at_any_step_loses_nothing_and_gets_nothing() {
    let reached = at_each_step(Pools::new, false);
    assert!(reached > 20, "only {reached}");
}

/// The catalog names the second pool, and the domain lies in both.
#[test]
fn a_pool_that_is_unmounted_behind_the_change_of_the_catalog_is_missed() {
    let both = || {
        let pools = Pools::new();
        copy_tree(&pools.rig.from, &finished(&pools.rig.to));
        pools
    };
    let reached = at_each_step(both, true);
    assert!(reached > 3, "only {reached}");
}

/// Both are mounted, and what was never stored lies in none of them.
#[test]
fn a_domain_in_which_nothing_was_ever_stored_moves_between_pools() {
    let pools = Pools::new();
    fs::remove_dir_all(&pools.rig.from).unwrap();
    assert!(pools.rig.moved(false).unwrap().is_done);
    assert!(*pools.rig.switched.lock() == 1 && !pools.rig.to.exists());
}
