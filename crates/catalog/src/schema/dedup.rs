//! Domains without deduplication.

/// `dedup`: whether backups to the domain share equal data; of a token, what its domain must have.
pub(super) const STEP: &str = "
ALTER TABLE domains ADD COLUMN dedup {text} NOT NULL DEFAULT 'on';
ALTER TABLE tokens ADD COLUMN dedup {text};
";
