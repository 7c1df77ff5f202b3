//! What rots, tears or is gone, and disks without room.

use super::*;

/// The power goes under a backup, again and again; the next one builds on what survived of its
/// container.
pub fn a_torn_container(lab: &mut Lab) {
    for round in 0..ROUNDS {
        let Some(running) = lab.start() else { return };
        lab.arm("append", "containers", 2 + (lab.step + round) % 8, Fault::PowerCut);
        let _ = lab.backup(&running, round);
        lab.disk().disarm();
        lab.disk().cut_power();
        let Some(next) = lab.start() else { return };
        lab.needs("the next backup", lab.backup(&next, round));
        lab.end(next);
    }
}

/// What a failed forget left in a process that goes on is gone after the next one.
pub fn a_forget_on_a_full_disk(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    lab.arm("append", "containers", lab.step % 3, Fault::Full);
    lab.fails("to forget", lab.forget(&running, &first));
    lab.needs("a backup", lab.backup(&running, 2));
    lab.end(running);
    let Some(next) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&next, 3));
    if let Err(what) = no_leftovers(lab.disk()) {
        lab.shared.is_wrong(what);
    }
}

/// A container is taken away by hand: nothing in it is taken for stored.
pub fn a_container_that_is_gone(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    let is_container = |name: &String| name.starts_with("containers/");
    lab.disk().files().into_iter().filter(is_container).for_each(|name| {
        lab.disk().take_away(&name);
    });
    lab.end(running);
    let Some(next) = lab.start() else { return };
    lab.needs("the next backup", lab.backup(&next, 1));
    lab.needs("to forget", lab.forget(&next, &first));
}

/// A container is lost for good. A backup stores anew what the source still has; the rest is given
/// up, and nothing else.
pub fn a_container_that_is_given_up(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    let containers =
        |files: Vec<String>| files.into_iter().filter(|it| it.starts_with("containers/"));
    let oldest = containers(lab.disk().files()).min();
    // Some of these share chunks with the first, which lie in its container only.
    lab.needs("a backup", lab.backup(&running, 2 + lab.step));
    lab.end(running);
    let Some(_lost) = oldest.and_then(|name| lab.disk().take_away(&name)) else { return };
    lab.rebuild();
    let Some(next) = lab.start() else { return };
    lab.needs("a backup of what there is", lab.backup(&next, 2 + lab.step));
    lab.needs("to give up what is lost", lab.finish(&next, Task::GiveUp));
    lab.needs("to forget", lab.forget(&next, &first));
    lab.needs("to reclaim", lab.reclaim(&next));
}

/// The disk is full while the repository is made, or while its first backup runs: what that wrote
/// does not stay in everybody's way.
pub fn a_disk_that_is_full_from_the_first_byte(lab: &mut Lab) {
    let disk = Disk::new(Random::new(lab.step), false);
    disk.arm(Faults::after(lab.step / 2, Fault::Full));
    let made = init(&disk);
    disk.disarm();
    if let Err(what) = made.or_else(|_| init(&disk)) {
        return lab.shared.is_wrong(what);
    }
    lab.shared = Shared::new(disk);
    let Some(running) = lab.start() else { return };
    lab.arm("append", "containers", lab.step % 3, Fault::Full);
    lab.fails("a backup", lab.backup(&running, 1));
    let files = lab.disk().files();
    if let Some(part) = files.iter().find(|name| name.ends_with(".part")) {
        lab.shared.is_wrong(format!("{part} keeps the disk full"));
    }
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.needs("a backup", lab.backup(&running, 2));
}

/// A container is not there while a rebuild runs, and is there again: no reclaim takes it for
/// garbage.
pub fn a_rebuild_that_could_not_read(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    // Some of these share chunks with the first, which then lie in its container only.
    lab.needs("a backup", lab.backup(&running, 2 + lab.step));
    let files = lab.disk().files();
    let oldest = files.iter().filter(|name| name.starts_with("containers/")).min();
    let Some(victim) = oldest.cloned() else { return };
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.end(running);
    let Some(taken) = lab.disk().take_away(&victim) else { return };
    let _ = rebuild(lab.disk());
    lab.disk().give_back(&victim, taken);
    let Some(next) = lab.start() else { return };
    let reclaimed = lab.reclaim(&next);
    if let Err(Error::Storage(error)) = reclaimed {
        lab.shared.is_wrong(format!("to reclaim fails: {error}"));
    }
    lab.end(next);
    lab.rebuild();
}

/// A reclaim is killed when it has copied what lives, and a copy rots: the old one is still used.
pub fn a_copy_that_rotted(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    for number in 1..4 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.arm("create", "index/run", 0, Fault::Kill);
    lab.fails("to reclaim", lab.reclaim(&running));
    let files = lab.disk().files();
    let copy = files.iter().filter(|name| name.starts_with("containers/")).max();
    let Some(copy) = copy else { return };
    let at = lab.step as usize * lab.disk().length(copy) / STEPS as usize;
    lab.disk().rot(copy, &Rot::Flip(at, 3));
    let Some(next) = lab.start() else { return };
    lab.end(next);
}

/// A write takes a part of what it gets, and goes on, is interrupted, or ends there.
pub fn a_write_that_takes_a_part(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.arm("append", "", lab.step % 40, Fault::Short);
    let _ = lab.backup(&running, 1);
    lab.disk().disarm();
    lab.needs("the next backup", lab.backup(&running, 2));
    lab.disk().cut_power();
}
