//! Adding and removing keys.
//!
//! The key list is signed by the root key and stands beside the slots. It is written before a slot is
//! added and before one is removed: a slot that opens and may not sign tells so, and a key that was
//! removed never signs again, whenever the power goes. The list that ends a key that reads begins a
//! key epoch: both are there, or neither is.

use crate::unlocked::{UnlockedRepository, new_slot};
use crate::{Error, Result};
use crypto::{KdfParams, KeyList, KeyMaterial, NewSlot, Role, SlotSecret};
use ids::{KeyEpoch, KeyId};
use repository::lease::Lease;

/// What came of removing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRemoval {
    /// What its holder could do; `None` where its slot is damaged and the list does not know it.
    pub role: Option<Role>,
    /// The key epoch that begins with it; `None` when none does.
    pub begins: Option<KeyEpoch>,
    /// It reads, and there are no more epochs: who knew it can read what is stored from now on.
    pub still_reads: bool,
}

impl UnlockedRepository {
    /// What certifies others; an error for all but full keys.
    pub fn certifier(&self) -> Result<&KeyMaterial> {
        self.keys.certifier.as_ref().ok_or(Error::NeedsFullKey)
    }

    /// Adds a key slot.
    pub fn add_key(
        &self,
        role: Role,
        secret: SlotSecret<'_>,
        kdf: KdfParams,
        label: &str,
    ) -> Result<KeyId> {
        self.add(|epoch| NewSlot::new(role, label, self.now_secs(), epoch), secret, kdf)
    }

    /// Adds a key slot that is bound to a node: its holder signs for that one alone.
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
        // First: the epoch is that of the list which names the key, and who waits does not pay for a password each time.
        let lease = self.lease("key add")?;
        let list = self.refresh_key_list()?;
        let (info, slot) = new_slot(material, &new(list.epoch()), secret, kdf, &self.environment)?;
        let next = KeyList::clone(&list).with_entries([info.entry()], self.now_secs())?;
        self.put_key_list(&lease, &next, material)?;
        self.local()?.put_key_slot(&lease, info.id, &slot)?;
        Ok(info.id)
    }

    /// Removes a key: its slot opens nothing any more, what it signs from now on is nobody's, and it
    /// cannot read what is stored from now on, unless it is a full one. Never the last full one. A slot
    /// that is damaged goes like any other.
    pub fn remove_key(&self, id: KeyId) -> Result<KeyRemoval> {
        let material = self.certifier()?;
        // First, so that nobody else removes another one meanwhile.
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
                "this is the last full key, which adds and removes others: add another one first: icecore key add".into(),
            ));
        }
        let mut next = KeyList::clone(&list);
        if is_live {
            next = next.without_keys(&[id], self.last_number()?, self.now_secs());
            self.put_key_list(&lease, &next, material)?;
        }
        self.local()?.remove_key_slot(&lease, id)?;
        let begins = (next.epoch() > list.epoch()).then_some(next.epoch());
        let still_reads = is_live && role.is_some_and(Role::reads) && begins.is_none();
        Ok(KeyRemoval { role, begins, still_reads })
    }

    /// The ids by which keys can be removed: those of all slots, damaged or not, and of those in use that have none.
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

    /// The file of `list`, with deliveries to the slots that are there.
    fn sign_key_list(&self, list: &KeyList, material: &KeyMaterial) -> Result<Vec<u8>> {
        // Each under its name: a list of the folder may be of the past.
        let local = self.local()?;
        let slot = |id| Ok(local.key_slot(id)?.map(|slot| (id, slot)));
        let slots = list.pending_deliveries().filter_map(|id| slot(id).transpose());
        let slots: Vec<_> = slots.collect::<Result<_>>()?;
        let sign = |random: &mut dyn FnMut(&mut [u8])| list.sign(material, &slots, random);
        Ok(self.environment.with_random(sign)??)
    }

    /// The number of the newest snapshot that is there.
    fn last_number(&self) -> Result<u64> {
        let names = self.local()?.current_snapshots()?;
        Ok(names.iter().map(|name| name.sequence).max().unwrap_or_default())
    }

    /// Makes a lost key list anew from the slots that are there, and one that is of an earlier epoch
    /// than `stored`, in which something was stored. Its version and epoch are beyond any that were
    /// given, so that no key that was removed reads what comes. Whether that was needed.
    pub(crate) fn restore_key_list(&self, lease: &Lease, stored: Option<KeyEpoch>) -> Result<bool> {
        let known = match self.refresh_key_list() {
            Ok(list) if stored.is_none_or(|stored| stored <= list.epoch()) => return Ok(false),
            Ok(list) => Some(list),
            Err(Error::NoKeyList | Error::OldKeyList { .. }) => None,
            Err(Error::Repository(repository::Error::Damaged { .. })) => None,
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
        // A key that a known list says was removed stays so.
        let entries = slots.into_iter().map(|(_, info)| info.entry());
        let new: Vec<_> = entries.filter(|entry| first.find(entry.id).is_none()).collect();
        let list = first.with_entries(new, self.now_secs())?;
        let bytes = self.sign_key_list(&list, material)?;
        self.local()?.replace_key_list(lease, &bytes)?;
        self.key_list_reader.replace(self.key_list_reader.verified(&bytes)?);
        Ok(true)
    }
}

/// Fewer changes than so many powers of two are made under one lease.
const VERSION_SHIFT: u32 = 16;
