//! Address of a server, and how to connect to it.

use crate::wait_control::WaitControl;
use std::sync::Arc;
use std::time::Duration;

/// Address of a server, and how to connect to it.
#[derive(Clone)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The trusted CA, and this machine's certificate: read at each handshake, so that the newest is shown.
    pub tls: Arc<rustls::ClientConfig>,
    /// The domain; empty for the node's own.
    pub domain: String,
    /// What a backup is, for the server's list of jobs; empty if it is nothing that the server needs to know.
    pub what: String,
    /// Size of the socket's buffers in bytes; 0 leaves them to the system.
    pub buffer_bytes: usize,
    /// Streams of a session; 0 adds streams while they help.
    pub streams: u8,
    /// Bandwidth limits in bytes per second, to the server and from it; 0 for none.
    pub limits: [u64; 2],
    /// How long to retry the first connection.
    pub first_patience: Duration,
    /// How long to retry once a connection was lost.
    pub patience: Duration,
    /// Cancels waiting, and tells the user about it.
    pub wait_control: WaitControl,
}

impl Endpoint {
    /// Host and port, for messages.
    pub fn describe(&self) -> String {
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }
}
