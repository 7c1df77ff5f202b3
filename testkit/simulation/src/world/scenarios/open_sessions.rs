//! Sessions that stay open while others commit, forget and reclaim.

use super::*;
use parking_lot::Mutex;

/// Beside a session that stays open others commit and forget: what they gave up comes back, and the session ends well.
pub fn a_session_that_stays_open(bed: &mut TestBed) {
    bed.set_container_bytes(1);
    let Some(running) = bed.start() else { return };
    let mut open = bed.begin(1000 + bed.step, &running);
    bed.go_on(&running, &mut open, 2 + bed.step % 5);
    bed.must_succeed("a backup", bed.backup(&running, bed.step));
    let before = bed.containers();
    bed.must_succeed("a backup", bed.backup(&running, 500 + bed.step));
    let written: Vec<_> =
        bed.containers().into_iter().filter(|name| !before.contains(name)).collect();
    let newest = bed.live_snapshots().pop();
    bed.must_succeed("to forget", bed.forget(&running, newest.as_slice()));
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.only_a_manifest_is_left_of(&written);
    bed.must_succeed("the session", bed.finish(&running, open));
}

/// A session has to write a container again; a reclaim that runs before its commit takes that for nobody's.
pub fn a_container_that_is_written_again_beside_a_reclaim(bed: &mut TestBed) {
    bed.set_container_bytes(1);
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, bed.step));
    let mut open = bed.begin(1000 + bed.step, &running);
    bed.arm("sync", "containers", bed.step % 3, Fault::FailedSync);
    bed.go_on_to_commit(&running, &mut open);
    bed.disk().disarm();
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.must_succeed("the session", bed.finish(&running, open));
}

/// While a reclaim merges the index, a session commits.
pub fn a_commit_while_reclaim_merges(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    for number in 0..3 {
        bed.must_succeed("a backup", bed.backup(&running, 500 * number + bed.step));
    }
    let mut open = bed.begin(2000 + bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    bed.reclaim_while(&running, open, bed.step % 5);
}

/// A reader of the same process finds a container gone and reads the index again, and meanwhile a session commits.
pub fn a_commit_while_somebody_reads_the_index_again(bed: &mut TestBed) {
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, bed.step));
    let mut open = bed.begin(1000 + bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    let look = || running.repository.refresh();
    bed.commit_while(&running, open, bed.step % 4, |_| true, "to read the index", look);
    bed.must_succeed("the next backup", bed.backup(&running, 2000 + bed.step));
}

/// Two sessions one after the other need what reclaim wants, and never both at a time are there none: it comes back
/// when the first has ended.
pub fn a_container_that_drains(bed: &mut TestBed) {
    bed.set_container_bytes(1);
    let Some(running) = bed.start() else { return };
    bed.must_succeed("a backup", bed.backup(&running, bed.step));
    let written = bed.containers();
    let mut first = bed.begin(bed.step, &running);
    bed.go_on_to_commit(&running, &mut first);
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()));
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    let mut second = bed.begin(bed.step, &running);
    bed.go_on_to_commit(&running, &mut second);
    drop(first);
    bed.must_succeed("to reclaim", bed.reclaim(&running));
    bed.only_a_manifest_is_left_of(&written);
    bed.must_succeed("the session", bed.finish(&running, second));
}

/// The same in one reclaim: the session that needs it commits between two stages.
pub fn a_container_that_drained_into_a_new_snapshot(bed: &mut TestBed) {
    bed.set_container_bytes(1);
    let Some(running) = bed.start() else { return };
    for number in 0..2 {
        bed.must_succeed("a backup", bed.backup(&running, 500 * number + bed.step));
    }
    let mut open = bed.begin(bed.step, &running);
    bed.go_on_to_commit(&running, &mut open);
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()));
    bed.reclaim_while(&running, open, bed.step % 5);
}

/// While a reclaim gives containers up, a session begins that stores what lay in them once more.
pub fn a_session_that_begins_while_reclaim_gives_up(bed: &mut TestBed) {
    bed.set_container_bytes(1);
    let Some(running) = bed.start() else { return };
    for number in 0..2 {
        bed.must_succeed("a backup", bed.backup(&running, 500 * number + bed.step));
    }
    bed.must_succeed("to forget", bed.forget(&running, &bed.live_snapshots()[..1]));
    let open = bed.begin(bed.step, &running);
    let Some(open) = bed.stores_beside_a_reclaim(&running, open) else { return };
    bed.must_succeed("the session", bed.finish(&running, open));
}

/// While a reclaim runs, another one of the same process begins.
pub fn a_reclaim_beside_another(bed: &mut TestBed) {
    bed.set_container_bytes(1_000);
    let Some(running) = bed.start() else { return };
    bed.keep_two_of_four(&running);
    let other = |beside: &WriterProcess, shared: &Shared| {
        Task::Reclaim(0.0).advance(beside, shared).map(|_| ())
    };
    let reclaim = || bed.reclaim(&running);
    let not_merging = |repository: &Repository| !repository.is_merging();
    let _ = bed.beside(&running, bed.step, not_merging, other, "to reclaim", reclaim);
    bed.must_succeed("the next backup", bed.backup(&running, 3000 + bed.step));
}

/// A reclaim of several stages is killed, or loses its power, at any step; the next one goes on with what is left.
pub fn a_reclaim_that_ends_between_its_stages(bed: &mut TestBed) {
    bed.set_container_bytes(1_000);
    let Some(running) = bed.start() else { return };
    bed.keep_two_of_four(&running);
    let fault = if bed.step.is_multiple_of(2) { Fault::Kill } else { Fault::PowerCut };
    bed.disk().arm(Faults::after(60 + bed.step * 2, fault));
    let _ = bed.reclaim(&running);
    bed.disk().disarm();
    bed.end(running);
    let Some(next) = bed.start() else { return };
    bed.must_succeed("to reclaim", bed.reclaim(&next));
    bed.must_succeed("the next backup", bed.backup(&next, 3000 + bed.step));
}

impl TestBed {
    /// Four backups, two of which are forgotten.
    fn keep_two_of_four(&self, running: &WriterProcess) {
        for number in 0..4 {
            self.must_succeed("a backup", self.backup(running, 500 * number + self.step));
        }
        let names = self.live_snapshots();
        self.must_succeed("to forget", self.forget(running, &[names[0], names[2]]));
    }

    /// A backup of tree `number` that is to stay open, not begun.
    pub(super) fn begin(&self, number: u64, running: &WriterProcess) -> Task {
        self.shared.backup_of(running, Self::tree(number), None)
    }

    /// Lets a backup make so many steps, up to its commit.
    pub(super) fn go_on(&self, running: &WriterProcess, open: &mut Task, steps: u64) {
        for _ in 0..steps {
            if !open.is_at_commit() {
                self.must_succeed("a step", open.advance(running, &self.shared));
            }
        }
    }

    pub(super) fn go_on_to_commit(&self, running: &WriterProcess, open: &mut Task) {
        self.go_on(running, open, STEPS);
    }

    /// Reclaims; after the operations of this step `open` stores everything, up to its commit.
    pub(super) fn stores_beside_a_reclaim(
        &self,
        running: &WriterProcess,
        mut open: Task,
    ) -> Option<Task> {
        let stores = move |beside: &WriterProcess, shared: &Shared| {
            while !open.is_at_commit() {
                open.advance(beside, shared)?;
            }
            Ok(open)
        };
        let reclaim = || self.reclaim(running);
        self.beside(running, self.step, |_| true, stores, "to reclaim", reclaim)
    }

    /// Reclaims; `open` commits after so many operations during which the index is merged.
    fn reclaim_while(&self, running: &WriterProcess, open: Task, left: u64) {
        let reclaim = || self.reclaim(running);
        self.commit_while(running, open, left, Repository::is_merging, "to reclaim", reclaim);
    }

    /// Does `work`; `open` commits after so many of its operations during which this `may` be.
    fn commit_while(
        &self,
        running: &WriterProcess,
        mut open: Task,
        left: u64,
        may: fn(&Repository) -> bool,
        what: &str,
        work: impl FnOnce() -> Result<()>,
    ) {
        let commit = move |beside: &WriterProcess, shared: &Shared| {
            while !open.advance(beside, shared)? {}
            Ok(())
        };
        let _ = self.beside(running, left, may, commit, what, work); // told as a violation
    }

    /// Does `work`; after so many of its operations during which this `may` be, `step` is made, or else behind it. What
    /// that returns.
    fn beside<T: Send + 'static>(
        &self,
        running: &WriterProcess,
        mut left: u64,
        may: fn(&Repository) -> bool,
        step: impl FnOnce(&WriterProcess, &Shared) -> Result<T> + Send + 'static,
        what: &str,
        work: impl FnOnce() -> Result<()>,
    ) -> Option<T> {
        let (beside, shared) = (running.clone(), self.shared.clone());
        let (step, made) = (Arc::new(Mutex::new(Some(step))), Arc::new(Mutex::new(None)));
        let (next, result) = (step.clone(), made.clone());
        self.disk().interleave(Box::new(move || {
            if !may(&beside.repository) || beside.repository.is_committing() {
                return;
            }
            if left > 0 {
                left -= 1;
                return;
            }
            let Some(step) = next.lock().take() else { return };
            *result.lock() = Some(step(&beside, &shared));
        }));
        self.must_succeed(what, work());
        self.disk().stop_interleaving();
        let left = step.lock().take();
        let made = made.lock().take().or_else(|| Some(left?(running, &self.shared)));
        self.must_succeed("the session", made?)
    }

    pub(super) fn containers(&self) -> Vec<String> {
        let files = self.disk().files().into_iter();
        files.filter(|name| name.starts_with("containers/")).collect()
    }

    /// Of the containers `written` by one session, each with one record, nothing that holds objects is left.
    fn only_a_manifest_is_left_of(&self, written: &[String]) {
        let now = self.containers();
        let left: Vec<_> = written.iter().filter(|name| now.contains(name)).collect();
        if left.len() > 1 {
            self.shared.violation(format!("{left:?} were not given back"));
        }
    }
}
