//! Requests to an object storage, one at a time for who calls. What a failed request did is found out by reading, not
//! guessed.

use crate::errors::{TOO_LARGE, failed, is_final};
use crate::names::Listed;
use crate::requests::Requests;
use crate::signed::{Request, Signed};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};
use repository::storage::{StorageError, StorageResult};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How often an object is created that the storage says exists and does not have: a conflict that has not ended.
const CREATE_TRIES: u32 = 8;
/// How often objects are removed that the connection was lost for.
const DELETE_TRIES: u32 = 5;
/// Before the second of such tries; each further one waits twice as long.
const CREATE_WAIT: Duration = Duration::from_millis(50);
/// Small objects that are read at the same time.
const AT_ONCE: usize = 16;
/// The most of an object that is read as a whole: 32 MiB. Much more than any that is written here.
const READ_WHOLE_MAX: u64 = 32 << 20;
/// The most of an object of which an earlier version is put back: 1 GiB, as much as one request could write of it.
const RESTORED_MAX: u64 = 1 << 30;
/// Larger files go up in parts of this size: 64 MiB.
const PART_BYTES: u64 = 64 << 20;
/// A file that goes up as one object: 160 MiB, more than a container with its parity.
const WHOLE_BYTES_MAX: u64 = 160 << 20;

/// An object storage, and the prefix of one repository in it.
pub struct Client {
    /// For what is small.
    store: Arc<dyn ObjectStore>,
    /// For what is large: it waits longer.
    bulk: Arc<dyn ObjectStore>,
    prefix: String,
    location: String,
    /// Taken when this ends.
    runtime: Option<Runtime>,
    is_uncertain: AtomicBool,
    requests: Arc<Requests>,
    /// For what the library cannot ask; a storage in memory has nothing of that.
    signed: Option<Signed>,
}

impl Drop for Client {
    /// Without a wait: it may end on any thread.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An object that this process has written.
pub(crate) struct Written {
    /// By which the storage tells contents apart, if it has said so.
    pub(crate) tag: Option<String>,
}

/// A part of an object, and the length of all of it.
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    pub(crate) object_bytes: u64,
}

impl Client {
    /// The repository below `prefix` in `store`; `bulk` is the same storage, with more patience. `location` is for
    /// messages.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        bulk: Arc<dyn ObjectStore>,
        prefix: &str,
        location: &str,
    ) -> StorageResult<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().thread_name("object-storage").build();
        let runtime = runtime.map_err(|error| StorageError::new("reach", location, error))?;
        let (prefix, location) = (prefix.to_owned(), location.to_owned());
        Ok(Self {
            store,
            bulk,
            prefix,
            location,
            runtime: Some(runtime),
            is_uncertain: AtomicBool::new(false),
            requests: Arc::default(),
            signed: None,
        })
    }

    /// Sends what the library cannot ask through `signed`.
    pub(crate) fn sign_with(&mut self, signed: Signed) {
        self.signed = Some(signed);
    }

    /// The answers to `requests`, several at the same time; in their order. What is done, and to what, is for messages.
    pub(crate) fn send(
        &self,
        what: (&'static str, &str),
        requests: Vec<Request>,
    ) -> Vec<StorageResult<Bytes>> {
        let Some(signed) = &self.signed else {
            let refused = || StorageError::new(what.0, what.1, ErrorKind::Unsupported);
            return requests.iter().map(|_| Err(refused())).collect();
        };
        let (signed, operation, name) = (signed.clone(), what.0, what.1.to_owned());
        self.wait(async move {
            let send = |request| {
                let (signed, name) = (&signed, &*name);
                async move { signed.send((operation, name), &request).await }
            };
            futures_util::stream::iter(requests).map(send).buffered(AT_ONCE).collect().await
        })
    }

    /// Requests are counted in `requests`.
    pub(crate) fn count_in(&mut self, requests: Arc<Requests>) {
        self.requests = requests;
    }

    /// What is asked of the storage. Nothing of one in memory.
    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// Location of the repository, for messages.
    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    /// Whether a write failed of which nobody can say whether it was done, or will be.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.is_uncertain.load(Ordering::Relaxed)
    }

    /// Does `work` on the threads for requests, and waits. Callers may be threads of any kind.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        self.spawn(async move {
            let _ = done.send(work.await); // somebody waits, or nobody needs it
        });
        match result.recv() {
            Ok(result) => result,
            Err(_) => unreachable!("a request panicked"),
        }
    }

    /// Does `work` from time to time, without anybody who waits.
    pub(crate) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        match &self.runtime {
            Some(runtime) => runtime.spawn(work),
            None => unreachable!("it ends with this"),
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        if self.prefix.is_empty() {
            Path::from(name)
        } else {
            Path::from(format!("{}/{name}", self.prefix))
        }
    }

    /// The name of the object at `path`.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let path = path.as_ref();
        let below = path.strip_prefix(&*self.prefix).unwrap_or(path);
        below.trim_start_matches('/').to_owned()
    }

    /// The whole object `name`.
    pub(crate) fn get(&self, name: &str) -> StorageResult<Bytes> {
        self.read(name, None, READ_WHOLE_MAX, self.store.clone()).map(|part| part.bytes)
    }

    /// The whole objects `names`, several at the same time; in their order.
    pub(crate) fn get_all(&self, names: &[String]) -> Vec<StorageResult<Bytes>> {
        let get = |name: &String| {
            let (path, store) = (self.path(name), self.store.clone());
            async move { collect(store.get(&path).await?, READ_WHOLE_MAX).await }
        };
        let gets: Vec<_> = names.iter().map(get).collect();
        let work = futures_util::stream::iter(gets).buffered(AT_ONCE).collect::<Vec<_>>();
        let read = self.wait(work).into_iter().zip(names);
        read.map(|(bytes, name)| bytes.map_err(|error| failed("read", name, &error)))
            .inspect(|bytes| {
                self.requests.note_received(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
            })
            .collect()
    }

    /// The bytes `range` of the object `name`: fewer where it ends.
    pub(crate) fn get_range(&self, name: &str, range: Range<u64>) -> StorageResult<Part> {
        let max = range.end.saturating_sub(range.start);
        self.read(name, Some(GetRange::Bounded(range)), max, self.bulk.clone())
    }

    /// The last `length` bytes of the object `name`.
    pub(crate) fn get_end(&self, name: &str, length: u64) -> StorageResult<Part> {
        self.read(name, Some(GetRange::Suffix(length)), length, self.bulk.clone())
    }

    fn read(
        &self,
        name: &str,
        range: Option<GetRange>,
        max: u64,
        store: Arc<dyn ObjectStore>,
    ) -> StorageResult<Part> {
        let path = self.path(name);
        let read = self.wait(async move {
            let result = store.get_opts(&path, GetOptions { range, ..Default::default() }).await?;
            let object_bytes = result.meta.size;
            object_store::Result::Ok(Part { bytes: collect(result, max).await?, object_bytes })
        });
        let part = read.map_err(|error| failed("read", name, &error))?;
        self.requests.note_received(part.bytes.len() as u64);
        Ok(part)
    }

    /// Makes the version `version` of the object `name` the current one: what it has is written once more.
    pub(crate) fn restore(&self, name: &str, version: &str) -> StorageResult<()> {
        let (path, store) = (self.path(name), self.bulk.clone());
        let options = GetOptions { version: Some(version.to_owned()), ..Default::default() };
        let read =
            self.wait(
                async move { collect(store.get_opts(&path, options).await?, RESTORED_MAX).await },
            );
        let bytes = read.map_err(|error| failed("read", name, &error))?;
        self.requests.note_received(bytes.len() as u64);
        self.put(name, bytes)
    }

    /// The answer to one request about the whole bucket.
    pub(crate) fn ask(&self, operation: &'static str, request: Request) -> StorageResult<Bytes> {
        let answer = self.send((operation, &self.location), vec![request]).pop();
        answer.unwrap_or_else(|| Ok(Bytes::new()))
    }

    /// With what all keys of this repository begin.
    pub(crate) fn prefix(&self) -> String {
        let prefix = self.path("").to_string();
        if prefix.is_empty() { prefix } else { format!("{}/", prefix.trim_end_matches('/')) }
    }

    /// The length of the object `name`, in bytes.
    pub(crate) fn length(&self, name: &str) -> StorageResult<u64> {
        let (path, store) = (self.path(name), self.store.clone());
        let head = self.wait(async move { store.head(&path).await });
        Ok(head.map_err(|error| failed("open", name, &error))?.size)
    }

    /// Durably writes the object `name`, whether or not it is there.
    pub(crate) fn put(&self, name: &str, bytes: Bytes) -> StorageResult<()> {
        let put = self.try_put(name, bytes, PutMode::Overwrite).map(drop);
        put.map_err(|error| self.note(failed("write", name, &error), &error))
    }

    fn try_put(&self, name: &str, bytes: Bytes, mode: PutMode) -> object_store::Result<Written> {
        let is_large = bytes.len() > 1 << 20;
        let store = if is_large { self.bulk.clone() } else { self.store.clone() };
        let path = self.path(name);
        self.wait(async move {
            let options = PutOptions { mode, ..Default::default() };
            let put = store.put_opts(&path, bytes.into(), options).await?;
            Ok(Written { tag: put.e_tag.as_deref().map(tag) })
        })
    }

    /// Durably writes the object `name` unless it is there; `None` when another one is. That the storage says so proves
    /// nothing: our own request may have been done and its answer lost, or another one be under way. So it is read.
    pub(crate) fn create(&self, name: &str, bytes: &Bytes) -> StorageResult<Option<Written>> {
        let mut wait = CREATE_WAIT;
        let mut last = None;
        for _ in 0..CREATE_TRIES {
            let error = match self.try_put(name, bytes.clone(), PutMode::Create) {
                Ok(written) => return Ok(Some(written)),
                Err(error) => error,
            };
            let exists = matches!(error, object_store::Error::AlreadyExists { .. });
            if !exists && is_final(&error) {
                // What was sent before may still be under way, whatever is said of this one.
                return Err(match last {
                    None => failed("create", name, &error),
                    Some(_) => self.unknown(name, &error),
                });
            }
            match self.is_there(name, bytes) {
                Ok(is_ours) => return Ok(is_ours.then_some(Written { tag: None })),
                // The conflict has ended, or the request was lost. The same bytes once more do no harm.
                Err(absent) if absent.is_not_found() => std::thread::sleep(wait),
                Err(_) => return Err(self.unknown(name, &error)),
            }
            wait *= 2;
            last = Some(error);
        }
        let error = last.map(|error| self.unknown(name, &error));
        Err(error.unwrap_or_else(|| StorageError::new("create", name, ErrorKind::TimedOut)))
    }

    /// Whether the object `name` is these bytes, however many.
    fn is_there(&self, name: &str, bytes: &Bytes) -> StorageResult<bool> {
        match self.read(name, None, bytes.len() as u64, self.store.clone()) {
            Ok(there) => Ok(there.bytes == *bytes),
            Err(error) if error.source.kind() == ErrorKind::InvalidData => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Nobody knows whether it was done, or is still to come.
    fn unknown(&self, name: &str, error: &object_store::Error) -> StorageError {
        self.is_uncertain.store(true, Ordering::Relaxed);
        let error = failed("create", name, error);
        let kind = match error.source.kind() {
            ErrorKind::AlreadyExists => ErrorKind::TimedOut,
            kind => kind,
        };
        StorageError::new("create", name, std::io::Error::new(kind, error.source.to_string()))
    }

    /// Whether the object `name`, which is there, is not created once more.
    pub(crate) fn is_refused(&self, name: &str) -> StorageResult<bool> {
        let mut last = None;
        for _ in 0..CREATE_TRIES {
            match self.try_put(name, Bytes::from_static(b"one too many"), PutMode::Create) {
                Ok(_) => return Ok(false),
                Err(object_store::Error::AlreadyExists { .. }) => return Ok(true),
                Err(error) if is_final(&error) => return Err(failed("create", name, &error)),
                Err(error) => last = Some(failed("create", name, &error)),
            }
        }
        Err(last.unwrap_or_else(|| StorageError::new("create", name, ErrorKind::TimedOut)))
    }

    /// Tries at the same time to create the object `name` with each of `bodies`: which were told that they did.
    pub(crate) fn create_at_once(&self, name: &str, bodies: &[Bytes]) -> Vec<bool> {
        let path = self.path(name);
        let puts: Vec<_> = bodies
            .iter()
            .map(|body| {
                let (store, path, body) = (self.store.clone(), path.clone(), body.clone());
                let options = PutOptions { mode: PutMode::Create, ..Default::default() };
                async move { store.put_opts(&path, body.into(), options).await.is_ok() }
            })
            .collect();
        self.wait(futures_util::future::join_all(puts))
    }

    fn note(&self, error: StorageError, source: &object_store::Error) -> StorageError {
        if !is_final(source) {
            self.is_uncertain.store(true, Ordering::Relaxed);
        }
        error
    }

    /// Durably writes what `read` gives of `length` bytes as the object `name`, unless it is there; `None` when another one
    /// is.
    pub(crate) fn upload(
        &self,
        name: &str,
        length: u64,
        read: impl Fn(u64, usize) -> StorageResult<Bytes>,
    ) -> StorageResult<Option<Written>> {
        if length <= WHOLE_BYTES_MAX {
            return self.create(name, &read(0, length as usize)?);
        }
        match self.length(name) {
            Ok(_) => return Ok(None),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let uploaded = self.upload_in_parts(name, length, read);
        if uploaded.is_err() {
            self.is_uncertain.store(true, Ordering::Relaxed);
        }
        uploaded.map(|()| Some(Written { tag: None }))
    }

    /// In parts nothing can be refused: for names that are given once.
    fn upload_in_parts(
        &self,
        name: &str,
        length: u64,
        read: impl Fn(u64, usize) -> StorageResult<Bytes>,
    ) -> StorageResult<()> {
        let (path, store) = (self.path(name), self.bulk.clone());
        let failed = |error| failed("write", name, &error);
        let begun = self.wait(async move { store.put_multipart(&path).await });
        let mut upload = begun.map_err(failed)?;
        let mut offset = 0;
        while offset < length {
            let part = read(offset, PART_BYTES.min(length - offset) as usize)?;
            offset += part.len() as u64;
            let sent = upload.put_part(part.into());
            self.wait(sent).map_err(failed)?;
        }
        let completed = self.wait(async move { upload.complete().await.map(drop) });
        completed.map_err(failed)
    }

    /// Durably removes objects; those that are not there, too.
    pub(crate) fn delete(&self, names: &[String]) -> StorageResult<()> {
        let (mut wait, mut tries) = (CREATE_WAIT, 1);
        loop {
            let error = match self.try_delete(names) {
                Ok(()) => return Ok(()),
                // One that is not there must not keep the others.
                Err(object_store::Error::NotFound { .. }) if names.len() > 1 => {
                    return names
                        .iter()
                        .try_for_each(|name| self.delete(std::slice::from_ref(name)));
                }
                Err(object_store::Error::NotFound { .. }) => return Ok(()),
                Err(error) => error,
            };
            // To remove once more does no harm.
            if is_final(&error) || tries == DELETE_TRIES {
                let name = names.first().map_or(&*self.location, |name| name);
                return Err(self.note(failed("remove", name, &error), &error));
            }
            std::thread::sleep(wait);
            wait *= 2;
            tries += 1;
        }
    }

    fn try_delete(&self, names: &[String]) -> object_store::Result<()> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let store = self.store.clone();
        self.wait(async move {
            let paths = futures_util::stream::iter(paths).boxed();
            store.delete_stream(paths).try_for_each(|_| async { Ok(()) }).await
        })
    }

    /// The objects below the directory `directory` (all with ""), with names behind `after`.
    pub(crate) fn list(
        &self,
        directory: &str,
        after: &str,
    ) -> StorageResult<Vec<(String, Listed)>> {
        let all = [&self.prefix, directory].map(|part| part.trim_matches('/'));
        let prefix = all.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let prefix = (!prefix.is_empty()).then(|| Path::from(prefix));
        let (after, store) = (self.path(after), self.store.clone());
        let listed = self.wait(async move {
            let objects = store.list_with_offset(prefix.as_ref(), &after);
            let listed = |meta: ObjectMeta| {
                (meta.location, Listed { length: meta.size, tag: meta.e_tag.as_deref().map(tag) })
            };
            objects.map_ok(listed).try_collect::<Vec<_>>().await
        });
        let listed = listed.map_err(|error| failed("list", self.shown(directory), &error))?;
        Ok(listed.into_iter().map(|(path, found)| (self.relative(&path), found)).collect())
    }

    /// Names in `directory` and of the directories in it; the objects with their lengths.
    pub(crate) fn list_directory(
        &self,
        directory: &str,
    ) -> StorageResult<Vec<(String, Option<u64>)>> {
        let (path, store) = (self.path(directory), self.store.clone());
        let listed = self.wait(async move { store.list_with_delimiter(Some(&path)).await });
        let listed = listed.map_err(|error| failed("list", directory, &error))?;
        let name = |path: &Path| path.filename().unwrap_or_default().to_owned();
        let directories = listed.common_prefixes.iter().map(|path| (name(path), None));
        let objects = listed.objects.iter().map(|meta| (name(&meta.location), Some(meta.size)));
        let mut names: Vec<_> = directories.chain(objects).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn shown<'a>(&'a self, directory: &'a str) -> &'a str {
        if directory.is_empty() { &self.location } else { directory }
    }
}

/// What is promised, of at most `max` bytes; neither more nor less is taken. Who writes to the bucket must not decide
/// how much memory this takes.
async fn collect(result: GetResult, max: u64) -> object_store::Result<Bytes> {
    let promised = result.range.end - result.range.start;
    if promised > max {
        return Err(wrong(format!("{promised} bytes {TOO_LARGE}")));
    }
    let mut bytes = BytesMut::with_capacity(promised as usize);
    let mut parts = result.into_stream();
    while let Some(part) = parts.try_next().await? {
        bytes.extend_from_slice(&part);
        if bytes.len() as u64 > promised {
            return Err(wrong(format!(
                "the storage sent more than the {promised} bytes it promised"
            )));
        }
    }
    if (bytes.len() as u64) < promised {
        return Err(wrong(format!("the storage sent {} bytes of {promised}", bytes.len())));
    }
    Ok(bytes.freeze())
}

fn wrong(reason: String) -> object_store::Error {
    object_store::Error::Generic { store: "answer", source: reason.into() }
}

/// Some storages put the tag into quotes in one answer and not in another.
fn tag(e_tag: &str) -> String {
    e_tag.trim_matches('"').to_owned()
}
