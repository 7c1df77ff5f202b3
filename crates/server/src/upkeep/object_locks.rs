//! Locks that reach the bucket of a copy: its storage keeps what locked snapshots need from this server, too
//! (`docs/adr/0046-object-lock.md`).

use api::upkeep::{CopyReport, ObjectLock};
use object_storage::{LockMode, LockOptions, Locked, ObjectStorage};
use pipeline::copy;
use repository::Repository;
use repository::storage::Storage;
use repository::watch::Watch;
use std::sync::Arc;

/// Locks in the copy of `source` what its locked snapshots need, and says in `report` how far that went. Nothing that
/// goes wrong here ends the copy: what is copied is better than what is not.
pub(super) fn lock(
    source: &Repository,
    target: &Arc<ObjectStorage>,
    object_lock: ObjectLock,
    report: &mut CopyReport,
    watch: &dyn Watch,
) {
    watch.stage("lock");
    let storage: Arc<dyn Storage> = target.clone();
    let done = target.can_lock().map_err(|error| error.to_string()).and_then(|()| {
        let files =
            copy::locked_files(source, &storage, watch).map_err(|error| error.to_string())?;
        let lost = files.lost_pages;
        let options = LockOptions::exact(lock_mode(object_lock));
        let locked = target.lock_objects(&files.files, options, &|| !watch.goes_on());
        Ok((locked.map_err(|error| error.to_string())?, lost))
    });
    match done {
        Ok((locked, lost_pages)) => note(report, &locked, lost_pages),
        Err(why) => report.not_locked = Some(why),
    }
}

fn note(report: &mut CopyReport, locked: &Locked, lost_pages: u64) {
    (report.objects_locked, report.objects_not_locked) = (locked.objects, locked.failed);
    report.not_locked = match (locked.failed, lost_pages) {
        (0, 0) => None,
        (0, lost) => Some(format!("{lost} pages of locked snapshots cannot be read in the copy")),
        (failed, _) => {
            Some(format!("{failed} objects are not locked: {}", locked.reasons.join(", ")))
        }
    };
}

/// How a storage calls it.
pub(crate) fn lock_mode(object_lock: ObjectLock) -> LockMode {
    match object_lock {
        ObjectLock::Compliance => LockMode::Compliance,
        ObjectLock::Governance => LockMode::Governance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_locked_is_told() {
        let told = |failed, lost_pages| {
            let mut report = CopyReport::default();
            let reasons = vec!["a: no".to_owned(); usize::from(failed > 0)];
            let locked = Locked { objects: 7, prolonged: 2, failed, reasons };
            note(&mut report, &locked, lost_pages);
            assert_eq!((report.objects_locked, report.objects_not_locked), (7, failed));
            report.not_locked
        };
        assert_eq!(told(0, 0), None);
        assert_eq!(told(3, 1).as_deref(), Some("3 objects are not locked: a: no"));
        assert!(told(0, 2).unwrap().starts_with("2 pages of locked snapshots"));
    }
}
