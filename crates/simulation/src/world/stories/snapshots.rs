//! What is forgotten, and what must not come back.

use super::*;

/// A snapshot whose removal is not durable, and whose data a reclaim gives back.
pub fn a_removal_that_is_not_durable(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.needs("a backup", lab.backup(&running, 2));
    let first = lab.kept()[..1].to_vec();
    lab.arm("sync directory", "snapshots", 0, Fault::Error);
    lab.fails("to forget", lab.forget(&running, &first));
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.disk().cut_power();
}

/// A removal that failed is asked for once more, and reported done.
pub fn a_snapshot_that_is_forgotten_twice(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    lab.arm("sync directory", "snapshots", 0, Fault::Error);
    lab.fails("to forget", lab.forget(&running, &first));
    lab.needs("to forget again", lab.forget(&running, &first));
    lab.disk().cut_power();
}

/// A snapshot is chosen to build on, then forgotten, and its space given back.
pub fn a_base_that_is_forgotten(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let names = lab.kept();
    let known = names.first().and_then(|name| lab.shared.model.lock().known(*name).cloned());
    let base = names.first().zip(known).map(|(name, known)| Base { name: *name, known });
    let backup = lab.shared.backup_of(&running, Lab::tree(1), base);
    lab.needs("to forget", lab.forget(&running, &names));
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.needs("the backup", lab.finish(&running, backup));
}

/// A backup fails in its last step, a reclaim takes what it stored, and a rebuild finds its
/// manifest.
pub fn a_manifest_without_its_data(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("create", "snapshots", 0, Fault::Error);
    lab.fails("the backup", lab.backup(&running, 2));
    lab.end(running);
    let Some(next) = lab.start() else { return };
    lab.needs("to reclaim", lab.reclaim(&next));
    lab.end(next);
    lab.rebuild();
}

/// A read error while what a dead writer left is settled: its number must not be given out again.
pub fn a_number_that_could_not_be_read(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.arm("create", "index", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&running, 1));
    lab.arm("read", "containers", lab.step % 12, Fault::Error);
    let started = lab.shared.start();
    lab.disk().disarm();
    let Some(next) = started.ok().or_else(|| lab.start()) else { return };
    lab.needs("the next backup", lab.backup(&next, 2));
    lab.end(next);
    lab.rebuild();
}
