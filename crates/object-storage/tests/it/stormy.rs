//! Requests of one process to a bucket in memory, of which one ends in a fault.

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
type Many<T> = Pin<Box<dyn futures_util::Stream<Item = Result<T>> + Send>>;

/// What happens at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed: it is not done, and no later one is.
    KilledBefore,
    /// The process is killed: it is done, and no later one is.
    KilledAfter,
    /// It is done, and nobody says so.
    Lost,
    /// It is not done.
    Unavailable,
}

pub(crate) const FAULTS: [Fault; 4] =
    [Fault::KilledBefore, Fault::KilledAfter, Fault::Lost, Fault::Unavailable];

#[derive(Debug, Default)]
struct Plan {
    /// So many requests are left until this happens.
    next: Option<(u64, Fault)>,
    is_dead: bool,
    has_fired: bool,
}

/// The bucket as one process reaches it.
#[derive(Debug)]
pub(crate) struct Stormy {
    inner: Arc<InMemory>,
    plan: Mutex<Plan>,
    /// The end of the names of objects that are not removed.
    kept: Mutex<Option<&'static str>>,
}

impl Stormy {
    pub(crate) fn new(inner: &Arc<InMemory>) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), plan: Mutex::default(), kept: Mutex::default() })
    }

    /// After so many requests, this happens.
    pub(crate) fn arm(&self, requests: u64, fault: Fault) {
        self.plan.lock().next = Some((requests, fault));
    }

    /// Whether something happened.
    pub(crate) fn disarm(&self) -> bool {
        let mut plan = self.plan.lock();
        plan.next = None;
        plan.has_fired
    }

    /// Objects whose names end so are not removed from now on.
    pub(crate) fn keep(&self, end: &'static str) {
        *self.kept.lock() = Some(end);
    }

    /// The process ends, without another request.
    pub(crate) fn kill(&self) {
        self.plan.lock().is_dead = true;
    }

    /// The fault of this request.
    fn fate(&self) -> Option<Fault> {
        let mut plan = self.plan.lock();
        if plan.is_dead {
            return Some(Fault::Unavailable);
        }
        let (left, fault) = plan.next.as_mut()?;
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let fault = *fault;
        plan.next = None;
        plan.has_fired = true;
        plan.is_dead = matches!(fault, Fault::KilledBefore | Fault::KilledAfter);
        Some(fault)
    }

    async fn ask<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fate() {
            None => request.await,
            Some(Fault::KilledBefore | Fault::Unavailable) => Err(failed()),
            Some(Fault::KilledAfter | Fault::Lost) => {
                let _ = request.await;
                Err(failed())
            }
        }
    }

    /// The same for answers that come bit by bit.
    fn answers<T: Send + 'static>(&self, request: Many<T>) -> Many<T> {
        use futures_util::StreamExt;
        let refused = || futures_util::stream::once(async { Err(failed()) });
        match self.fate() {
            None => request,
            Some(Fault::KilledBefore | Fault::Unavailable) => Box::pin(refused()),
            Some(Fault::KilledAfter | Fault::Lost) => {
                Box::pin(request.filter_map(|_| async { None }).chain(refused()))
            }
        }
    }
}

fn failed() -> Error {
    Error::Generic { store: "stormy", source: "the request failed".into() }
}

impl fmt::Display for Stormy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stormy")
    }
}

impl ObjectStore for Stormy {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Later<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(self.ask(self.inner.put_opts(path, payload, options)))
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        options: PutMultipartOptions,
    ) -> Later<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(self.ask(self.inner.put_multipart_opts(path, options)))
    }

    fn get_opts<'a, 'b, 'c>(&'a self, path: &'b Path, options: GetOptions) -> Later<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(self.ask(self.inner.get_opts(path, options)))
    }

    fn delete_stream(&self, paths: Many<Path>) -> Many<Path> {
        use futures_util::StreamExt;
        let kept = *self.kept.lock();
        let refused = |path: &Path| Error::PermissionDenied {
            path: path.to_string(),
            source: "not allowed".into(),
        };
        let paths = paths.map(move |path| match path {
            Ok(path) if kept.is_some_and(|end| path.as_ref().ends_with(end)) => Err(refused(&path)),
            path => path,
        });
        self.answers(self.inner.delete_stream(Box::pin(paths)))
    }

    fn list(&self, prefix: Option<&Path>) -> Many<ObjectMeta> {
        self.answers(self.inner.list(prefix))
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Later<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(self.ask(self.inner.list_with_delimiter(prefix)))
    }

    fn copy_opts<'a, 'b, 'd, 'c>(
        &'a self,
        from: &'b Path,
        to: &'d Path,
        options: CopyOptions,
    ) -> Later<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        Box::pin(self.ask(self.inner.copy_opts(from, to, options)))
    }
}
