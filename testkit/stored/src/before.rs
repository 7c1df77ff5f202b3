//! A storage in front of another one, on which something happens before calls.

use repository::storage::{Cold, FileReader, FileWriter, LockGuard, Storage, StorageResult};
use std::sync::Arc;

/// Gets the verb of a call and the name that it is about before the call is made; an error is the answer to it. Not
/// asked before questions that change nothing and read no file, but for storage classes.
pub type Hook = dyn Fn(&'static str, &str) -> StorageResult<()> + Send + Sync;

/// All calls go through to another storage, unless the hook fails.
pub struct Before {
    inner: Arc<dyn Storage>,
    hook: Box<Hook>,
    published_at_once: Option<usize>,
}

impl Before {
    /// In front of `inner`.
    pub fn each(
        inner: Arc<dyn Storage>,
        hook: impl Fn(&'static str, &str) -> StorageResult<()> + Send + Sync + 'static,
    ) -> Arc<dyn Storage> {
        Arc::new(Self { inner, hook: Box::new(hook), published_at_once: None })
    }

    /// The same, and so many containers are published at the same time.
    pub fn each_of(
        inner: Arc<dyn Storage>,
        published_at_once: usize,
        hook: impl Fn(&'static str, &str) -> StorageResult<()> + Send + Sync + 'static,
    ) -> Arc<dyn Storage> {
        let published_at_once = Some(published_at_once);
        Arc::new(Self { inner, hook: Box::new(hook), published_at_once })
    }
}

impl Storage for Before {
    fn published_at_once(&self) -> usize {
        self.published_at_once.unwrap_or_else(|| self.inner.published_at_once())
    }

    fn create(&self, name: &str) -> StorageResult<Box<dyn FileWriter>> {
        (self.hook)("create", name)?;
        self.inner.create(name)
    }

    fn open(&self, name: &str) -> StorageResult<Box<dyn FileReader>> {
        (self.hook)("open", name)?;
        self.inner.open(name)
    }

    fn publish(&self, from: &str, to: &str) -> StorageResult<()> {
        (self.hook)("publish", to)?;
        self.inner.publish(from, to)
    }

    fn separates_content(&self) -> StorageResult<bool> {
        self.inner.separates_content()
    }

    fn publish_content(&self, from: &str, to: &str) -> StorageResult<()> {
        (self.hook)("publish", to)?;
        self.inner.publish_content(from, to)
    }

    fn cold(&self, names: &[String]) -> StorageResult<Vec<Option<Cold>>> {
        (self.hook)("cold", "")?;
        self.inner.cold(names)
    }

    fn replace(&self, from: &str, to: &str) -> StorageResult<()> {
        (self.hook)("replace", to)?;
        self.inner.replace(from, to)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        (self.hook)("put", name)?;
        self.inner.put(name, bytes)
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        (self.hook)("put_new", name)?;
        self.inner.put_new(name, bytes)
    }

    fn remove(&self, name: &str) -> StorageResult<()> {
        (self.hook)("remove", name)?;
        self.inner.remove(name)
    }

    fn unlink(&self, name: &str) -> StorageResult<()> {
        (self.hook)("unlink", name)?;
        self.inner.unlink(name)
    }

    fn remove_all(&self, names: &[String]) -> StorageResult<()> {
        names.iter().try_for_each(|name| (self.hook)("remove_all", name))?;
        self.inner.remove_all(names)
    }

    fn removed_at_once(&self) -> usize {
        self.inner.removed_at_once()
    }

    fn listed_length(&self, name: &str) -> StorageResult<Option<u64>> {
        self.inner.listed_length(name)
    }

    fn length(&self, name: &str) -> StorageResult<u64> {
        (self.hook)("length", name)?;
        self.inner.length(name)
    }

    fn distrust(&self, name: &str) -> bool {
        self.inner.distrust(name)
    }

    fn expect(&self, names: &[String]) {
        self.inner.expect(names);
    }

    fn list(&self, directory: &str) -> StorageResult<Vec<String>> {
        (self.hook)("list", directory)?;
        self.inner.list(directory)
    }

    fn has_consistent_listing(&self) -> bool {
        self.inner.has_consistent_listing()
    }

    fn create_directory(&self, name: &str) -> StorageResult<()> {
        (self.hook)("create_directory", name)?;
        self.inner.create_directory(name)
    }

    fn sync_directory(&self, name: &str) -> StorageResult<()> {
        (self.hook)("sync_directory", name)?;
        self.inner.sync_directory(name)
    }

    fn locks_are_shared(&self) -> bool {
        self.inner.locks_are_shared()
    }

    fn has_named_locks(&self) -> bool {
        self.inner.has_named_locks()
    }

    fn try_lock(&self, name: &str) -> StorageResult<Option<Box<dyn LockGuard>>> {
        (self.hook)("lock", name)?;
        self.inner.try_lock(name)
    }

    fn free_bytes(&self) -> StorageResult<u64> {
        self.inner.free_bytes()
    }

    fn has_limited_space(&self) -> bool {
        self.inner.has_limited_space()
    }

    fn free_inodes(&self) -> StorageResult<Option<u64>> {
        self.inner.free_inodes()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
