//! Repositories in folders, what was stored in them, and what a kill leaves of them.

use crate::record::{chunk, data, leaf, manifest, page, session_record};
use ids::RepositoryId;
use repository::Repository;
use repository::config::Config;
use repository::lease::Lease;
use repository::local::LocalStorage;
use repository::reclaim::ReclaimOptions;
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A new repository in a folder of its own, and its lease.
#[must_use]
pub fn made() -> (tempfile::TempDir, Arc<Repository>, Arc<Lease>) {
    made_as(RepositoryId([1; 16]))
}

/// The same, with this id.
#[must_use]
pub fn made_as(repository: RepositoryId) -> (tempfile::TempDir, Arc<Repository>, Arc<Lease>) {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder.path()).unwrap());
    let config = Config::new(repository, [0; 32], 0, 1, [1, 2, 3]);
    let keys = repository::keys::Keys::default();
    let repository = Arc::new(Repository::init(storage, config, &keys).unwrap());
    let lease = repository.lease("test").unwrap();
    (folder, repository, lease)
}

/// A snapshot of page `n`, which refers to chunk `n`, of so many bytes.
pub fn store(
    repository: &Arc<Repository>,
    lease: &Arc<Lease>,
    n: u16,
    bytes: usize,
) -> SnapshotRef {
    let session = repository.begin(lease, None, session_record()).unwrap();
    for record in [data(n, bytes), leaf(n, &[chunk(n)])] {
        for id in &record.ids {
            assert!(session.claim(id).unwrap());
        }
        session.append(&record).unwrap();
    }
    let sequence = session.next_snapshot();
    session.commit(&manifest(page(n), sequence)).unwrap().snapshot
}

/// The files of all containers.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for shard in std::fs::read_dir(folder.join("containers")).unwrap() {
        for file in std::fs::read_dir(shard.unwrap().path()).unwrap() {
            found.push(file.unwrap().path());
        }
    }
    found.sort();
    found
}

/// Reclaim everything that nothing refers to.
pub const OPTIONS: ReclaimOptions = ReclaimOptions {
    max_waste_percent: 0.0,
    dry_run: false,
    accept_damage: false,
    free_interrupted: false,
};

/// What the process leaves that is killed now.
#[must_use]
pub fn killed_here(folder: &tempfile::TempDir) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    copy_tree(folder.path(), left.path());
    left
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The repository in `folder`, as another process opens it.
#[must_use]
pub fn reopened(folder: &Path) -> Arc<Repository> {
    Arc::new(Repository::open(Arc::new(LocalStorage::open(folder).unwrap())).unwrap())
}

/// Number of runs of the index.
#[must_use]
pub fn runs(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder.join("index")).unwrap();
    names
        .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().contains("run-"))
        .count()
}
