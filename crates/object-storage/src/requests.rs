//! What is asked of a storage: providers charge by the request. Counted where it is sent, so repeated ones count.

use crate::away::{Away, Waits, is_away, is_refusal};
use crate::errors::FULL_STATUS;
use crate::listed;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Called when a storage that has answered does not answer any more, with how long it is waited for.
pub type TellsAway = Box<dyn Fn(Duration) + Send + Sync>;

/// Counts of requests and bytes, of one process.
#[derive(Default)]
pub struct Requests {
    writes: AtomicU64,
    lists: AtomicU64,
    reads: AtomicU64,
    deletes: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// Whether the storage has answered one.
    has_answered: AtomicBool,
    is_uncertain: AtomicBool,
    /// Whether somebody was told that it does not answer now.
    is_told: AtomicBool,
    tells_away: OnceLock<TellsAway>,
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

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.until_now().fmt(f)
    }
}

impl Requests {
    /// From now on, `tells` is called once for each time that the storage is away for more than a second.
    pub fn tell_away(&self, tells: TellsAway) {
        let _ = self.tells_away.set(tells); // the first one counts
    }

    /// Whether something was sent that changes the storage, of which nobody can say whether it was done, or will be.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.is_uncertain.load(Ordering::Relaxed)
    }

    fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// An answer to a request, of which an earlier try may be under way if it `is_lost`.
    fn note(&self, answer: &Result<HttpResponse, HttpError>, is_lost: bool) {
        if answer.is_ok() {
            self.has_answered.store(true, Ordering::Relaxed);
            self.is_told.store(false, Ordering::Relaxed);
        }
        self.is_uncertain.fetch_or(is_lost && is_refusal(answer), Ordering::Relaxed);
    }

    fn give_up(&self, is_lost: bool) {
        self.has_answered.store(false, Ordering::Relaxed);
        self.is_uncertain.fetch_or(is_lost, Ordering::Relaxed);
    }

    fn note_away(&self, away: Away) {
        if let Some(tells) = self.tells_away.get()
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            tells(away.0);
        }
    }

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

/// Makes clients whose requests are counted, and repeated while the storage is away.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    pub(crate) inner: C,
    pub(crate) requests: Arc<Requests>,
    pub(crate) away: Away,
}

impl<C: HttpConnector> HttpConnector for Counted<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = self.inner.connect(options)?;
        Ok(HttpClient::new(Service { inner, requests: self.requests.clone(), away: self.away }))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    requests: Arc<Requests>,
    away: Away,
}

impl Service {
    /// What is answered to one request.
    async fn answer(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.inner.execute(request.clone()).await?;
        match listed::asked(request) {
            Some(element) => listed::checked(answer, element).await,
            None => Ok(answer),
        }
    }

    /// A storage that never answered is not waited for: its address may be wrong. Nor one that was waited for in vain.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut waits, mut is_lost) = (Waits::new(self.away), false);
        loop {
            self.requests.count(&request);
            let answer = self.answer(&request).await;
            if !is_away(&answer) {
                self.requests.note(&answer, is_lost);
                return answer.map(not_repeated);
            }
            is_lost |= answer.is_ok() && !request.method().is_safe();
            let is_long = waits.is_long();
            let Some(wait) = waits.next().filter(|_| self.requests.has_answered()) else {
                self.requests.give_up(is_lost && self.away != Away::NONE);
                return answer;
            };
            if is_long {
                self.requests.note_away(self.away);
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// The library sends again, with all of its bytes, what is answered with a status from 500 on. A storage that is full
/// stays so for longer than it tries, so it sees another status.
fn not_repeated(mut answer: HttpResponse) -> HttpResponse {
    if answer.status() == 507
        && let Ok(status) = FULL_STATUS.try_into()
    {
        *answer.status_mut() = status;
    }
    answer
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Service {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.send(request))
    }
}
