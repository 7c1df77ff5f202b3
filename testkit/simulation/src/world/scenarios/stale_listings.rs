//! Lists of a network file system that show the past.

use super::*;

/// A network file system lists the snapshots as they were before the newest: a reclaim leaves what
/// that one needs.
pub fn a_reclaim_with_stale_listings(bed: &mut TestBed) {
    bed.disk().make_network_file_system();
    let Some(running) = bed.start() else { return };
    for number in 0..3 {
        bed.must_succeed("a backup", bed.backup(&running, number));
    }
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    bed.with_stale_listings("to reclaim", |bed| bed.reclaim(&running));
}

/// It lists the containers as they were before the newest: a rebuild leaves none out.
pub fn a_rebuild_with_stale_listings(bed: &mut TestBed) {
    bed.disk().make_network_file_system();
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 1));
    bed.must_succeed("a backup", bed.backup(&running, 2));
    bed.end(running);
    bed.with_stale_listings("a rebuild", |bed| rebuild(bed.disk()).map(|_| ()));
}

/// It lists the containers as they were before a dead writer left one: neither its number nor that
/// of its snapshot is given again.
pub fn a_start_with_stale_listings(bed: &mut TestBed) {
    bed.disk().make_network_file_system();
    let Some(killed) = bed.start() else { return };
    bed.arm("create", "index/run", 0, Fault::Kill);
    bed.must_fail("the backup", bed.backup(&killed, 1));
    bed.with_stale_listings("a start", |bed| {
        bed.shared.start().map(|started| bed.advance(started))
    });
    bed.rebuild();
}

/// It lists a repository as it was before anything was in it, and its config is lost in both places: an
/// init leaves the keys that open what is there.
pub fn an_init_with_stale_listings(bed: &mut TestBed) {
    bed.disk().make_network_file_system();
    let Some(running) = bed.start() else { return };
    let id = KeyId([7; KeyId::LEN]);
    bed.must_succeed("a key", running.repository.put_key_slot(&running.lease, id, b"slot"));
    bed.must_succeed("a backup", bed.backup(&running, 1));
    bed.end(running);
    let names = repository::config::NAMES;
    let hidden = names.map(|name| (name, bed.disk().hide_file(name)));
    bed.disk().serve_stale_listings();
    let is_refused = init(bed.disk()).is_err();
    bed.disk().disarm();
    // Who sees the snapshots makes no other config over them.
    for (name, file) in hidden.into_iter().filter(|_| is_refused) {
        file.into_iter().for_each(|file| bed.disk().restore_file(name, file));
    }
    if !bed.disk().files().contains(&format!("keys/{id}")) {
        bed.shared.violation("a key is gone".into());
    }
    bed.rebuild();
}
