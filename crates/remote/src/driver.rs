//! Keeps a stream connected: dials, greets, opens or attaches, moves frames both ways, and comes
//! back after a disconnect until patience is at its end.

use crate::dial::{Dialed, dial, ended, is_ended};
use crate::metrics::Metrics;
use crate::remote::{Opened, Purpose, StreamRole};
use crate::route::Route;
use crate::server_messages::ServerMessages;
use crate::stream::Stream;
use crate::waits::Waits;
use crate::{Endpoint, Failure};
use parking_lot::Mutex;
use protocol::packet::End;
use protocol::{Packet, VERSION_NEWEST, VERSION_OLDEST};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::client::TlsStream;
use transport::Error;
use transport::frames::{self, FrameReader};
use transport::rate::Rate;
use transport::tcp_info::TcpInfo;

/// First pause before a retry; each later one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Interval of pings on a quiet connection.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time for the answer to a first question. A busy server may have to open a repository.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A server that makes no progress for this long, in spite of pings, is gone: a commit takes less.
const SILENT_MAX: Duration = Duration::from_secs(10 * 60);
/// A storage server that is silent for this long may have been replaced: the control server is asked, and again after
/// as long, where the domain lies now.
const DOUBTED_AFTER: Duration = Duration::from_secs(45);
/// How often it is looked whether the domain lies elsewhere.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the kernel's statistics are read.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

type Tls = TlsStream<TcpStream>;

/// Keeps one stream connected.
pub(crate) struct ConnectionDriver {
    /// Number of the stream, from 0.
    pub(crate) number: u8,
    pub(crate) route: Arc<Route>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) server_messages: Arc<ServerMessages>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) role: Arc<Mutex<StreamRole>>,
    /// What the first stream opens again when its session is lost; other streams end then.
    pub(crate) purpose: Option<Purpose>,
    /// The settings of the repository, once they are known: they never change.
    pub(crate) config: Vec<u8>,
    /// When a packet was last received.
    pub(crate) last_received: Mutex<Instant>,
    /// Receives once the result of the first connection.
    pub(crate) first: Option<oneshot::Sender<Result<Opened, Failure>>>,
    /// What the user was told of waiting.
    pub(crate) waits: Waits,
}

/// Result of a connection.
enum Connected {
    /// The stream can continue; the server has taken this many of its records.
    Ready(Box<Dialed>, Option<u64>),
    /// Host and port of the storage server of the domain.
    Redirect((String, u16)),
}

impl ConnectionDriver {
    pub(crate) async fn run(mut self) {
        let mut lost_since: Option<Instant> = None;
        let mut pause = PAUSE_FIRST;
        loop {
            let answers = self.stream.answers();
            let wait_control = self.route.control_server.wait_control.clone();
            let connected = tokio::select! {
                connected = self.connect() => connected,
                () = wait_control.cancelled() => Err(Failure::stopped()),
            };
            let failure = match connected {
                Ok((dialed, applied)) => {
                    if self.waits.connected() {
                        wait_control.tell("the server is reachable again");
                    }
                    self.serve(dialed, applied).await
                }
                Err(failure) => failure,
            };
            // A server that greets and then fails each time brings nobody further.
            if self.stream.answers() > answers {
                (lost_since, pause) = (None, PAUSE_FIRST);
                self.waits.went_on();
            }
            let since = *lost_since.get_or_insert_with(Instant::now);
            let is_first = self.first.is_some();
            let endpoint = &self.route.control_server;
            let patience = if is_first { endpoint.first_patience } else { endpoint.patience };
            if self.starts_over(&failure) {
                continue;
            }
            let gives_up = !failure.is_transient() || since.elapsed() > patience;
            if let Some(first) = self.first.take_if(|_| gives_up) {
                let _ = first.send(Err(failure.clone()));
            }
            if gives_up || self.stream.is_over() {
                return self.stream.end(failure);
            }
            self.metrics.disconnects.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.tell_of(&failure, patience);
            tokio::select! {
                () = tokio::time::sleep(jittered(pause)) => {}
                () = wait_control.cancelled() => return self.give_up(Failure::stopped()),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Ends the stream, and reports to the caller that waits for its first connection.
    fn give_up(&mut self, failure: Failure) {
        if let Some(first) = self.first.take() {
            let _ = first.send(Err(failure.clone()));
        }
        self.stream.end(failure);
    }

    /// Tells the user why the stream waits; only the first stream does.
    fn tell_of(&mut self, failure: &Failure, patience: Duration) {
        if self.number == 0
            && let Some(text) = self.waits.failed(failure, patience)
        {
            self.route.control_server.wait_control.tell(&text);
        }
    }

    /// When the server has lost the session, the stream continues without it: the writer is told, and may
    /// begin another one.
    fn starts_over(&self, failure: &Failure) -> bool {
        let (Some(purpose), true) = (self.purpose, failure.is_session_lost()) else {
            return false;
        };
        let mut role = self.role.lock();
        if !matches!(*role, StreamRole::Attach { .. }) {
            return false;
        }
        *role = StreamRole::Open(purpose);
        self.stream.lose_session(failure);
        true
    }

    /// Connects so that the stream can continue. Returns how many of its records were taken, too.
    async fn connect(&mut self) -> Result<(Dialed, Option<u64>), Failure> {
        if self.route.is_recheck_due() {
            self.look_up_route().await?;
        }
        loop {
            let endpoint = self.route.endpoint();
            let met = self.connect_to(&endpoint).await;
            match (met, self.route.is_redirected()) {
                (Ok(Connected::Redirect(address)), false) => self.route.redirect_to(Some(address)),
                (Ok(Connected::Redirect(_)), true) => {
                    let text = format!(
                        "the storage server {} redirects to another server",
                        endpoint.describe()
                    );
                    return Err(Failure::ProtocolError(text));
                }
                (Ok(Connected::Ready(dialed, applied)), _) => {
                    self.route.answered();
                    return Ok((*dialed, applied));
                }
                (Err(failure), is_redirected) => {
                    if is_redirected && matches!(failure, Failure::Unreachable { .. }) {
                        self.route.unreachable();
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Asks the control server where the domain lies now. While it is unreachable, too, nothing changes.
    async fn look_up_route(&self) -> Result<(), Failure> {
        let asked = async {
            let endpoint = &self.route.control_server;
            let mut dialed = dial(endpoint).await?;
            let open = StreamRole::Open(Purpose::Read).request(&endpoint.domain);
            match self.greet(&mut dialed.stream, &open).await?.1 {
                Packet::Redirect { host, port } => self.route.redirect_to(Some((host, port))),
                Packet::Opened { .. } => self.route.redirect_to(None),
                other => return Err(Failure::from_packet(other)),
            }
            Ok(())
        };
        match asked.await {
            Err(failure) if !failure.is_transient() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Sends `Hello` and `request` together, which saves a round trip. Returns the node's name, the
    /// server's clock and maximum number of streams, and the reply to the request.
    async fn greet(
        &self,
        stream: &mut Tls,
        request: &Packet,
    ) -> Result<((String, i64, u8, u16), Packet), Failure> {
        let program = concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned();
        let hello = Packet::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, program };
        self.send_frames(stream, &[hello.frame(0), request.frame(0)].concat()).await?;
        let Packet::Welcome { version, node, time_secs, streams, .. } =
            self.receive_reply(stream).await?
        else {
            return Err(Failure::ProtocolError("the server did not reply with Welcome".into()));
        };
        if !(VERSION_OLDEST..=VERSION_NEWEST).contains(&version) {
            return Err(Failure::ProtocolError(format!(
                "the server chose unsupported version {version}"
            )));
        }
        Ok(((node, time_secs, streams, version), self.receive_reply(stream).await?))
    }

    async fn connect_to(&mut self, endpoint: &Endpoint) -> Result<Connected, Failure> {
        let mut dialed = dial(endpoint).await?;
        let stream = &mut dialed.stream;
        let request = self.role.lock().request(&endpoint.domain);
        let ((node, time_secs, streams, version), answer) = self.greet(stream, &request).await?;
        match answer {
            Packet::Attached { applied } => Ok(Connected::Ready(dialed.into(), Some(applied))),
            Packet::Redirect { host, port } => Ok(Connected::Redirect((host, port))),
            Packet::Opened {
                domain,
                config,
                damage_epoch,
                may_write,
                may_read,
                may_init,
                receipt_keys,
            } => {
                let keys = receipt_keys.iter().filter_map(|key| key.0.as_slice().try_into().ok());
                self.is_the_same(&config.0)?;
                let opened = Opened {
                    node,
                    domain,
                    config: config.0,
                    damage_epoch,
                    may_write,
                    may_read,
                    may_init,
                    receipt_keys: keys.collect(),
                    streams,
                    version,
                    time_secs,
                    buffers: dialed.buffers,
                };
                if let Some(first) = self.first.take() {
                    let _ = first.send(Ok(opened));
                }
                Ok(Connected::Ready(dialed.into(), None))
            }
            other => Err(Failure::from_packet(other)),
        }
    }

    /// Checks that a reconnect finds the same repository as before.
    fn is_the_same(&mut self, config: &[u8]) -> Result<(), Failure> {
        if self.config.is_empty() {
            self.config = config.to_vec();
        }
        if self.config == config {
            return Ok(());
        }
        let text =
            format!("{} has another repository than before", self.route.endpoint().describe());
        Err(Failure::ProtocolError(text))
    }

    async fn send_frames(&self, stream: &mut Tls, frames: &[u8]) -> Result<(), Failure> {
        let said = async {
            stream.write_all(frames).await?;
            stream.flush().await
        };
        within(said).await.map_err(|error| self.failure(error))
    }

    /// The next reply on a new connection. Unsolicited packets are kept.
    async fn receive_reply(&self, stream: &mut Tls) -> Result<Packet, Failure> {
        let heard = async {
            let mut reader = FrameReader::new(&mut *stream, End::Server);
            loop {
                let header = reader.header().await?;
                let body = reader.body(header, &Rate::default()).await?;
                match Packet::decode(header.kind, body)? {
                    unasked @ (Packet::Limits { .. } | Packet::Command { .. }) => {
                        let _ = self.server_messages.take(unasked);
                    }
                    answer => return Ok::<_, Error>(answer),
                }
            }
        };
        match within(heard).await.map_err(|error| self.failure(error))? {
            fault @ Packet::Fault { .. } => Err(Failure::from_packet(fault)),
            answer => Ok(answer),
        }
    }

    /// Moves frames until the connection fails.
    pub(crate) async fn serve(&self, dialed: Dialed, applied: Option<u64>) -> Failure {
        if let Err(failure) = self.stream.reconnected(applied) {
            return failure;
        }
        self.metrics.connected(self.number, dialed.buffers);
        let socket = dup(&dialed.stream);
        let address = self.route.address();
        *self.last_received.lock() = Instant::now();
        let (read, write) = tokio::io::split(dialed.stream);
        tokio::select! {
            failure = self.read_all(read) => failure,
            failure = self.write_all(write) => failure,
            failure = self.until_it_moves(address) => failure,
            () = self.sample(socket) => Failure::ProtocolError("sampling ended".into()),
        }
    }

    /// Waits until the domain lies elsewhere. A server that stands still keeps its connections for a long time, while
    /// another machine has taken its pool over.
    async fn until_it_moves(&self, address: (String, u16)) -> Failure {
        let mut asked = Instant::now();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let is_my_turn = self.number == 0 && asked.elapsed() > DOUBTED_AFTER;
            if is_my_turn && self.route.is_redirected() && self.silent_for() > DOUBTED_AFTER {
                asked = Instant::now();
                // While nobody answers there, too, nothing changes.
                let _ = self.look_up_route().await;
            }
            if self.route.address() != address {
                let (server, reason) = (address.0, "its domains lie elsewhere now".to_owned());
                return Failure::Unreachable { server, reason, kind: ErrorKind::TimedOut };
            }
        }
    }

    /// For how long the other end has said nothing of use.
    fn silent_for(&self) -> Duration {
        self.last_received.lock().elapsed().max(self.stream.overdue_for())
    }

    async fn read_all(&self, read: ReadHalf<Tls>) -> Failure {
        let mut reader = FrameReader::new(read, End::Server);
        loop {
            let packet = async {
                let header = reader.header().await?;
                let body = reader.body(header, &self.server_messages.down).await?;
                Ok::<_, Error>((header.request, Packet::decode(header.kind, body)?))
            };
            match packet.await {
                Ok((request, packet)) => {
                    self.metrics.received(reader.bytes);
                    reader.bytes = 0;
                    *self.last_received.lock() = Instant::now();
                    self.note_session(&packet);
                    if let Err(failure) = self.stream.receive(request, packet) {
                        return failure;
                    }
                }
                Err(error) => return self.failure(error),
            }
        }
    }

    /// From here on a reconnect resumes the session, even before its caller has seen the reply.
    fn note_session(&self, packet: &Packet) {
        if let Packet::Begun { session, secret, .. } = packet {
            let (session, secret, stream) = (*session, *secret, self.number);
            *self.role.lock() = StreamRole::Attach { session, secret, stream };
        }
    }

    async fn write_all(&self, mut write: WriteHalf<Tls>) -> Failure {
        loop {
            match self.write_some(&mut write).await {
                Ok(()) => {}
                Err(error) => return self.failure(error),
            }
            self.stream.written();
            let before = Instant::now();
            let waited = tokio::time::timeout(PING_EVERY, self.stream.wake_writer.notified()).await;
            self.metrics.full_waits.add(before.elapsed());
            if waited.is_err() {
                self.stream.tell(&Packet::Ping {});
            }
            // Nor is it enough that it says that it is there.
            if self.silent_for() > SILENT_MAX {
                return self.failure(Error::TooSlow { bytes: 1, secs: SILENT_MAX.as_secs() });
            }
            if self.stream.is_over() {
                let _ = write.shutdown().await;
                return Failure::ProtocolError("the stream has ended".into());
            }
        }
    }

    async fn write_some(&self, write: &mut WriteHalf<Tls>) -> transport::Result<()> {
        let mut wrote = false;
        while let Some(frame) = self.stream.next_frame() {
            frames::write(write, &frame, &self.server_messages.up, &self.metrics.moved).await?;
            self.metrics.sent(frame.len() as u64);
            wrote = true;
        }
        if wrote {
            write.flush().await?;
        }
        Ok(())
    }

    async fn sample(&self, socket: Option<std::os::fd::OwnedFd>) {
        let mut ticks = tokio::time::interval(SAMPLE_EVERY);
        loop {
            ticks.tick().await;
            if let Some(info) = socket.as_ref().and_then(|socket| TcpInfo::of(socket).ok()) {
                self.metrics.sample(self.number, info);
            }
        }
    }

    fn failure(&self, error: Error) -> Failure {
        let kind = match &error {
            Error::Protocol(error) => return Failure::ProtocolError(error.to_string()),
            Error::Io(error) if is_ended(error) => return ended(),
            Error::Io(error) if store::is_connection_error(error.kind()) => error.kind(),
            Error::TooSlow { .. } => ErrorKind::TimedOut,
            Error::Io(_) | Error::Closed => ErrorKind::ConnectionReset,
        };
        Failure::Unreachable {
            server: self.route.endpoint().describe(),
            reason: error.to_string(),
            kind,
        }
    }
}

/// Limits the time for a first reply.
async fn within<T, E: Into<Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, Error> {
    let secs = ANSWER_WITHIN.as_secs();
    let late = |_| Err(Error::TooSlow { bytes: 1, secs });
    let done = tokio::time::timeout(ANSWER_WITHIN, async { work.await.map_err(Into::into) });
    done.await.unwrap_or_else(late)
}

/// A duplicate of the socket, to read its statistics while others use it.
fn dup(stream: &Tls) -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::AsFd;
    stream.get_ref().0.as_fd().try_clone_to_owned().ok()
}

/// Between half and all of `pause`, so that many clients do not reconnect at the same moment.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0u8; 1];
    let _ = getrandom::fill(&mut byte);
    pause.mul_f64(0.5 + f64::from(byte[0]) / 512.0)
}
