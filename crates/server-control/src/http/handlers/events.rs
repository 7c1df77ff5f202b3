//! The stream of events.

use crate::events::{Event, Events};
use crate::http::answer::{Asked, Failed};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use api::events::EventFilter;
use api::{Code, Failure};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep, timeout};

/// How often a stream looks for events: so often, at most, progress is told.
const TICK: Duration = Duration::from_secs(1);
/// A reader is told that the stream is alive when nothing else was said for so many ticks.
const QUIET_TICKS: u32 = 15;
/// A reader that takes nothing for so long is disconnected; it can come back and go on.
const SLOW: Duration = Duration::from_secs(20);
/// A stream ends by itself after this time, and its reader comes back: so its token is looked at again, and no limit
/// on connections cuts it off in the middle.
const STREAM: Duration = Duration::from_secs(60);
/// Parts of a stream that wait for its reader, each of some hundred events at most.
const PARTS_MAX: usize = 2;

/// Streams what changes, as server-sent events: jobs, their progress, protection, the site, the audit log.
#[utoipa::path(get, path = "/api/v1/events", tag = "reports", params(EventFilter),
    security(("admin" = [])),
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = "4XX", body = Failure)))]
pub(crate) async fn events(
    State(events): Topic<Events>,
    _: Admin,
    Asked(filter): Asked<EventFilter>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let Some(permit) = events.enter() else {
        let (status, message) = (StatusCode::TOO_MANY_REQUESTS, "too many streams of events");
        return Err(Failed::new(status, Code::InUse, message).hint("Close one of them."));
    };
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let (sender, receiver) = channel(PARTS_MAX);
    tokio::spawn(run(events, header.or(filter.after), sender, permit));
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((head, Body::new(Parts(receiver))).into_response())
}

/// Sends events until the reader is gone, is too slow, or the stream has its time.
async fn run(
    events: Arc<Events>,
    mut after: Option<String>,
    sender: Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let (begun, mut quiet) = (Instant::now(), 0);
    while begun.elapsed() < STREAM {
        let Some((text, next)) = part(events.clone(), after.clone()).await else { return };
        after = Some(next);
        quiet = if text.is_empty() { quiet + 1 } else { 0 };
        let text = if quiet >= QUIET_TICKS { ":\n\n".to_owned() } else { text };
        if !text.is_empty() {
            quiet = 0;
            if !matches!(timeout(SLOW, sender.send(text.into())).await, Ok(Ok(()))) {
                return;
            }
        }
        tokio::select! {
            () = sender.closed() => return,
            () = sleep(TICK) => {}
        }
    }
}

/// What is to be told now, and after which id the rest follows.
async fn part(events: Arc<Events>, after: Option<String>) -> Option<(String, String)> {
    let looked = tokio::task::spawn_blocking(move || {
        let next = events.next(after.as_deref())?;
        let mut text: String = next.events.iter().map(|event| event.text()).collect();
        text.extend(events.progress().iter().map(Event::text));
        crate::Result::Ok((text, next.after))
    });
    match looked.await {
        Ok(Ok(part)) => Some(part),
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot look for events");
            None
        }
        Err(_) => None,
    }
}

/// The parts of a stream, as the body of a response.
struct Parts(Receiver<Bytes>);

impl axum::body::HttpBody for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
