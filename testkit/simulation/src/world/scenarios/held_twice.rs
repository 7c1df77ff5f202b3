//! Objects that lie in several places, of which a session needs one that is not the newest.

use super::*;

/// What the session needs, in one record with a neighbor that lives.
const SHARED: [u64; 3] = [1, 2, 3];

/// Of what a session stores again, a checkpoint publishes the place while a reclaim moves the record in which it was
/// before, for a neighbor that lives. What was moved dies before the session commits.
pub fn a_copy_of_what_a_session_stored_again(bed: &mut TestBed) {
    bed.set_checkpoints(Checkpoints::After(1));
    let Some(running) = bed.start() else { return };
    // In one container, in which something is dead that nobody stores again.
    bed.store(&running, &[&SHARED, &[9]]);
    bed.store(&running, &[&SHARED[..1]]);
    let first = bed.live_snapshots()[0];
    bed.must_succeed("to forget", bed.forget(&running, &[first]));
    let open = bed.begin_tree(&running, &[&SHARED[1..]]);
    let Some(open) = bed.stores_beside_a_reclaim(&running, open) else { return };
    bed.forget_all_and_reclaim(&running);
    bed.must_succeed("the session", bed.finish(&running, open));
}

/// A session relies on what lies in a container that drains. Another stores the same again and is interrupted: the
/// index has that place, which is newer, until somebody frees what interrupted sessions stored.
pub fn a_newer_place_of_what_drains(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.store(&running, &[&SHARED, &[4 + bed.step % 8]]);
    let mut open = bed.begin_tree(&running, &[&SHARED]);
    bed.go_on_to_commit(&running, &mut open);
    bed.forget_all_and_reclaim(&running);
    let mut other = bed.begin_tree(&running, &[&SHARED]);
    bed.go_on(&running, &mut other, 1 + bed.step % 4);
    drop(other);
    bed.merge_the_index(&running);
    bed.must_succeed("to reclaim", bed.finish(&running, Task::ReclaimInterrupted));
    bed.must_succeed("the session", bed.finish(&running, open));
}

/// Two sessions store the same. The one is the first to let the index know it, and the last to commit: the other's
/// snapshot is forgotten before.
pub fn a_checkpoint_of_what_another_session_stores(bed: &mut TestBed) {
    bed.set_checkpoints(Checkpoints::After(2));
    let Some(running) = bed.start() else { return };
    let mut other = bed.begin_tree(&running, &[&SHARED]);
    bed.go_on(&running, &mut other, 2);
    let mut open = bed.begin_tree(&running, &[&SHARED]);
    bed.go_on(&running, &mut open, 4);
    bed.must_succeed("the other session", bed.finish(&running, other));
    bed.merge_the_index(&running);
    bed.forget_all_and_reclaim(&running);
    bed.must_succeed("the session", bed.finish(&running, open));
}

/// A session is told that something is stored. Another one, which began before, lets the index know of a newer place.
pub fn a_newer_place_of_what_a_session_relies_on(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    let mut other = bed.begin_tree(&running, &[&SHARED]);
    bed.go_on(&running, &mut other, 2);
    bed.store(&running, &[&SHARED, &[4 + bed.step % 8]]);
    let mut open = bed.begin_tree(&running, &[&SHARED]);
    bed.go_on(&running, &mut open, 2);
    bed.must_succeed("the other session", bed.finish(&running, other));
    bed.merge_the_index(&running);
    bed.forget_all_and_reclaim(&running);
    bed.must_succeed("the session", bed.finish(&running, open));
}

impl TestBed {
    /// A backup of leaves with these chunks, not begun.
    fn begin_tree(&self, running: &WriterProcess, leaves: &[&[u64]]) -> Task {
        self.shared.backup_of(running, Tree::of_chunks(leaves), None)
    }

    fn store(&self, running: &WriterProcess, leaves: &[&[u64]]) {
        let task = self.begin_tree(running, leaves);
        self.must_succeed("a backup", self.finish(running, task));
    }

    /// Something else is forgotten: the reclaim writes the index anew.
    fn merge_the_index(&self, running: &WriterProcess) {
        self.store(running, &[&[40, 41]]);
        let newest = self.live_snapshots().pop();
        self.must_succeed("to forget", self.forget(running, newest.as_slice()));
        self.must_succeed("to reclaim", self.reclaim(running));
    }

    fn forget_all_and_reclaim(&self, running: &WriterProcess) {
        self.must_succeed("to forget", self.forget(running, &self.live_snapshots()));
        self.must_succeed("to reclaim", self.reclaim(running));
    }
}
