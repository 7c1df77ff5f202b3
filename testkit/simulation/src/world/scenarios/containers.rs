//! Many containers, and what has to lie in one of them together.

use super::*;

/// A manifest fills its container: its receipt is in it all the same, and a rebuild finds it.
pub fn a_receipt_at_the_end_of_a_container(bed: &mut TestBed) {
    bed.set_container_bytes(1 + 37 * bed.step);
    let Some(running) = bed.start() else { return };
    for number in 0..4 {
        bed.must_succeed("a backup", bed.backup(&running, number));
    }
    bed.end(running);
    bed.rebuild_without_snapshots();
}

/// The same where a reclaim has copied both, out of a container in which something has rotted.
pub fn a_receipt_that_reclaim_copies(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    for number in 0..3 {
        bed.must_succeed("a backup", bed.backup(&running, number));
    }
    bed.end(running);
    let files = bed.disk().files();
    let Some(second) = files.iter().filter(|name| name.starts_with("containers/")).nth(1) else {
        return;
    };
    let at = bed.disk().length(second) / 4 + bed.step as usize;
    bed.disk().corrupt(second, &Corruption::Flip(at, 3));
    bed.must_succeed("a rebuild", rebuild(bed.disk()));
    bed.set_container_bytes(1 + 11 * bed.step);
    let Some(next) = bed.start() else { return };
    for number in 0..3 {
        bed.must_succeed("a backup of what there is", bed.backup(&next, number));
    }
    bed.must_succeed("to give up what has rotted", bed.finish(&next, Task::ReclaimAcceptingDamage));
    bed.end(next);
    bed.rebuild_without_snapshots();
}

/// Between any two steps of a backup all files are copied: the copy is a repository.
pub fn a_copy_of_a_repository_that_is_written(bed: &mut TestBed) {
    bed.set_container_bytes(2_000);
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    let left = Arc::new(AtomicU64::new(bed.step));
    let shared = bed.shared.clone();
    bed.disk().interleave(Box::new(move || {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            shared.copy();
        }
    }));
    bed.must_succeed("the next backup", bed.backup(&running, 2));
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.disk().stop_interleaving();
}

/// A rebuild has room for few ids in memory, as with very many objects: it writes many runs, and keeps few files
/// open.
pub fn a_rebuild_that_writes_very_many_runs(bed: &mut TestBed) {
    if !bed.step.is_multiple_of(40) {
        return; // It has no fates: nothing goes wrong.
    }
    bed.set_container_bytes(1);
    let Some(running) = bed.start() else { return };
    for number in 0..30 {
        bed.must_succeed("a backup", bed.backup(&running, number));
    }
    bed.end(running);
    bed.disk().max_open_files();
    bed.must_succeed("a rebuild", rebuild_in_parts(bed.disk(), 1));
    let (most, files) = (bed.disk().max_open_files(), bed.disk().files());
    let containers = files.iter().filter(|name| name.starts_with("containers/")).count();
    if containers < 3 * OPEN_MAX / 2 || most > OPEN_MAX {
        bed.shared.violation(format!("{most} files were open for {containers} containers"));
    }
}
