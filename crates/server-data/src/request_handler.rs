//! Handles the requests of a connection. Runs on blocking threads: it reads and writes disks.

use super::connection_handle::ConnectionHandle;
use super::domains::Domain;
use super::forget::Tombstone;
use super::receipts::Receipts;
use super::session::{Session, StreamAttachment};
use super::{Shared, faults, key_list, random, reading};
use api::domains::{Privacy, Settings};
use format::record::{self, RecordKind, SealedRecord};
use protocol::fault::{Code, fault};
use protocol::limits::{STREAMS_MAX, WINDOW_BYTES_MAX};
use protocol::packet::{PathBytes, Purpose, SnapshotName};
use protocol::state::State;
use protocol::{Packet, common_version};
use repository::Repository;
use repository::config::Config;
use repository::keys::Keys;
use repository::receipts::ReceiptKey;
use repository::snapshots::SnapshotRef;
use server_contract::Repositories;
use server_contract::access_control::{Access, JobEnd, JobNo, JobStatus, Refusal};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// The first version that knows `Redirect`.
const VERSION_REDIRECT: u16 = 2;
/// Send window of one stream: what a gigabit link carries in a quarter of a second.
pub(super) const WINDOW_BYTES: usize = 32 << 20;

/// Bytes that a backup may read before it counts as reading.
const BACKUP_READS_BYTES: u64 = 16 << 20;

/// Counters of what was read on a connection.
#[derive(Default)]
struct ReadCounters {
    records: u64,
    bytes: u64,
    /// Whether the connection's job is this reading.
    is_job: bool,
}

impl ReadCounters {
    fn status(&self) -> JobStatus {
        let (objects, bytes, bytes_wire) = (self.records, self.bytes, self.bytes);
        JobStatus { objects, bytes, bytes_wire, stage: "read".to_owned(), ..Default::default() }
    }

    fn report(&self) -> String {
        serde_json::json!({ "records": self.records, "bytes": self.bytes }).to_string()
    }
}

/// Handles a connection's requests, from its first packet to its last.
pub(super) struct RequestHandler {
    shared: Arc<Shared>,
    handle: Arc<ConnectionHandle>,
    pub(super) state: State,
    /// The version that both ends use.
    version: u16,
    open: Option<(Access, Option<Arc<Domain>>)>,
    session: Option<(Arc<Session>, StreamAttachment)>,
    /// A job without a session: a restore.
    job: Option<JobNo>,
    /// Number of noise packets received.
    noise: u64,
    /// What was read without a job.
    reads: ReadCounters,
}

type Answer = Result<Option<Packet>, Packet>;

impl RequestHandler {
    pub(super) fn new(shared: Arc<Shared>, handle: Arc<ConnectionHandle>) -> Self {
        let (state, version, open, session, job, noise, reads) = Default::default();
        Self { shared, handle, state, version, open, session, job, noise, reads }
    }

    /// The reply to a packet that is allowed now; `None` for packets without a reply.
    pub(super) fn answer(&mut self, request: u32, kind: u8, body: Vec<u8>) -> Option<Packet> {
        let answer = match Packet::decode(kind, body) {
            Ok(packet) => self.packet(request, packet).unwrap_or_else(Some),
            Err(error) => Some(faults::of_protocol(&error)),
        };
        if let Some(answer) = &answer {
            self.state = self.state.after(answer);
        }
        answer
    }

    fn packet(&mut self, request: u32, packet: Packet) -> Answer {
        // Its connections end within a second; until then nothing is done for it.
        if self.handle.node.is_revoked() {
            return Err(faults::revoked());
        }
        match packet {
            Packet::Hello { oldest, newest, .. } => self.hello(oldest, newest),
            Packet::Open { domain, purpose } => self.open(&domain, purpose),
            Packet::Init { config, slots, key_list } => {
                let slots = slots.into_iter().map(|slot| (slot.id, slot.bytes)).collect();
                self.init(&config, &Keys { slots, key_list })
            }
            Packet::Begin { base, what, record } => self.begin(base, &what, &record.0),
            Packet::Attach { session, secret, stream } => self.attach(session, secret, stream),
            Packet::Claim { ids } => {
                self.session(|it, attachment| it.claim(attachment, request, &ids))
            }
            Packet::Holds { ids } => self.session(|it, attachment| it.holds(attachment, &ids)),
            Packet::Append { record } => {
                self.session(|it, attachment| it.append(attachment, &record))
            }
            Packet::GetNumber {} => self.session(Session::number),
            Packet::Commit { manifest } => self.commit(&manifest),
            Packet::Progress { objects, bytes, bytes_read, stage, path } => {
                let (path, bytes_wire) = (path.0, 0);
                self.progress(JobStatus { objects, bytes, bytes_read, bytes_wire, path, stage });
                Ok(None)
            }
            Packet::Finish { is_complete, report } => self.finish(is_complete, &report),
            Packet::SendNoise { .. } => {
                self.noise += 1;
                Ok(Some(Packet::Stored { applied: self.noise, stored_bytes: 0 }))
            }
            Packet::CommandDone { command, is_complete, report } => {
                let report = String::from_utf8_lossy(&report);
                self.shared.access_control.command_done(
                    &self.handle.node,
                    command,
                    is_complete,
                    &report,
                );
                Ok(Some(Packet::Done {}))
            }
            Packet::PutSlot { slot } => {
                self.administer(|domain| domain.put_slot(slot.id, &slot.bytes))
            }
            Packet::PutKeyList { key_list } => {
                self.administer(|domain| domain.put_key_list(&key_list))
            }
            Packet::RemoveSlot { id } => self.administer(|domain| domain.remove_slot(id)),
            Packet::Forget { session, tombstone } => self.forget(&session.0, &tombstone),
            Packet::Ping {} => Ok(Some(Packet::Pong {})),
            Packet::Bye {} => {
                self.state = State::Over;
                Ok(Some(Packet::Done {}))
            }
            other => self.read(&other),
        }
    }

    fn hello(&mut self, oldest: u16, newest: u16) -> Answer {
        let version = common_version(oldest, newest).ok_or_else(|| {
            let text =
                format!("this server does not support protocol versions {oldest} to {newest}");
            fault(Code::Version, &text, "Use the same version of icecore on both sides.", &[])
        })?;
        self.version = version;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Some(Packet::Welcome {
            version,
            program: self.shared.program.clone(),
            time_secs: now.as_secs() as i64,
            node: self.handle.node.name.clone(),
            window_bytes: WINDOW_BYTES.min(WINDOW_BYTES_MAX) as u32,
            streams: STREAMS_MAX,
        }))
    }

    fn open(&mut self, domain: &str, purpose: Purpose) -> Answer {
        let name = (!domain.is_empty()).then_some(domain);
        let access = self.shared.access_control.access(&self.handle.node, name);
        let access = access.map_err(|refusal| faults::of_refusal(&refusal))?;
        if let Some((host, port)) = self.redirect(&access)? {
            // Who waits for commands waits here.
            if purpose != Purpose::Agent {
                return Ok(Some(Packet::Redirect { host, port }));
            }
            *self.handle.purpose.lock() = Some(purpose);
            return Ok(Some(not_opened(&access)));
        }
        let opened = self.opened(access)?;
        *self.handle.purpose.lock() = Some(purpose);
        if purpose == Purpose::Restore {
            self.job_begins("restore");
        }
        Ok(Some(opened))
    }

    fn redirect(&self, access: &Access) -> Result<Option<(String, u16)>, Packet> {
        let place = self.shared.access_control.storage_server_of(&access.domain);
        let place = place.map_err(|refusal| faults::of_refusal(&refusal))?;
        if place.is_some() && self.version < VERSION_REDIRECT {
            let text = "the domain lies on a storage server, and this program is too old for that";
            return Err(fault(Code::Version, text, "Use a newer icecore on this machine.", &[]));
        }
        Ok(place)
    }

    /// Does what only the control server may request.
    fn administer(&self, work: impl FnOnce(&Domain) -> repository::Result<()>) -> Answer {
        if !self.shared.access_control.is_control_server(&self.handle.node) {
            return Err(faults::not_allowed("only the control server may do this"));
        }
        let Some((_, Some(domain))) = &self.open else {
            return Err(fault(Code::NoRepository, "the domain has no repository yet", "", &[]));
        };
        work(domain).map_err(|error| faults::of_engine(&error))?;
        Ok(Some(Packet::Done {}))
    }

    fn forget(&self, session: &[u8], tombstone: &[u8]) -> Answer {
        let Some((access, Some(domain))) = &self.open else {
            return Err(fault(Code::NoRepository, "the domain has no repository yet", "", &[]));
        };
        if !access.may_write || !access.may_read {
            return Err(faults::not_allowed("this node may not forget snapshots of this domain"));
        }
        let keys = self.known_receipt_keys(Some(&domain.repository))?;
        let tombstone = Tombstone::accept(&domain.repository, session, tombstone)?;
        let (node, access_control) = (&self.handle.node, &*self.shared.access_control);
        let count = tombstone.forget(domain, node, &access.domain, (access_control, &keys))?;
        Ok(Some(Packet::Forgotten { count: count as u32 }))
    }

    fn opened(&mut self, access: Access) -> Result<Packet, Packet> {
        let domain = match self.shared.domains.open(&access.path) {
            Ok(domain) => Some(domain),
            Err(error) if is_not_made(&error) => None,
            Err(error) => return Err(faults::of_engine(&error)),
        };
        let repository = domain.as_ref().map(|domain| &domain.repository);
        let config = repository.map_or_else(Vec::new, |it| it.config().encode());
        let packet = Packet::Opened {
            domain: access.domain.clone(),
            config: PathBytes(config),
            damage_epoch: repository.map_or(0, |repository| repository.damage_epoch()),
            may_write: access.may_write,
            may_read: access.may_read,
            may_init: access.may_init,
            receipt_keys: self.receipt_keys(repository)?,
        };
        *self.handle.access.lock() = Some(access.clone());
        self.open = Some((access, domain));
        Ok(packet)
    }

    /// Receipt keys for a node: this server's own first, then those that `repository` names, which are only as good
    /// as whoever can write its files. A server without a key sends none.
    fn receipt_keys(&self, repository: Option<&Arc<Repository>>) -> Result<Vec<PathBytes>, Packet> {
        let Some(own) = self.shared.receipts.as_ref().map(Receipts::key) else {
            return Ok(Vec::new());
        };
        let others = self.known_receipt_keys(repository)?.into_iter().filter(|key| *key != own);
        Ok([own].into_iter().chain(others).map(|key| PathBytes(key.to_vec())).collect())
    }

    /// The keys that verify receipts of `repository`: those that it knows, and that of this server.
    fn known_receipt_keys(
        &self,
        repository: Option<&Arc<Repository>>,
    ) -> Result<Vec<ReceiptKey>, Packet> {
        let mut keys = match repository.map(|repository| repository.receipt_keys()) {
            // Damaged: written anew with the next receipt. Until then others are not believed.
            None | Some(Err(repository::Error::Damaged { .. })) => Vec::new(),
            Some(keys) => keys.map_err(|error| faults::of_engine(&error))?,
        };
        let own = self.shared.receipts.as_ref().map(Receipts::key);
        keys.extend(own.filter(|own| !keys.contains(own)));
        Ok(keys)
    }

    fn job_begins(&mut self, kind: &str) {
        let Some((access, _)) = &self.open else { return };
        let (node, domain) = (&self.handle.node, &access.domain);
        let job = self.shared.access_control.job_begins(node, domain, kind, "");
        self.handle.job.store(job, Ordering::Relaxed);
        self.job = Some(job);
    }

    /// Creates the repository of a domain with client-held keys.
    fn init(&mut self, config: &PathBytes, keys: &Keys) -> Answer {
        let Some((access, _)) = self.open.take() else { return Err(faults::no_session()) };
        if !access.may_init {
            return Err(faults::not_allowed(
                "this node may not create the repository of its domain",
            ));
        }
        let config = Config::decode(&config.0).map_err(|reason| {
            faults::of_engine(&repository::Error::damaged("the settings", reason))
        })?;
        // What the administrator wanted of the domain: only now can it be had.
        let made_with = (u32::from(config.privacy), config.parity_percent());
        let is_wanted = |wanted: &Settings| made_with == numbers(*wanted);
        if !access.settings.as_ref().is_none_or(is_wanted) {
            return Err(faults::not_allowed(
                "the repository does not have the privacy and parity of its domain",
            ));
        }
        let made = self.shared.domains.init(&access.path, config, keys);
        made.map_err(|error| faults::of_engine(&error))?;
        self.opened(access).map(Some)
    }

    fn begin(&mut self, base: Option<SnapshotName>, what: &str, record: &[u8]) -> Answer {
        let Some((access, Some(domain))) = &self.open else {
            return Err(fault(Code::NoRepository, "the domain has no repository yet", "", &[]));
        };
        if !access.may_write {
            return Err(faults::not_allowed("this node may not back up to this domain"));
        }
        let node = self.handle.node.clone();
        let Some(permit) = self.shared.sessions.permit(&node.name) else {
            // As the end of the connection: who comes back asks again by itself.
            self.handle.end_with(faults::too_many_sessions(&node.name));
            return Ok(None);
        };
        let record = session_record(record).map_err(|error| faults::of_engine(&error))?;
        key_list::accept(&domain.repository, &record)?;
        let base = base.map(|name| SnapshotRef { sequence: name.sequence, id: name.id });
        let is_empty = domain.is_empty();
        let engine = domain.begin(base, record).map_err(|error| faults::of_engine(&error))?;
        let token = token().map_err(|refusal| faults::of_refusal(&refusal))?;
        let job = self.shared.access_control.job_begins(&node, &access.domain, "backup", what);
        let (access, domain) = (access.clone(), domain.clone());
        let session = Session::new(token, node, access, domain, engine, job, permit);
        let begun_secs = self.shared.receipts.as_ref().map_or(0, Receipts::now_secs);
        let session = Arc::new(session.begun_at(begun_secs));
        self.shared.sessions.insert(session.clone());
        self.attach_stream(session, 0)?;
        Ok(Some(Packet::Begun { session: token.0, secret: token.1, is_empty }))
    }

    fn attach(&mut self, name: [u8; 16], secret: [u8; 16], stream: u8) -> Answer {
        let session = self.shared.sessions.find(name, secret, &self.handle.node.name);
        let session = session.ok_or_else(faults::no_session)?;
        self.open = Some((session.access.clone(), Some(session.domain.clone())));
        let applied = self.attach_stream(session, stream)?;
        Ok(Some(Packet::Attached { applied }))
    }

    fn attach_stream(&mut self, session: Arc<Session>, stream: u8) -> Result<u64, Packet> {
        let (attachment, applied) = session.attach(stream).ok_or_else(faults::no_session)?;
        self.handle.job.store(session.job, Ordering::Relaxed);
        if let Some((before, _)) = self.session.replace((session, attachment)) {
            before.detach();
        }
        Ok(applied)
    }

    fn session(&self, work: impl FnOnce(&Session, StreamAttachment) -> Packet) -> Answer {
        let (session, attachment) = self.session.as_ref().ok_or_else(faults::no_session)?;
        Ok(Some(work(session, *attachment)))
    }

    fn commit(&mut self, manifest: &[u8]) -> Answer {
        let (session, _) = self.session.as_ref().ok_or_else(faults::no_session)?;
        let shared = &self.shared;
        Ok(Some(session.commit(manifest, &*shared.access_control, shared.receipts.as_ref())))
    }

    fn progress(&self, status: JobStatus) {
        let access_control = &*self.shared.access_control;
        match (&self.session, self.job) {
            (Some((session, _)), _) => session.progress(status, access_control),
            (None, Some(job)) => access_control.job_is_at(job, &status),
            (None, None) => {}
        }
    }

    fn finish(&mut self, is_complete: bool, report: &[u8]) -> Answer {
        let end = match is_complete {
            true => JobEnd::Complete { snapshot: None },
            false => JobEnd::Failed(String::from_utf8_lossy(report).into_owned()),
        };
        let report = with_waits(report, self.handle.waits.report());
        self.handle.job.store(0, Ordering::Relaxed);
        if let Some(job) = self.job.take() {
            self.shared.access_control.job_ends(job, &end, &report);
        } else if let Some((session, _)) = self.session.take() {
            session.finish(&*self.shared.access_control, &end, &report);
            session.detach();
            self.shared.sessions.remove(&session);
            self.state = State::Open;
        }
        Ok(Some(Packet::Done {}))
    }

    fn read(&mut self, packet: &Packet) -> Answer {
        let Some((access, Some(domain))) = &self.open else {
            return Err(fault(Code::NoRepository, "the domain has no repository yet", "", &[]));
        };
        let answer = reading::answer(domain, access, packet);
        if let Packet::Record { record, .. } = &answer {
            self.note_read(record.len());
        }
        Ok(Some(answer))
    }

    /// Records reading as a job, whatever its purpose: the list of jobs shows who read which domain, and how much. A
    /// backup reads pages of the last snapshot first, which is not counted.
    fn note_read(&mut self, bytes: usize) {
        self.reads.records += 1;
        self.reads.bytes += bytes as u64;
        let is_backup = *self.handle.purpose.lock() == Some(Purpose::Backup);
        let is_news = self.reads.bytes > if is_backup { BACKUP_READS_BYTES } else { 0 };
        if self.job.is_none() && self.session.is_none() && is_news {
            self.reads.is_job = true;
            self.job_begins("read");
        }
        if let (true, Some(job)) = (self.reads.is_job, self.job) {
            self.shared.access_control.job_is_at(job, &self.reads.status());
        }
    }

    /// The connection is gone. A session waits for its node; a restore does not.
    pub(super) fn end(&mut self) {
        if let Some((session, _)) = self.session.take() {
            session.detach();
        }
        // Who made its snapshot and said no more has ended all the same: see `expired`.
        // When the server stops, it was not the node that went away: the next start says so.
        if let Some(job) = self.job.take().filter(|_| !self.shared.hub.is_closed()) {
            let (end, report) = match &self.reads {
                _ if self.handle.node.is_revoked() => {
                    (JobEnd::Failed(super::REVOKED.to_owned()), String::new())
                }
                ReadCounters { is_job: true, .. } => {
                    (JobEnd::Complete { snapshot: None }, self.reads.report())
                }
                _ => (JobEnd::Lost, String::new()),
            };
            self.shared.access_control.job_ends(job, &end, &report);
        }
    }

    /// What a client is sent after it has opened a domain: its limits, and pending commands.
    pub(super) fn unsolicited(&self) -> Vec<Packet> {
        let rates = &self.handle.rates;
        let (up, down) = (rates.up.bytes_per_sec(), rates.down.bytes_per_sec());
        let reason = "set on the server".to_owned();
        let limits = (up > 0 || down > 0).then_some(Packet::Limits { up, down, reason });
        limits.into_iter().chain(self.commands()).collect()
    }

    /// Pending commands of this agent.
    fn commands(&self) -> Vec<Packet> {
        if !self.handle.is_agent() {
            return Vec::new();
        }
        let commands = self.shared.access_control.commands(&self.handle.node);
        commands.iter().filter_map(command_packet).collect()
    }
}

/// Privacy and parity as the settings of a repository have them.
fn numbers(settings: Settings) -> (u32, u32) {
    let privacy = match settings.privacy {
        Privacy::Standard => 1,
        Privacy::Hardened => 2,
    };
    (privacy, settings.parity_percent)
}

/// The reply for a domain on another server, without its repository.
fn not_opened(access: &Access) -> Packet {
    Packet::Opened {
        domain: access.domain.clone(),
        config: PathBytes::default(),
        damage_epoch: 0,
        may_write: false,
        may_read: false,
        may_init: false,
        receipt_keys: Vec::new(),
    }
}

impl Drop for RequestHandler {
    /// A connection may end while a thread still works for it.
    fn drop(&mut self) {
        self.end();
    }
}

/// The report of a node, with the waits of this end added.
fn with_waits(report: &[u8], waits: serde_json::Value) -> String {
    match serde_json::from_slice(report) {
        Ok(serde_json::Value::Object(mut report)) => {
            report.insert("server".to_owned(), waits);
            serde_json::Value::Object(report).to_string()
        }
        _ => String::from_utf8_lossy(report).into_owned(),
    }
}

/// The packet of a node command.
pub(super) fn command_packet(command: &api::commands::NodeCommand) -> Option<Packet> {
    Some(Packet::Command { command: command.id, json: serde_json::to_vec(command).ok()? })
}

fn token() -> Result<([u8; 16], [u8; 16]), Refusal> {
    Ok((random::bytes()?, random::bytes()?))
}

fn is_not_made(error: &repository::Error) -> bool {
    match error {
        repository::Error::NoRepository { .. } => true,
        repository::Error::Storage(error) => error.is_not_found(),
        _ => false,
    }
}

/// The session record that a client sent, whole and of its kind.
pub(super) fn session_record(bytes: &[u8]) -> repository::Result<SealedRecord> {
    let damaged = |reason| repository::Error::damaged("the session record", reason);
    let record = record::verify(bytes).map_err(damaged)?;
    let is_whole = record.header.record_bytes() == bytes.len();
    if record.header.kind != RecordKind::Session || !is_whole {
        return Err(damaged(format::Error::Invalid { what: "session record" }));
    }
    let (associated, sealed) = (record.associated.to_vec(), record.sealed.to_vec());
    Ok(SealedRecord { kind: RecordKind::Session, ids: Vec::new(), associated, sealed })
}
