//! Checkpoints of sessions, and sessions that are interrupted.

use super::*;

/// A session makes a checkpoint while its container is being filled, and the power goes. If the container is gone, its
/// number is given again, and what lies there is something else.
pub fn a_checkpoint_of_what_is_not_durable(bed: &mut TestBed) {
    bed.set_checkpoints(Checkpoints::Always);
    let Some(running) = bed.start() else { return };
    let mut open = bed.begin(bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    bed.disk().lose_power();
    drop(open);
    bed.end(running);
    let Some(next) = bed.start() else { return };
    bed.must_succeed("another backup", bed.backup(&next, 1000 + bed.step));
    bed.must_succeed("the next backup", bed.backup(&next, bed.step));
}

/// A checkpoint fails between its run and the index, and the session goes on to its commit all the same.
pub fn a_checkpoint_that_fails(bed: &mut TestBed) {
    bed.set_checkpoints(Checkpoints::After(1));
    let Some(running) = bed.start() else { return };
    let mut open = bed.begin(bed.step, &running);
    let verb = ["create", "append", "sync", "replace"][bed.step as usize % 4];
    bed.arm(verb, "index/", bed.step / 4 % 3, Fault::IoError);
    while !open.is_at_commit() {
        // Those that fail have done nothing.
        let _ = open.advance(&running, &bed.shared);
    }
    bed.disk().disarm();
    bed.must_succeed("the commit", bed.finish(&running, open));
}

/// A container has to be written again, and its objects go into a checkpoint; then the process is killed.
pub fn a_checkpoint_of_a_container_that_is_written_again(bed: &mut TestBed) {
    bed.set_container_bytes(2_000);
    bed.set_checkpoints(Checkpoints::After(2));
    let Some(running) = bed.start() else { return };
    let mut open = bed.begin(bed.step, &running);
    bed.arm("sync", "containers", bed.step % 3, Fault::FailedSync);
    bed.go_on_to_commit(&running, &mut open);
    bed.disk().disarm();
    if bed.step.is_multiple_of(2) {
        bed.must_succeed("the session", bed.finish(&running, open));
    } else {
        bed.end(running.clone());
        drop(open);
        let Some(next) = bed.start() else { return };
        bed.must_succeed("the next backup", bed.backup(&next, bed.step));
    }
}

/// The receipt of a snapshot cannot be written behind its manifest. Nobody brings that snapshot back without it.
pub fn a_commit_that_fails_behind_its_manifest(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    for number in 0..2 {
        let mut open = bed.begin(100 * number + bed.step, &running);
        bed.go_on_to_commit(&running, &mut open);
        bed.arm("append", "containers", 1, Fault::IoError);
        // Every other one has a receipt.
        let _ = bed.finish(&running, open);
        bed.disk().disarm();
    }
    bed.end(running);
    bed.rebuild();
}

/// A session is interrupted when it has stored everything, and a reclaim runs: the next run stores nothing again.
pub fn a_session_that_is_interrupted_and_a_reclaim(bed: &mut TestBed) {
    bed.set_container_bytes(1 + 500 * (bed.step % 8));
    let Some(running) = bed.start() else { return };
    let mut open = bed.begin(bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    drop(open);
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.stores_nothing_again(&running);
}

/// The same while another session holds the lease, and without a reclaim.
pub fn a_session_that_is_interrupted_beside_another(bed: &mut TestBed) {
    bed.set_container_bytes(1 + 500 * (bed.step % 8));
    let Some(running) = bed.start() else { return };
    let mut other = bed.begin(1000 + bed.step, &running);
    bed.go_on(&running, &mut other, 1);
    let mut open = bed.begin(bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    drop(open);
    bed.stores_nothing_again(&running);
    bed.must_succeed("the other session", bed.finish(&running, other));
}

/// A session that makes checkpoints ends at any step. The next one goes on, beside a reclaim.
pub fn a_session_that_is_killed_with_checkpoints(bed: &mut TestBed) {
    bed.set_container_bytes(1_000);
    bed.set_checkpoints(Checkpoints::FromIds(2));
    let Some(running) = bed.start() else { return };
    let fault = if bed.step.is_multiple_of(2) { Fault::Kill } else { Fault::PowerCut };
    bed.disk().arm(Faults::after(bed.step, fault));
    let _ = bed.backup(&running, bed.step);
    bed.disk().disarm();
    bed.end(running);
    let Some(next) = bed.start() else { return };
    let mut open = bed.begin(bed.step, &next);
    bed.go_on(&next, &mut open, bed.step % 7);
    bed.must_succeed("to reclaim", bed.reclaim(&next));
    bed.must_succeed("the session", bed.finish(&next, open));
}

/// What a killed session left is settled in many parts, and that is killed at any step, too.
pub fn a_recovery_that_is_killed(bed: &mut TestBed) {
    bed.set_container_bytes(1_000);
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, 500 + bed.step));
    let mut open = bed.begin(bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    bed.end(running);
    drop(open);
    bed.set_checkpoints(Checkpoints::FromIds(2));
    let fault = if bed.step.is_multiple_of(2) { Fault::Kill } else { Fault::PowerCut };
    bed.disk().arm(Faults::after(bed.step, fault));
    let _ = bed.shared.start();
    bed.disk().disarm();
    let Some(next) = bed.start() else { return };
    // A power cut takes what was not durable.
    if fault == Fault::Kill {
        bed.stores_nothing_again(&next);
    }
    bed.must_succeed("the next backup", bed.backup(&next, bed.step));
    if let Err(what) = no_leftovers(bed.disk()) {
        bed.shared.violation(what);
    }
}

impl TestBed {
    /// The tree of this step has been stored: another session makes no container for it.
    fn stores_nothing_again(&self, running: &WriterProcess) {
        let before = self.containers();
        let mut again = self.begin(self.step, running);
        self.go_on_to_commit(running, &mut again);
        let new: Vec<_> =
            self.containers().into_iter().filter(|name| !before.contains(name)).collect();
        if !new.is_empty() {
            self.shared.violation(format!("what was stored is stored again in {new:?}"));
        }
        self.must_succeed("the next backup", self.finish(running, again));
    }
}
