//! Read requests to a repository.

use super::domains::Domain;
use super::faults;
use format::limits::RECORD_BYTES_MAX;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};
use protocol::Packet;
use protocol::limits::{KEYS_MAX, SLOTS_MAX, SNAPSHOTS_MAX};
use protocol::packet::{PathBytes, Slot, SnapshotName};
use repository::fallback::WithCopies;
use repository::snapshots::SnapshotRef;
use repository::{Error, Repository, Result};
use server_contract::access_control::Access;

/// Answers a read request. A node that may only write gets enough to build on its last backup.
/// What the repository of the domain has lost is read from its copies.
pub(super) fn answer(
    domain: &Domain,
    with_copies: &WithCopies,
    access: &Access,
    packet: &Packet,
) -> Packet {
    let repository = &*domain.repository;
    let answer = match packet {
        Packet::GetNewest { source } => newest(repository, source),
        Packet::ListSlots { after } => slots(repository, access, *after),
        _ if !access.may_read => return faults::not_allowed("this node may not read"),
        Packet::ListSnapshots { after } => list(repository, *after),
        Packet::GetSnapshot { name } => snapshot(with_copies, *name),
        Packet::Locate { ids } => {
            with_copies.locate(ids).map(|locations| Packet::Locations { locations })
        }
        Packet::Read { location } => read(with_copies, *location),
        Packet::Fetch { id } => fetch(with_copies, id),
        Packet::GetKeys { container, healed } => keys(with_copies, *container, *healed, &[]),
        Packet::GetMoreKeys { container, healed, after } => {
            keys(with_copies, *container, *healed, &after.0)
        }
        Packet::Heal { location } => Ok(heal(with_copies, *location)),
        _ => return faults::not_allowed("this request is not supported"),
    };
    answer.unwrap_or_else(|error| faults::of_engine(&error))
}

fn newest(repository: &Repository, source: &ObjectId) -> Result<Packet> {
    match repository.latest_snapshot(source)? {
        // The engine has it decoded; what is sent is what lies there.
        Some(stored) => {
            let name = SnapshotName { sequence: stored.name.sequence, id: stored.name.id };
            Ok(Packet::Snapshot { name, file: stored.to_bytes() })
        }
        None => Ok(Packet::NotFound {}),
    }
}

fn list(repository: &Repository, after: u64) -> Result<Packet> {
    let all = repository.snapshots()?;
    Ok(page(all.into_iter().filter(|name| name.sequence > after), SNAPSHOTS_MAX))
}

/// The first names, at most `most`, and whether there are more. The next page begins behind the last number: of two with
/// one number, as where a history was forked, both are on one page.
fn page(later: impl Iterator<Item = SnapshotRef>, most: usize) -> Packet {
    let mut names: Vec<_> = later.take(most + 1).collect();
    let more = names.len() > most;
    if more && let Some(next) = names.pop() {
        let is_earlier = |name: &SnapshotRef| name.sequence < next.sequence;
        if names.first().is_some_and(is_earlier) {
            names.retain(is_earlier);
        }
    }
    let names = names.into_iter();
    let names = names.map(|name| SnapshotName { sequence: name.sequence, id: name.id }).collect();
    Packet::SnapshotList { names, more }
}

fn snapshot(repository: &WithCopies, name: SnapshotName) -> Result<Packet> {
    let stored = repository.snapshot(SnapshotRef { sequence: name.sequence, id: name.id })?;
    Ok(Packet::Snapshot { name, file: stored.to_bytes() })
}

/// Slots after `after`; the first part comes with the key list, which is public.
fn slots(repository: &Repository, access: &Access, after: Option<KeyId>) -> Result<Packet> {
    let mut slots = repository.key_slots()?;
    slots.retain(|(id, slot)| after.is_none_or(|after| *id > after) && may_see(access, *id, slot));
    slots.sort_unstable_by_key(|(id, _)| *id);
    let more = slots.len() > SLOTS_MAX;
    let some = slots.into_iter().take(SLOTS_MAX);
    let slots = some.map(|(id, bytes)| Slot { id, bytes }).collect();
    let key_list = match after {
        None => repository.key_list()?.unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    Ok(Packet::SlotList { slots, more, key_list })
}

/// Whether the node may see this slot. A node whose key is known sees only its own. With client-held
/// keys, a node that may only write sees write-only slots without a password, which could be guessed.
fn may_see(access: &Access, id: KeyId, slot: &[u8]) -> bool {
    match access.key {
        Some(own) => own == id.0,
        None if access.may_read => true,
        None => crypto::slot_info(slot)
            .is_ok_and(|info| info.role == crypto::Role::WriteOnly && info.kdf.is_none()),
    }
}

fn read(repository: &WithCopies, location: RecordLocation) -> Result<Packet> {
    if location.length as usize > RECORD_BYTES_MAX {
        let reason = format::Error::Invalid { what: "length of a record" };
        return Err(Error::damaged("the request", reason));
    }
    let mut record = Vec::new();
    repository.read(location, &mut record)?;
    Ok(Packet::Record { location, record })
}

fn fetch(repository: &WithCopies, id: &ObjectId) -> Result<Packet> {
    let mut record = Vec::new();
    let location = repository.fetch(id, &mut record)?;
    Ok(Packet::Record { location, record })
}

fn heal(repository: &WithCopies, location: RecordLocation) -> Packet {
    let mut record = Vec::new();
    match repository.heal(location, &mut record) {
        true => Packet::Record { location, record },
        false => Packet::NotFound {},
    }
}

fn keys(
    repository: &WithCopies,
    container: ContainerNo,
    healed: bool,
    after: &[u8],
) -> Result<Packet> {
    let keys = some_keys(repository.session_keys(container, healed)?, after);
    Ok(Packet::Keys { keys: keys.into_iter().map(PathBytes).collect() })
}

/// As many of the `keys` as fit into a reply, of those that sort after `after`. Each is there twice, at its records and
/// at the end of the container.
fn some_keys(mut keys: Vec<Vec<u8>>, after: &[u8]) -> Vec<Vec<u8>> {
    keys.retain(|key| key.as_slice() > after);
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(KEYS_MAX);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::SnapshotId;

    /// Reclaim puts small containers together: one may have the records of thousands of sessions.
    #[test]
    fn all_keys_of_a_container_are_sent_in_parts_each_once() {
        for count in [0, 1, KEYS_MAX - 1, KEYS_MAX, KEYS_MAX + 1, 3 * KEYS_MAX + 7] {
            let all: Vec<_> = (0..count as u32).rev().map(|n| n.to_be_bytes().to_vec()).collect();
            let (twice, mut found) = ([all.clone(), all].concat(), Vec::new());
            loop {
                let part = some_keys(twice.clone(), found.last().map_or(&[][..], Vec::as_slice));
                let is_last = part.len() < KEYS_MAX;
                found.extend(part);
                if is_last {
                    break;
                }
            }
            assert!(found.is_sorted() && found.len() == count, "{} of {count}", found.len());
        }
    }

    #[test]
    fn of_two_with_one_number_both_are_on_one_page() {
        let all = [1, 2, 3, 3, 4, 5, 5].into_iter().enumerate();
        let all: Vec<_> = all
            .map(|(at, sequence)| SnapshotRef { sequence, id: SnapshotId([at as u8; 16]) })
            .collect();
        for most in 2..9 {
            let (mut found, mut after) = (Vec::new(), 0);
            loop {
                let later = all.iter().copied().filter(|name| name.sequence > after);
                let Packet::SnapshotList { names, more } = page(later, most) else { panic!() };
                assert!(names.len() <= most && !names.is_empty());
                after = names.last().unwrap().sequence;
                found.extend(names.iter().map(|name| name.id));
                if !more {
                    break;
                }
            }
            assert!(found == all.iter().map(|name| name.id).collect::<Vec<_>>(), "{most}");
        }
    }
}
