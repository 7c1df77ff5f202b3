//! What changes a domain: write sessions and their streams, commits, and tombstones.

use super::open_domain::OpenDomain;
use super::{Answer, RequestHandler};
use crate::forget::Tombstone;
use crate::receipts::Receipts;
use crate::session::{Session, StreamAttachment};
use crate::{faults, key_list, random};
use format::record::{self, RecordKind, SealedRecord};
use protocol::Packet;
use protocol::packet::SnapshotName;
use repository::snapshots::SnapshotRef;
use server_contract::access_control::{Access, JobEnd, Refusal};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl RequestHandler {
    pub(super) fn begin(
        &mut self,
        base: Option<SnapshotName>,
        what: &str,
        record: &[u8],
    ) -> Answer {
        let (access, domain) = self.with_repository()?;
        if !access.may_write {
            return Err(faults::not_allowed("this node may not back up to this domain"));
        }
        is_writable(access)?;
        if !self.lies_here(access)? {
            return Ok(self.comes_again(&access.domain));
        }
        let node = self.handle.node.clone();
        let Some(permit) = self.shared.sessions.permit(&node.name) else {
            // As the end of the connection: who comes back asks again by itself.
            self.handle.end_with(faults::too_many_sessions(&node.name));
            return Ok(None);
        };
        if !self.shared.may_begin_job(&node) {
            self.handle.end_with(faults::too_many_jobs(&node.name));
            return Ok(None);
        }
        if let Err(refusal) = self.shared.access_control.may_store(&access.domain, 0) {
            return self.has_no_room(&refusal);
        }
        let record = session_record(record).map_err(|error| faults::of_engine(&error))?;
        key_list::accept(&domain.repository, &record)?;
        let base = base.map(|name| SnapshotRef { sequence: name.sequence, id: name.id });
        let is_empty = domain.is_empty();
        let source = base.and_then(|name| domain.repository.snapshot(name).ok());
        let source = source.map(|stored| stored.head.source);
        let engine = domain.begin(base, record).map_err(|error| faults::of_engine(&error))?;
        let token = token().map_err(|refusal| faults::of_refusal(&refusal))?;
        let job = self.shared.access_control.job_begins(&node, &access.domain, "backup", what);
        let (access, domain) = (access.clone(), domain.clone());
        // Whoever gives the domain another place looks for jobs first: either he has seen this one, or it sees that.
        if !self.lies_here(&access).unwrap_or(false) {
            let why = format!("the domain '{}' got another place at this moment", access.domain);
            self.shared.access_control.job_ends(job, &JobEnd::Failed(why), "");
            return Ok(self.comes_again(&access.domain));
        }
        let session = Session::new(token, node, access, domain, engine, job, permit);
        let begun_secs = self.shared.receipts.as_deref().map_or(0, Receipts::now_secs);
        let session = session.begun_at(begun_secs).of_source(source, self.handle.address);
        let session = Arc::new(session);
        self.attach_stream(session.clone(), 0)?;
        self.enter(&session)?;
        Ok(Some(Packet::Begun { session: token.0, secret: token.1, is_empty }))
    }

    /// Whether the domain still lies where it was opened.
    fn lies_here(&self, access: &Access) -> Result<bool, Packet> {
        let lies = self.shared.access_control.still_lies_there(access);
        lies.map_err(|refusal| faults::of_refusal(&refusal))
    }

    /// The node comes back by itself, and is told the place.
    fn comes_again(&self, domain: &str) -> Option<Packet> {
        self.handle.end_with(faults::moving(domain));
        None
    }

    /// No backup begins in a domain whose quota is used up. While that cannot be known, its node comes back until it
    /// can.
    fn has_no_room(&self, refusal: &Refusal) -> Answer {
        let fault = faults::of_quota(refusal);
        if !refusal.is_transient {
            return Err(fault);
        }
        self.handle.end_with(fault);
        Ok(None)
    }

    pub(super) fn append(&self, record: &[u8]) -> Answer {
        let (session, attachment) = self.session.as_ref().ok_or_else(faults::no_session)?;
        match session.append(*attachment, record, &*self.shared.access_control) {
            Ok(reply) => Ok(Some(reply)),
            Err(last) => {
                self.handle.end_with(last);
                Ok(None)
            }
        }
    }

    /// Adds a session, unless another machine with the same identity backs up its source right now: each would
    /// believe that the other's snapshots were its own.
    fn enter(&mut self, session: &Arc<Session>) -> Result<(), Packet> {
        let Err(from) = self.shared.sessions.enter(session) else { return Ok(()) };
        let fault = faults::source_is_busy(&session.node.name, from);
        self.session = None;
        session.detach();
        self.handle.job.store(0, Ordering::Relaxed);
        let why = format!("the source was being backed up already, from {from}");
        session.finish(&*self.shared.access_control, &JobEnd::Failed(why), "");
        Err(fault)
    }

    pub(super) fn attach(&mut self, name: [u8; 16], secret: [u8; 16], stream: u8) -> Answer {
        let session = self.shared.sessions.find(name, secret, &self.handle.node.name);
        let session = session.ok_or_else(faults::no_session)?;
        self.open =
            Some(OpenDomain::new(session.access.clone(), Some(session.domain.clone()), None));
        let applied = self.attach_stream(session, stream)?;
        Ok(Some(Packet::Attached { applied }))
    }

    pub(super) fn attach_stream(
        &mut self,
        session: Arc<Session>,
        stream: u8,
    ) -> Result<u64, Packet> {
        let (attachment, applied) = session.attach(stream).ok_or_else(faults::no_session)?;
        self.handle.job.store(session.job, Ordering::Relaxed);
        if let Some((before, _)) = self.session.replace((session, attachment)) {
            before.detach();
        }
        Ok(applied)
    }

    pub(super) fn session(
        &self,
        work: impl FnOnce(&Session, StreamAttachment) -> Packet,
    ) -> Answer {
        let (session, attachment) = self.session.as_ref().ok_or_else(faults::no_session)?;
        Ok(Some(work(session, *attachment)))
    }

    pub(super) fn commit(&mut self, manifest: &[u8]) -> Answer {
        let (session, _) = self.session.as_ref().ok_or_else(faults::no_session)?;
        let shared = &self.shared;
        Ok(Some(session.commit(manifest, &*shared.access_control, shared.receipts.as_deref())))
    }

    pub(super) fn forget(&self, session: &[u8], tombstone: &[u8]) -> Answer {
        let (access, domain) = self.with_repository()?;
        if !access.may_write || !access.may_read {
            return Err(faults::not_allowed("this node may not forget snapshots of this domain"));
        }
        is_writable(access)?;
        let keys = self.known_receipt_keys(Some(&domain.repository))?;
        let tombstone = Tombstone::accept(&domain.repository, session, tombstone)?;
        let (node, access_control) = (&self.handle.node, &*self.shared.access_control);
        let count = tombstone.forget(domain, node, &access.domain, (access_control, &keys))?;
        Ok(Some(Packet::Forgotten { count: count as u32 }))
    }
}

/// The pool of the domain takes what is written.
pub(super) fn is_writable(access: &Access) -> Result<(), Packet> {
    access.read_only.as_ref().map_or(Ok(()), |refusal| Err(faults::of_refusal(refusal)))
}

fn token() -> Result<([u8; 16], [u8; 16]), Refusal> {
    Ok((random::bytes()?, random::bytes()?))
}

/// The session record that a client sent, whole and of its kind.
pub(crate) fn session_record(bytes: &[u8]) -> repository::Result<SealedRecord> {
    let damaged = |reason| repository::Error::damaged("the session record", reason);
    let record = record::verify(bytes).map_err(damaged)?;
    let is_whole = record.header.record_bytes() == bytes.len();
    if record.header.kind != RecordKind::Session || !is_whole {
        return Err(damaged(format::Error::Invalid { what: "session record" }));
    }
    let (associated, sealed) = (record.associated.to_vec(), record.sealed.to_vec());
    Ok(SealedRecord { kind: RecordKind::Session, ids: Vec::new(), associated, sealed })
}
