//! What a backup tells while it runs.

use capture::CaptureProblem;

/// What a backup tells while it runs. Called by many threads.
pub trait BackupMonitor: Sync {
    /// An object could not be read, or not wholly.
    fn problem(&self, problem: &CaptureProblem);
    /// Something that a person should know: why a snapshot could not be built upon, for one.
    fn note(&self, text: &str);
}
