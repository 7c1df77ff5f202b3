//! From a name to a connection: look up, connect, shake hands.

use crate::{Endpoint, Failure};
use protocol::fault::Code;
use rustls::AlertDescription;
use rustls_pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use transport::socket::{self, Buffers};

/// Time to look a name up and to connect to one of its addresses.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Time for the TLS handshake: a busy server lets us wait for our turn.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(30);

/// A connection whose other end was verified.
pub(crate) struct Dialed {
    pub(crate) stream: TlsStream<TcpStream>,
    pub(crate) buffers: Buffers,
}

pub(crate) async fn dial(endpoint: &Endpoint) -> Result<Dialed, Failure> {
    let lost = |error: io::Error| Failure::Unreachable {
        server: endpoint.describe(),
        reason: error.to_string(),
        kind: kind_of(&error),
    };
    let connect = |address| socket::connect(address, endpoint.buffer_bytes);
    let reached = transport::dial::reach(&endpoint.host, endpoint.port, CONNECT_WITHIN, connect);
    let (tcp, buffers) = reached.await.map_err(lost)?;
    let name = ServerName::try_from(endpoint.host.clone())
        .map_err(|_| Failure::ProtocolError(format!("{} is not a host name", endpoint.host)))?;
    let shaken = TlsConnector::from(endpoint.tls.clone()).connect(name, tcp);
    let stream = within(HANDSHAKE_WITHIN, shaken).await.map_err(|error| match &error {
        error if is_stranger(error) => stranger(endpoint, error),
        error if is_ended(error) => ended(),
        _ => lost(error),
    })?;
    if stream.get_ref().1.alpn_protocol() != Some(protocol::ALPN) {
        let text = format!(
            "{} is not an icecore server, or has an incompatible version",
            endpoint.describe()
        );
        return Err(Failure::ProtocolError(text));
    }
    Ok(Dialed { stream, buffers })
}

async fn within<T>(time: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(ErrorKind::TimedOut, format!("no answer in {time:?}"));
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| Err(late()))
}

/// Whether TLS was refused because of who the other end is, or was said to be: trying again is of no
/// use.
fn is_stranger(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(
        tls,
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
    )
}

/// Whether the other end does not take our certificate any more. It says so when the handshake is done
/// for us, so that it may be read later.
pub(crate) fn is_ended(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::AlertReceived(AlertDescription::CertificateExpired)))
}

/// What is said of the certificate of this machine where the server does not take it any more.
pub const CERTIFICATE_ENDED: &str = "the certificate of this machine has expired";

/// The certificate of this machine has ended: only who gives it another one helps.
pub(crate) fn ended() -> Failure {
    Failure::Fault {
        code: Code::NotAllowed,
        message: CERTIFICATE_ENDED.to_owned(),
        hint: "On the server: icecore server token NODE, with --write-only if it was; then here: icecore agent enroll --replace URL TOKEN".to_owned(),
        about: Vec::new(),
    }
}

fn stranger(endpoint: &Endpoint, error: &io::Error) -> Failure {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(said) = tls.and_then(pki::client::wrong_clock) {
        return Failure::Fault {
            code: Code::NotAllowed,
            message: format!("{said}, by the certificate of {}", endpoint.describe()),
            hint:
                "Check the clocks of both machines (timedatectl), set the wrong one, and try again."
                    .to_owned(),
            about: Vec::new(),
        };
    }
    Failure::Fault {
        code: Code::NotAllowed,
        message: format!("{} is not the server of this machine: {error}", endpoint.describe()),
        hint: "Check its address and the clocks of both machines; to use another server: icecore agent enroll --replace URL TOKEN".to_owned(),
        about: Vec::new(),
    }
}

/// A kind that says: the server cannot be reached.
fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        kind if store::is_connection_error(kind) => kind,
        _ => ErrorKind::NotConnected,
    }
}
