//! Streams of events over real TLS: how many there may be, and readers that take nothing.

use crate::rig::{Rig, new_token};
use access::{Client, Error};
use api::status::Status;
use parking_lot::Mutex;
use server_contract::access_control::{AccessControl, JobEnd, Node};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A server has so many streams.
const STREAMS_MAX: usize = 64;
/// Fewer than the connections that one network may have.
const PER_NETWORK: usize = 16;
/// Buffers of readers.
const SMALL: u32 = 4096;
const LARGE: u32 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// A reader that takes nothing is disconnected after this time, and a little more.
const SLOW: Duration = Duration::from_secs(20);
/// Fewer than the events of one look.
const JOBS_AT_ONCE: usize = 100;
/// More than what waits between a server and a reader who takes nothing: 4 MiB that the kernel sends at most, three
/// parts of a stream of a MiB each, and what TLS and HTTP hold.
const BUFFERED_BYTES_MAX: usize = 8 << 20;

/// What a stream has told.
type Heard = Arc<Mutex<Vec<u8>>>;

/// Follows the events until it is told no, or for ever: a stream ends after a minute, and the next goes on behind it.
async fn follow(admin: Client, heard: Heard) -> Result<(), Error> {
    let hear = |part: axum::body::Bytes| {
        heard.lock().extend_from_slice(&part);
        true
    };
    loop {
        let path =
            last_id(&heard.lock()).map_or("/events".into(), |id| format!("/events?after={id}"));
        admin.follow(&path, hear).await?;
    }
}

/// The id of the last event that was heard whole.
fn last_id(heard: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(heard);
    let (whole, _) = said.rsplit_once("\n\n")?;
    let id = whole.lines().rev().find_map(|line| line.strip_prefix("id: "))?;
    Some(id.to_owned())
}

fn times(heard: &Heard, what: &str) -> usize {
    String::from_utf8_lossy(&heard.lock()).matches(what).count()
}

/// How many events tell that a job is complete. Protection speaks of jobs, too.
fn completed(said: &[u8]) -> usize {
    let said = String::from_utf8_lossy(said);
    let jobs = said.lines().filter(|line| line.starts_with("data: {\"id\":"));
    jobs.filter(|line| line.contains("\"state\":\"complete\"")).count()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_too_many_is_told_so_and_takes_nothing_from_the_others() {
    let rig = Rig::start().await;
    let mut streams = Vec::new();
    for number in 0..STREAMS_MAX {
        let mut stream = stream(&rig, address(number), LARGE).await;
        hears(&mut stream, "event: reset").await;
        streams.push(stream);
    }
    let mut refused = stream(&rig, address(STREAMS_MAX), LARGE).await;
    let said = hears(&mut refused, "}").await;
    assert!(said.starts_with("HTTP/1.1 429") && said.contains("too many streams"), "{said}");
    let _: Status = rig.admin().get("/status").await.expect("other calls are served");
    rig.token(new_token("web")).await;
    for stream in &mut streams {
        hears(stream, "token.make").await;
    }
    // A place that is free again is given to the next.
    drop(streams.pop());
    let begun = Instant::now();
    loop {
        let mut next = stream(&rig, address(STREAMS_MAX), LARGE).await;
        if hears(&mut next, "\r\n\r\n").await.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Addresses of different networks: each may have so many connections of administrators, and no more.
fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, (number / PER_NETWORK) as u8, 1)
}

/// Reads until `what` was said; all of it.
async fn hears(stream: &mut TlsStream<TcpStream>, what: &str) -> String {
    let mut said = Vec::new();
    let read = async {
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&said).contains(what) {
            let count = stream.read(&mut part).await.unwrap();
            assert!(count > 0, "it ended before '{what}': {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&part[..count]);
        }
    };
    tokio::time::timeout(SOON, read).await.unwrap_or_else(|_| panic!("'{what}' was not heard"));
    String::from_utf8_lossy(&said).into_owned()
}

/// Jobs that begin and end at once, and say much of what they are.
fn tell(rig: &Rig, web: &Node) {
    for _ in 0..JOBS_AT_ONCE {
        let job = rig.control.job_begins(web, "web", "backup", &"x".repeat(4096));
        rig.control.job_ends(job, &JobEnd::Complete { snapshot: None, is_partial: false }, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_nothing_backs_up_is_told_within_seconds() {
    let rig = Rig::start().await;
    let heard = Heard::default();
    let _listening = tokio::spawn(follow(rig.admin(), heard.clone()));
    until("it begins", || times(&heard, "event: reset") > 0).await;
    assert_eq!(times(&heard, "event: protection"), 0, "nothing has changed");
    let made = rig.token(new_token("web")).await;
    access::enroll::enroll(&rig.url, &made.token, &rig.folder("web"), false).await.unwrap();
    until("it is told", || times(&heard, "event: protection\ndata: {\"node\":\"web\"") == 1).await;
    assert_eq!(times(&heard, "\"state\":\"unprotected\""), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_disconnected_and_the_others_hear_everything() {
    let rig = Rig::start().await;
    let made = rig.token(new_token("web")).await;
    access::enroll::enroll(&rig.url, &made.token, &rig.folder("web"), false).await.unwrap();
    let web = rig.control.admit(&rig.peer(&rig.folder("web"))).unwrap();
    let heard = Heard::default();
    let _attentive = tokio::spawn(follow(rig.admin(), heard.clone()));
    let mut deaf = stream(&rig, Ipv4Addr::LOCALHOST, SMALL).await;
    until("the attentive one begins", || times(&heard, "event: reset") > 0).await;
    // More than the buffers between the two hold: how long that takes depends on the machine. Then for longer than a
    // reader may take nothing.
    let (mut full, mut told) = (None, 0);
    while full.is_none_or(|since: Instant| since.elapsed() < SLOW + Duration::from_secs(15)) {
        tell(&rig, &web);
        told += JOBS_AT_ONCE;
        until("it hears on", || completed(&heard.lock()) == told).await;
        if heard.lock().len() > BUFFERED_BYTES_MAX {
            full.get_or_insert_with(Instant::now);
        }
    }
    // What was on its way may still be there; then the stream ends, or the kernel gave up the connection before.
    let mut all = Vec::new();
    let read = tokio::time::timeout(SOON, read_to_end(&mut deaf, &mut all)).await;
    assert!(read.is_ok(), "it is served still, after {} bytes", all.len());
    let told_to_deaf = completed(&all);
    assert!(told_to_deaf < told, "{told_to_deaf} of {told}: the buffers held everything");
}

/// Reads until the connection or the last chunk of the answer ends.
async fn read_to_end(stream: &mut TlsStream<TcpStream>, all: &mut Vec<u8>) {
    let mut part = [0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        all.extend_from_slice(&part[..count]);
        if all.ends_with(b"\r\n0\r\n\r\n") {
            return;
        }
    }
}

/// A connection from this address, with a buffer of this size, that has asked for the events.
async fn stream(rig: &Rig, from: Ipv4Addr, buffer_bytes: u32) -> TlsStream<TcpStream> {
    let data = rig.folder("data");
    let text = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let tls = pki::client::client_config(&text("ca/ca.pem"), None, pki::ALPN_HTTP).unwrap();
    let url: access::Url = rig.url.parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(buffer_bytes).unwrap();
    socket.bind((from, 0).into()).unwrap();
    let tcp = socket.connect((Ipv4Addr::LOCALHOST, url.port).into()).await.unwrap();
    let name = url.host.clone().try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await.unwrap();
    let token = text("admin-token");
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}
