//! Checkpoints of a backup: after so many bytes or objects, what is stored is made durable.
//!
//! The repository makes some by itself. These are for who wants to say how much an interruption may cost.

use crate::Result;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use store::WriteSession;

/// After how much a backup makes a checkpoint; 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Bytes stored.
    pub bytes: u64,
    /// Objects of the source that were read.
    pub objects: u64,
}

/// How far a backup is.
#[derive(Clone, Copy, Default)]
struct Position {
    bytes: u64,
    objects: u64,
}

/// Makes the checkpoints of a session; shared by the threads of a backup.
pub(super) struct Checkpoints<'a> {
    session: &'a dyn WriteSession,
    limits: TransactionLimits,
    /// Objects that were read.
    objects: AtomicU64,
    /// Where the last one was made.
    last: Mutex<Position>,
}

impl<'a> Checkpoints<'a> {
    pub(super) fn new(session: &'a dyn WriteSession, limits: TransactionLimits) -> Self {
        Self { session, limits, objects: AtomicU64::new(0), last: Mutex::default() }
    }

    /// So many `objects` more were read: makes one if it is due, unless another thread is about it.
    pub(super) fn make_if_due(&self, objects: u64) -> Result<()> {
        let objects = objects + self.objects.fetch_add(objects, Ordering::Relaxed);
        if self.limits == TransactionLimits::default() {
            return Ok(());
        }
        let Some(mut last) = self.last.try_lock() else { return Ok(()) };
        let now = Position { bytes: self.session.stored_bytes(), objects };
        let is_due = |limit: u64, from: u64, to: u64| limit > 0 && to.saturating_sub(from) >= limit;
        if is_due(self.limits.bytes, last.bytes, now.bytes)
            || is_due(self.limits.objects, last.objects, now.objects)
        {
            self.session.checkpoint()?;
            *last = now;
        }
        Ok(())
    }
}
