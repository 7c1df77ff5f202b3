//! What rots, tears or is gone, and disks without room.

use super::*;
use repository::watch::Unwatched;

/// The power goes under a backup, again and again; the next one builds on what survived of its
/// container.
pub fn a_torn_container(bed: &mut TestBed) {
    for round in 0..ROUNDS {
        let Some(running) = bed.start() else { return };
        bed.arm("append", "containers", 2 + (bed.step + round) % 8, Fault::PowerCut);
        let _ = bed.backup(&running, round);
        bed.disk().disarm();
        bed.disk().lose_power();
        let Some(next) = bed.start() else { return };
        bed.must_succeed("the next backup", bed.backup(&next, round));
        bed.end(next);
    }
}

/// What a failed forget left in a process that goes on is gone after the next one.
pub fn a_forget_on_a_full_disk(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    let first = bed.live_snapshots();
    bed.arm("append", "containers", bed.step % 3, Fault::DiskFull);
    bed.must_fail("to forget", bed.forget(&running, &first));
    bed.must_succeed("a backup", bed.backup(&running, 2));
    bed.end(running);
    let Some(next) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&next, 3));
    if let Err(what) = no_leftovers(bed.disk()) {
        bed.shared.violation(what);
    }
}

/// A container is taken away by hand: nothing in it is taken for stored.
pub fn a_container_that_is_gone(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    let first = bed.live_snapshots();
    let is_container = |name: &String| name.starts_with("containers/");
    bed.disk().files().into_iter().filter(is_container).for_each(|name| {
        bed.disk().hide_file(&name);
    });
    bed.end(running);
    let Some(next) = bed.start() else { return };
    bed.must_succeed("the next backup", bed.backup(&next, 1));
    bed.must_succeed("to forget", bed.forget(&next, &first));
}

/// A container is lost for good. A backup stores again what the source still has; the rest is given
/// up, and nothing else.
pub fn a_container_that_is_given_up(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    let first = bed.live_snapshots();
    let containers =
        |files: Vec<String>| files.into_iter().filter(|it| it.starts_with("containers/"));
    let oldest = containers(bed.disk().files()).min();
    // Some of these share chunks with the first, which lie in its container only.
    bed.must_succeed("a backup", bed.backup(&running, 2 + bed.step));
    bed.end(running);
    let Some(_lost) = oldest.and_then(|name| bed.disk().hide_file(&name)) else { return };
    bed.rebuild();
    let Some(next) = bed.start() else { return };
    bed.must_succeed("a backup of what there is", bed.backup(&next, 2 + bed.step));
    bed.must_succeed("to give up what is lost", bed.finish(&next, Task::ReclaimAcceptingDamage));
    bed.must_succeed("to forget", bed.forget(&next, &first));
    bed.must_succeed("to reclaim", bed.reclaim(&next));
}

/// The disk is full while the repository is made, or while its first backup runs: what that wrote
/// does not stay in everybody's way.
pub fn a_disk_that_is_full_from_the_first_byte(bed: &mut TestBed) {
    let disk = Disk::new(Random::new(bed.step), false);
    disk.arm(Faults::after(bed.step / 2, Fault::DiskFull));
    let made = init(&disk);
    disk.disarm();
    if let Err(what) = made.or_else(|_| init(&disk)) {
        return bed.shared.violation(what);
    }
    bed.shared = Shared::new(disk);
    let Some(running) = bed.start() else { return };
    bed.arm("append", "containers", bed.step % 3, Fault::DiskFull);
    bed.must_fail("a backup", bed.backup(&running, 1));
    let files = bed.disk().files();
    if let Some(part) = files.iter().find(|name| name.ends_with(".part")) {
        bed.shared.violation(format!("{part} keeps the disk full"));
    }
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.must_succeed("a backup", bed.backup(&running, 2));
}

/// A container is not there while a rebuild runs, and is there again: no reclaim takes it for
/// garbage.
pub fn a_rebuild_that_could_not_read(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    // Some of these share chunks with the first, which then lie in its container only.
    bed.must_succeed("a backup", bed.backup(&running, 2 + bed.step));
    let files = bed.disk().files();
    let oldest = files.iter().filter(|name| name.starts_with("containers/")).min();
    let Some(victim) = oldest.cloned() else { return };
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    bed.end(running);
    let Some(hidden) = bed.disk().hide_file(&victim) else { return };
    let _ = rebuild(bed.disk());
    bed.disk().restore_file(&victim, hidden);
    let Some(next) = bed.start() else { return };
    let reclaimed = bed.reclaim(&next);
    if let Err(Error::Storage(error)) = reclaimed {
        bed.shared.violation(format!("to reclaim fails: {error}"));
    }
    bed.end(next);
    bed.rebuild();
}

/// A reclaim is killed when it has copied what lives, and a copy rots: the old one is still used.
pub fn a_copy_that_rotted(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    for number in 1..4 {
        bed.must_succeed("a backup", bed.backup(&running, number));
    }
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    bed.arm("create", "index/run", 0, Fault::Kill);
    bed.must_fail("to reclaim", bed.reclaim(&running));
    let files = bed.disk().files();
    let copy = files.iter().filter(|name| name.starts_with("containers/")).max();
    let Some(copy) = copy else { return };
    let at = bed.step as usize * bed.disk().length(copy) / STEPS as usize;
    bed.disk().corrupt(copy, &Corruption::Flip(at, 3));
    let Some(next) = bed.start() else { return };
    bed.end(next);
}

/// The file of a snapshot rots, and is written again from a copy. That is killed; the next one still knows of it.
pub fn a_snapshot_that_is_healed(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, bed.step));
    bed.end(running);
    let copy = bed.disk().copy_of_files(Random::new(bed.step));
    let Some(copy) = bed.must_succeed("to open", Repository::open(Arc::new(copy.process()))) else {
        return;
    };
    let copies = [Arc::new(copy)];
    let heal = |running: &WriterProcess| {
        repository::copy::heal(&running.repository, &running.lease, &copies, &Unwatched)
    };
    let file = bed.live_snapshots()[0].path();
    bed.disk().corrupt(&file, &Corruption::Flip(bed.step as usize, 3));
    let Some(running) = bed.start() else { return };
    let verb = ["create", "append", "sync", "rename", "sync directory"][bed.step as usize % 5];
    let fault = if bed.step.is_multiple_of(2) { Fault::Kill } else { Fault::PowerCut };
    bed.arm(verb, "snapshots", 0, fault);
    bed.must_fail("to heal", heal(&running));
    bed.end(running);
    let Some(next) = bed.start() else { return };
    bed.must_succeed("to heal", heal(&next));
    bed.end(next);
}

/// A write takes a part of what it gets, and goes on, is interrupted, or ends there.
pub fn a_write_that_takes_a_part(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.arm("append", "", bed.step % 40, Fault::ShortWrite);
    let _ = bed.backup(&running, 1);
    bed.disk().disarm();
    bed.must_succeed("the next backup", bed.backup(&running, 2));
    bed.disk().lose_power();
}
