//! The server as a repository.

use crate::stream::Pending;
use crate::write_session::RemoteWriteSession;
use crate::{Failure, Purpose, Remote};
use format::record::SealedRecord;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};
use protocol::limits::{IDS_MAX, KEYS_MAX};
use protocol::packet::{PathBytes, Slot, SnapshotName};
use protocol::{Packet, VERSION_MORE_KEYS};
use std::sync::Arc;
use store::{
    Config, Error, ReceiptKey, Result, SnapshotRef, Store, StoredSnapshot, WriteLease, WriteSession,
};

/// More key slots than any domain has.
const SLOTS_MAX: usize = 64 << 10;
/// The first version with the packet `GetExpiry`.
const VERSION_EXPIRY: u16 = 4;
/// More than the ids of all snapshots of any domain.
const EXPIRIES_BYTES_MAX: usize = 256 << 20;
/// Each counts as so many at least: with it, the limit is one of their number, too (256 MiB / 256 B = 1 Mi).
const EXPIRY_BYTES_MIN: usize = 256;
/// More than the keys of the sessions in any container: keys that have no end are a lie.
const KEYS_BYTES_MAX: usize = 64 << 20;
/// More snapshots than any domain has: a list that has no end is a lie.
const SNAPSHOTS_MAX: usize = 4 << 20;

impl Store for Remote {
    fn config(&self) -> &Config {
        &self.config
    }

    fn damage_epoch(&self) -> u64 {
        self.opened.damage_epoch
    }

    fn snapshots(&self) -> Result<Vec<SnapshotRef>> {
        let mut listed = self.list_snapshots()?;
        // It may have been asked for before the server named what it lacks.
        if self.expected.lacks(&listed) {
            listed = self.list_snapshots()?;
            self.expected.tell_missing(&listed);
        }
        Ok(listed)
    }

    fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot> {
        snapshot_in(name, self.request_snapshot(name)?)
    }

    fn read_snapshots(&self, names: &[SnapshotRef]) -> Vec<Result<StoredSnapshot>> {
        let asked: Vec<_> = names.iter().map(|name| self.request_snapshot(*name)).collect();
        let both = names.iter().zip(asked);
        both.map(|(name, pending)| snapshot_in(*name, pending?)).collect()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn latest_snapshot(&self, source: &ObjectId) -> Result<Option<StoredSnapshot>> {
        newest_in(source, self.first.request(&Packet::GetNewest { source: *source })?)
    }

    fn latest_snapshots(&self, sources: &[ObjectId]) -> Vec<Result<Option<StoredSnapshot>>> {
        let ask = |source: &ObjectId| self.first.request(&Packet::GetNewest { source: *source });
        let asked: Vec<_> = sources.iter().map(ask).collect();
        sources.iter().zip(asked).map(|(source, pending)| newest_in(source, pending?)).collect()
    }

    fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        if let Some(slots) = self.slots.get() {
            return Ok(slots.clone());
        }
        let slots = self.list_slots()?;
        Ok(self.slots.get_or_init(|| slots).clone())
    }

    /// It comes with the first slots, which everybody asks for.
    fn key_list(&self, anew: bool) -> Result<Option<Vec<u8>>> {
        if anew {
            self.slots_after(None)?;
        } else {
            self.key_slots()?;
        }
        Ok(self.key_list.lock().clone())
    }

    fn receipt_keys(&self) -> Result<Vec<ReceiptKey>> {
        Ok(self.trusted_receipt_keys.get().unwrap_or(&self.opened.receipt_keys).clone())
    }

    fn expiries(&self) -> Result<(Vec<ReceiptKey>, Vec<Vec<u8>>)> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        if self.opened.version < VERSION_EXPIRY {
            return Ok((Vec::new(), all));
        }
        loop {
            match self.first.call(&Packet::GetExpiry { number: all.len() as u64 })? {
                Packet::ExpiryRecord { expiry } if bytes < EXPIRIES_BYTES_MAX => {
                    // One that says nothing is no step towards the end.
                    if expiry.is_empty() {
                        return Err(bad_reply("GetExpiry"));
                    }
                    bytes += expiry.len().max(EXPIRY_BYTES_MIN);
                    all.push(expiry);
                }
                Packet::NotFound {} => return Ok((self.opened.receipt_keys.clone(), all)),
                _ => return Err(bad_reply("GetExpiry")),
            }
        }
    }

    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        let asked: Result<Vec<_>> = ids
            .chunks(IDS_MAX)
            .map(|ids| Ok((ids.len(), self.first.request(&Packet::Locate { ids: ids.to_vec() })?)))
            .collect();
        let mut all = Vec::with_capacity(ids.len());
        for (count, pending) in asked? {
            match pending.wait()? {
                Packet::Locations { locations } if locations.len() == count => {
                    all.extend(locations)
                }
                _ => return Err(bad_reply("Locate")),
            }
        }
        Ok(all)
    }

    fn prefetch(&self, location: RecordLocation) -> Result<()> {
        self.prefetcher.prefetch(&self.first, location)
    }

    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        let pending = match self.prefetcher.take(&self.first, location)? {
            Some(pending) => pending,
            None => self.first.request(&Packet::Read { location })?,
        };
        match pending.wait()? {
            Packet::Record { location: said, record }
                if said == location && record.len() == location.length as usize =>
            {
                *buffer = record;
                Ok(())
            }
            _ => Err(bad_reply("Read")),
        }
    }

    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        match self.first.call(&Packet::Heal { location }) {
            Ok(Packet::Record { location: said, record }) if said == location => {
                *buffer = record;
                true
            }
            _ => false,
        }
    }

    fn healed(&self) -> Vec<RecordLocation> {
        // The server heals what it reads, and tells its administrator.
        Vec::new()
    }

    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation> {
        match self.first.call(&Packet::Fetch { id: *id })? {
            Packet::Record { location, record } => {
                *buffer = record;
                Ok(location)
            }
            _ => Err(bad_reply("Fetch")),
        }
    }

    fn refresh_after(&self, _gone: ContainerNo) -> Result<()> {
        Ok(())
    }

    fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>> {
        let pending = match self.prefetcher.take_keys(container) {
            Some(pending) if !healed => pending,
            _ => self.first.request(&Packet::GetKeys { container, healed })?,
        };
        let mut all = keys_of(pending.wait()?)?;
        let mut is_full = all.len() >= KEYS_MAX && self.opened.version >= VERSION_MORE_KEYS;
        let mut bytes = 0;
        while is_full {
            let after = PathBytes(all.last().cloned().unwrap_or_default());
            let more = Packet::GetMoreKeys { container, healed, after };
            let more = keys_of(self.first.call(&more)?)?;
            let rises = all.last().into_iter().chain(&more).is_sorted_by(|one, next| one < next);
            bytes += more.iter().map(Vec::len).sum::<usize>();
            if !rises || bytes > KEYS_BYTES_MAX {
                return Err(bad_reply("GetMoreKeys"));
            }
            is_full = more.len() >= KEYS_MAX;
            all.extend(more);
        }
        Ok(all)
    }

    fn forget(&self, session: &SealedRecord, tombstone: &SealedRecord) -> Result<u64> {
        let session = PathBytes(session.to_bytes());
        match self.first.call(&Packet::Forget { session, tombstone: tombstone.to_bytes() })? {
            Packet::Forgotten { count } => {
                self.expected.clear();
                Ok(count.into())
            }
            _ => Err(bad_reply("Forget")),
        }
    }

    fn write_lease(self: Arc<Self>, _holder: &str) -> Result<Box<dyn WriteLease>> {
        Ok(Box::new(RemoteWriteLease(self)))
    }
}

fn keys_of(reply: Packet) -> Result<Vec<Vec<u8>>> {
    match reply {
        Packet::Keys { keys } => Ok(keys.into_iter().map(|key| key.0).collect()),
        _ => Err(bad_reply("GetKeys")),
    }
}

impl Remote {
    fn request_snapshot(&self, name: SnapshotRef) -> Result<Pending> {
        let name = SnapshotName { sequence: name.sequence, id: name.id };
        self.first.request(&Packet::GetSnapshot { name })
    }

    fn list_snapshots(&self) -> Result<Vec<SnapshotRef>> {
        let mut all: Vec<SnapshotRef> = Vec::new();
        loop {
            let after = all.last().map_or(0, |last| last.sequence);
            let pending = match self.listed.lock().take().filter(|_| after == 0) {
                Some(asked) => asked,
                None => self.first.request(&Packet::ListSnapshots { after })?,
            };
            let Packet::SnapshotList { names, more } = pending.wait()? else {
                return Err(bad_reply("ListSnapshots"));
            };
            let is_endless = more && (names.is_empty() || all.len() >= SNAPSHOTS_MAX);
            if !SnapshotName::rise(after, &names) || is_endless {
                return Err(bad_reply("ListSnapshots"));
            }
            all.extend(names.into_iter().map(reference));
            if !more {
                return Ok(all);
            }
        }
    }

    /// Who looks wants key slots first and then the list of snapshots: asked for now, both take one round
    /// trip.
    pub(crate) fn request_early(&self) -> Result<()> {
        if self.may_read() && matches!(self.purpose, Purpose::Restore | Purpose::Read) {
            *self.listed.lock() = Some(self.first.request(&Packet::ListSnapshots { after: 0 })?);
        }
        Ok(())
    }

    fn list_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        let mut all: Vec<(KeyId, Vec<u8>)> = Vec::new();
        loop {
            let after = all.last().map(|(id, _)| *id);
            let (slots, more) = self.slots_after(after)?;
            let ids = after.into_iter().chain(slots.iter().map(|slot| slot.id));
            let is_endless = more && (slots.is_empty() || all.len() >= SLOTS_MAX);
            if !ids.is_sorted_by(|one, next| one < next) || is_endless {
                return Err(bad_reply("ListSlots"));
            }
            all.extend(slots.into_iter().map(|slot| (slot.id, slot.bytes)));
            if !more {
                return Ok(all);
            }
        }
    }

    /// Some slots, and whether there are more. The key list comes with the first.
    fn slots_after(&self, after: Option<KeyId>) -> Result<(Vec<Slot>, bool)> {
        match self.first.call(&Packet::ListSlots { after })? {
            Packet::SlotList { slots, more, key_list } => {
                if after.is_none() {
                    *self.key_list.lock() = Some(key_list).filter(|key_list| !key_list.is_empty());
                }
                Ok((slots, more))
            }
            _ => Err(bad_reply("ListSlots")),
        }
    }
}

fn newest_in(source: &ObjectId, pending: Pending) -> Result<Option<StoredSnapshot>> {
    match pending.wait()? {
        Packet::NotFound {} => Ok(None),
        Packet::Snapshot { name, file } => {
            let stored = decoded(reference(name), &file)?;
            let is_asked_for = stored.head.source == *source;
            if is_asked_for { Ok(Some(stored)) } else { Err(bad_reply("GetNewest")) }
        }
        _ => Err(bad_reply("GetNewest")),
    }
}

fn decoded(name: SnapshotRef, file: &[u8]) -> Result<StoredSnapshot> {
    StoredSnapshot::decode(name, file).map_err(|reason| Error::damaged(&name.path(), reason))
}

fn snapshot_in(name: SnapshotRef, pending: Pending) -> Result<StoredSnapshot> {
    match pending.wait()? {
        Packet::Snapshot { file, .. } => decoded(name, &file),
        _ => Err(bad_reply("GetSnapshot")),
    }
}

/// The server gives the lease, session by session.
struct RemoteWriteLease(Arc<Remote>);

impl WriteLease for RemoteWriteLease {
    fn begin(
        &self,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Box<dyn WriteSession>> {
        Ok(Box::new(RemoteWriteSession::begin(self.0.clone(), base, &session_record)?))
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn finish(&self) {}
}

fn reference(name: SnapshotName) -> SnapshotRef {
    SnapshotRef { sequence: name.sequence, id: name.id }
}

pub(crate) fn bad_reply(request: &str) -> Error {
    Failure::ProtocolError(format!("the server's reply to {request} is not valid")).into_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_two_may_have_one_number() {
        let names = |numbers: &[u64]| -> Vec<_> {
            let names = numbers.iter().zip(0..);
            names
                .map(|(number, id)| SnapshotName {
                    sequence: *number,
                    id: ids::SnapshotId([id; 16]),
                })
                .collect()
        };
        for good in [&[][..], &[4], &[4, 5, 9], &[4, 4, 5]] {
            assert!(SnapshotName::rise(3, &names(good)), "{good:?}");
        }
        for bad in [&[3][..], &[4, 3], &[5, 4, 6]] {
            assert!(!SnapshotName::rise(3, &names(bad)), "{bad:?}");
        }
    }
}
