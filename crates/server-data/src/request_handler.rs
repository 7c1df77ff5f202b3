//! Handles the requests of a connection. Runs on blocking threads: it reads and writes disks.

mod job;
mod open_domain;
mod opening;
mod writing;

use super::connection_handle::ConnectionHandle;
use super::domains::Domain;
use super::read_counters::ReadCounters;
use super::session::{Session, StreamAttachment};
use super::upkeep::Asked;
use super::{Shared, expiry, faults, reading};
use open_domain::{OpenDomain, no_repository};
use protocol::fault::{Code, fault};
use protocol::limits::{STREAMS_MAX, WINDOW_BYTES_MAX};
use protocol::state::State;
use protocol::{Packet, common_version};
use repository::keys::Keys;
use server_contract::access_control::{Access, JobNo, JobStatus};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use writing::is_writable;
pub(super) use writing::session_record;

/// Send window of one stream: what a gigabit link carries in a quarter of a second.
pub(super) const WINDOW_BYTES: usize = 32 << 20;

/// Handles a connection's requests, from its first packet to its last.
pub(super) struct RequestHandler {
    shared: Arc<Shared>,
    handle: Arc<ConnectionHandle>,
    pub(super) state: State,
    /// The version that both ends use.
    version: u16,
    open: Option<OpenDomain>,
    session: Option<(Arc<Session>, StreamAttachment)>,
    /// A job without a session: a restore.
    job: Option<JobNo>,
    /// Number of noise packets received.
    noise: u64,
    /// What was read without a job.
    reads: ReadCounters,
    /// Expiries that the client asks for one after the other.
    expiries: Vec<Vec<u8>>,
}

type Answer = Result<Option<Packet>, Packet>;

impl RequestHandler {
    pub(super) fn new(shared: Arc<Shared>, handle: Arc<ConnectionHandle>) -> Self {
        let (state, version, open, session, job, noise, reads) = Default::default();
        let expiries = Vec::new();
        Self { shared, handle, state, version, open, session, job, noise, reads, expiries }
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
        // What came behind the packet that ended the connection is sent again on the next one.
        if self.handle.is_ending() {
            return Ok(None);
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
            Packet::Append { record } => self.append(&record),
            Packet::GetNumber {} => self.session(Session::number),
            Packet::Checkpoint {} => self.session(Session::checkpoint),
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
                let (node, access) = (&self.handle.node, &self.shared.access_control);
                let noted = access.command_done(node, command, is_complete, &report);
                noted.map_err(|refusal| faults::of_refusal(&refusal))?;
                Ok(Some(Packet::Done {}))
            }
            Packet::PutSlot { slot } => {
                self.administer(|domain| domain.put_slot(slot.id, &slot.bytes))
            }
            Packet::PutKeyList { key_list } => {
                self.administer(|domain| domain.put_key_list(&key_list))
            }
            Packet::RemoveSlot { id } => self.administer(|domain| domain.remove_slot(id)),
            Packet::Expire { expiry } => self.expire(&expiry),
            Packet::Upkeep { job, goes_on, request } => self.upkeep(job, goes_on, &request),
            Packet::Forget { session, tombstone } => self.forget(&session.0, &tombstone),
            Packet::GetExpiry { number } => self.expiry_record(number),
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

    /// The open domain, which has a repository.
    fn with_repository(&self) -> Result<(&Access, &Arc<Domain>), Packet> {
        let open = self.open.as_ref().ok_or_else(no_repository)?;
        let (domain, _) = open.repository()?;
        Ok((&open.access, domain))
    }

    /// Does what only the control server may request.
    fn administer(&self, work: impl FnOnce(&Domain) -> repository::Result<()>) -> Answer {
        let (access, domain) = self.administered()?;
        is_writable(access)?;
        work(domain).map_err(|error| faults::of_engine(&error))?;
        Ok(Some(Packet::Done {}))
    }

    /// The open domain, for the control server alone.
    fn administered(&self) -> Result<(&Access, &Arc<Domain>), Packet> {
        if !self.shared.access_control.is_control_server(&self.handle.node) {
            return Err(faults::not_allowed("only the control server may do this"));
        }
        self.with_repository()
    }

    fn expire(&self, expiry: &[u8]) -> Answer {
        let (access, domain) = self.administered()?;
        is_writable(access)?;
        expiry::carry_out(domain, expiry).map(Some)
    }

    /// An expiry by its number. A client that begins anew gets those of this moment.
    fn expiry_record(&mut self, number: u64) -> Answer {
        let (access, domain) = self.with_repository()?;
        if !access.may_read {
            return Err(faults::not_allowed("this node may not read"));
        }
        if number == 0 {
            self.expiries = domain.expiries().map_err(|error| faults::of_engine(&error))?;
        }
        let found = usize::try_from(number).ok().and_then(|at| self.expiries.get(at)).cloned();
        Ok(Some(found.map_or(Packet::NotFound {}, |expiry| Packet::ExpiryRecord { expiry })))
    }

    fn upkeep(&self, job: JobNo, goes_on: bool, request: &[u8]) -> Answer {
        let (access, _) = self.administered()?;
        let read_only = access.read_only.as_ref();
        let asked = Asked { folder: &access.path, read_only, job, goes_on };
        self.shared.upkeep.ask(&asked, request).map(Some)
    }

    fn read(&mut self, packet: &Packet) -> Answer {
        let open = self.open.as_ref().ok_or_else(no_repository)?;
        let (domain, with_copies) = open.repository()?;
        let answer = reading::answer(domain, with_copies, &open.access, packet);
        if let Packet::Record { record, .. } = &answer {
            self.note_read(record)?;
        }
        Ok(Some(answer))
    }

    /// What a client is sent after `answer`, once it has a domain open: its limits, and pending commands.
    pub(super) fn unsolicited(&self, answer: Option<&Packet>) -> Vec<Packet> {
        match answer {
            Some(Packet::Opened { .. } | Packet::Attached { .. } | Packet::Redirect { .. }) => {
                [self.handle.first_limits()].into_iter().chain(self.commands()).collect()
            }
            _ => Vec::new(),
        }
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

impl Drop for RequestHandler {
    /// A connection may end while a thread still works for it.
    fn drop(&mut self) {
        self.end();
    }
}

/// The packet of a node command.
pub(super) fn command_packet(command: &api::commands::NodeCommand) -> Option<Packet> {
    Some(Packet::Command { command: command.id, json: serde_json::to_vec(command).ok()? })
}
