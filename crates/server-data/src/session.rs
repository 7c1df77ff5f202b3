//! A session of a node: the engine's session, and the state of its streams. It outlives its
//! connections: after a disconnect the node resumes it.

use super::domains::Domain;
use super::faults::RECEIPTS;
use super::read_counters::{READ, ReadCounters};
use super::receipts::{Receipts, Taken};
use super::{faults, manifest};
use format::manifest::{Head, snapshot_id};
use format::record::{HEADER_BYTES, SealedRecord};
use ids::ObjectId;
use parking_lot::{Mutex, RwLock};
use protocol::limits::{REQUESTS_MAX, STREAMS_MAX};
use protocol::packet::SnapshotName;
use protocol::{Packet, flags};
use repository::session::Session as Engine;
use repository::storage::StorageError;
use server_contract::access_control::{
    Access, AccessControl, JobEnd, JobNo, JobStatus, Labels, Node, Refusal,
};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use transport::quota::Permit;

/// A node that was heard so lately is at work: clients tell their progress once a second.
const HEARD_WITHIN: Duration = Duration::from_secs(15);

/// How long a session waits for its node.
const DETACHED_MAX: Duration = Duration::from_secs(15 * 60);

/// How long a committed session waits for a repeated request.
const COMMITTED_MAX: Duration = Duration::from_secs(60);

/// Maximum number of objects that a session has promised to store and not stored yet. Each takes some
/// memory here.
const PROMISES_MAX: usize = 1 << 20;
/// The same of all sessions of a node together.
const NODE_PROMISES_MAX: usize = 2 << 20;

/// Name and secret of a session.
pub(super) type Token = ([u8; 16], [u8; 16]);

/// A session of a node.
pub struct Session {
    pub(super) token: Token,
    pub(super) node: Node,
    pub(super) access: Access,
    pub(super) domain: Arc<Domain>,
    /// `None` once it is committed or abandoned.
    engine: RwLock<Option<Engine>>,
    committed: Mutex<Option<Packet>>,
    /// Whether the head of its snapshot says that objects are missing.
    is_partial: AtomicBool,
    number: Mutex<Option<u64>>,
    /// When it began, by the clock of receipts.
    begun_secs: i64,
    /// What it backs up, as far as the snapshot says that it builds on, and from where.
    pub(super) source: Option<(ObjectId, IpAddr)>,
    /// When its node was heard last.
    heard: Mutex<Instant>,
    streams: Vec<Mutex<Stream>>,
    /// Why a record of it was refused: it can make no snapshot any more.
    refused: Mutex<Option<String>>,
    connections: AtomicUsize,
    detached_since: Mutex<Instant>,
    stored_bytes: AtomicU64,
    pub(super) job: JobNo,
    pub(super) status: Mutex<JobStatus>,
    /// What its node has read meanwhile.
    reads: Mutex<ReadCounters>,
    /// Promises of this session at the last count, and of all sessions of its node.
    promised: Mutex<usize>,
    node_promised: Arc<AtomicUsize>,
    /// Its permit among the sessions of its node.
    _permit: Permit,
}

/// A session's permit among the sessions of its node, and their common counter.
pub(super) struct SessionPermit {
    /// Its permit among the sessions of its node.
    pub(super) permit: Permit,
    /// Promises of all of them.
    pub(super) promised: Arc<AtomicUsize>,
}

/// One stream of a session.
#[derive(Default)]
struct Stream {
    /// Rises with every connection that takes over the stream.
    generation: u64,
    /// Records taken.
    applied: u64,
    /// The fault of a record that could not be taken: later ones are refused, so that `applied` counts the
    /// first ones.
    broken: Option<Packet>,
    /// The latest replies to claims: a claim that is repeated after a disconnect must get the same reply,
    /// or nobody would store what it promised.
    claims: VecDeque<(u32, Packet)>,
}

/// A connection's attachment to a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamAttachment {
    pub(super) stream: u8,
    generation: u64,
}

impl Session {
    pub(super) fn new(
        token: Token,
        node: Node,
        access: Access,
        domain: Arc<Domain>,
        engine: Engine,
        job: JobNo,
        permit: SessionPermit,
    ) -> Self {
        Self {
            token,
            node,
            access,
            domain,
            engine: RwLock::new(Some(engine)),
            committed: Mutex::default(),
            is_partial: AtomicBool::new(false),
            number: Mutex::default(),
            begun_secs: 0,
            source: None,
            heard: Mutex::new(Instant::now()),
            streams: (0..STREAMS_MAX).map(|_| Mutex::default()).collect(),
            refused: Mutex::default(),
            connections: AtomicUsize::new(0),
            detached_since: Mutex::new(Instant::now()),
            stored_bytes: AtomicU64::new(0),
            job,
            status: Mutex::default(),
            reads: Mutex::default(),
            promised: Mutex::default(),
            node_promised: permit.promised,
            _permit: permit.permit,
        }
    }

    /// Sets its start time by the clock of receipts.
    pub(super) fn begun_at(mut self, begun_secs: i64) -> Self {
        self.begun_secs = begun_secs;
        self
    }

    /// Sets what it backs up, and from where.
    pub(super) fn of_source(mut self, source: Option<ObjectId>, from: IpAddr) -> Self {
        self.source = source.map(|source| (source, from));
        self
    }

    /// The address from which its node is backing up `source` of the same domain right now; `None` if it does not.
    pub(super) fn is_backing_up(&self, other: &Self) -> Option<IpAddr> {
        let (source, from) = self.source?;
        let is_same = other.source.is_some_and(|(other, _)| other == source)
            && self.node.name == other.node.name
            && self.access.domain == other.access.domain
            && self.token != other.token;
        let is_active = self.connections.load(Ordering::Relaxed) > 0
            && self.heard.lock().elapsed() < HEARD_WITHIN
            && self.committed.lock().is_none();
        (is_same && is_active).then_some(from)
    }

    /// Attaches a connection to a stream, which the former connection loses. Returns how many records of
    /// the stream were taken.
    pub(super) fn attach(&self, stream: u8) -> Option<(StreamAttachment, u64)> {
        let mut state = self.streams.get(usize::from(stream))?.lock();
        state.generation += 1;
        *self.heard.lock() = Instant::now();
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some((StreamAttachment { stream, generation: state.generation }, state.applied))
    }

    /// Detaches a connection.
    pub(super) fn detach(&self) {
        *self.detached_since.lock() = Instant::now();
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether its snapshot is there.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.lock().is_some()
    }

    /// Whether its node did not come back in time.
    pub(super) fn is_expired(&self) -> bool {
        let is_alone = self.connections.load(Ordering::Relaxed) == 0;
        let patience = if self.committed.lock().is_some() { COMMITTED_MAX } else { DETACHED_MAX };
        is_alone && self.detached_since.lock().elapsed() > patience
    }

    /// Takes a record; the reply counts the records taken on the stream. What a quota has no room for ends the stream.
    ///
    /// # Errors
    /// The last packet of the connection, when it cannot be known now whether there is room. Nothing is lost: the node
    /// attaches again and sends what was not acknowledged.
    pub(super) fn append(
        &self,
        attachment: StreamAttachment,
        record: &[u8],
        access_control: &dyn AccessControl,
    ) -> Result<Packet, Packet> {
        let mut not_now = None;
        let reply = self.on_stream(attachment, |stream, engine| {
            if let Some(fault) = &stream.broken {
                return Ok(fault.clone());
            }
            if let Err(refusal) = self.may_store(record, access_control) {
                let fault = faults::of_quota(&refusal);
                if refusal.is_transient {
                    return Ok(not_now.insert(fault).clone());
                }
                return Ok(self.refuse(stream, &refusal.message, fault));
            }
            if let Err(error) = engine.append_bytes(record) {
                return Ok(self.refuse(stream, &error.to_string(), faults::of_engine(&error)));
            }
            stream.applied += 1;
            let stored_bytes = engine.stored_bytes();
            self.stored_bytes.store(stored_bytes, Ordering::Relaxed);
            Ok(Packet::Stored { applied: stream.applied, stored_bytes })
        });
        not_now.map_or(Ok(reply), Err)
    }

    /// Nothing more is taken on a stream.
    fn refuse(&self, stream: &mut Stream, why: &str, fault: Packet) -> Packet {
        self.refused.lock().get_or_insert_with(|| why.to_owned());
        stream.broken.insert(fault).clone()
    }

    /// Why it was refused, once its node has gone: there is nothing to come back for.
    pub(super) fn refused_and_left(&self) -> Option<String> {
        let is_left = self.connections.load(Ordering::Relaxed) == 0;
        is_left.then(|| self.refused.lock().clone()).flatten()
    }

    fn may_store(&self, record: &[u8], access_control: &dyn AccessControl) -> Result<(), Refusal> {
        access_control.may_store(&self.access.domain, record.len() as u64)
    }

    /// Which of `ids` must be stored.
    pub(super) fn claim(
        &self,
        attachment: StreamAttachment,
        request: u32,
        ids: &[ids::ObjectId],
    ) -> Packet {
        self.on_stream(attachment, |stream, engine| {
            // First of all: what is asked again promises nothing more.
            if let Some((_, said)) = stream.claims.iter().find(|(other, _)| *other == request) {
                return Ok(said.clone());
            }
            let of_others = self.promises_of_others(engine.promised_objects());
            if engine.promised_objects() + ids.len()
                > PROMISES_MAX.min(NODE_PROMISES_MAX - of_others)
            {
                return Ok(faults::not_allowed("too many objects were promised and not stored"));
            }
            let is_new: Result<Vec<bool>, _> = ids.iter().map(|id| engine.claim(id)).collect();
            let answer = flags::pack(&is_new?);
            self.promises_of_others(engine.promised_objects());
            stream.claims.push_back((request, answer.clone()));
            if stream.claims.len() > REQUESTS_MAX {
                stream.claims.pop_front();
            }
            Ok(answer)
        })
    }

    /// Updates the count of promises of this session; returns that of the node's other sessions.
    fn promises_of_others(&self, own: usize) -> usize {
        let mut counted = self.promised.lock();
        let before = std::mem::replace(&mut *counted, own);
        let others = self.node_promised.fetch_sub(before, Ordering::Relaxed) - before;
        self.node_promised.fetch_add(own, Ordering::Relaxed);
        others.min(NODE_PROMISES_MAX)
    }

    /// Which of `ids` are stored and stay stored.
    pub(super) fn holds(&self, attachment: StreamAttachment, ids: &[ids::ObjectId]) -> Packet {
        self.on_stream(attachment, |_, engine| {
            let held: Result<Vec<bool>, _> = ids.iter().map(|id| engine.is_stored(id)).collect();
            Ok(flags::pack(&held?))
        })
    }

    /// The number of its snapshot; the same for every call.
    pub(super) fn number(&self, attachment: StreamAttachment) -> Packet {
        self.on_stream(attachment, |_, engine| {
            let number = *self.number.lock().get_or_insert_with(|| engine.next_snapshot());
            Ok(Packet::Number { number })
        })
    }

    /// Makes everything durable that was taken until now.
    pub(super) fn checkpoint(&self, attachment: StreamAttachment) -> Packet {
        self.on_stream(attachment, |_, engine| {
            engine.checkpoint()?;
            Ok(Packet::Done {})
        })
    }

    /// Publishes the snapshot. A repeated request gets the same reply.
    pub(super) fn commit(
        &self,
        bytes: &[u8],
        access_control: &dyn AccessControl,
        receipts: Option<&Receipts>,
    ) -> Packet {
        let mut engine = self.engine.write();
        if let Some(done) = self.committed.lock().clone() {
            return done;
        }
        let others = match access_control.other_signers(&self.node, &self.access.domain) {
            Ok(others) => others,
            Err(refusal) => return faults::of_refusal(&refusal),
        };
        let (repository, number) = (&self.domain.repository, *self.number.lock());
        let (record, head) = match manifest::accept(repository, &self.access, number, bytes) {
            Ok(accepted) => accepted,
            Err(fault) => return fault,
        };
        if let Err(refusal) = self.may_store(bytes, access_control) {
            return faults::of_quota(&refusal);
        }
        // From the look at whose the source is until the snapshot is there.
        let _turn = (!others.is_empty()).then(|| self.domain.publishing(&head.source));
        if let Err(fault) = manifest::is_nobody_elses(repository, &self.node.name, &others, &head) {
            return fault;
        }
        let labels = match access_control.labels(self.job) {
            Ok(labels) => labels,
            Err(refusal) => return faults::of_refusal(&refusal),
        };
        let receipt = match receipts {
            Some(receipts) => self.receipt(receipts, &record, &head, &labels).map(Some),
            None if labels.lock_secs.is_some() => Err(repository::Error::NoReceiptKey),
            None => Ok(None),
        };
        let receipt = match receipt {
            Ok(receipt) => receipt,
            Err(error) => return faults::of_engine(&error),
        };
        let Some(session) = engine.take() else { return faults::no_session() };
        match session.commit_received(&record, receipt.as_deref()) {
            Ok(done) => {
                let name = SnapshotName { sequence: done.snapshot.sequence, id: done.snapshot.id };
                let packet = Packet::Committed { name, stored_bytes: done.stored_bytes };
                self.is_partial.store(head.is_partial(), Ordering::Relaxed);
                *self.committed.lock() = Some(packet.clone());
                self.domain.repository.fill_reserve();
                if labels.lock_secs.is_some() {
                    self.domain.secure_soon();
                }
                packet
            }
            Err(error) => {
                access_control.job_ends(self.job, &JobEnd::Failed(error.to_string()), "");
                faults::of_engine(&error)
            }
        }
    }

    /// Issues the receipt of a manifest. The repository records the receipt key and the time of a lock first.
    fn receipt(
        &self,
        receipts: &Receipts,
        record: &SealedRecord,
        head: &Head,
        labels: &Labels,
    ) -> repository::Result<Vec<u8>> {
        let (repository, lease) = (&self.domain.repository, self.domain.lease()?);
        repository.add_receipt_key(&lease, receipts.key())?;
        let give = |secs| repository.give_lock(&lease, secs, receipts.now_secs());
        let lock = labels.lock_secs.map(give).transpose()?;
        let clear = record.associated.get(HEADER_BYTES..).unwrap_or_default();
        let taken = Taken {
            repository: repository.config().repository,
            snapshot: snapshot_id(clear),
            head,
            begun_secs: self.begun_secs,
            node: &self.node.name,
            labels,
            lock,
        };
        let failed = |error| StorageError::new("write", RECEIPTS, error);
        Ok(receipts.give(&taken).map_err(failed)?)
    }

    /// Ends the job, with a snapshot or without. The next session finds what was stored without one.
    pub(super) fn finish(&self, access_control: &dyn AccessControl, end: &JobEnd, report: &str) {
        drop(self.engine.write().take());
        self.promises_of_others(0);
        self.end_reading(access_control);
        match &*self.committed.lock() {
            Some(Packet::Committed { name, .. }) => {
                let is_partial = self.is_partial.load(Ordering::Relaxed);
                let end = JobEnd::Complete { snapshot: Some(name.id.to_string()), is_partial };
                access_control.job_ends(self.job, &end, report);
            }
            _ => access_control.job_ends(self.job, end, report),
        }
    }

    /// Counts what its node reads. A backup that reads more than one does has a job of kind `read` beside its own.
    ///
    /// # Errors
    /// Once somebody has cancelled that job.
    pub(super) fn note_read(
        &self,
        record: &[u8],
        access_control: &dyn AccessControl,
    ) -> Result<(), Packet> {
        let mut reads = self.reads.lock();
        reads.add(record);
        if reads.job.is_none() && reads.is_news_in_session() {
            reads.job = Some(access_control.job_begins(&self.node, &self.access.domain, READ, ""));
        }
        let Some(job) = reads.job else { return Ok(()) };
        access_control.job_is_at(job, &reads.status());
        if access_control.is_cancelled(job) { Err(faults::cancelled()) } else { Ok(()) }
    }

    fn end_reading(&self, access_control: &dyn AccessControl) {
        let mut reads = self.reads.lock();
        if let Some(job) = reads.job.take() {
            let end = JobEnd::Complete { snapshot: None, is_partial: false };
            access_control.job_ends(job, &end, &reads.report());
        }
    }

    /// Records the progress of the job.
    pub(super) fn progress(&self, status: JobStatus, access_control: &dyn AccessControl) {
        let bytes_wire = self.stored_bytes.load(Ordering::Relaxed);
        let status = JobStatus { bytes_wire, ..status };
        *self.heard.lock() = Instant::now();
        access_control.job_is_at(self.job, &status);
        *self.status.lock() = status;
    }

    /// Calls `work` with the engine, unless another connection has taken over the stream.
    fn on_stream(
        &self,
        attachment: StreamAttachment,
        work: impl FnOnce(&mut Stream, &Engine) -> repository::Result<Packet>,
    ) -> Packet {
        if self.node.is_revoked() {
            return faults::revoked();
        }
        *self.heard.lock() = Instant::now();
        let engine = self.engine.read();
        let Some(engine) = &*engine else { return faults::no_session() };
        let Some(stream) = self.streams.get(usize::from(attachment.stream)) else {
            return faults::no_session();
        };
        let mut stream = stream.lock();
        if stream.generation != attachment.generation {
            return faults::no_session();
        }
        work(&mut stream, engine).unwrap_or_else(|error| faults::of_engine(&error))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.promises_of_others(0);
    }
}
