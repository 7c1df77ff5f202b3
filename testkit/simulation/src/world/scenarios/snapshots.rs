//! What is forgotten, and what must not come back.

use super::*;

/// A snapshot whose removal is not durable, and whose data a reclaim gives back.
pub fn a_removal_that_is_not_durable(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    bed.must_succeed("a backup", bed.backup(&running, 2));
    let first = bed.live_snapshots()[..1].to_vec();
    bed.arm("sync directory", "snapshots", 0, Fault::IoError);
    bed.must_fail("to forget", bed.forget(&running, &first));
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.disk().lose_power();
}

/// A removal that failed is asked for once more, and reported done.
pub fn a_snapshot_that_is_forgotten_twice(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    let first = bed.live_snapshots();
    bed.arm("sync directory", "snapshots", 0, Fault::IoError);
    bed.must_fail("to forget", bed.forget(&running, &first));
    bed.must_succeed("to forget again", bed.forget(&running, &first));
    bed.disk().lose_power();
}

/// A snapshot is chosen to build on, then forgotten, and its space given back.
pub fn a_base_that_is_forgotten(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    let names = bed.live_snapshots();
    let known = names.first().and_then(|name| bed.shared.model.lock().known(*name).cloned());
    let base = names.first().zip(known).map(|(name, known)| Base { name: *name, known });
    let backup = bed.shared.backup_of(&running, TestBed::tree(1), base);
    bed.must_succeed("to forget", bed.forget(&running, &names));
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.must_succeed("the backup", bed.finish(&running, backup));
}

/// A backup fails in its last step, a reclaim takes what it stored, and a rebuild finds its
/// manifest.
pub fn a_manifest_without_its_data(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    bed.arm("create", "snapshots", 0, Fault::IoError);
    bed.must_fail("the backup", bed.backup(&running, 2));
    bed.end(running);
    let Some(next) = bed.start() else { return };
    bed.must_succeed("to reclaim", bed.reclaim(&next));
    bed.end(next);
    bed.rebuild();
}

/// A read error while what a dead writer left is settled: its number must not be given out again.
pub fn a_number_that_could_not_be_read(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.arm("create", "index", 0, Fault::Kill);
    bed.must_fail("the backup", bed.backup(&running, 1));
    bed.arm("read", "containers", bed.step % 12, Fault::IoError);
    let started = bed.shared.start();
    bed.disk().disarm();
    let Some(next) = started.ok().or_else(|| bed.start()) else { return };
    bed.must_succeed("the next backup", bed.backup(&next, 2));
    bed.end(next);
    bed.rebuild();
}
