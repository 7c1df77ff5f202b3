//! Strangers: some send a byte a second wherever they can, many knock and go away.

use super::wire::{Dial, connect};
use protocol::frame::Header;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Slow ones of each kind.
const SLOW: usize = 50;
/// Who knock at the same time, and their pause: some thousand connections a second would measure
/// how busy this machine is with making them.
const KNOCKING: usize = 16;
const KNOCK_EVERY: Duration = Duration::from_millis(40);
/// Another address of this machine.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const A_SECOND: Duration = Duration::from_secs(1);

/// Those at work.
pub(super) struct Harm {
    tasks: Vec<JoinHandle<()>>,
    knocks: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Harm {
    /// Sends them home; what they did.
    pub(super) fn end(self) -> Value {
        self.tasks.iter().for_each(JoinHandle::abort);
        json!({
            "slow_connections": 4 * SLOW,
            "slow_bytes": self.bytes.load(Relaxed),
            "knocks": self.knocks.load(Relaxed),
        })
    }
}

/// What a slow one is slow in.
#[derive(Clone, Copy)]
enum Slow {
    Handshake,
    Head,
    FrameHeader,
    Body,
}

/// Begins; `robbed` is whose certificate some of them have.
pub(super) fn begin(runtime: &Runtime, port: u16, robbed: &Dial) -> Harm {
    let (knocks, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for kind in [Slow::Handshake, Slow::Head, Slow::FrameHeader, Slow::Body] {
        for _ in 0..SLOW {
            let (bytes, robbed) = (bytes.clone(), robbed.clone());
            tasks.push(runtime.spawn(async move {
                loop {
                    // Whoever is shown the door comes again.
                    let _ = crawl(kind, port, &robbed, &bytes).await;
                    tokio::time::sleep(A_SECOND).await;
                }
            }));
        }
    }
    for number in 0..KNOCKING {
        let knocks = knocks.clone();
        tasks.push(runtime.spawn(async move {
            loop {
                let _ = knock(port, number).await;
                knocks.fetch_add(1, Relaxed);
                tokio::time::sleep(KNOCK_EVERY).await;
            }
        }));
    }
    Harm { tasks, knocks, bytes }
}

async fn crawl(kind: Slow, port: u16, robbed: &Dial, count: &AtomicU64) -> Result<(), String> {
    let header = Header { kind: 1, request: 1, body_bytes: 60_000 }.encode();
    match kind {
        // Like the beginning of a TLS record that never ends.
        Slow::Handshake => {
            let tcp = connect(Ipv4Addr::LOCALHOST, port).await?;
            drip(tcp, &[22, 3, 1, 2, 0, 1, 0, 1, 252], count).await
        }
        Slow::Head => {
            let tcp = connect(Ipv4Addr::LOCALHOST, port).await?;
            let shaken = shake(tcp, pki::ALPN_HTTP).await?;
            drip(shaken, b"GET /api/v1/status HTTP/1.1\r\nx: ", count).await
        }
        Slow::FrameHeader => drip(robbed.shake(port).await?, &header[..11], count).await,
        Slow::Body => drip(robbed.shake(port).await?, &header, count).await,
    }
}

async fn shake(tcp: TcpStream, alpn: &[u8]) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST).into());
    let shaken = TlsConnector::from(stranger(alpn)?).connect(name, tcp).await;
    shaken.map_err(|error| error.to_string())
}

/// A byte a second, and then the last one again and again.
async fn drip(
    mut stream: impl AsyncWrite + Unpin,
    bytes: &[u8],
    count: &AtomicU64,
) -> Result<(), String> {
    let last = bytes.last().copied().unwrap_or_default();
    for byte in bytes.iter().copied().chain(std::iter::repeat(last)) {
        stream.write_all(&[byte]).await.map_err(|error| error.to_string())?;
        stream.flush().await.map_err(|error| error.to_string())?;
        count.fetch_add(1, Relaxed);
        tokio::time::sleep(A_SECOND).await;
    }
    Ok(())
}

/// A connection from elsewhere that brings garbage, nothing, or half a handshake.
async fn knock(port: u16, number: usize) -> Result<(), String> {
    let mut tcp = connect(ELSEWHERE, port).await?;
    let text = |error: std::io::Error| error.to_string();
    match number % 3 {
        0 => tcp.write_all(&[0xff; 300]).await.map_err(text),
        1 => Ok(()),
        _ => shake(tcp, protocol::ALPN).await.map(|_| ()),
    }
}

/// TLS of somebody who is nobody's node and believes everything.
fn stranger(alpn: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
