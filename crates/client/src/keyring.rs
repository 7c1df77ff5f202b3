//! Who may sign, and adding and removing keys.
//!
//! The list of signers is signed by the root key and stands beside the slots. It is written before a
//! slot is added and before one is removed: a slot that opens and may not sign tells so, and a key
//! that was removed never signs again, whenever the power goes.

use crate::archive::{Archive, new_slot};
use crate::{Error, Result};
use crypto::{KdfParams, KeyMaterial, NewSlot, Role, SignerInfo, SignerList, SlotSecret};
use ids::KeyId;
use parking_lot::Mutex;
use repository::lease::Lease;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Keys that are in no list, and were looked for: of more it is said without another look.
const STRANGERS_MAX: usize = 1024;

/// The list of signers, as far as it was read.
#[derive(Default)]
pub(crate) struct Vouched(Mutex<State>);

#[derive(Default)]
struct State {
    list: Option<Arc<SignerList>>,
    strangers: FxHashSet<KeyId>,
}

impl Archive {
    /// All who sign or did, as the root key vouches for them.
    ///
    /// # Errors
    /// [`Error::NoSigners`] when no good list is there.
    pub fn signers(&self) -> Result<Arc<SignerList>> {
        let mut state = self.vouched.0.lock();
        if state.list.is_none() {
            state.list = Some(Arc::new(self.read_signers(false)?));
        }
        state.list.clone().ok_or(Error::NoSigners)
    }

    /// The same, read again: another process may have changed it. An older list than one that was
    /// seen is not believed.
    pub(crate) fn signers_anew(&self) -> Result<Arc<SignerList>> {
        let new = Arc::new(self.read_signers(true)?);
        let mut state = self.vouched.0.lock();
        let newest = match state.list.take().filter(|old| old.version() > new.version()) {
            Some(old) => old,
            None => new,
        };
        state.list = Some(newest.clone());
        Ok(newest)
    }

    /// What the repository vouches for of the key `id`; `None` is a stranger, whose signature is
    /// nobody's.
    pub fn known_signer(&self, id: KeyId) -> Result<Option<SignerInfo>> {
        if let Some(signer) = self.signers()?.find(id) {
            return Ok(Some(signer.clone()));
        }
        // It may have been added since the list was read.
        let is_new = {
            let strangers = &mut self.vouched.0.lock().strangers;
            strangers.len() < STRANGERS_MAX && strangers.insert(id)
        };
        if !is_new {
            return Ok(None);
        }
        Ok(self.signers_anew()?.find(id).cloned())
    }

    fn read_signers(&self, anew: bool) -> Result<SignerList> {
        let bytes = self.store.signers(anew)?.ok_or(Error::NoSigners)?;
        let repository = self.store.config().repository;
        SignerList::verify(&bytes, &self.slot.root, repository).map_err(|_| Error::NoSigners)
    }

    /// Fails when what this key signs would count for nothing.
    pub(crate) fn assert_signs(&self) -> Result<()> {
        if !self.slot.role.writes() {
            return Err(Error::ReadOnly);
        }
        // Far away the server looks when it publishes.
        let list = if self.local().is_ok() { self.signers_anew() } else { self.signers() }?;
        let is_live = list.find(self.slot.id).is_some_and(SignerInfo::is_live);
        if is_live { Ok(()) } else { Err(Error::KeyRemoved(self.slot.id)) }
    }

    /// What certifies others; an error for all but full keys.
    pub fn certifier(&self) -> Result<&KeyMaterial> {
        self.keys.certifier.as_ref().ok_or(Error::NotFull)
    }

    /// Adds a key slot.
    pub fn add_key(
        &self,
        role: Role,
        secret: SlotSecret<'_>,
        kdf: KdfParams,
        label: &str,
    ) -> Result<KeyId> {
        self.add(&NewSlot::new(role, label, self.now_secs()), secret, kdf)
    }

    /// Adds a key slot that is bound to a node: its holder signs for that one alone.
    pub fn add_key_of_node(
        &self,
        role: Role,
        secret: SlotSecret<'_>,
        kdf: KdfParams,
        node: &str,
    ) -> Result<KeyId> {
        self.add(&NewSlot::new(role, node, self.now_secs()).bound(), secret, kdf)
    }

    fn add(&self, new: &NewSlot<'_>, secret: SlotSecret<'_>, kdf: KdfParams) -> Result<KeyId> {
        let material = self.certifier()?;
        // First: who waits for somebody else does not pay for a password each time.
        let lease = self.lease("key add")?;
        let (info, slot) = new_slot(material, new, secret, kdf, &self.surroundings)?;
        if let Some(signer) = info.signer() {
            let next = SignerList::clone(&*self.signers_anew()?).with([signer], self.now_secs())?;
            self.put_signers(&lease, next, material)?;
        }
        self.local()?.put_key_slot(&lease, info.id, &slot)?;
        Ok(info.id)
    }

    /// Removes a key: its slot opens nothing any more, and what it signs from now on is nobody's.
    /// Never the last full one. A slot that is damaged goes like any other.
    pub fn remove_key(&self, id: KeyId) -> Result<()> {
        let material = self.certifier()?;
        // First, so that nobody else removes another one meanwhile.
        let lease = self.lease("key remove")?;
        let (slots, list) = (self.slots()?, self.signers_anew()?);
        let signs = list.find(id).is_some_and(SignerInfo::is_live);
        if !signs && !self.key_ids()?.contains(&id) {
            return Err(Error::NoKey(id));
        }
        let mut others = slots.iter().filter(|(other, _)| *other != id);
        if !others.any(|(_, info)| info.role.certifies()) {
            return Err(Error::Usage(
                "this is the last full key, which adds and removes others: add another one first: icecore key add".into(),
            ));
        }
        if signs {
            let last = self.last_number()?;
            let next = SignerList::clone(&list).without(id, last, self.now_secs());
            self.put_signers(&lease, next, material)?;
        }
        Ok(self.local()?.remove_key_slot(&lease, id)?)
    }

    /// The ids by which keys can be removed: those of all slots, damaged or not, and of those who may sign and have none.
    pub fn key_ids(&self) -> Result<Vec<KeyId>> {
        let mut ids: Vec<_> = self.store.key_slots()?.into_iter().map(|(id, _)| id).collect();
        let list = self.signers_anew()?;
        ids.extend(list.signers().iter().filter(|it| it.is_live()).map(|it| it.id));
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    fn put_signers(&self, lease: &Lease, next: SignerList, material: &KeyMaterial) -> Result<()> {
        self.local()?.put_signers(lease, &next.sign(material))?;
        self.vouched.0.lock().list = Some(Arc::new(next));
        Ok(())
    }

    /// The number of the newest snapshot that is there.
    fn last_number(&self) -> Result<u64> {
        let names = self.local()?.snapshots_now()?;
        Ok(names.iter().map(|name| name.sequence).max().unwrap_or_default())
    }

    /// Makes a lost list of signers anew from the slots that are there. Its version is beyond any
    /// that was given. Whether that was needed.
    pub(crate) fn restore_signers(&self, lease: &Lease) -> Result<bool> {
        match self.signers_anew() {
            Err(Error::NoSigners | Error::Repository(repository::Error::Damaged { .. })) => {}
            list => return list.map(|_| false),
        }
        let material = self.certifier()?;
        let first = SignerList::new(material.repository).after(lease.generation() << VERSION_SHIFT);
        let signers = self.slots()?.into_iter().filter_map(|(_, info)| info.signer());
        let list = first.with(signers, self.now_secs())?;
        self.local()?.replace_signers(lease, &list.sign(material))?;
        Ok(true)
    }
}

/// Fewer changes than so many powers of two are made under one lease.
const VERSION_SHIFT: u32 = 16;
