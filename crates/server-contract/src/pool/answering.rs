//! Whether the file systems of pools answer.

use super::places::PoolPaths;
use super::question::{Question, Unanswered};
use super::superblock_lately;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// So long somebody waits for an answer: a file system that is only busy answers by then.
const WITHIN: Duration = Duration::from_secs(10);
/// So long an answer is good: nobody asks again meanwhile.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// What is known of each pool.
#[derive(Default)]
pub(crate) struct Answering(Mutex<BTreeMap<PathBuf, Arc<Question<()>>>>);

impl Answering {
    /// Waits until the file system of a pool has answered, and for some seconds at most. What the answer is does not
    /// matter here: an error is one, too.
    ///
    /// # Errors
    /// Since when it does not answer.
    pub(super) fn wait(&self, place: PoolPaths) -> Result<(), Duration> {
        let question = self.0.lock().entry(place.pool.clone()).or_default().clone();
        if question.last().is_some_and(|(age, ())| age < GOOD_FOR) {
            return Ok(());
        }
        // The first is what network file systems ask their servers, the second reads.
        let asking = move || {
            let _ = rustix::fs::statvfs(&place.pool);
            let _ = superblock_lately(&place);
        };
        match question.ask(WITHIN, asking) {
            Err(Unanswered::Silent(time)) => Err(time),
            // Whoever needs the pool asks by himself.
            Ok(()) | Err(Unanswered::NoThread(_)) => Ok(()),
        }
    }
}
