//! The honest part of the server: what a connection gets when nothing lies.

use crate::now_secs;
use format::record::{self, SealedRecord};
use parking_lot::Mutex;
use protocol::fault::{Code, fault};
use protocol::packet::{PathBytes, Slot, SnapshotName};
use protocol::{Packet, VERSION_NEWEST, flags};
use repository::Repository;
use repository::lease::Lease;
use repository::session::Session;
use std::sync::Arc;
use store::{SnapshotRef, Store};

/// Answers of one connection, and its session.
pub(crate) struct Backend {
    repository: Option<Arc<Repository>>,
    session: Mutex<Option<(Arc<Lease>, Session)>>,
    applied: u64,
}

impl Backend {
    pub(crate) fn new(repository: Option<Arc<Repository>>) -> Self {
        Self { repository, session: Mutex::default(), applied: 0 }
    }

    /// The answer to a packet, if it gets one.
    pub(crate) fn answer(&mut self, packet: &Packet) -> Option<Packet> {
        Some(match packet {
            Packet::Hello { .. } => Packet::Welcome {
                version: VERSION_NEWEST,
                program: "fake".into(),
                time_secs: now_secs(),
                node: "web".into(),
                window_bytes: 1 << 20,
                streams: 4,
            },
            Packet::Open { .. } => self.opened(),
            Packet::Progress { .. } => return None,
            Packet::Finish { .. } | Packet::Bye {} | Packet::CommandDone { .. } => Packet::Done {},
            Packet::Ping {} => Packet::Pong {},
            Packet::Attach { .. } => fault(Code::NoSession, "no such session", "", &[]),
            other => {
                let answer = self.of_repository(other);
                answer.unwrap_or_else(|error| fault(Code::Failed, &error.to_string(), "", &[]))
            }
        })
    }

    fn opened(&self) -> Packet {
        let config = self.repository.as_ref().map_or_else(Vec::new, |it| it.config().encode());
        Packet::Opened {
            domain: "web".into(),
            config: PathBytes(config),
            damage_epoch: self.repository.as_ref().map_or(0, |it| it.damage_epoch()),
            may_write: true,
            may_read: true,
            may_init: false,
            receipt_keys: Vec::new(),
        }
    }

    fn of_repository(&mut self, packet: &Packet) -> store::Result<Packet> {
        let repository = self.repository.clone();
        let repository = repository.ok_or(store::Error::LocalOnly)?;
        let store: &dyn Store = &*repository;
        Ok(match packet {
            Packet::ListSnapshots { after } => {
                let all = store.snapshots()?.into_iter().filter(|name| name.sequence > *after);
                Packet::SnapshotList { names: all.map(name_of).collect(), more: false }
            }
            Packet::GetSnapshot { name } => {
                let stored =
                    store.snapshot(SnapshotRef { sequence: name.sequence, id: name.id })?;
                Packet::Snapshot { name: *name, file: stored.to_bytes() }
            }
            Packet::GetNewest { source } => match store.latest_snapshot(source)? {
                Some(stored) => {
                    Packet::Snapshot { name: name_of(stored.name), file: stored.to_bytes() }
                }
                None => Packet::NotFound {},
            },
            Packet::ListSlots { .. } => {
                let slots = store.key_slots()?.into_iter();
                let slots = slots.map(|(id, bytes)| Slot { id, bytes }).collect();
                let key_list = store.key_list(true)?.unwrap_or_default();
                Packet::SlotList { slots, more: false, key_list }
            }
            Packet::Locate { ids } => Packet::Locations { locations: store.locate(ids)? },
            Packet::Read { location } => {
                let mut record = Vec::new();
                store.read(*location, &mut record)?;
                Packet::Record { location: *location, record }
            }
            Packet::Fetch { id } => {
                let mut record = Vec::new();
                let location = store.fetch(id, &mut record)?;
                Packet::Record { location, record }
            }
            Packet::Heal { .. } => Packet::NotFound {},
            Packet::GetKeys { container, healed } => {
                let keys = store.session_keys(*container, *healed)?;
                Packet::Keys { keys: keys.into_iter().map(PathBytes).collect() }
            }
            Packet::GetMoreKeys { container, healed, after } => {
                let mut keys = store.session_keys(*container, *healed)?;
                keys.retain(|key| *key > after.0);
                keys.sort_unstable();
                keys.dedup();
                Packet::Keys { keys: keys.into_iter().map(PathBytes).collect() }
            }
            other => self.of_session(&repository, other)?,
        })
    }

    fn of_session(
        &mut self,
        repository: &Arc<Repository>,
        packet: &Packet,
    ) -> store::Result<Packet> {
        if let Packet::Begin { record, .. } = packet {
            let lease = repository.lease("fake")?;
            let session = repository.begin(&lease, None, sealed(&record.0))?;
            *self.session.lock() = Some((lease, session));
            self.applied = 0;
            return Ok(Packet::Begun { session: [1; 16], secret: [2; 16], is_empty: false });
        }
        let mut guard = self.session.lock();
        if let Packet::Commit { manifest } = packet {
            let (_lease, session) = guard.take().ok_or(store::Error::SessionLost)?;
            let done = session.commit(&sealed(manifest))?;
            let stored_bytes = done.stored_bytes;
            return Ok(Packet::Committed { name: name_of(done.snapshot), stored_bytes });
        }
        let (_, session) = guard.as_ref().ok_or(store::Error::SessionLost)?;
        Ok(match packet {
            Packet::Claim { ids } => {
                let new: Result<Vec<_>, _> = ids.iter().map(|id| session.claim(id)).collect();
                flags::pack(&new?)
            }
            Packet::Holds { ids } => {
                let held: Result<Vec<_>, _> = ids.iter().map(|id| session.is_stored(id)).collect();
                flags::pack(&held?)
            }
            Packet::Append { record } => {
                session.append_bytes(record)?;
                self.applied += 1;
                Packet::Stored { applied: self.applied, stored_bytes: session.stored_bytes() }
            }
            Packet::GetNumber {} => Packet::Number { number: session.next_snapshot() },
            other => fault(Code::Protocol, other.name(), "", &[]),
        })
    }
}

fn name_of(name: SnapshotRef) -> SnapshotName {
    SnapshotName { sequence: name.sequence, id: name.id }
}

fn sealed(bytes: &[u8]) -> SealedRecord {
    let record = record::verify(bytes).unwrap();
    let (associated, sealed) = (record.associated.to_vec(), record.sealed.to_vec());
    SealedRecord { kind: record.header.kind, ids: Vec::new(), associated, sealed }
}
