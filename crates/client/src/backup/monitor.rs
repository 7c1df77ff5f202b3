//! Messages of a backup while it runs.

use capture::CaptureProblem;

/// Receives the messages of a backup while it runs. Called by many threads.
pub trait BackupMonitor: Sync {
    /// An object could not be read, or not completely.
    fn problem(&self, problem: &CaptureProblem);
    /// A message for people, for example why a snapshot could not be built upon.
    fn note(&self, text: &str);
}
