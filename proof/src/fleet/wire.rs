//! A connection of a node, packet by packet.

use api::enroll::EnrollReply;
use protocol::packet::Purpose;
use protocol::{Packet, VERSION_NEWEST, VERSION_OLDEST};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Tries for a connection: a server that is stormed lets some wait too long.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

pub(super) type Tls = TlsStream<TcpStream>;

/// Who calls.
#[derive(Clone)]
pub(super) struct Dial(Arc<ClientConfig>);

impl Dial {
    pub(super) fn new(told: &EnrollReply, key_pem: &str) -> Result<Self, String> {
        let identity = Some((&*told.certificate, key_pem));
        let config = pki::client::client_config(&told.ca_certificate, identity, protocol::ALPN);
        Ok(Self(Arc::new(config.map_err(|error| error.to_string())?)))
    }

    /// Connected and greeted, with the own domain open; and how often that was tried.
    pub(super) async fn open(&self, port: u16, purpose: Purpose) -> Result<(Tls, u32), String> {
        let mut last = String::new();
        for tries in 1..=TRIES {
            match self.try_open(port, purpose).await {
                Ok(stream) => return Ok((stream, tries)),
                Err(error) => last = error,
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(format!("not connected after {TRIES} tries: {last}"))
    }

    /// Connected, and nothing said.
    pub(super) async fn shake(&self, port: u16) -> Result<Tls, String> {
        let tcp = connect(Ipv4Addr::LOCALHOST, port).await?;
        let name = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST).into());
        let shaken = TlsConnector::from(self.0.clone()).connect(name, tcp).await;
        shaken.map_err(|error| error.to_string())
    }

    async fn try_open(&self, port: u16, purpose: Purpose) -> Result<Tls, String> {
        let mut stream = self.shake(port).await?;
        let program = "fleet".to_owned();
        let hello = Packet::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, program };
        ask(&mut stream, &hello).await?;
        ask(&mut stream, &Packet::Open { domain: String::new(), purpose }).await?;
        Ok(stream)
    }
}

/// A connection from this address.
pub(super) async fn connect(from: Ipv4Addr, port: u16) -> Result<TcpStream, String> {
    let text = |error: std::io::Error| error.to_string();
    let socket = TcpSocket::new_v4().map_err(text)?;
    if from != Ipv4Addr::LOCALHOST {
        socket.bind(SocketAddr::from((from, 0))).map_err(text)?;
    }
    let stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    Ok(stream)
}

/// One question and its answer, which is no fault.
pub(super) async fn ask(stream: &mut Tls, packet: &Packet) -> Result<Packet, String> {
    let text = |error: std::io::Error| format!("{}: {error}", packet.name());
    stream.write_all(&packet.frame(1)).await.map_err(text)?;
    stream.flush().await.map_err(text)?;
    next(stream).await
}

/// The next packet that does not tell limits, and is no fault.
pub(super) async fn next(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<Packet, String> {
    loop {
        match next_of_all(stream).await? {
            Packet::Limits { .. } => {}
            packet => return Ok(packet),
        }
    }
}

async fn next_of_all(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<Packet, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut header = [0; 12];
    stream.read_exact(&mut header).await.map_err(text)?;
    let [.., a, b, c, d] = header;
    let mut body = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
    stream.read_exact(&mut body).await.map_err(text)?;
    match Packet::decode(header[0], body).map_err(|error| error.to_string())? {
        Packet::Fault { message, .. } => Err(message),
        packet => Ok(packet),
    }
}

pub(super) type Halves = (ReadHalf<Tls>, WriteHalf<Tls>);
