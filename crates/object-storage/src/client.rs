//! Requests to an object storage, one at a time for who calls.

mod marks;
mod reading;
mod writing;

pub(crate) use reading::Part;
pub(crate) use writing::Kind;

use crate::errors::{failed, panicked};
use crate::patience::Patience;
use crate::requests::Requests;
use crate::signed::{Request, Signed, parsed, unreadable};
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use object_store::signer::HeaderMap;
use repository::local::Counters;
use repository::storage::{StorageError, StorageResult};
use serde::Deserialize;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Runtime;

/// Small objects that are read at the same time.
const AT_ONCE: usize = 16;

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
    /// Where it is counted how long containers take.
    times: OnceLock<Arc<Counters>>,
    /// For what the library cannot ask; a storage in memory has nothing of that.
    signed: Option<Signed>,
    /// How readers wait for what is in an archive; they do not if nobody says so.
    patience: OnceLock<Patience>,
    /// Whether the storage compares tags, once that was tried.
    compares: OnceLock<bool>,
}

impl Drop for Client {
    /// Without a wait: it may end on any thread.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
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
            times: OnceLock::new(),
            signed: None,
            patience: OnceLock::new(),
            compares: OnceLock::new(),
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
    ) -> Vec<StorageResult<(HeaderMap, Bytes)>> {
        let Some(signed) = &self.signed else {
            let refused = || StorageError::new(what.0, what.1, ErrorKind::Unsupported);
            return requests.iter().map(|_| Err(refused())).collect();
        };
        let (signed, operation, name, count) =
            (signed.clone(), what.0, what.1.to_owned(), requests.len());
        let answers = self.wait(async move {
            let send = |request| {
                let (signed, name) = (&signed, &*name);
                async move { signed.send((operation, name), &request).await }
            };
            futures_util::stream::iter(requests).map(send).buffered(AT_ONCE).collect().await
        });
        let each_failed =
            |_| (0..count).map(|_| Err(failed(what.0, what.1, &panicked()))).collect();
        answers.unwrap_or_else(each_failed)
    }

    /// From now on, readers wait for what is being brought back.
    pub(crate) fn wait_with(&self, patience: Patience) {
        let _ = self.patience.set(patience); // the first one counts
    }

    /// Whether it can ask what the library cannot; a storage in memory cannot.
    pub(crate) fn can_sign(&self) -> bool {
        self.signed.is_some()
    }

    /// From now on, how long writes and reads of containers take is counted in `times`.
    pub(crate) fn time_in(&self, times: Arc<Counters>) {
        let _ = self.times.set(times); // the first ones count
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
        self.is_uncertain.load(Ordering::Relaxed) || self.requests.is_uncertain()
    }

    /// Does `work` on the threads for requests, and waits. Callers may be threads of any kind. An error if it panics:
    /// the library asserts what it is given, and a backup is not to end with a bug of one request.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> object_store::Result<T> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        self.spawn(async move {
            let _ = done.send(work.await); // somebody waits, or nobody needs it
        });
        result.recv().map_err(|_| panicked())
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

    /// The answer to one request about the whole bucket.
    pub(crate) fn ask(&self, operation: &'static str, request: Request) -> StorageResult<Bytes> {
        let answer = self.send((operation, &self.location), vec![request]).pop();
        answer.map_or_else(|| Ok(Bytes::new()), |answer| answer.map(|(_, body)| body))
    }

    /// A page of the list `what` of the whole bucket, below the prefix, behind what these parts of the query name.
    pub(crate) fn page<T: for<'a> Deserialize<'a>>(
        &self,
        what: &str,
        behind: [(&str, &str); 2],
    ) -> StorageResult<T> {
        let prefix = self.prefix();
        let mut query = vec![(what, ""), ("prefix", &*prefix)];
        query.extend(behind.into_iter().filter(|(_, value)| !value.is_empty()));
        let answer = self.ask("list", Request::get("".into(), &query))?;
        parsed(&answer).ok_or_else(|| unreadable("list", &self.location))
    }

    /// With what all keys of this repository begin.
    pub(crate) fn prefix(&self) -> String {
        let prefix = self.path("").to_string();
        if prefix.is_empty() { prefix } else { format!("{}/", prefix.trim_end_matches('/')) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    #[test]
    fn a_request_that_panics_is_an_error_and_the_next_one_is_sent() {
        let store = Arc::new(InMemory::new());
        let client = Client::new(store.clone(), store, "", "s3://memory").unwrap();
        let failed = client
            .wait(async {
                if true {
                    panic!("in a test")
                }
            })
            .unwrap_err();
        assert!(crate::errors::failed("read", "x", &failed).is_unreachable(), "{failed}");
        assert_eq!(client.wait(async { 1 }).unwrap(), 1);
    }
}
