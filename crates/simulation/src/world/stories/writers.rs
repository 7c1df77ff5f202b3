//! What a writer that died, or slept, left behind.

use super::*;

/// A writer is killed after it made the directory of its container and before that is durable.
pub fn a_directory_of_a_killed_writer(lab: &mut Lab) {
    lab.arm("sync directory", "containers", 0, Fault::Kill);
    let Some(killed) = lab.start() else { return };
    lab.fails("the backup", lab.backup(&killed, 1));
    let Some(next) = lab.start() else { return };
    lab.needs("the next backup", lab.backup(&next, 1));
    lab.disk().cut_power();
}

/// The same with a sync that fails, in a process that goes on.
pub fn a_directory_whose_sync_failed(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.arm("sync directory", "containers", 0, Fault::Error);
    lab.fails("the backup", lab.backup(&running, 1));
    lab.needs("the next backup", lab.backup(&running, 1));
    lab.disk().cut_power();
}

/// A writer is killed after its container has its name and before that is durable; the next one
/// builds on it and writes into another directory.
pub fn a_name_of_a_killed_writer(lab: &mut Lab) {
    let Some(killed) = lab.start() else { return };
    lab.arm("sync directory", "containers/", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&killed, 1));
    let Some(next) = lab.start() else { return };
    next.repository.skip_containers(256);
    lab.needs("the next backup", lab.backup(&next, 1));
    lab.disk().cut_power();
}

/// The same, and a rebuild brings the snapshot back.
pub fn a_rebuild_after_a_killed_writer(lab: &mut Lab) {
    let Some(killed) = lab.start() else { return };
    lab.arm("sync directory", "containers/", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&killed, 1));
    lab.rebuild();
    lab.disk().cut_power();
}

/// A commit fails when its index is already seen; the next one of the process must not write a run
/// of the same name.
pub fn a_run_that_a_failed_commit_named(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("sync directory", "index", lab.step % 4, Fault::Error);
    let _ = lab.backup(&running, 2);
    lab.disk().disarm();
    lab.disk().arm(Faults::after(30 + lab.step / 4, Fault::PowerCut));
    let _ = lab.backup(&running, 3);
    lab.disk().cut_power();
}

/// A commit fails in its last step, and a reclaim follows in the same process.
pub fn a_reclaim_after_a_failed_commit(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("sync directory", "snapshots", 0, Fault::Error);
    lab.fails("the backup", lab.backup(&running, 2));
    lab.needs("to reclaim", lab.reclaim(&running));
}

/// A rebuild is killed at any step: the index of before is still there.
pub fn a_rebuild_that_is_killed(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.end(running);
    lab.disk().arm(Faults::after(lab.step / 2, Fault::Kill));
    let _ = rebuild(lab.disk());
    lab.disk().disarm();
    let Some(next) = lab.start() else { return };
    lab.needs("the next backup", lab.backup(&next, 2));
}

/// A process sleeps before it writes its container, another one takes over and uses its number,
/// and it wakes.
pub fn a_sleeper_that_wakes(lab: &mut Lab) {
    let Some(sleeper) = lab.start() else { return };
    let mut asleep = lab.shared.backup_of(&sleeper, Lab::tree(1), None);
    for _ in 0..lab.step % 6 {
        let _ = asleep.go_on(&sleeper, &lab.shared);
    }
    lab.disk().lose_locks();
    let Some(thief) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&thief, 2));
    let woken = lab.finish(&sleeper, asleep);
    if woken.is_ok() {
        lab.shared.is_wrong("published without the lease".into());
    }
    lab.needs("a backup", lab.backup(&thief, 3));
}

/// A writer is killed when its index is seen and before that is durable; the next one removes the
/// runs that it does not name, and the power goes.
pub fn a_state_of_a_killed_writer(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("sync directory", "index", lab.step % 4, Fault::Kill);
    let _ = lab.backup(&running, 2);
    lab.end(running);
    lab.arm("sync directory", "index", lab.step / 4 % 3, Fault::PowerCut);
    let _ = lab.shared.start();
    lab.disk().cut_power();
}

/// An init is killed at any step: it is made again, or goes on, and leaves nothing behind.
pub fn an_init_that_is_killed(lab: &mut Lab) {
    let disk = Disk::new(Random::new(lab.step), false);
    disk.arm(Faults::after(lab.step * 2 / 3, Fault::Kill));
    let _ = init(&disk);
    disk.disarm();
    if Repository::open(Arc::new(disk.process())).is_err()
        && let Err(what) = init(&disk)
    {
        return lab.shared.is_wrong(what);
    }
    lab.shared = Shared::new(disk);
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    if let Err(what) = no_leftovers(lab.disk()) {
        lab.shared.is_wrong(what);
    }
}
