//! The keys of a copy: they follow those of the first place. Where both were changed apart, nobody without a key can
//! say what is to count, since each list is signed as a whole.

use super::CopyOptions;
use crate::{Error, Result};
use crypto::{KeyEntry, KeyList, RootVerifyKey, SignedKeyList, verify_slot_certificate};
use format::manifest::Head;
use ids::SnapshotId;
use repository::Repository;
use repository::lease::Lease;

/// Which of two lists has all that the other one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newer {
    /// The one of the first place, or they are the same.
    Source,
    /// The one of the copy: keys were changed there, and not here.
    Target,
    /// Both were changed.
    Neither,
}

fn newer(source: &KeyList, target: &KeyList) -> Newer {
    if has_all(source, target) {
        Newer::Source
    } else if has_all(target, source) {
        Newer::Target
    } else {
        Newer::Neither
    }
}

/// Whether `list` can have come of `before`: with all of its keys, none of the removed ones in use, and no lower number.
fn has_all(list: &KeyList, before: &KeyList) -> bool {
    let is_kept = |entry: &KeyEntry| {
        if entry.is_live() { list.find(entry.id).is_some() } else { !list.is_live(entry.id) }
    };
    let is_later = list.version() >= before.version() && list.epoch() >= before.epoch();
    is_later && before.entries().iter().all(is_kept)
}

/// Snapshots of keys that only one place knows would count for nothing in the other, and a password that was removed
/// in one would go on opening the other. Returns the snapshots of the copy that nobody trusts with the keys of the
/// first place, where they are given up.
pub(super) fn refuse_apart(
    source: &Repository,
    target: &Repository,
    options: &CopyOptions,
) -> Result<Vec<SnapshotId>> {
    let (Some((bytes, list)), Some((before, own))) = (signed_list(source)?, list_of_copy(target)?)
    else {
        return Ok(Vec::new());
    };
    let newer = newer(&list, &own);
    if bytes == before || newer == Newer::Target {
        return Ok(Vec::new());
    }
    let (here, there) = (source.storage().describe(), target.storage().describe());
    if newer == Newer::Neither && !options.replace_keys {
        let (here, there) = ((only(&list, &own), here), (only(&own, &list), there));
        return Err(Error::KeysApart { here, there });
    }
    let disowned = disowned(target, &list, &own)?;
    if disowned.is_empty() || options.give_up {
        return Ok(disowned);
    }
    Err(Error::KeysDisown { snapshots: disowned, here, there })
}

/// The keys that are in use in `one` alone.
fn only(one: &KeyList, other: &KeyList) -> Vec<String> {
    let differs = |entry: &&KeyEntry| entry.is_live() && !other.is_live(entry.id);
    one.entries().iter().filter(differs).map(|entry| entry.id.to_string()).collect()
}

/// The snapshots that were made in `target` by keys that may have made them by its list `own`, and not by `list`: such
/// a key was removed in the first place meanwhile, or was never there.
fn disowned(target: &Repository, list: &KeyList, own: &KeyList) -> Result<Vec<SnapshotId>> {
    let may_sign = |list: &KeyList, head: &Head| {
        list.find(head.writer).is_some_and(|entry| entry.may_sign(head.sequence))
    };
    let mut disowned = Vec::new();
    for name in target.snapshots()? {
        match target.snapshot(name).map_err(store::Error::from) {
            Ok(it) if may_sign(own, &it.head) && !may_sign(list, &it.head) => {
                disowned.push(name.id)
            }
            Err(error) if error.is_unreachable() => return Err(error.into()),
            // What is damaged or forgotten counts for nothing here either.
            _ => {}
        }
    }
    Ok(disowned)
}

/// Gives `target` the keys of `source`, unless they were changed there: what only one place has lost, the other keeps.
pub(super) fn take_keys(source: &Repository, target: &Repository, lease: &Lease) -> Result<()> {
    let Some((bytes, list)) = signed_list(source)? else { return Ok(()) };
    let own = list_of_copy(target)?;
    if own.as_ref().is_some_and(|(_, own)| newer(&list, own) == Newer::Target) {
        return Ok(());
    }
    if own.is_none_or(|(there, _)| there != bytes) {
        target.replace_key_list(lease, &bytes)?;
    }
    let there = target.key_slots()?;
    for (id, slot) in source.key_slots()? {
        let is_there = there.iter().any(|own| *own == (id, slot.clone()));
        if !is_there && is_usable(source, &list, id, &slot) {
            target.put_key_slot(lease, id, &slot)?;
        }
    }
    // Those that this list does not have were made in the copy.
    let mut ended = there.iter().map(|(id, _)| *id).filter(|id| !list.is_live(*id));
    ended.try_for_each(|id| Ok(target.remove_key_slot(lease, id)?))
}

/// Keys that the list of `repository` names and that have no usable file there.
pub(super) fn lost_keys(repository: &Repository) -> Result<Vec<String>> {
    let Some((_, list)) = signed_list(repository)? else { return Ok(Vec::new()) };
    let slots = repository.key_slots()?;
    let has = |id: ids::KeyId| {
        slots.iter().any(|(own, slot)| *own == id && is_usable(repository, &list, id, slot))
    };
    let live = list.entries().iter().filter(|entry| entry.is_live()).map(|entry| entry.id);
    Ok(live.filter(|id| !has(*id)).map(|id| id.to_string()).collect())
}

/// The key list, and what it says, if the root key signed it.
pub(super) fn signed_list(repository: &Repository) -> Result<Option<(Vec<u8>, KeyList)>> {
    let root = RootVerifyKey::from_bytes(repository.config().root_key);
    let Some(bytes) = repository.key_list()? else { return Ok(None) };
    let signed = SignedKeyList::verify(&bytes, &root, repository.config().repository);
    Ok(signed.ok().map(|signed| (bytes, KeyList::clone(&signed))))
}

/// The same of a copy: who is told of damage takes it for that of the first place.
fn list_of_copy(target: &Repository) -> Result<Option<(Vec<u8>, KeyList)>> {
    signed_list(target).map_err(|error| match error.is_damage() {
        true => Error::KeysOfCopyDamaged(target.storage().describe()),
        false => error,
    })
}

/// Whether `slot` is that of a key in use: what is damaged replaces nothing.
pub(super) fn is_usable(source: &Repository, list: &KeyList, id: ids::KeyId, slot: &[u8]) -> bool {
    let root = RootVerifyKey::from_bytes(source.config().root_key);
    list.is_live(id) && verify_slot_certificate(slot, &root).is_ok_and(|info| info.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto::{Role, VerifyKey};
    use ids::{KeyEpoch, KeyId, RepositoryId};

    fn with(list: KeyList, number: u8, role: Role) -> KeyList {
        let entry = KeyEntry {
            id: KeyId([number; 8]),
            verify_key: VerifyKey::from_bytes([number; 32]),
            role,
            bound: false,
            label: String::new(),
            epoch: KeyEpoch::default(),
            valid_up_to: None,
        };
        list.with_entries([entry], 0).unwrap()
    }

    fn without(list: KeyList, number: u8) -> KeyList {
        list.without_keys(&[KeyId([number; 8])], 1, 0)
    }

    #[test]
    fn a_list_follows_what_it_can_have_come_of_and_nothing_else() {
        let first = with(KeyList::new(RepositoryId([1; 16])), 1, Role::Full);
        let added = with(first.clone(), 2, Role::Full);
        let removed = without(added.clone(), 1);
        for (newer_one, older) in [(&added, &first), (&removed, &first), (&removed, &added)] {
            assert_eq!(newer(newer_one, older), Newer::Source);
            assert_eq!(newer(older, newer_one), Newer::Target);
        }
        assert_eq!(newer(&first, &first.clone()), Newer::Source);
        let other = with(first.clone(), 3, Role::Full);
        let tried = without(with(first.clone(), 4, Role::WriteOnly), 4);
        let tried_twice = without(with(tried.clone(), 5, Role::WriteOnly), 5);
        for apart in [&other, &tried_twice] {
            assert_eq!(newer(&added, apart), Newer::Neither);
            assert_eq!(newer(apart, &added), Newer::Neither);
        }
        // A list that a rebuild made of the files of keys has forgotten those that were removed.
        let again = with(KeyList::new(RepositoryId([1; 16])), 2, Role::Full);
        let again = again.continuing_from(9, removed.epoch());
        assert_eq!(newer(&again, &removed), Newer::Source);
        assert_eq!(newer(&again, &added), Newer::Neither, "a key that opens there is unknown here");
    }
}
