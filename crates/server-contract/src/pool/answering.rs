//! Whether the file systems of pools answer.
//!
//! One whose server or disk is gone may hang for ever. Then one thread waits for it, and everybody else is told.

use super::places::PoolPaths;
use super::superblock_lately;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long somebody waits for an answer: a file system that is only busy answers by then.
const WITHIN: Duration = Duration::from_secs(10);
/// So long an answer is good: nobody asks anew meanwhile.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// What is known of each pool.
#[derive(Default)]
pub(crate) struct Answering(Mutex<BTreeMap<PathBuf, Arc<Asked>>>);

/// The question to one pool.
#[derive(Default)]
struct Asked {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    /// Since when a thread waits for an answer.
    waits_since: Option<Instant>,
    answered: Option<Instant>,
}

impl Answering {
    /// Waits until the file system of a pool has answered, and for some seconds at most. What the answer is does not
    /// matter here: an error is one, too.
    ///
    /// # Errors
    /// Since when it does not answer.
    pub(super) fn wait(&self, place: PoolPaths) -> Result<(), Duration> {
        let asked = self.0.lock().entry(place.pool.clone()).or_default().clone();
        let mut state = asked.state.lock();
        if state.answered.is_some_and(|at| at.elapsed() < GOOD_FOR) {
            return Ok(());
        }
        let since = match state.waits_since {
            Some(since) => since,
            None => {
                let now = Instant::now();
                if !asks(&asked, place) {
                    return Ok(());
                }
                *state.waits_since.insert(now)
            }
        };
        asked.wait(&mut state, since)
    }
}

impl Asked {
    fn wait(&self, state: &mut MutexGuard<'_, State>, since: Instant) -> Result<(), Duration> {
        while state.waits_since == Some(since) {
            if self.answered.wait_until(state, since + WITHIN).timed_out() {
                return Err(since.elapsed());
            }
        }
        Ok(())
    }
}

/// Starts the thread that asks; whether there is one: without it, whoever needs the pool asks by himself.
fn asks(asked: &Arc<Asked>, place: PoolPaths) -> bool {
    let asked = asked.clone();
    let asking = move || {
        // The first is what network file systems ask their servers, the second reads.
        let _ = rustix::fs::statvfs(&place.pool);
        let _ = superblock_lately(&place);
        let mut state = asked.state.lock();
        *state = State { waits_since: None, answered: Some(Instant::now()) };
        asked.answered.notify_all();
    };
    std::thread::Builder::new().name("pool".to_owned()).spawn(asking).is_ok()
}
