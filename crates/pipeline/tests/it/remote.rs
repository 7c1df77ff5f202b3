//! A repository behind a network: what a restore and a look ask of it, counted in round trips.

mod lost_answers;

use crate::testkit::build::noise;
use crate::testkit::{
    NAME, PASSWORD, TestFolder, Tree, assert_same, restore_to, restore_with, snapshot,
};
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};
use parking_lot::Mutex;
use pipeline::cache::ChunkCache;
use pipeline::manifest::ManifestReader;
use pipeline::{UnlockedRepository, restore};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Config, Result, SnapshotRef, Store, StoredSnapshot, WriteLease};

/// A repository far away.
pub(crate) struct Far {
    near: Arc<dyn Store>,
    /// Questions that were waited for.
    trips: AtomicUsize,
    pub(crate) reads: AtomicUsize,
    /// Records that were wanted and not read yet, and how often.
    pub(crate) wanted: Mutex<HashMap<RecordLocation, usize>>,
    /// What is read in the place of others.
    pub(crate) instead: Mutex<HashMap<RecordLocation, RecordLocation>>,
    /// Records that were read unasked.
    unasked: AtomicUsize,
    /// Commits of which the answer is still to be lost.
    loses: Arc<AtomicUsize>,
}

impl Far {
    pub(crate) fn of(test_folder: &TestFolder) -> (Arc<Self>, UnlockedRepository) {
        let near = test_folder.open().store;
        let (trips, reads, unasked, wanted, instead, loses) = Default::default();
        let far = Arc::new(Self { near, trips, reads, wanted, unasked, instead, loses });
        let repository = UnlockedRepository::open_store(far.clone(), PASSWORD).unwrap();
        (far, repository)
    }

    fn trip(&self) -> &dyn Store {
        self.trips.fetch_add(1, Ordering::Relaxed);
        &*self.near
    }

    pub(crate) fn trips(&self) -> usize {
        self.trips.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn left(&self) -> usize {
        self.wanted.lock().values().sum()
    }
}

impl Store for Far {
    fn config(&self) -> &Config {
        self.near.config()
    }
    fn damage_epoch(&self) -> u64 {
        self.near.damage_epoch()
    }
    fn snapshots(&self) -> Result<Vec<SnapshotRef>> {
        self.trip().snapshots()
    }
    fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot> {
        self.trip().snapshot(name)
    }
    fn read_snapshots(&self, names: &[SnapshotRef]) -> Vec<Result<StoredSnapshot>> {
        self.trip().read_snapshots(names)
    }
    fn latest_snapshot(&self, source: &ObjectId) -> Result<Option<StoredSnapshot>> {
        self.trip().latest_snapshot(source)
    }
    fn receipt_keys(&self) -> Result<Vec<[u8; 32]>> {
        self.near.receipt_keys()
    }
    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        self.near.key_slots()
    }
    fn key_list(&self, anew: bool) -> Result<Option<Vec<u8>>> {
        self.near.key_list(anew)
    }
    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        self.trip().locate(ids)
    }
    fn prefetch(&self, location: RecordLocation) -> Result<()> {
        *self.wanted.lock().entry(location).or_default() += 1;
        Ok(())
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match self.wanted.lock().get_mut(&location) {
            Some(count) if *count > 0 => *count -= 1,
            _ => {
                self.unasked.fetch_add(1, Ordering::Relaxed);
            }
        }
        let location = self.instead.lock().get(&location).copied().unwrap_or(location);
        self.near.read(location, buffer)
    }
    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        self.trip().heal(location, buffer)
    }
    fn healed(&self) -> Vec<RecordLocation> {
        Vec::new()
    }
    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation> {
        self.trip().fetch(id, buffer)
    }
    fn refresh_after(&self, gone: ContainerNo) -> Result<()> {
        self.near.refresh_after(gone)
    }
    fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>> {
        // They come before the first wanted record of their container.
        self.near.session_keys(container, healed)
    }
    fn write_lease(self: Arc<Self>, holder: &str) -> Result<Box<dyn WriteLease>> {
        lost_answers::lease(self.near.clone().write_lease(holder)?, &self.loses)
    }
}

/// Two windows of files in several thousand, and some lists' worth of a large one.
fn wide(test_folder: &TestFolder) -> SnapshotRef {
    for number in 0..9000u64 {
        test_folder.write(&format!("d{}/{number}", number % 40), &noise(number, 1100));
    }
    test_folder.write("large", &noise(1, 32 << 20));
    test_folder.backup(&test_folder.init()).snapshot
}

#[test]
fn a_restore_waits_for_few_answers_and_all_it_reads_was_sent_for() {
    let test_folder = TestFolder::new();
    let name = wide(&test_folder);
    let (far, repository) = Far::of(&test_folder);
    let target = test_folder.at("restored");
    restore_to(&repository, name, &target).unwrap();
    assert_same(&test_folder.state(), &Tree::of(&target.join(NAME)));
    let (trips, reads) = (far.trips(), far.reads.load(Ordering::Relaxed));
    assert!(reads > 20, "{reads} records make no test");
    // For each window a few: where its pages lie, where its chunks lie.
    assert_eq!((far.unasked.load(Ordering::Relaxed), far.left()), (0, 0));
    assert!(trips < 24, "{trips} round trips for {reads} records");
}

#[test]
fn pages_are_sent_for_before_they_are_read() {
    let test_folder = TestFolder::new();
    // No content: all that is read is pages, of long names that have nothing in common.
    for number in 0..12_000u64 {
        let name: String = noise(number, 100).iter().map(|byte| format!("{byte:02x}")).collect();
        test_folder.write(&format!("empty{}/{name}", number % 90), b"");
    }
    let name = test_folder.backup(&test_folder.init()).snapshot;
    let (far, repository) = Far::of(&test_folder);
    restore_to(&repository, name, &test_folder.at("restored")).unwrap();
    assert!(far.reads.load(Ordering::Relaxed) > 0);
    assert_eq!((far.unasked.load(Ordering::Relaxed), far.left()), (0, 0));
}

#[test]
fn a_directory_is_restored_without_pages_of_others() {
    let test_folder = TestFolder::new();
    let name = wide(&test_folder);
    let (far, repository) = Far::of(&test_folder);
    let target = test_folder.at("restored");
    let subpath = format!("{NAME}/d7");
    let options = restore::RestoreOptions::default();
    restore_with(&repository, name, subpath.as_bytes(), &target, &options).unwrap();
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 225);
    assert!(far.trips() < 10);
    assert_eq!(far.left(), 0, "what was sent for was read");
}

#[test]
fn a_page_that_a_cache_has_is_not_fetched_and_nothing_stays_in_the_cache() {
    let test_folder = TestFolder::new();
    let name = wide(&test_folder);
    let (far, repository) = Far::of(&test_folder);
    let folder = test_folder.at("cache");
    // A child that another test begins at this moment has the lock, too, until it is itself.
    let open = || {
        (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            ChunkCache::open(&folder, 1 << 30).unwrap()
        })
    };
    let open = || open().unwrap();
    let cache = Arc::new(open());
    let options = restore::RestoreOptions { cache: Some(cache.clone()), ..Default::default() };
    restore_with(&repository, name, b"", &test_folder.at("one"), &options).unwrap();
    let report = cache.report();
    assert!(report.misses > 5 && report.hits > 5, "the second pass finds them: {report:?}");
    let first = far.trips();
    restore_with(&repository, name, b"", &test_folder.at("two"), &options).unwrap();
    assert_eq!(cache.report().misses, report.misses, "no page is fetched again");
    assert!(far.trips() < first);
    drop((cache, options));
    assert_eq!(folder.join("pages").metadata().unwrap().len(), 0);
    assert_eq!(open().report().bytes, 0);
}

#[test]
fn many_snapshots_are_listed_with_one_round_trip_for_many() {
    let test_folder = TestFolder::new();
    let repository = test_folder.init();
    for number in 0..20u64 {
        test_folder.write("one", &noise(number, 100));
        test_folder.backup(&repository);
    }
    let (far, repository) = Far::of(&test_folder);
    let all = ManifestReader::new(&repository).unwrap().all(|_, error| panic!("{error}")).unwrap();
    assert_eq!((all.len(), far.trips()), (20, 2));
    let latest = pipeline::select::SnapshotSelector {
        by: pipeline::select::SelectBy::Latest(0),
        node: None,
    };
    let found = pipeline::select::find(
        &repository,
        &latest,
        pipeline::select::SnapshotFilter::ANY,
        &mut |_| (),
    )
    .unwrap()
    .snapshot;
    assert_eq!((found.name, far.trips()), (all[19].name, 2));
    assert_eq!(snapshot(&repository, found.name).unwrap().body, all[19].body);
}
