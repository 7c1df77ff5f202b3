//! What is asked of a storage: providers charge by the request. Counted where it is sent, so repeated ones count.

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of requests and bytes, of one process.
#[derive(Debug, Default)]
pub struct Requests {
    writes: AtomicU64,
    lists: AtomicU64,
    reads: AtomicU64,
    deletes: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

/// What was asked until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Requests that write objects or parts of them.
    pub writes: u64,
    /// Requests that list, of up to 1,000 names each.
    pub lists: u64,
    /// Requests that read objects or parts of them.
    pub reads: u64,
    /// Requests that delete, of up to 1,000 objects each.
    pub deletes: u64,
    /// Bytes of what was written, of repeated requests, too.
    pub sent_bytes: u64,
    /// Bytes of objects that were read.
    pub received_bytes: u64,
}

impl Asked {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.writes + self.lists + self.reads + self.deletes
    }
}

impl Requests {
    /// What was asked until now.
    pub fn until_now(&self) -> Asked {
        let [writes, lists, reads, deletes, sent_bytes, received_bytes] = [
            &self.writes,
            &self.lists,
            &self.reads,
            &self.deletes,
            &self.sent_bytes,
            &self.received_bytes,
        ]
        .map(|count| count.load(Ordering::Relaxed));
        Asked { writes, lists, reads, deletes, sent_bytes, received_bytes }
    }

    /// Counts an object, or part of one, that was read.
    pub(crate) fn note_received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn count(&self, request: &HttpRequest) {
        let query = request.uri().query().unwrap_or_default();
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        let kind = match request.method().as_str() {
            "GET" if ["list-type", "versions", "uploads"].into_iter().any(has) => &self.lists,
            "GET" | "HEAD" => &self.reads,
            "DELETE" => &self.deletes,
            "POST" if has("delete") => &self.deletes,
            _ => &self.writes,
        };
        kind.fetch_add(1, Ordering::Relaxed);
        if std::ptr::eq(kind, &self.writes) {
            let bytes = request.body().content_length() as u64;
            self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// Makes clients whose requests are counted.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    pub(crate) inner: C,
    pub(crate) requests: Arc<Requests>,
}

impl<C: HttpConnector> HttpConnector for Counted<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = self.inner.connect(options)?;
        Ok(HttpClient::new(Service { inner, requests: self.requests.clone() }))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    requests: Arc<Requests>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Service {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        self.requests.count(&request);
        Box::pin(self.inner.execute(request))
    }
}
