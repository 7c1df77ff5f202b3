//! Who has nothing but the address of the server, and takes all it can get: others are served all the same.

use crate::rig::{Rig, new_token};
use access::enroll::enroll;
use access::renew::renew;
use api::status::Status;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// More than the server has places for, of all kinds.
const CROWD: usize = 600;
/// An answer that comes later than this is none that a person waits for.
const SOON: Duration = Duration::from_secs(60);

struct Crowd {
    tls: Arc<rustls::ClientConfig>,
    address: (String, u16),
}

impl Crowd {
    fn new(rig: &Rig) -> Self {
        let ca = std::fs::read_to_string(rig.folder("data").join("ca/ca.pem")).unwrap();
        let tls = pki::client::client_config(&ca, None, pki::ALPN_HTTP).unwrap();
        let url: access::Url = rig.url.parse().unwrap();
        Self { tls: Arc::new(tls), address: ("127.0.0.1".to_owned(), url.port) }
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect((self.address.0.as_str(), self.address.1)).await.unwrap()
    }

    /// One without a certificate, past its handshake.
    async fn tls(&self) -> Option<TlsStream<TcpStream>> {
        let name = "localhost".try_into().unwrap();
        let connected = TlsConnector::from(self.tls.clone()).connect(name, self.tcp().await);
        tokio::time::timeout(SOON, connected).await.ok()?.ok()
    }
}

fn more_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// What an administrator and nodes do, while others hold all they can get.
async fn all_are_served(rig: &Rig, node: &str) {
    let begun = Instant::now();
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert!(status.started > 0);
    let token = rig.token(new_token(node)).await;
    let folder = rig.folder(node);
    enroll(&rig.url, &token.token, &folder, false).await.unwrap();
    renew(&folder).await.unwrap();
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_strangers_on_one_address_keeps_nobody_out() {
    let _alone = crate::ALONE.lock().await;
    more_files();
    let rig = Rig::start().await;
    let crowd = Crowd::new(&rig);
    let mut hoard = Vec::new();
    for _ in 0..CROWD {
        hoard.push(crowd.tls().await);
    }
    all_are_served(&rig, "held").await;
    // One refused request now and then does not keep a place either.
    for stream in hoard.iter_mut().flatten() {
        let _ = stream.write_all(b"GET /api/v1/nodes HTTP/1.1\r\nhost: a\r\n\r\n").await;
    }
    all_are_served(&rig, "asked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_never_says_hello_keeps_nobody_out() {
    let _alone = crate::ALONE.lock().await;
    more_files();
    let rig = Rig::start().await;
    let crowd = Crowd::new(&rig);
    let mut hoard = Vec::new();
    for _ in 0..2_500 {
        hoard.push(crowd.tcp().await);
    }
    all_are_served(&rig, "silent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_without_a_certificate_has_to_connect_again() {
    let _alone = crate::ALONE.lock().await;
    let rig = Rig::start().await;
    let mut stream = Crowd::new(&rig).tls().await.unwrap();
    stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(SOON, stream.read_to_string(&mut answer)).await;
    assert!(read.is_ok(), "the connection stays open");
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("connection: close"), "{answer}");
}
