//! Messages of a backup while it runs.

use super::failed::FailedObject;
use capture::CaptureProblem;

/// Receives the messages of a backup while it runs. Called by many threads.
pub trait BackupMonitor: Sync {
    /// An object could not be read, or not completely.
    fn problem(&self, problem: &CaptureProblem);
    /// What could not be read since the last call, for the manifest: see [`super::FailedObjects`]. Called at the end,
    /// and when everything is read again because the session was lost.
    fn take_failed(&self) -> Vec<FailedObject> {
        Vec::new()
    }
    /// A message for people, for example why a snapshot could not be built upon.
    fn note(&self, text: &str);
}
