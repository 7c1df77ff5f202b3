//! What a policy calls the source of a job, and the class of its snapshots.

/// Jobs that were entered before have neither.
pub(super) const STEP: &str = "
ALTER TABLE jobs ADD COLUMN source_name {text} NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN class {text} NOT NULL DEFAULT '';
";
