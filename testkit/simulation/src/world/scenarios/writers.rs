//! What a writer that died, or slept, left behind.

use super::*;

/// A writer is killed after it made the directory of its container and before that is durable.
pub fn a_directory_of_a_killed_writer(bed: &mut TestBed) {
    bed.arm("sync directory", "containers", 0, Fault::Kill);
    let Some(killed) = bed.start() else { return };
    bed.must_fail("the backup", bed.backup(&killed, 1));
    let Some(next) = bed.start() else { return };
    bed.must_succeed("the next backup", bed.backup(&next, 1));
    bed.disk().lose_power();
}

/// The same with a sync that fails, in a process that goes on.
pub fn a_directory_whose_sync_failed(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.arm("sync directory", "containers", 0, Fault::IoError);
    bed.must_fail("the backup", bed.backup(&running, 1));
    bed.must_succeed("the next backup", bed.backup(&running, 1));
    bed.disk().lose_power();
}

/// A writer is killed after its container has its name and before that is durable; the next one
/// builds on it and writes into another directory.
pub fn a_name_of_a_killed_writer(bed: &mut TestBed) {
    let Some(killed) = bed.start() else { return };
    bed.arm("sync directory", "containers/", 0, Fault::Kill);
    bed.must_fail("the backup", bed.backup(&killed, 1));
    let Some(next) = bed.start() else { return };
    next.repository.skip_containers(256);
    bed.must_succeed("the next backup", bed.backup(&next, 1));
    bed.disk().lose_power();
}

/// The same, and a rebuild brings the snapshot back.
pub fn a_rebuild_after_a_killed_writer(bed: &mut TestBed) {
    let Some(killed) = bed.start() else { return };
    bed.arm("sync directory", "containers/", 0, Fault::Kill);
    bed.must_fail("the backup", bed.backup(&killed, 1));
    bed.rebuild();
    bed.disk().lose_power();
}

/// A commit fails when its index is already seen; the next one of the process must not write a run
/// of the same name.
pub fn a_run_that_a_failed_commit_named(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    bed.arm("sync directory", "index", bed.step % 4, Fault::IoError);
    let _ = bed.backup(&running, 2);
    bed.disk().disarm();
    bed.disk().arm(Faults::after(30 + bed.step / 4, Fault::PowerCut));
    let _ = bed.backup(&running, 3);
    bed.disk().lose_power();
}

/// A commit fails in its last step, and a reclaim follows in the same process.
pub fn a_reclaim_after_a_failed_commit(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    bed.arm("sync directory", "snapshots", 0, Fault::IoError);
    bed.must_fail("the backup", bed.backup(&running, 2));
    bed.must_succeed("to reclaim", bed.reclaim(&running));
}

/// A rebuild is killed at any step: the index of before is still there.
pub fn a_rebuild_that_is_killed(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    bed.end(running);
    bed.disk().arm(Faults::after(bed.step / 2, Fault::Kill));
    let _ = rebuild(bed.disk());
    bed.disk().disarm();
    let Some(next) = bed.start() else { return };
    bed.must_succeed("the next backup", bed.backup(&next, 2));
}

/// A process sleeps before it writes its container, another one takes over and uses its number,
/// and it wakes.
pub fn a_writer_that_wakes_without_its_lease(bed: &mut TestBed) {
    let Some(sleeper) = bed.start() else { return };
    let mut asleep = bed.shared.backup_of(&sleeper, TestBed::tree(1), None);
    for _ in 0..bed.step % 6 {
        let _ = asleep.advance(&sleeper, &bed.shared);
    }
    bed.disk().lose_locks();
    let Some(successor) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&successor, 2));
    let woken = bed.finish(&sleeper, asleep);
    if woken.is_ok() {
        bed.shared.violation("published without the lease".into());
    }
    bed.must_succeed("a backup", bed.backup(&successor, 3));
}

/// A writer that merges the index is killed when the new one is seen and before that is durable; the next one removes
/// the runs that it does not name, and the power goes.
pub fn a_state_of_a_killed_writer(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    for number in 0..2 {
        bed.must_succeed("a backup", bed.backup(&running, 500 * number + bed.step));
    }
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    bed.arm("sync directory", "index", bed.step % 4, Fault::Kill);
    let _ = bed.reclaim(&running);
    bed.end(running);
    bed.arm("sync directory", "index", bed.step / 4 % 3, Fault::PowerCut);
    let _ = bed.shared.start();
    bed.disk().lose_power();
}

/// The state in which a snapshot is pending no more is seen and not durable, since its writer was killed. The next one
/// forgets that snapshot, and the power goes: the older state must not bring it back.
pub fn a_forget_behind_a_state_of_a_killed_writer(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    // What an interrupted session left makes each reclaim publish a state.
    let mut open = bed.begin(1000 + bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    drop(open);
    bed.must_succeed("a backup", bed.backup(&running, bed.step));
    bed.arm("sync directory", "index", bed.step % 2, Fault::Kill);
    let _ = bed.reclaim(&running);
    bed.end(running);
    bed.disk().disarm();
    let Some(running) = bed.start() else { return };
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()));
    bed.disk().lose_power();
    let Some(running) = bed.start() else { return };
    bed.advance(running);
}

/// An init is killed at any step: it is made again, or goes on, and leaves nothing behind.
pub fn an_init_that_is_killed(bed: &mut TestBed) {
    let disk = Disk::new(Random::new(bed.step), false);
    disk.arm(Faults::after(bed.step * 2 / 3, Fault::Kill));
    let _ = init(&disk);
    disk.disarm();
    if Repository::open(Arc::new(disk.process())).is_err()
        && let Err(what) = init(&disk)
    {
        return bed.shared.violation(what);
    }
    bed.shared = Shared::new(disk);
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    if let Err(what) = no_leftovers(bed.disk()) {
        bed.shared.violation(what);
    }
}
