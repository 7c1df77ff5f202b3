//! Checkpoints: what a session has stored so far goes into the index, without a snapshot. So a session needs little
//! memory, an interrupted one loses little, and whoever comes next finds what it stored.
//!
//! A checkpoint is a commit without its last step: containers are durable, then a run, then the state that names it.

use super::Session;
use crate::Result;
use crate::index::interrupted::Interrupted;
use crate::index::run::{Row, write_rows};
use crate::index::run_name;
use crate::pins::Covered;
use ids::ContainerNo;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// When sessions make checkpoints by themselves.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointLimits {
    /// Ids in memory. From twice as many on, whoever stores waits for the disk.
    pub ids: usize,
    /// Bytes stored since the last one.
    pub bytes: u64,
    /// Time since the last one. It decides when something is written, never what may be removed.
    pub every: Duration,
}

impl Default for CheckpointLimits {
    /// 2^18 ids are about 16 MB. A lost connection or a killed process costs no more than 4 GiB of reading back, or
    /// what was stored in five minutes.
    fn default() -> Self {
        Self { ids: 1 << 18, bytes: 4 << 30, every: Duration::from_secs(5 * 60) }
    }
}

/// What was left by the last checkpoint, and when that was.
pub(super) struct Pace {
    at: Instant,
    /// Bytes that the session had stored.
    bytes: u64,
    /// Ids that stayed in memory: their containers were not durable.
    left: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { at: Instant::now(), bytes: 0, left: 0 }
    }
}

/// What is to become of the containers that are not durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// They are left to the next checkpoint: nobody waits.
    Durable,
    /// They are finished and waited for.
    Everything,
}

impl Session {
    /// Makes everything durable that was appended until now, and lets the index know it. It stays stored, as far as
    /// reclaim leaves what interrupted sessions stored, and other sessions need not store it again.
    ///
    /// # Errors
    /// [`crate::Error::LeaseLost`], or when nothing can become durable any more: then the session cannot be committed.
    pub fn checkpoint(&self) -> Result<()> {
        let turn = self.checkpointing.lock();
        self.checkpoint_to(Reach::Everything)?;
        drop(turn);
        self.compact();
        Ok(())
    }

    /// Makes a checkpoint when one is due, unless another thread is about it.
    pub(super) fn checkpoint_if_due(&self) -> Result<()> {
        let limits = self.repository.checkpoint_limits();
        let count = self.objects.lock().placed();
        let turn = match count >= limits.ids.saturating_mul(2) {
            true => Some(self.checkpointing.lock()),
            false => self.checkpointing.try_lock(),
        };
        let Some(turn) = turn else { return Ok(()) };
        let Some(reach) = self.due(&limits) else { return Ok(()) };
        self.checkpoint_to(reach)?;
        drop(turn);
        self.compact();
        Ok(())
    }

    /// How far a checkpoint must reach that is due now.
    fn due(&self, limits: &CheckpointLimits) -> Option<Reach> {
        let pace = self.pace.lock();
        let count = self.objects.lock().placed();
        let bytes = self.stored_bytes().saturating_sub(pace.bytes);
        // In tests that go step by step everything follows from what is stored.
        let is_late = pace.at.elapsed() >= limits.every && !self.repository.is_stepwise();
        match () {
            () if count >= limits.ids.saturating_mul(2) || is_late => Some(Reach::Everything),
            () if count >= limits.ids.saturating_add(pace.left) => Some(Reach::Durable),
            () if bytes >= limits.bytes => Some(Reach::Durable),
            () => None,
        }
    }

    /// Lets the index know what is durable.
    fn checkpoint_to(&self, reach: Reach) -> Result<()> {
        let finished = match reach {
            Reach::Everything => self.finish_containers()?,
            Reach::Durable => BTreeSet::new(),
        };
        let published = self.publish_checkpoint(finished);
        self.note_full(&published);
        published?;
        let left = self.objects.lock().placed();
        *self.pace.lock() = Pace { at: Instant::now(), bytes: self.stored_bytes(), left };
        Ok(())
    }

    /// Writes a run of what is durable, and lets the index name it. Of `finished` nothing else is to be expected.
    fn publish_checkpoint(&self, finished: BTreeSet<ContainerNo>) -> Result<()> {
        let (mut rows, mut covered) = {
            let (mut objects, synced) = (self.objects.lock(), self.synced.lock());
            (objects.durable(&synced), synced.numbers())
        };
        covered.extend(finished);
        self.publish_rows(&mut rows, |run| self.publish_run(run, &covered))?;
        self.objects.lock().forget(&rows);
        self.synced.lock().forget(&covered);
        Ok(())
    }

    /// Lets the index name `run` and know the containers `covered`, unless nothing is new in that. The commit lock is
    /// held.
    fn publish_run(&self, run: Option<u64>, covered: &BTreeSet<ContainerNo>) -> Result<()> {
        let (repository, covers) = (&self.repository, Covered::These(self.number, covered));
        let mut state = repository.next_state(covers);
        state.runs.extend(run);
        let (written, relied_on) = {
            let pins = repository.pins.lock();
            (pins.written_by(self.number), pins.relied_on(self.number))
        };
        let ages = |number: &ContainerNo| Some((*number, state.interrupted.reclaims_of(*number)?));
        let ages: Vec<_> = relied_on.iter().filter_map(ages).collect();
        state.interrupted.renew(relied_on.into_iter());
        state.interrupted.keep(&written);
        let is_known =
            covered.is_empty() && state.interrupted == repository.index().state.interrupted;
        if run.is_none() && is_known {
            return Ok(());
        }
        repository.publish_index(&self.lease, state)?;
        repository.pins.lock().indexed(covers);
        let mut renewed = self.renewed.lock();
        ages.into_iter().for_each(|(number, age)| *renewed.entry(number).or_default() += age);
        Ok(())
    }

    /// The session commits: nobody is to find what it stored in the list of interrupted containers, and what it renewed
    /// there, for its own next run, is as old as without it.
    pub(super) fn leave_list(&self, interrupted: &mut Interrupted) {
        interrupted.remove(&self.repository.pins.lock().written_by(self.number));
        interrupted.age_more(&self.renewed.lock());
    }

    /// Durably writes `rows` as a run, of which no state knows yet.
    pub(super) fn write_run(&self, rows: &mut [Row]) -> Result<Option<u64>> {
        if rows.is_empty() {
            return Ok(None);
        }
        let number = self.repository.allocate_run();
        write_rows(&*self.repository.storage, &run_name(number), rows)?;
        Ok(Some(number))
    }

    /// Merges runs of like size. The checkpoint is made, whatever comes of this.
    fn compact(&self) {
        let _ = self.repository.compact_index(&self.lease);
    }

    /// The session ends without a commit: what it stored is there for the next one, unless the disk is full.
    pub(super) fn end_without_commit(&self) {
        if self.is_full() {
            self.current.lock().take().for_each(drop);
        }
        let finished = self.finish_containers();
        if self.is_full() {
            return self.remove_unfinished();
        }
        let _ = self.publish_checkpoint(finished.unwrap_or_default());
    }
}
