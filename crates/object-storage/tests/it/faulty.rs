//! A connection to a real storage that loses answers, by a plan.

use bytes::Bytes;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use object_store::signer::HeaderValue;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::Random;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is done, and the answer is 503.
    DoneAndUnavailable,
    /// It is done, and the connection is reset.
    DoneAndReset,
    /// It is not done, since another one is under way: 409.
    Conflict,
    /// It is not done: 503.
    Unavailable,
    /// The body of its answer ends early.
    ShortBody,
    /// It is not done, since the storage is full: 507. Never by chance.
    Full,
    /// It is not done, and will not be: 403. Never by chance.
    Forbidden,
    /// It is not done, since the session has ended: 400. Never by chance, since it does not pass.
    Expired,
}

const ALL: [Fault; 5] = [
    Fault::DoneAndUnavailable,
    Fault::DoneAndReset,
    Fault::Conflict,
    Fault::Unavailable,
    Fault::ShortBody,
];
/// One request in so many fails, and never so many one after the other that nobody could go on.
const ONE_IN: usize = 6;
const IN_A_ROW_MAX: usize = 2;

const EXPIRED: &str =
    "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>";

/// Which requests fail; also counts them.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    random: Mutex<Option<(Random, usize)>>,
    requests: Mutex<Vec<String>>,
    /// What happens to the next requests that create something.
    next_creates: Mutex<VecDeque<Fault>>,
    is_expired: AtomicBool,
    ignores_tags: AtomicBool,
}

impl Plan {
    /// Faults by `seed`.
    pub(crate) fn random(seed: u64) -> Arc<Self> {
        let random = Mutex::new(Some((Random::new(seed), 0)));
        Arc::new(Self { random, ..Self::default() })
    }

    /// No fault, until something else is said.
    pub(crate) fn quiet() -> Arc<Self> {
        Arc::default()
    }

    /// The next requests that create something fail so.
    pub(crate) fn fail_creates(&self, faults: impl IntoIterator<Item = Fault>) {
        self.next_creates.lock().extend(faults);
    }

    /// From now on, the storage says that it has replaced what has another tag than that of `If-Match`.
    pub(crate) fn ignore_tags(&self) {
        self.ignores_tags.store(true, Ordering::Relaxed);
    }

    /// From now on, the session has ended.
    pub(crate) fn expire(&self) {
        self.is_expired.store(true, Ordering::Relaxed);
    }

    fn next(&self, request: String, is_create: bool) -> Option<Fault> {
        self.requests.lock().push(request);
        if self.is_expired.load(Ordering::Relaxed) {
            return Some(Fault::Expired);
        }
        if is_create && let Some(fault) = self.next_creates.lock().pop_front() {
            return Some(fault);
        }
        let mut random = self.random.lock();
        let (random, in_a_row) = random.as_mut()?;
        if *in_a_row >= IN_A_ROW_MAX || random.index(ONE_IN) != 0 {
            *in_a_row = 0;
            return None;
        }
        *in_a_row += 1;
        let fault = ALL[random.index(ALL.len())];
        // Only what is conditional can conflict.
        if fault == Fault::Conflict && !is_create { None } else { Some(fault) }
    }
}

/// Makes clients that follow a plan.
#[derive(Clone, Debug)]
pub(crate) struct Faulty {
    plan: Arc<Plan>,
}

impl Faulty {
    pub(crate) fn new(plan: &Arc<Plan>) -> Self {
        Self { plan: plan.clone() }
    }
}

impl HttpConnector for Faulty {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service { inner, plan: self.plan.clone() }))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    plan: Arc<Plan>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Service {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.answer(request))
    }
}

impl Service {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let what = format!("{} {}", request.method(), request.uri());
        let is_create = request.headers().contains_key("if-none-match");
        let fault = self.plan.next(what, is_create);
        let is_replaced = request.headers().contains_key("if-match")
            && self.plan.ignores_tags.load(Ordering::Relaxed);
        let response = match fault {
            Some(Fault::Conflict) => return Ok(refusal(409, "")),
            Some(Fault::Unavailable) => return Ok(refusal(503, "")),
            Some(Fault::Full) => return Ok(refusal(507, "")),
            Some(Fault::Forbidden) => return Ok(refusal(403, "")),
            Some(Fault::Expired) => return Ok(refusal(400, EXPIRED)),
            _ => self.inner.execute(request).await?,
        };
        if is_replaced && response.status() == 412 {
            let mut replaced = refusal(200, "");
            replaced.headers_mut().insert("etag", HeaderValue::from_static("\"replaced\""));
            return Ok(replaced);
        }
        match fault {
            Some(Fault::DoneAndUnavailable) => Ok(with(response, 503, Bytes::new())),
            Some(Fault::DoneAndReset) => {
                let error = io::Error::from(io::ErrorKind::ConnectionReset);
                Err(HttpError::new(HttpErrorKind::Interrupted, error))
            }
            Some(Fault::ShortBody) => {
                let status = response.status().as_u16();
                let (parts, body) = response.into_parts();
                let body = body.bytes().await?;
                let half = body.slice(..body.len() / 2);
                Ok(with(HttpResponse::from_parts(parts, Bytes::new().into()), status, half))
            }
            _ => Ok(response),
        }
    }
}

/// An answer of this status, without the request: that of another request that changes nothing.
fn refusal(status: u16, body: &'static str) -> HttpResponse {
    let nothing = HttpResponse::new(HttpResponseBody::from(Bytes::new()));
    with(nothing, status, Bytes::from_static(body.as_bytes()))
}

fn with(mut response: HttpResponse, status: u16, body: Bytes) -> HttpResponse {
    *response.status_mut() = status.try_into().unwrap();
    *response.body_mut() = body.into();
    response
}
