//! Callers who mean no good, on a connection in memory.

use super::*;
use crate::Control;
use crate::http::router;
use std::net::Ipv4Addr;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const TIMES: Times = Times {
    head: Duration::from_millis(300),
    request: Duration::from_millis(600),
    connection: Duration::from_secs(5),
    requests: 3,
};

struct Open {
    _place: tempfile::TempDir,
    stream: DuplexStream,
}

/// A connection to a server of its own.
fn connect() -> Open {
    let place = tempfile::tempdir().unwrap();
    let control = Control::open(place.path(), &[]).unwrap();
    let (stream, other) = tokio::io::duplex(64 << 10);
    let caller = Caller { address: Ipv4Addr::LOCALHOST.into(), peer: None, stranger: None };
    tokio::spawn(serve_within(other, router(control), caller, TIMES));
    Open { _place: place, stream }
}

/// All that comes back for `bytes`.
async fn send(bytes: &[u8]) -> String {
    let Open { _place, mut stream } = connect();
    let _ = stream.write_all(bytes).await; // the other end may have had enough
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn who_sends_a_body_drop_by_drop_is_not_waited_for() {
    let Open { _place, mut stream } = connect();
    let begun = Instant::now();
    let head = "POST /api/v1/enroll HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = tokio::io::split(stream);
    tokio::spawn(async move {
        while write.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut answer = [0; 200];
    let count = read.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(3));
}

/// A database that hangs is no failure of the request.
#[tokio::test]
async fn a_request_that_takes_too_long_is_told_with_what_may_hang() {
    let hangs = || async { tokio::time::sleep(Duration::from_secs(60)).await };
    let router = Router::new().route("/", axum::routing::get(hangs));
    let (mut stream, other) = tokio::io::duplex(64 << 10);
    let caller = Caller { address: Ipv4Addr::LOCALHOST.into(), peer: None, stranger: None };
    tokio::spawn(serve_within(other, router, caller, TIMES));
    let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let failure: api::Failure = serde_json::from_str(body).unwrap();
    assert_eq!(failure.code, Code::Unreachable.number());
    assert!(failure.message.contains("catalog"), "{}", failure.message);
    assert!(failure.hint.unwrap().contains("icecore server catalog show"));
}

#[tokio::test]
async fn who_says_nothing_or_only_half_a_head_is_cut_off() {
    for bytes in [&b""[..], b"GET /api/v1/sta"] {
        let begun = Instant::now();
        let _ = send(bytes).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let head = "POST /api/v1/enroll HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{";
    let answer = send(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") || answer.starts_with("HTTP/1.1 408"), "{answer}");
    let answer = send(&post("/api/v1/enroll", &" ".repeat(300 << 10))).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn heads_have_limits() {
    let many = "x: y\r\n".repeat(HEADERS_MAX + 1);
    let long = format!("x: {}\r\n", "y".repeat(2 * HEADER_BYTES_MAX));
    for headers in [many, long] {
        let answer = send(format!("GET /api/v1/status HTTP/1.1\r\n{headers}\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_answered_in_the_one_shape() {
    let deep = "[".repeat(10_000);
    let wrong_name = r#"{"secret":"00","request":"","slot_secret":"","version":"","more":1}"#;
    let table = [
        (post("/api/v1/enroll", "{"), "HTTP/1.1 400"),
        (post("/api/v1/enroll", &deep), "HTTP/1.1 400"),
        (post("/api/v1/enroll", "{\"secret\": 1}"), "HTTP/1.1 400"),
        (post("/api/v1/enroll", wrong_name), "HTTP/1.1 400"),
        (post("/api/v1/nowhere", ""), "HTTP/1.1 404"),
        (post("/api/v1/status", ""), "HTTP/1.1 405"),
        (post("/api/v1/renew", "{}"), "HTTP/1.1 401"),
        (post("/api/v1/tokens", "{}"), "HTTP/1.1 401"),
    ];
    for (bytes, status) in table {
        let answer = send(&bytes).await;
        assert!(answer.starts_with(status), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let failure: api::Failure = serde_json::from_str(body).unwrap();
        assert!(!failure.message.is_empty() && failure.code > 0);
    }
}

#[tokio::test]
async fn a_name_in_a_path_cannot_leave_its_folder() {
    for path in ["..%2f..%2fetc", "%2e%2e", "a%00b", "%ff"] {
        let request = format!(
            "DELETE /api/v1/nodes/{path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer x\r\n\r\n"
        );
        let answer = send(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
    }
}

#[tokio::test]
async fn a_connection_has_so_many_requests_and_no_more() {
    let one = "GET /api/v1/openapi.json HTTP/1.1\r\nhost: a\r\n\r\n";
    let answers = send(one.repeat(10).as_bytes()).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count() as u64, TIMES.requests);
}

/// Reads until `text` came.
async fn read_until(stream: &mut DuplexStream, text: &str) -> String {
    let mut all = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        all.extend_from_slice(&part[..count]);
        let so_far = String::from_utf8_lossy(&all).into_owned();
        if so_far.contains(text) {
            return so_far;
        }
        assert!(count > 0, "the stream ended before '{text}': {so_far}");
    }
}

#[tokio::test]
async fn a_stream_of_events_outlives_the_time_of_a_request_and_is_resumed() {
    let place = tempfile::tempdir().unwrap();
    let control = Control::open(place.path(), &[]).unwrap();
    let token = std::fs::read_to_string(place.path().join("admin-token")).unwrap();
    let get = |after: &str| {
        format!(
            "GET /api/v1/events{after} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n"
        )
    };
    let follow = |after: &str| {
        let (stream, other) = tokio::io::duplex(64 << 10);
        let caller = Caller { address: Ipv4Addr::LOCALHOST.into(), peer: None, stranger: None };
        tokio::spawn(serve_within(other, router(control.clone()), caller, TIMES));
        (stream, get(after))
    };
    let (mut stream, request) = follow("");
    let begun = Instant::now();
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut stream, "event: reset").await;
    assert!(head.contains("text/event-stream") && head.contains(r#"{"reason":"start"}"#), "{head}");
    let id = head.split("id: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    tokio::time::sleep(2 * TIMES.request).await;
    control.catalog.audit_note(crate::by("test"), "test.first", "", "").unwrap();
    read_until(&mut stream, "test.first").await;
    assert!(begun.elapsed() > TIMES.request);
    drop(stream);

    control.catalog.audit_note(crate::by("test"), "test.second", "", "").unwrap();
    let (mut stream, request) = follow(&format!("?after={id}"));
    stream.write_all(request.as_bytes()).await.unwrap();
    let both = read_until(&mut stream, "test.second").await;
    assert!(both.contains("test.first") && !both.contains("event: reset"), "{both}");
    let (mut stream, request) = follow("?after=0000000000000001-5");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut stream, r#"{"reason":"restart"}"#).await;
}

#[tokio::test]
async fn events_are_for_administrators() {
    let answer = send(b"GET /api/v1/events HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
