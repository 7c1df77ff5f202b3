//! Moves of domains from pool to pool.

/// `pool`: where a job of upkeep moves its domain; `interrupt`: whether it ends what runs there.
pub(super) const STEP: &str = "
ALTER TABLE upkeep_jobs ADD COLUMN pool {text};
ALTER TABLE upkeep_jobs ADD COLUMN interrupt {int} NOT NULL DEFAULT 0;
";
