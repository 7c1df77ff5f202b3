//! Storage that fails when told to, and that writes down what was asked of it.

use parking_lot::Mutex;
use repository::local::LocalStorage;
use repository::storage::{
    FileReader, FileWriter, LockGuard, PUT_SUFFIX, Storage, StorageError, StorageResult,
};
use rustix::io::Errno;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// One operation fails, whatever it is.
    Once,
    /// It and all after it fail: the disk died.
    Dead,
    /// Once the storage cannot be reached.
    Away,
    /// What writes fails from then on: the disk is full.
    Full,
    /// Something that writes finds the disk full, once.
    FullOnce,
    /// One sync fails, and never again (fsyncgate).
    SyncOnce,
    /// What is written to one file does not arrive, which its sync is the first to say.
    Late,
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    pub(crate) name: String,
}

type Hook = Box<dyn FnMut(&Call) + Send>;

/// What the storage and its open files share.
pub(crate) struct Plan {
    fault: Fault,
    /// Number of the operation that fails, from 0; of those that this fault concerns.
    at: u64,
    /// Only calls of this verb on files with such names are concerned.
    only: Option<(&'static str, &'static str)>,
    next: AtomicU64,
    fired: AtomicBool,
    calls: Mutex<Vec<Call>>,
    hook: Mutex<Option<Hook>>,
    /// Bytes of files with such names that cannot be read.
    unreadable: Option<(String, Range<u64>)>,
}

impl Plan {
    /// Nothing fails but reading these bytes of the file `name`.
    pub(crate) fn unreadable(name: &str, bytes: Range<u64>) -> Arc<Self> {
        let plan = Self::new(Fault::Once, u64::MAX, None);
        Arc::new(Self { unreadable: Some((name.to_owned(), bytes)), ..plan })
    }

    fn can_read(&self, name: &str, bytes: Range<u64>) -> bool {
        let touches = |bad: &Range<u64>| bytes.start < bad.end && bad.start < bytes.end;
        !self.unreadable.as_ref().is_some_and(|(file, bad)| file == name && touches(bad))
    }

    /// The operation `at` fails.
    pub(crate) fn failing(fault: Fault, at: u64) -> Arc<Self> {
        Arc::new(Self::new(fault, at, None))
    }

    /// The first call of `verb` on a file whose name begins with `prefix` fails. Threads make the
    /// number of an operation another one in every run; this finds it.
    pub(crate) fn failing_on(verb: &'static str, prefix: &'static str) -> Arc<Self> {
        Arc::new(Self::new(Fault::Once, 0, Some((verb, prefix))))
    }

    /// The same of a storage that cannot be reached.
    pub(crate) fn away_on(verb: &'static str, prefix: &'static str) -> Arc<Self> {
        Arc::new(Self::new(Fault::Away, 0, Some((verb, prefix))))
    }

    /// The first file whose name begins with `prefix` is not written, which its sync says.
    pub(crate) fn failing_late(prefix: &'static str) -> Arc<Self> {
        Arc::new(Self::new(Fault::Late, 0, Some(("sync", prefix))))
    }

    /// Whether what is appended to the file does not arrive.
    fn swallows(&self, name: &str) -> bool {
        let is_it = self.only.is_some_and(|(_, prefix)| name.starts_with(prefix));
        self.fault == Fault::Late && is_it && !self.fired()
    }

    fn new(fault: Fault, at: u64, only: Option<(&'static str, &'static str)>) -> Self {
        let (next, fired) = (AtomicU64::new(0), AtomicBool::new(false));
        let (calls, hook) = (Mutex::default(), Mutex::default());
        Self { fault, at, only, next, fired, calls, hook, unreadable: None }
    }

    /// Nothing fails.
    pub(crate) fn none() -> Arc<Self> {
        Self::failing(Fault::Once, u64::MAX)
    }

    /// `hook` sees every call before it is made.
    pub(crate) fn watched(hook: Hook) -> Arc<Self> {
        let plan = Self::none();
        plan.watch(hook);
        plan
    }

    /// `hook` sees every call before it is made, or fails.
    pub(crate) fn watch(&self, hook: Hook) {
        *self.hook.lock() = Some(hook);
    }

    pub(crate) fn fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }

    /// All calls so far, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    fn concerns(&self, verb: &str, name: &str) -> bool {
        let writes = ["create", "append", "sync", "put", "create_directory"];
        let of_fault = match self.fault {
            Fault::Once | Fault::Dead | Fault::Away => true,
            Fault::Full | Fault::FullOnce => writes.contains(&verb),
            Fault::SyncOnce | Fault::Late => verb == "sync",
        };
        of_fault && self.only.is_none_or(|only| verb == only.0 && name.starts_with(only.1))
    }

    fn call(&self, verb: &'static str, name: &str) -> StorageResult<()> {
        let call = Call { verb, name: name.to_owned() };
        if let Some(hook) = &mut *self.hook.lock() {
            hook(&call);
        }
        self.calls.lock().push(call);
        if !self.concerns(verb, name) {
            return Ok(());
        }
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let stays = matches!(self.fault, Fault::Dead | Fault::Full);
        if number == self.at || stays && number > self.at {
            self.fired.store(true, Ordering::SeqCst);
            let error = match self.fault {
                Fault::Full | Fault::FullOnce => Errno::NOSPC,
                Fault::Away => Errno::STALE,
                _ => Errno::IO,
            };
            return Err(StorageError::new(verb, name, error));
        }
        Ok(())
    }
}

/// A local storage under a plan. `put` is taken apart, so that each of its steps may fail.
pub(crate) struct FaultyStorage {
    inner: LocalStorage,
    plan: Arc<Plan>,
}

impl FaultyStorage {
    #[expect(clippy::new_ret_no_self, reason = "nobody wants it but as a storage")]
    pub(crate) fn new(path: &Path, plan: &Arc<Plan>) -> Arc<dyn Storage> {
        Arc::new(Self { inner: LocalStorage::open(path).unwrap(), plan: plan.clone() })
    }
}

impl Storage for FaultyStorage {
    fn create(&self, name: &str) -> StorageResult<Box<dyn FileWriter>> {
        self.plan.call("create", name)?;
        let inner = self.inner.create(name)?;
        Ok(Box::new(FaultyWriter { inner, name: name.to_owned(), plan: self.plan.clone() }))
    }

    fn open(&self, name: &str) -> StorageResult<Box<dyn FileReader>> {
        self.plan.call("open", name)?;
        let inner = self.inner.open(name)?;
        Ok(Box::new(FaultyReader { inner, name: name.to_owned(), plan: self.plan.clone() }))
    }

    fn publish(&self, from: &str, to: &str) -> StorageResult<()> {
        self.plan.call("publish", to)?;
        self.inner.publish(from, to)
    }

    fn replace(&self, from: &str, to: &str) -> StorageResult<()> {
        self.plan.call("replace", to)?;
        self.inner.replace(from, to)
    }

    /// As `LocalStorage` does it.
    fn put(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        self.plan.call("put", name)?;
        let part = format!("{name}{PUT_SUFFIX}");
        self.inner.remove(&part)?;
        let mut file = self.create(&part)?;
        file.append(&[bytes])?;
        file.sync()?;
        self.plan.call("publish", name)?;
        self.inner.replace(&part, name)
    }

    fn remove(&self, name: &str) -> StorageResult<()> {
        self.plan.call("remove", name)?;
        self.inner.remove(name)
    }

    fn unlink(&self, name: &str) -> StorageResult<()> {
        self.plan.call("remove", name)?;
        self.inner.unlink(name)
    }

    fn list(&self, directory: &str) -> StorageResult<Vec<String>> {
        self.plan.call("list", directory)?;
        self.inner.list(directory)
    }

    fn has_consistent_listing(&self) -> bool {
        self.inner.has_consistent_listing()
    }

    fn create_directory(&self, name: &str) -> StorageResult<()> {
        self.plan.call("create_directory", name)?;
        self.inner.create_directory(name)
    }

    fn sync_directory(&self, name: &str) -> StorageResult<()> {
        self.plan.call("sync_directory", name)?;
        self.inner.sync_directory(name)
    }

    fn try_lock(&self, name: &str) -> StorageResult<Option<Box<dyn LockGuard>>> {
        self.plan.call("lock", name)?;
        self.inner.try_lock(name)
    }

    fn free_bytes(&self) -> StorageResult<u64> {
        self.inner.free_bytes()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct FaultyWriter {
    inner: Box<dyn FileWriter>,
    name: String,
    plan: Arc<Plan>,
}

impl FileWriter for FaultyWriter {
    /// A failing write leaves half of what it should have written.
    fn append(&mut self, parts: &[&[u8]]) -> StorageResult<()> {
        if let Err(error) = self.plan.call("append", &self.name) {
            let bytes = parts.concat();
            let _ = self.inner.append(&[&bytes[..bytes.len() / 2]]);
            return Err(error);
        }
        if self.plan.swallows(&self.name) {
            return self.inner.append(&[&vec![0; parts.concat().len()]]);
        }
        self.inner.append(parts)
    }

    fn sync(&mut self) -> StorageResult<()> {
        self.plan.call("sync", &self.name)?;
        self.inner.sync()
    }
}

struct FaultyReader {
    inner: Box<dyn FileReader>,
    name: String,
    plan: Arc<Plan>,
}

impl FileReader for FaultyReader {
    fn length(&self) -> StorageResult<u64> {
        self.plan.call("length", &self.name)?;
        self.inner.length()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.plan.call("read", &self.name)?;
        if !self.plan.can_read(&self.name, offset..offset + buffer.len() as u64) {
            return Err(StorageError::new("read", &self.name, Errno::IO));
        }
        self.inner.read_exact_at(buffer, offset)
    }
}
