//! A server that speaks the protocol with a good certificate, has a real repository behind it, and
//! lies where it is told to.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod backend;

use backend::Backend;
use pki::certificate_authority::{CertificateAuthority, ServerNames, new_server_key};
use protocol::Packet;
use repository::Repository;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// What it says instead of the truth.
pub enum Reply {
    /// These packets, as answers to what was asked.
    Say(Vec<Packet>),
    /// Bytes, whatever they are.
    Bytes(Vec<u8>),
    /// Nothing, and the connection is gone.
    Disconnect,
    /// Nothing.
    Silence,
}

/// What was asked, on which connection, and what an honest server would say.
pub struct Asked<'a> {
    /// Number of the connection, from 1.
    pub connection: u64,
    /// What the client sent.
    pub packet: &'a Packet,
    /// The answer of an honest server, if there is one.
    pub honest: Option<Packet>,
}

impl Asked<'_> {
    /// The truth.
    #[must_use]
    pub fn honestly(self) -> Reply {
        self.honest.map_or(Reply::Silence, |packet| Reply::Say(vec![packet]))
    }
}

type Lie = dyn Fn(Asked<'_>) -> Reply + Send + Sync;

/// A server that runs until it is dropped.
pub struct Fake {
    /// Where it listens.
    pub address: SocketAddr,
    /// The certificate by which clients know it.
    pub ca_pem: String,
    ca: Arc<CertificateAuthority>,
    /// How many connections it has accepted.
    pub connections: Arc<AtomicU64>,
    _runtime: Runtime,
}

pub(crate) fn now_secs() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

impl Fake {
    /// A server before this repository, or before none. `lie` sees each packet and says what goes back.
    pub fn start(
        repository: Option<Arc<Repository>>,
        lie: impl Fn(Asked<'_>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let made = CertificateAuthority::generate(now_secs()).unwrap();
        let ca = CertificateAuthority::load(&made.certificate_pem, &made.key_pem).unwrap();
        Self::of(Arc::new(ca), made.certificate_pem, repository, Arc::new(lie))
    }

    /// Another server of the same certificate authority.
    pub fn beside(
        &self,
        repository: Option<Arc<Repository>>,
        lie: impl Fn(Asked<'_>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let ca_pem = self.ca_pem.clone();
        Self::of(self.ca.clone(), ca_pem, repository, Arc::new(lie))
    }

    fn of(
        ca: Arc<CertificateAuthority>,
        ca_pem: String,
        repository: Option<Arc<Repository>>,
        lie: Arc<Lie>,
    ) -> Self {
        let key = new_server_key().unwrap();
        let names = ServerNames::of(["127.0.0.1"]);
        let issued = ca.issue_server(&key, &names, now_secs()).unwrap();
        let shown = pki::ServerCertificate::new(&issued, &key, ca.certificate()).unwrap();
        let tls = pki::server::server_config(shown, ca.certificate()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicU64::new(0));
        let counter = connections.clone();
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let connection = counter.fetch_add(1, Ordering::SeqCst) + 1;
                let backend = Backend::new(repository.clone());
                tokio::spawn(serve(acceptor.clone(), stream, connection, backend, lie.clone()));
            }
        });
        Self { address, ca_pem, ca, connections, _runtime: runtime }
    }

    /// A folder that makes a machine a node of this server.
    pub fn enroll(&self, folder: &std::path::Path) {
        let node = pki::NodeKey::generate().unwrap();
        let issued = self.ca.issue_node(&node.request_pem, "web", now_secs()).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        std::fs::create_dir_all(folder).unwrap();
        write("ca.pem", &self.ca_pem);
        write("node.pem", &format!("{}{}", issued.pem, &*node.key_pem));
        let server = format!("https://{}", self.address);
        let lines = ["node = \"web\"", "domain = \"web\"", "keys = \"client\"", "role = \"full\""];
        write("agent.toml", &format!("server = \"{server}\"\n{}\n", lines.join("\n")));
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    connection: u64,
    mut backend: Backend,
    lie: Arc<Lie>,
) -> Option<()> {
    let mut stream = acceptor.accept(stream).await.ok()?;
    loop {
        let mut header = [0; 12];
        stream.read_exact(&mut header).await.ok()?;
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let mut body = vec![0; number(8) as usize];
        stream.read_exact(&mut body).await.ok()?;
        let packet = Packet::decode(header[0], body).unwrap();
        let honest = backend.answer(&packet);
        match lie(Asked { connection, packet: &packet, honest }) {
            Reply::Say(packets) => {
                for packet in packets {
                    stream.write_all(&packet.frame(number(4))).await.ok()?;
                }
            }
            Reply::Bytes(bytes) => stream.write_all(&bytes).await.ok()?,
            Reply::Disconnect => return None,
            Reply::Silence => {}
        }
        stream.flush().await.ok()?;
    }
}
