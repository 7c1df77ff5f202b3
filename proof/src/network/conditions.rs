//! How well the network does: answers that get lost, and a server that is away for a while.

use fuser::Errno;
use simulation::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Of so many requests, `losses` are not answered.
const REQUESTS: u64 = 10_000;

/// What comes of a request.
pub(super) enum Fate {
    Answered,
    /// It never came to the server.
    Lost(Errno),
    /// The server did it, and nobody was told.
    Unanswered(Errno),
}

/// The weather for all machines.
pub(super) struct NetworkConditions {
    losses: AtomicU64,
    /// Whether who asks waits until the server is back ("hard"), or is told of a time-out ("soft").
    is_hard: AtomicBool,
    away_until: Mutex<Option<Instant>>,
    random: Mutex<Random>,
    lost: AtomicU64,
}

impl NetworkConditions {
    pub(super) fn calm(seed: u64) -> Self {
        Self {
            losses: AtomicU64::new(0),
            is_hard: AtomicBool::new(false),
            away_until: Mutex::new(None),
            random: Mutex::new(Random::new(seed)),
            lost: AtomicU64::new(0),
        }
    }

    /// From now on so many of ten thousand requests are lost.
    pub(super) fn loses(&self, losses: u64) {
        self.losses.store(losses, Ordering::Relaxed);
    }

    /// The server goes away for a while.
    pub(super) fn goes_away(&self, time: Duration, is_hard: bool) {
        self.is_hard.store(is_hard, Ordering::Relaxed);
        *self.away_until.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Instant::now() + time);
    }

    /// All is well again.
    pub(super) fn clears(&self) {
        self.loses(0);
        *self.away_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Requests that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// What comes of the next request.
    pub(super) fn fate(&self) -> Fate {
        let fate = self.decide();
        self.lost.fetch_add(u64::from(!matches!(fate, Fate::Answered)), Ordering::Relaxed);
        fate
    }

    fn decide(&self) -> Fate {
        let until = *self.away_until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
        if let Some(left) = left {
            if !self.is_hard.load(Ordering::Relaxed) {
                return Fate::Lost(Errno::ETIMEDOUT);
            }
            std::thread::sleep(left);
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        if random.below(REQUESTS) >= self.losses.load(Ordering::Relaxed) {
            return Fate::Answered;
        }
        let error = *random.pick(&[Errno::ETIMEDOUT, Errno::ESTALE]);
        if random.one_in(2) { Fate::Lost(error) } else { Fate::Unanswered(error) }
    }
}
