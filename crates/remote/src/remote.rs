//! A repository on a server, and the connection to it.

use crate::driver::ConnectionDriver;
use crate::expected::Expected;
use crate::metrics::{Metrics, NetworkReport};
use crate::prefetcher::Prefetcher;
use crate::route::Route;
use crate::runtime::Runtime;
use crate::server_messages::ServerMessages;
use crate::stream::{Pending, Stream};
use crate::waits::Waits;
use crate::{Endpoint, Failure};
use ids::{KeyId, SnapshotId};
use parking_lot::Mutex;
use protocol::Packet;
pub use protocol::packet::Purpose;
use protocol::packet::{PathBytes, Slot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use store::{Config, Error, Keys, ReceiptKey, Result};
use tokio::sync::oneshot;
use transport::socket::Buffers;

/// What a stream requests on a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamRole {
    /// It opens a domain.
    Open(Purpose),
    /// It is a stream of a session.
    Attach { session: [u8; 16], secret: [u8; 16], stream: u8 },
}

impl StreamRole {
    pub(crate) fn request(&self, domain: &str) -> Packet {
        match *self {
            Self::Open(purpose) => Packet::Open { domain: domain.to_owned(), purpose },
            Self::Attach { session, secret, stream } => Packet::Attach { session, secret, stream },
        }
    }
}

/// The server's reply to `Open`.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) node: String,
    pub(crate) domain: String,
    pub(crate) config: Vec<u8>,
    pub(crate) damage_epoch: u64,
    pub(crate) may_write: bool,
    pub(crate) may_read: bool,
    pub(crate) may_init: bool,
    pub(crate) receipt_keys: Vec<ReceiptKey>,
    pub(crate) streams: u8,
    pub(crate) version: u16,
    pub(crate) time_secs: i64,
    pub(crate) buffers: Buffers,
}

/// A repository on a server.
pub struct Remote {
    pub(crate) endpoint: Endpoint,
    route: Arc<Route>,
    pub(crate) first: Arc<Stream>,
    pub(crate) role: Arc<Mutex<StreamRole>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) server_messages: Arc<ServerMessages>,
    pub(crate) more: Mutex<Vec<Arc<Stream>>>,
    pub(crate) purpose: Purpose,
    pub(crate) opened: Opened,
    pub(crate) config: Config,
    pub(crate) prefetcher: Prefetcher,
    /// The list of snapshots, requested early.
    pub(crate) listed: Mutex<Option<Pending>>,
    /// Fetched once: what comes later is no slot of anything that this connection looks at.
    pub(crate) slots: OnceLock<Vec<(KeyId, Vec<u8>)>>,
    /// What every list has to have.
    pub(crate) expected: Expected,
    /// Keys whose receipts are trusted, where the caller has said so.
    pub(crate) trusted_receipt_keys: OnceLock<Vec<ReceiptKey>>,
    /// The key list, which comes with the slots.
    pub(crate) key_list: Mutex<Option<Vec<u8>>>,
    /// Whether somebody says how the job ends, and whether a session without a snapshot waits for that.
    tells_end: AtomicBool,
    is_left: AtomicBool,
    /// Last: dropped after all that uses it.
    runtime: Runtime,
}

impl Remote {
    /// Connects. The repository must exist: see [`Remote::connect_or_init`].
    pub fn connect(endpoint: &Endpoint, purpose: Purpose) -> Result<Arc<Self>> {
        let handshake = Handshake::connect(endpoint, purpose)?;
        if handshake.opened.config.is_empty() {
            return Err(Error::NoRepository { location: endpoint.describe() });
        }
        handshake.assemble()
    }

    /// Connects, and creates the repository with `make` if the domain has none yet.
    pub fn connect_or_init(
        endpoint: &Endpoint,
        purpose: Purpose,
        make: impl FnOnce() -> Result<(Config, Keys)>,
    ) -> Result<Arc<Self>> {
        let mut handshake = Handshake::connect(endpoint, purpose)?;
        if handshake.opened.config.is_empty() {
            let (config, keys) = make()?;
            handshake.init(config, keys)?;
        }
        handshake.assemble()
    }

    /// Opens a control connection: for node commands and measurements, without a repository.
    pub fn connect_control(endpoint: &Endpoint, purpose: Purpose) -> Result<ControlConnection> {
        Handshake::connect(endpoint, purpose).map(ControlConnection)
    }

    /// Receipt keys as the server sent them: its own first, then those that the repository names.
    pub fn server_receipt_keys(&self) -> &[ReceiptKey] {
        &self.opened.receipt_keys
    }

    /// Trusts receipts of these keys and of no others: for a caller that remembers earlier keys of the server.
    pub fn trust_receipt_keys(&self, keys: Vec<ReceiptKey>) {
        // Once, when it is opened.
        let _ = self.trusted_receipt_keys.set(keys);
    }

    /// From now on every list has to have the snapshots `ids`, which the server itself has named; `tell` is called for
    /// each that one lacks.
    pub fn expect_listed(
        &self,
        ids: Vec<SnapshotId>,
        tell: impl Fn(SnapshotId) + Send + Sync + 'static,
    ) {
        self.expected.set(ids, Box::new(tell));
    }

    /// Names of the node and of the domain, as the server knows them.
    pub fn names(&self) -> (&str, &str) {
        (&self.opened.node, &self.opened.domain)
    }

    /// Whether the node may read here.
    pub fn may_read(&self) -> bool {
        self.opened.may_read
    }

    /// Whether the node may back up here.
    pub fn may_write(&self) -> bool {
        self.opened.may_write
    }

    /// Whether the node may create the repository.
    pub fn may_init(&self) -> bool {
        self.opened.may_init
    }

    /// The server's clock at connection time, seconds since 1970.
    pub fn server_time_secs(&self) -> i64 {
        self.opened.time_secs
    }

    /// Buffers of the first connection.
    pub fn buffers(&self) -> Buffers {
        self.opened.buffers
    }

    /// Bandwidth limits that the server sent since the last call, and the reason.
    pub fn new_limits(&self) -> Option<([u64; 2], String)> {
        self.server_messages.new_limits()
    }

    /// Reports the progress of the job.
    pub fn progress(&self, objects: u64, bytes: u64, bytes_read: u64, stage: &str, path: &[u8]) {
        let end = path.len().min(protocol::limits::PATH_BYTES_MAX);
        let (stage, path) = (stage.to_owned(), PathBytes(path[..end].to_vec()));
        self.first.tell(&Packet::Progress { objects, bytes, bytes_read, stage, path });
    }

    /// From now on the end of a session without a snapshot is not the end of its job: [`Remote::finish`] comes after
    /// it, and says how the job ended.
    pub fn will_tell_end(&self) {
        self.tells_end.store(true, Ordering::Relaxed);
    }

    /// A session ended without a snapshot. Unless somebody says more, the server ends it now, and not only after its
    /// time-out.
    pub(crate) fn ended_without_snapshot(&self) {
        if self.tells_end.load(Ordering::Relaxed) {
            self.is_left.store(true, Ordering::Relaxed);
        } else {
            self.leave_session();
            let _ = self.finish(false, "");
        }
    }

    /// A further session begins: one that was left without a snapshot ends first.
    pub(crate) fn end_left_session(&self) {
        if self.is_left.load(Ordering::Relaxed) {
            let _ = self.finish(false, "");
        }
    }

    /// Ends the job, with a report for people and programs.
    pub fn finish(&self, is_complete: bool, report: &str) -> Result<()> {
        if self.is_left.swap(false, Ordering::Relaxed) {
            self.leave_session();
        }
        let report = report.as_bytes().to_vec();
        self.first.call(&Packet::Finish { is_complete, report }).map(|_| ())
    }

    /// Reports that the job failed on this node; errors are ignored.
    pub fn abandon(&self) {
        self.abandon_because("the job failed on the node");
    }

    /// The same, with a reason.
    pub fn abandon_because(&self, why: &str) {
        if !self.first.is_over() {
            let _ = self.finish(false, why);
        }
    }

    /// After a disconnect the domain is opened again, not a session that has ended.
    pub(crate) fn leave_session(&self) {
        *self.role.lock() = StreamRole::Open(self.purpose);
        self.leave_streams();
    }

    /// Further streams are of one session and end with it: nothing of another one may go to them.
    pub(crate) fn leave_streams(&self) {
        for stream in self.more.lock().drain(..) {
            stream.end(Failure::session_over());
        }
    }

    /// Metrics of the connection so far.
    pub fn report(&self) -> NetworkReport {
        let streams = self.streams();
        let waits = streams.iter().map(|stream| &stream.empty_waits);
        let waits = waits.fold((0, 0.0), |sum, it| (sum.0 + it.count(), sum.1 + it.secs()));
        let resent = streams.iter().map(|stream| stream.resent_bytes.load(Ordering::Relaxed));
        self.metrics.report(waits, resent.sum()).within(self.server_messages.limits())
    }

    /// All streams.
    pub(crate) fn streams(&self) -> Vec<Arc<Stream>> {
        [self.first.clone()].into_iter().chain(self.more.lock().iter().cloned()).collect()
    }

    /// Adds a stream to the session.
    pub(crate) fn add_stream(&self, session: [u8; 16], secret: [u8; 16]) {
        let mut more = self.more.lock();
        let number = more.len() as u8 + 1;
        if number >= self.opened.streams {
            return;
        }
        let stream = Stream::new(self.server_messages.clone());
        let role = StreamRole::Attach { session, secret, stream: number };
        let driver = ConnectionDriver {
            number,
            route: self.route.clone(),
            stream: stream.clone(),
            server_messages: self.server_messages.clone(),
            metrics: self.metrics.clone(),
            role: Arc::new(Mutex::new(role)),
            purpose: None,
            config: Vec::new(),
            last_received: Mutex::new(Instant::now()),
            first: None,
            waits: Waits::default(),
        };
        self.runtime.spawn(driver.run());
        more.push(stream);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let over = Failure::ProtocolError("the connection was closed".into());
        self.streams().iter().for_each(|stream| stream.end(over.clone()));
    }
}

/// A connection without a repository, for node commands.
pub struct ControlConnection(Handshake);

impl ControlConnection {
    /// The next node command: its number and JSON. Waits up to `wait`.
    pub fn next_command(&self, wait: Duration) -> Result<Option<(u64, Vec<u8>)>> {
        let command = self.0.server_messages.next_command(wait);
        if command.is_none() && self.0.stream.is_over() {
            // Says why.
            self.0.stream.drain(0)?;
        }
        Ok(command)
    }

    /// Reports how a node command ended.
    pub fn command_done(&self, command: u64, is_complete: bool, report: &str) -> Result<()> {
        let report = report.as_bytes().to_vec();
        self.0.stream.call(&Packet::CommandDone { command, is_complete, report }).map(|_| ())
    }

    /// Metrics of the connection so far.
    pub fn report(&self) -> NetworkReport {
        let waits = &self.0.stream.empty_waits;
        self.0.metrics.report((waits.count(), waits.secs()), 0)
    }
}

/// A new connection, whose domain may have no repository yet.
struct Handshake {
    endpoint: Endpoint,
    route: Arc<Route>,
    stream: Arc<Stream>,
    role: Arc<Mutex<StreamRole>>,
    metrics: Arc<Metrics>,
    server_messages: Arc<ServerMessages>,
    purpose: Purpose,
    opened: Opened,
    runtime: Runtime,
}

impl Handshake {
    fn connect(endpoint: &Endpoint, purpose: Purpose) -> Result<Self> {
        let runtime = Runtime::start().map_err(Failure::into_error)?;
        let server_messages = Arc::new(ServerMessages::new(endpoint.limits));
        let stream = Stream::new(server_messages.clone());
        let metrics = Arc::new(Metrics::default());
        let role = Arc::new(Mutex::new(StreamRole::Open(purpose)));
        let (first, told) = oneshot::channel();
        let route = Arc::new(Route::new(endpoint));
        let driver = ConnectionDriver {
            number: 0,
            route: route.clone(),
            stream: stream.clone(),
            server_messages: server_messages.clone(),
            metrics: metrics.clone(),
            role: role.clone(),
            purpose: Some(purpose),
            config: Vec::new(),
            last_received: Mutex::new(Instant::now()),
            first: Some(first),
            waits: Waits::default(),
        };
        runtime.spawn(driver.run());
        let gone = || Failure::ProtocolError("the network thread ended".into());
        let opened = told.blocking_recv().unwrap_or_else(|_| Err(gone()));
        let opened = opened.map_err(Failure::into_error)?;
        let endpoint = endpoint.clone();
        Ok(Self {
            endpoint,
            route,
            stream,
            role,
            metrics,
            server_messages,
            purpose,
            opened,
            runtime,
        })
    }

    fn init(&mut self, config: Config, keys: Keys) -> Result<()> {
        let Keys { slots, key_list } = keys;
        let slots = slots.into_iter().map(|(id, bytes)| Slot { id, bytes }).collect();
        let config = PathBytes(config.encode());
        match self.stream.call(&Packet::Init { config, slots, key_list })? {
            Packet::Opened { config, damage_epoch, .. } => {
                self.opened.config = config.0;
                self.opened.damage_epoch = damage_epoch;
                Ok(())
            }
            other => Err(Failure::from_packet(other).into_error()),
        }
    }

    fn assemble(self) -> Result<Arc<Remote>> {
        let Self {
            endpoint,
            route,
            stream,
            role,
            metrics,
            server_messages,
            purpose,
            opened,
            runtime,
        } = self;
        let config = Config::decode(&opened.config)
            .map_err(|reason| Error::damaged("the server's config", reason))?;
        let (first, more, prefetcher) =
            (stream, Mutex::default(), Prefetcher::new(metrics.clone()));
        let remote = Remote {
            endpoint,
            route,
            first,
            role,
            metrics,
            server_messages,
            more,
            purpose,
            opened,
            config,
            prefetcher,
            listed: Mutex::default(),
            slots: OnceLock::new(),
            expected: Expected::default(),
            trusted_receipt_keys: OnceLock::new(),
            key_list: Mutex::default(),
            tells_end: AtomicBool::default(),
            is_left: AtomicBool::default(),
            runtime,
        };
        remote.request_early()?;
        Ok(Arc::new(remote))
    }
}
