//! Where a server is, and how to talk to it.

use crate::wait_control::WaitControl;
use std::sync::Arc;
use std::time::Duration;

/// Where a server is, and how to talk to it.
#[derive(Clone)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whom to trust, and who this is: asked at each handshake, so that it may show the newest certificate.
    pub tls: Arc<rustls::ClientConfig>,
    /// The domain; empty for the node's own.
    pub domain: String,
    /// Size of the socket's buffers in bytes; 0 leaves them to the system.
    pub buffer_bytes: usize,
    /// Streams of a session; 0 lets them be as many as help.
    pub streams: u8,
    /// Caps in bytes per second, to the server and from it; 0 for none.
    pub limits: [u64; 2],
    /// How long to try when it cannot be reached at first.
    pub first_patience: Duration,
    /// How long to try again when the server cannot be reached, once it was.
    pub patience: Duration,
    /// Who waits.
    pub wait_control: WaitControl,
}

impl Endpoint {
    /// For people.
    pub fn describe(&self) -> String {
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }
}
