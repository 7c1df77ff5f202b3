//! Which objects a backup could not read: they are not in the tree, so the manifest names them.

use super::emptied;
use capture::{CaptureOperation, CaptureProblem};
use format::escape::escape;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Objects that a manifest names; how many there were in all is in its report.
pub const FAILED_OBJECTS_MAX: usize = 1_000;

/// An object that could not be read, or not completely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedObject {
    /// Its path on the machine, escaped as in `docs/FORMAT.md`, F-7.9.
    pub path: String,
    /// What failed and why, for people.
    pub reason: String,
}

/// Collects the first [`FAILED_OBJECTS_MAX`] problems of a backup, and each directory in which something should be
/// mounted: the next backup has to know of it. Called by many threads.
#[derive(Debug, Default)]
pub struct FailedObjects(Mutex<BTreeMap<Vec<u8>, String>>);

impl FailedObjects {
    /// Notes a problem. Of several with one object, the first counts.
    pub fn note(&self, problem: &CaptureProblem) {
        let mut objects = self.0.lock();
        if objects.len() < FAILED_OBJECTS_MAX || problem.operation == CaptureOperation::FindFiles {
            let reason = format!("cannot {}: {}", problem.operation, problem.reason());
            objects.entry(problem.path.clone()).or_insert(reason);
        }
    }

    /// What was noted, sorted by path.
    pub fn list(&self) -> Vec<FailedObject> {
        let named = |(path, reason): (&Vec<u8>, &String)| FailedObject {
            path: escape(path),
            reason: reason.clone(),
        };
        self.0.lock().iter().map(named).collect()
    }

    /// The same, and begins again.
    pub fn take(&self) -> Vec<FailedObject> {
        let failed = self.list();
        self.0.lock().clear();
        failed
    }
}

/// Of `failed` as many as take at most `bytes` in a manifest, in their order: what the next backup has to know, and then
/// the first.
pub(super) fn within(failed: Vec<FailedObject>, bytes: usize) -> Vec<FailedObject> {
    let (mut left, not_mounted) = (bytes, emptied::reason());
    let mut ranked: Vec<_> = failed.into_iter().enumerate().collect();
    ranked.sort_by_key(|(_, object)| object.reason != not_mounted);
    let mut kept: Vec<_> = ranked
        .into_iter()
        .take_while(|(_, object)| {
            let taken = serde_json::to_vec(object).map_or(usize::MAX, |json| json.len() + 1);
            let does_fit = taken <= left;
            left = left.saturating_sub(taken);
            does_fit
        })
        .collect();
    kept.sort_by_key(|(at, _)| *at);
    kept.into_iter().map(|(_, object)| object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn problem(path: &[u8]) -> CaptureProblem {
        let (operation, error) = (CaptureOperation::Open, Errno::ACCESS);
        CaptureProblem { path: path.to_vec(), operation, error }
    }

    #[test]
    fn each_object_is_named_once_in_order_with_its_reason() {
        let failed = FailedObjects::default();
        [&b"/b"[..], b"/a\xff", b"/b"].iter().for_each(|path| failed.note(&problem(path)));
        let reason = "cannot open: Permission denied".to_owned();
        let named = |path: &str| FailedObject { path: path.into(), reason: reason.clone() };
        assert_eq!(failed.take(), [named("/a\\xff"), named("/b")]);
        assert_eq!(failed.take(), []);
    }

    #[test]
    fn what_should_be_mounted_is_named_whatever_else_failed() {
        let failed = FailedObjects::default();
        let long = |number: usize| format!("/a/{number:0>4000}");
        (0..2 * FAILED_OBJECTS_MAX)
            .for_each(|number| failed.note(&problem(long(number).as_bytes())));
        failed.note(&CaptureProblem::not_mounted(b"/srv".to_vec()));
        let some = within(failed.take(), 100_000);
        assert!(some.len() < 30, "{}", some.len());
        assert_eq!(some.last().map(|object| &*object.path), Some("/srv"), "in its order");
    }

    #[test]
    fn very_many_fit_into_a_manifest() {
        let failed = FailedObjects::default();
        let long = |number: usize| format!("/{number:0>4000}");
        (0..2 * FAILED_OBJECTS_MAX)
            .for_each(|number| failed.note(&problem(long(number).as_bytes())));
        let all = failed.take();
        assert_eq!(all.len(), FAILED_OBJECTS_MAX);
        let some = within(all.clone(), 100_000);
        assert!(serde_json::to_vec(&some).unwrap().len() <= 100_001, "with its brackets");
        assert_eq!((some.len(), &some[..]), (24, &all[..24]));
        assert_eq!(within(all.clone(), usize::MAX), all);
    }
}
