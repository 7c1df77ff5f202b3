//! Which paths a snapshot shows.

/// `paths`: an id of the list of paths. The repositories have it: what is not in the trash is read from them again.
pub(super) const STEP: &str = "
ALTER TABLE snapshots ADD COLUMN paths {text};
DELETE FROM snapshots WHERE trashed IS NULL;
";
