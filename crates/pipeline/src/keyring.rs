//! Adding and removing keys.
//!
//! The root key signs the key list, which lies beside the slots. The list is written before a slot
//! is added and before one is removed: even after a power failure, a slot that opens but may not
//! sign is noticed, and a removed key never signs again. The same write that removes a key that can
//! read begins a key epoch, so both happen or neither.

use crate::unlocked::{UnlockedRepository, new_slot};
use crate::{Error, Result};
use crypto::{KdfParams, KeyList, KeyMaterial, NewSlot, Role, SlotSecret};
use ids::{KeyEpoch, KeyId};
use repository::lease::Lease;

/// The result of removing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRemoval {
    /// The role of the key; `None` if its slot is damaged and the key list does not have it.
    pub role: Option<Role>,
    /// The key epoch that begins with the removal, if one does.
    pub begins: Option<KeyEpoch>,
    /// The key can read and there are no more epochs: its holder can read what is stored from now
    /// on.
    pub still_reads: bool,
}

impl UnlockedRepository {
    /// The secrets that certify other keys.
    ///
    /// # Errors
    /// [`Error::NeedsFullKey`] for all but full keys.
    pub fn certifier(&self) -> Result<&KeyMaterial> {
        self.keys.certifier.as_ref().ok_or(Error::NeedsFullKey)
    }

    /// Adds a key slot.
    ///
    /// # Errors
    /// [`Error::NeedsFullKey`] for all but full keys.
    pub fn add_key(
        &self,
        role: Role,
        secret: SlotSecret<'_>,
        kdf: KdfParams,
        label: &str,
    ) -> Result<KeyId> {
        self.add(|epoch| NewSlot::new(role, label, self.now_secs(), epoch), secret, kdf)
    }

    /// Adds a key slot that is bound to a node: its holder can sign only for that node.
    ///
    /// # Errors
    /// [`Error::NeedsFullKey`] for all but full keys.
    pub fn add_key_of_node(
        &self,
        role: Role,
        secret: SlotSecret<'_>,
        kdf: KdfParams,
        node: &str,
    ) -> Result<KeyId> {
        self.add(|epoch| NewSlot::new(role, node, self.now_secs(), epoch).bound(), secret, kdf)
    }

    fn add<'a>(
        &self,
        new: impl FnOnce(KeyEpoch) -> NewSlot<'a>,
        secret: SlotSecret<'_>,
        kdf: KdfParams,
    ) -> Result<KeyId> {
        let material = self.certifier()?;
        // First, because the epoch comes from the current list, and waiting must not cost a
        // password hash each time.
        let lease = self.lease("key add")?;
        let list = self.refresh_key_list()?;
        let (info, slot) = new_slot(material, &new(list.epoch()), secret, kdf, &self.environment)?;
        let next = KeyList::clone(&list).with_entries([info.entry()], self.now_secs())?;
        self.put_key_list(&lease, &next, material)?;
        self.local()?.put_key_slot(&lease, info.id, &slot)?;
        Ok(info.id)
    }

    /// Removes a key: its slot opens nothing, its signatures from now on do not count, and it
    /// cannot read what is stored from now on, unless it is a full key. The last full key cannot be
    /// removed; a damaged slot can.
    ///
    /// # Errors
    /// [`Error::NeedsFullKey`] for all but full keys; [`Error::KeyNotFound`].
    pub fn remove_key(&self, id: KeyId) -> Result<KeyRemoval> {
        let material = self.certifier()?;
        // First, so that nobody else removes another key meanwhile.
        let lease = self.lease("key remove")?;
        let (slots, list) = (self.slots()?, self.refresh_key_list()?);
        let is_live = list.is_live(id);
        if !is_live && !self.key_ids()?.contains(&id) {
            return Err(Error::KeyNotFound(id));
        }
        let slot = slots.iter().find(|(other, _)| *other == id).map(|(_, info)| info.role);
        let role = list.find(id).map(|entry| entry.role).or(slot);
        let mut others = slots.iter().filter(|(other, _)| *other != id);
        if !others.any(|(other, info)| info.role.certifies() && list.is_live(*other)) {
            return Err(Error::Usage(
                "this is the last full key, which adds and removes keys; add another full key first: icecore key add".into(),
            ));
        }
        let mut next = KeyList::clone(&list);
        if is_live {
            next = next.without_keys(&[id], self.last_number(&lease)?, self.now_secs());
            self.put_key_list(&lease, &next, material)?;
        }
        self.local()?.remove_key_slot(&lease, id)?;
        let begins = (next.epoch() > list.epoch()).then_some(next.epoch());
        let still_reads = is_live && role.is_some_and(Role::reads) && begins.is_none();
        Ok(KeyRemoval { role, begins, still_reads })
    }

    /// The ids of all keys that can be removed: of all slots, damaged or not, and of keys in use
    /// without a slot.
    pub fn key_ids(&self) -> Result<Vec<KeyId>> {
        let mut ids: Vec<_> = self.store.key_slots()?.into_iter().map(|(id, _)| id).collect();
        let list = self.refresh_key_list()?;
        ids.extend(list.entries().iter().filter(|it| it.is_live()).map(|it| it.id));
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    fn put_key_list(&self, lease: &Lease, next: &KeyList, material: &KeyMaterial) -> Result<()> {
        let bytes = self.sign_key_list(next, material)?;
        self.local()?.put_key_list(lease, &bytes)?;
        self.key_list_reader.replace(self.key_list_reader.verified(&bytes)?);
        Ok(())
    }

    /// The signed file of `list`, with deliveries to all slots.
    fn sign_key_list(&self, list: &KeyList, material: &KeyMaterial) -> Result<Vec<u8>> {
        // Each by its name: a listing of the folder may be stale.
        let local = self.local()?;
        let slot = |id| Ok(local.key_slot(id)?.map(|slot| (id, slot)));
        let slots = list.pending_deliveries().filter_map(|id| slot(id).transpose());
        let slots: Vec<_> = slots.collect::<Result<_>>()?;
        let sign = |random: &mut dyn FnMut(&mut [u8])| list.sign(material, &slots, random);
        Ok(self.environment.with_random(sign)??)
    }

    /// The highest number that a snapshot has or had: one that was forgotten here may be in a copy, where it is to
    /// count for what it did. The lease has settled what a killed writer left, so the stored state knows all of them.
    fn last_number(&self, _lease: &Lease) -> Result<u64> {
        Ok(self.local()?.last_snapshot_number()?)
    }

    /// Rebuilds the key list from the slots if it is lost, or older than the epoch `stored` in
    /// which something was stored. Its version and epoch are higher than any before, so that no
    /// removed key reads what is stored later. Returns whether it was needed.
    pub(crate) fn restore_key_list(&self, lease: &Lease, stored: Option<KeyEpoch>) -> Result<bool> {
        let known = match self.refresh_key_list() {
            Ok(list) if stored.is_none_or(|stored| stored <= list.epoch()) => return Ok(false),
            Ok(list) => Some(list),
            Err(Error::NoKeyList | Error::OldKeyList { .. }) => None,
            Err(Error::Repository(store::Error::Damaged { .. })) => None,
            Err(error) => return Err(error),
        };
        let material = self.certifier()?;
        let slots = self.slots()?;
        let made_in = slots.iter().map(|(_, info)| info.epoch);
        let newest = made_in.chain(stored).chain([self.slot.epoch]).max();
        let epoch = KeyEpoch(newest.unwrap_or_default().0.saturating_add(1));
        let version = lease.generation() << VERSION_SHIFT;
        let first = match known {
            Some(list) => KeyList::clone(&list).continuing_from(version.max(list.version()), epoch),
            None => KeyList::new(material.repository).continuing_from(version, epoch),
        };
        // A key that a known list says was removed stays removed.
        let entries = slots.into_iter().map(|(_, info)| info.entry());
        let new: Vec<_> = entries.filter(|entry| first.find(entry.id).is_none()).collect();
        let list = first.with_entries(new, self.now_secs())?;
        let bytes = self.sign_key_list(&list, material)?;
        self.local()?.replace_key_list(lease, &bytes)?;
        self.key_list_reader.replace(self.key_list_reader.verified(&bytes)?);
        Ok(true)
    }
}

/// At most 2^16 changes are made under one lease.
const VERSION_SHIFT: u32 = 16;
