//! The key list as it is read: whose signatures count, whom sessions are sealed to, and the secret of
//! the key epoch for who needs it.

use crate::{Error, Result, UnlockedRepository};
use crypto::{KeyEntry, Recipient, RootVerifyKey, SignedKeyList, SlotInfo};
use ids::{KeyEpoch, KeyId};
use parking_lot::Mutex;
use repository::store::Store;
use rustc_hash::FxHashSet;
use seal::Opener;
use std::sync::Arc;

/// Keys that are in no list, and were looked for: of more it is said without another look.
const STRANGERS_MAX: usize = 1024;

/// The key list, as far as it was read.
pub(crate) struct KeyListReader {
    store: Arc<dyn Store>,
    root: RootVerifyKey,
    /// The epoch in which the own key was made: no older list is believed.
    made_in: KeyEpoch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    list: Option<Arc<SignedKeyList>>,
    strangers: FxHashSet<KeyId>,
    /// The latest epoch whose secret was looked for in vain.
    closed: Option<KeyEpoch>,
}

impl KeyListReader {
    /// The list of `store`, for the holder of `slot`.
    pub(crate) fn new(store: Arc<dyn Store>, slot: &SlotInfo) -> Self {
        Self { store, root: slot.root, made_in: slot.epoch, state: Mutex::default() }
    }

    /// The list, read the first time.
    pub(crate) fn list(&self) -> Result<Arc<SignedKeyList>> {
        let mut state = self.state.lock();
        if state.list.is_none() {
            state.list = Some(Arc::new(self.read(false)?));
        }
        state.list.clone().ok_or(Error::NoKeyList)
    }

    /// The same, read again: another process may have changed it. An older list than one that was
    /// seen is not believed.
    pub(crate) fn refresh(&self) -> Result<Arc<SignedKeyList>> {
        let new = Arc::new(self.read(true)?);
        let mut state = self.state.lock();
        let newest = match state.list.take().filter(|old| old.version() > new.version()) {
            Some(old) => old,
            None => new,
        };
        state.list = Some(newest.clone());
        Ok(newest)
    }

    fn read(&self, anew: bool) -> Result<SignedKeyList> {
        let bytes = self.store.key_list(anew)?.ok_or(Error::NoKeyList)?;
        self.verified(&bytes)
    }

    /// The list in `bytes`, if the root key signed it and it is not older than the own key.
    pub(crate) fn verified(&self, bytes: &[u8]) -> Result<SignedKeyList> {
        let repository = self.store.config().repository;
        let list = SignedKeyList::verify(bytes, &self.root, repository);
        let list = list.map_err(|_| Error::NoKeyList)?;
        match list.epoch() {
            epoch if epoch < self.made_in => {
                Err(Error::OldKeyList { epoch, made_in: self.made_in })
            }
            _ => Ok(list),
        }
    }

    /// What was written just now.
    pub(crate) fn replace(&self, list: SignedKeyList) {
        self.state.lock().list = Some(Arc::new(list));
    }

    /// Whether `id` is looked for the first time.
    fn is_new_stranger(&self, id: KeyId) -> bool {
        let strangers = &mut self.state.lock().strangers;
        strangers.len() < STRANGERS_MAX && strangers.insert(id)
    }

    /// Learns a session key. When it was sealed in a later key epoch than `opener` reads, the list has
    /// the secret of that epoch.
    pub(crate) fn learn(&self, opener: &Opener, sealed: &[u8]) -> Result<()> {
        match opener.learn_session(sealed) {
            Err(seal::Error::Crypto(crypto::Error::LaterEpoch { epoch, .. })) => {
                self.follow(opener, epoch)?;
                opener.learn_session(sealed).map_err(later)
            }
            learned => Ok(learned?),
        }
    }

    /// Lets `opener` read up to `epoch`, if the list tells how. In vain once is in vain for this process.
    fn follow(&self, opener: &Opener, epoch: KeyEpoch) -> Result<()> {
        if self.state.lock().closed.is_some_and(|closed| epoch <= closed) {
            return Ok(());
        }
        opener.learn_delivery(&*self.list()?)?;
        if opener.latest_epoch() < epoch {
            opener.learn_delivery(&*self.refresh()?)?;
        }
        if opener.latest_epoch() < epoch {
            self.state.lock().closed = Some(epoch);
        }
        Ok(())
    }
}

/// Nothing is damaged: the key was removed before this was stored.
fn later(error: seal::Error) -> Error {
    match error {
        seal::Error::Crypto(crypto::Error::LaterEpoch { epoch, newest }) => {
            Error::LaterEpoch { epoch, newest }
        }
        error => error.into(),
    }
}

impl UnlockedRepository {
    /// All keys, as the root key vouches for them.
    ///
    /// # Errors
    /// [`Error::NoKeyList`] when no good list is there.
    pub fn key_list(&self) -> Result<Arc<SignedKeyList>> {
        self.key_list_reader.list()
    }

    /// The same, read again. An older one than one that was seen is not believed.
    pub(crate) fn refresh_key_list(&self) -> Result<Arc<SignedKeyList>> {
        self.key_list_reader.refresh()
    }

    /// What the repository vouches for of the key `id`, which signs or did; `None` is a stranger, whose
    /// signature is nobody's.
    pub fn known_signer(&self, id: KeyId) -> Result<Option<KeyEntry>> {
        if let Some(signer) = self.key_list()?.signer(id) {
            return Ok(Some(signer.clone()));
        }
        // It may have been added since the list was read.
        if !self.key_list_reader.is_new_stranger(id) {
            return Ok(None);
        }
        Ok(self.refresh_key_list()?.signer(id).cloned())
    }

    /// Whom a new session is sealed to; an error when what this key signs would count for nothing.
    pub(crate) fn recipient(&self) -> Result<Recipient> {
        if !self.slot.role.writes() {
            return Err(Error::ReadOnly);
        }
        // Far away the server looks when a session begins, and when it publishes.
        let list = if self.local().is_ok() { self.refresh_key_list() } else { self.key_list() }?;
        match list.is_live(self.slot.id) {
            true => Ok(self.keys.writer.recipient_in(&list)?),
            false => Err(Error::KeyRemoved(self.slot.id)),
        }
    }
}
