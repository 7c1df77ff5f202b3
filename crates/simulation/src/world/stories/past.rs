//! Lists of a network file system that show the past.

use super::*;

/// A network file system lists the snapshots as they were before the newest: a reclaim leaves what
/// that one needs.
pub fn a_reclaim_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(running) = lab.start() else { return };
    for number in 0..3 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.past("to reclaim", |lab| lab.reclaim(&running));
}

/// It lists the containers as they were before the newest: a rebuild leaves none out.
pub fn a_rebuild_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.needs("a backup", lab.backup(&running, 2));
    lab.end(running);
    lab.past("a rebuild", |lab| rebuild(lab.disk()).map(|_| ()));
}

/// It lists the containers as they were before a dead writer left one: neither its number nor that
/// of its snapshot is given again.
pub fn a_start_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(killed) = lab.start() else { return };
    lab.arm("create", "index/spill", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&killed, 1));
    lab.past("a start", |lab| lab.shared.start().map(|started| lab.go_on(started)));
    lab.rebuild();
}

/// It lists a repository as it was before anything was in it, and its config is lost in both places: an
/// init leaves the keys that open what is there.
pub fn an_init_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(running) = lab.start() else { return };
    let id = KeyId([7; KeyId::LEN]);
    lab.needs("a key", running.repository.put_key_slot(&running.lease, id, b"slot"));
    lab.needs("a backup", lab.backup(&running, 1));
    lab.end(running);
    for name in repository::config::NAMES {
        lab.disk().take_away(name);
    }
    lab.disk().show_the_past();
    let _ = init(lab.disk());
    lab.disk().disarm();
    if !lab.disk().files().contains(&format!("keys/{id}")) {
        lab.shared.is_wrong("a key is gone".into());
    }
    lab.rebuild();
}
