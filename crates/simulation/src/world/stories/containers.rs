//! Many containers, and what has to lie in one of them together.

use super::*;

/// A manifest fills its container: its receipt is in it all the same, and a rebuild finds it.
pub fn a_receipt_at_the_end_of_a_container(lab: &mut Lab) {
    lab.containers_of(1 + 37 * lab.step);
    let Some(running) = lab.start() else { return };
    for number in 0..4 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.end(running);
    lab.rebuild_without_snapshots();
}

/// The same where a reclaim has copied both, out of a container in which something has rotted.
pub fn a_receipt_that_reclaim_copies(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    for number in 0..3 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.end(running);
    let files = lab.disk().files();
    let Some(second) = files.iter().filter(|name| name.starts_with("containers/")).nth(1) else {
        return;
    };
    let at = lab.disk().length(second) / 4 + lab.step as usize;
    lab.disk().rot(second, &Rot::Flip(at, 3));
    lab.needs("a rebuild", rebuild(lab.disk()));
    lab.containers_of(1 + 11 * lab.step);
    let Some(next) = lab.start() else { return };
    for number in 0..3 {
        lab.needs("a backup of what there is", lab.backup(&next, number));
    }
    lab.needs("to give up what has rotted", lab.finish(&next, Task::GiveUp));
    lab.end(next);
    lab.rebuild_without_snapshots();
}

/// Between any two steps of a backup all files are copied: the copy is a repository.
pub fn a_copy_of_a_repository_that_is_written(lab: &mut Lab) {
    lab.containers_of(2_000);
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let left = Arc::new(AtomicU64::new(lab.step));
    let shared = lab.shared.clone();
    lab.disk().invite(Box::new(move || {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            shared.copy();
        }
    }));
    lab.needs("the next backup", lab.backup(&running, 2));
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.disk().dismiss();
}

/// A rebuild has room for few ids in memory, as with very many objects: it writes many runs, and keeps few files
/// open.
pub fn a_rebuild_that_writes_very_many_runs(lab: &mut Lab) {
    if !lab.step.is_multiple_of(40) {
        return; // It has no fates: nothing goes wrong.
    }
    lab.containers_of(1);
    let Some(running) = lab.start() else { return };
    for number in 0..30 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.end(running);
    lab.disk().most_open();
    lab.needs("a rebuild", rebuild_in_parts(lab.disk(), 1));
    let (most, files) = (lab.disk().most_open(), lab.disk().files());
    let containers = files.iter().filter(|name| name.starts_with("containers/")).count();
    if containers < 3 * OPEN_MAX / 2 || most > OPEN_MAX {
        lab.shared.is_wrong(format!("{most} files were open for {containers} containers"));
    }
}
