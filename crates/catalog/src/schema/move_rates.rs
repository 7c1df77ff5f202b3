//! Moves of domains that leave the disks to others.

/// `bytes_per_sec`: how much a move copies at most.
pub(super) const STEP: &str = "
ALTER TABLE upkeep_jobs ADD COLUMN bytes_per_sec {int};
";
