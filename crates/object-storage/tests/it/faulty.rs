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
    /// It is not done, since nobody knows such an object: 404. Never by chance.
    Absent,
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

/// The body that an answer has in place of its own, with a status of success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// One bit of it differs.
    Flipped,
    /// What a proxy in between says of itself.
    Page,
    /// What the storage says of an error.
    Error,
}

impl Wrong {
    fn instead_of(self, body: &Bytes) -> Bytes {
        match self {
            Self::Flipped => {
                let mut flipped = body.to_vec();
                let at = flipped.len() / 2;
                flipped.get_mut(at).into_iter().for_each(|byte| *byte ^= 1);
                flipped.into()
            }
            Self::Page => Bytes::from_static(b"<html><body>Please come back later</body></html>"),
            Self::Error => Bytes::from_static(
                b"<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>Try again.</Message></Error>",
            ),
        }
    }
}

/// Answers that are spoiled, to GETs of which the address has this part.
#[derive(Debug)]
struct Spoiled {
    part: String,
    wrong: Wrong,
    /// So many of them are right before.
    skipped: usize,
    left: usize,
}

/// Which requests fail; also counts them.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    random: Mutex<Option<(Random, usize)>>,
    requests: Mutex<Vec<String>>,
    /// What happens to the next requests that create something.
    next_creates: Mutex<VecDeque<Fault>>,
    is_expired: AtomicBool,
    ignores_tags: AtomicBool,
    spoiled: Mutex<Option<Spoiled>>,
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

    /// The next `count` answers to GETs of which the address has `part` are `wrong`.
    pub(crate) fn spoil(&self, part: &str, wrong: Wrong, count: usize) {
        let (part, skipped) = (part.to_owned(), 0);
        *self.spoiled.lock() = Some(Spoiled { part, wrong, skipped, left: count });
    }

    /// One such answer is wrong, behind `skipped` that are right.
    pub(crate) fn spoil_after(&self, part: &str, wrong: Wrong, skipped: usize) {
        let part = part.to_owned();
        *self.spoiled.lock() = Some(Spoiled { part, wrong, skipped, left: 1 });
    }

    /// How many of those answers were not asked for yet.
    pub(crate) fn left_to_spoil(&self) -> usize {
        self.spoiled.lock().as_ref().map_or(0, |spoiled| spoiled.left)
    }

    /// How the answer to this request is wrong.
    fn wrong(&self, request: &str) -> Option<Wrong> {
        let mut spoiled = self.spoiled.lock();
        let spoiled = spoiled.as_mut()?;
        if !request.starts_with("GET ") || !request.contains(&*spoiled.part) {
            return None;
        }
        if spoiled.skipped > 0 {
            spoiled.skipped -= 1;
            return None;
        }
        let left = spoiled.left;
        spoiled.left = left.saturating_sub(1);
        (left > 0).then_some(spoiled.wrong)
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
        let wrong = self.plan.wrong(&what);
        let fault = self.plan.next(what, is_create);
        let is_replaced = request.headers().contains_key("if-match")
            && self.plan.ignores_tags.load(Ordering::Relaxed);
        let response = match fault {
            Some(Fault::Conflict) => return Ok(refusal(409, "")),
            Some(Fault::Unavailable) => return Ok(refusal(503, "")),
            Some(Fault::Full) => return Ok(refusal(507, "")),
            Some(Fault::Absent) => return Ok(refusal(404, "")),
            Some(Fault::Forbidden) => return Ok(refusal(403, "")),
            Some(Fault::Expired) => return Ok(refusal(400, EXPIRED)),
            _ => self.inner.execute(request).await?,
        };
        if let Some(wrong) = wrong {
            return spoiled(response, wrong).await;
        }
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

/// The `response` with a body that is wrong, and as long as it says.
async fn spoiled(response: HttpResponse, wrong: Wrong) -> Result<HttpResponse, HttpError> {
    let (mut parts, body) = response.into_parts();
    let body = wrong.instead_of(&body.bytes().await?);
    parts.headers.insert("content-length", HeaderValue::from(body.len()));
    Ok(HttpResponse::from_parts(parts, body.into()))
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
