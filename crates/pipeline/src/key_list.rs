//! Reading the key list: whose signatures count, to which keys sessions are sealed, and the secret
//! of the current key epoch.

use crate::{Error, Result, UnlockedRepository};
use crypto::{KeyEntry, Recipient, RootVerifyKey, SignedKeyList, SlotInfo};
use ids::{KeyEpoch, KeyId};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use seal::Opener;
use std::sync::{Arc, OnceLock};
use store::Store;

/// Unknown keys that are remembered; beyond that the list is not read again for a new one.
const STRANGERS_MAX: usize = 1024;

/// How new a key list is. Both numbers only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyListAge {
    /// The key epoch.
    pub epoch: KeyEpoch,
    /// The number of the signed list.
    pub version: u64,
}

impl KeyListAge {
    fn of(list: &SignedKeyList) -> Self {
        Self { epoch: list.epoch(), version: list.version() }
    }

    fn is_older_than(self, other: Self) -> bool {
        self.epoch < other.epoch || self.version < other.version
    }
}

/// The newest key list that was seen, and who is informed of a newer one.
struct Memory {
    newest: Mutex<KeyListAge>,
    note: Box<dyn Fn(KeyListAge) + Send + Sync>,
}

/// Reads the key list and caches it.
pub(crate) struct KeyListReader {
    store: Arc<dyn Store>,
    root: RootVerifyKey,
    /// The epoch in which our own key was created: no older list is accepted.
    made_in: KeyEpoch,
    /// What this machine has seen before this process, if somebody keeps it.
    memory: OnceLock<Memory>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    list: Option<Arc<SignedKeyList>>,
    strangers: FxHashSet<KeyId>,
    /// The latest epoch whose secret was not found.
    closed: Option<KeyEpoch>,
}

impl KeyListReader {
    /// A reader of the key list in `store`, for the holder of `slot`.
    pub(crate) fn new(store: Arc<dyn Store>, slot: &SlotInfo) -> Self {
        Self {
            store,
            root: slot.root,
            made_in: slot.epoch,
            memory: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// The key list; read on the first call.
    pub(crate) fn list(&self) -> Result<Arc<SignedKeyList>> {
        let mut state = self.state.lock();
        if state.list.is_none() {
            state.list = Some(Arc::new(self.read(false)?));
        }
        state.list.clone().ok_or(Error::NoKeyList)
    }

    /// Reads the key list again, because another process may have changed it. A list older than one
    /// seen before is ignored.
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

    /// The key list in `bytes`, if the root key signed it and it is not older than our own key, nor than a list that
    /// this machine has seen.
    pub(crate) fn verified(&self, bytes: &[u8]) -> Result<SignedKeyList> {
        let repository = self.store.config().repository;
        let list = SignedKeyList::verify(bytes, &self.root, repository);
        let list = list.map_err(|_| Error::NoKeyList)?;
        match list.epoch() {
            epoch if epoch < self.made_in => {
                Err(Error::OldKeyList { epoch, made_in: self.made_in })
            }
            _ => self.compare(KeyListAge::of(&list)).map(|()| list),
        }
    }

    /// Refuses a list that is older than the newest one that was seen; remembers a newer one.
    fn compare(&self, age: KeyListAge) -> Result<()> {
        let Some(memory) = self.memory.get() else { return Ok(()) };
        let mut newest = memory.newest.lock();
        if age.is_older_than(*newest) {
            return Err(Error::StaleKeyList { shown: age, seen: *newest });
        }
        if *newest != age {
            *newest = age;
            (memory.note)(age);
        }
        Ok(())
    }

    /// Caches a list that this process wrote.
    pub(crate) fn replace(&self, list: SignedKeyList) {
        self.state.lock().list = Some(Arc::new(list));
    }

    /// Whether `id` is looked up for the first time.
    fn is_new_stranger(&self, id: KeyId) -> bool {
        let strangers = &mut self.state.lock().strangers;
        strangers.len() < STRANGERS_MAX && strangers.insert(id)
    }

    /// Learns a session key. If it was sealed in a later key epoch than `opener` reads, the key
    /// list has the secret of that epoch.
    pub(crate) fn learn(&self, opener: &Opener, sealed: &[u8]) -> Result<()> {
        match opener.learn_session(sealed) {
            Err(seal::Error::Crypto(crypto::Error::LaterEpoch { epoch, .. })) => {
                self.follow(opener, epoch)?;
                opener.learn_session(sealed).map_err(later)
            }
            learned => Ok(learned?),
        }
    }

    /// Lets `opener` read up to `epoch`, if the key list has the secrets. A failure is remembered.
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

/// Not damage: the key was removed before this was stored.
fn later(error: seal::Error) -> Error {
    match error {
        seal::Error::Crypto(crypto::Error::LaterEpoch { epoch, newest }) => {
            Error::LaterEpoch { epoch, newest }
        }
        error => error.into(),
    }
}

impl UnlockedRepository {
    /// The key list: all keys that the root key certifies.
    ///
    /// # Errors
    /// [`Error::NoKeyList`] when there is no valid list.
    pub fn key_list(&self) -> Result<Arc<SignedKeyList>> {
        self.key_list_reader.list()
    }

    /// Refuses each key list that is older than `seen` from now on, and reports newer ones to `note`: for nodes, which
    /// remember what their server showed them before. Effective once for each opened repository. Returns the age of the
    /// list that is there; none if there is no valid list, which whatever needs one will report.
    ///
    /// # Errors
    /// [`Error::StaleKeyList`]; those of the storage.
    pub fn remember_key_lists(
        &self,
        seen: KeyListAge,
        note: impl Fn(KeyListAge) + Send + Sync + 'static,
    ) -> Result<Option<KeyListAge>> {
        let memory = Memory { newest: Mutex::new(seen), note: Box::new(note) };
        self.key_list_reader.memory.get_or_init(|| memory);
        let age = match self.key_list() {
            Err(Error::NoKeyList) => return Ok(None),
            list => KeyListAge::of(&*list?),
        };
        // It may have been read before.
        self.key_list_reader.compare(age).map(|()| Some(age))
    }

    /// Reads the key list again. A list older than one seen before is ignored.
    pub(crate) fn refresh_key_list(&self) -> Result<Arc<SignedKeyList>> {
        self.key_list_reader.refresh()
    }

    /// The entry of the key `id`, in use or removed; `None` for an unknown key, whose signatures do
    /// not count.
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

    /// The recipient of a new session; an error when the signatures of this key would not count.
    pub(crate) fn recipient(&self) -> Result<Recipient> {
        if !self.slot.role.writes() {
            return Err(Error::ReadOnly);
        }
        // A server checks the key when a session begins and when it publishes.
        let list = if self.local().is_ok() { self.refresh_key_list() } else { self.key_list() }?;
        match list.is_live(self.slot.id) {
            true => Ok(self.keys.writer.recipient_in(&list)?),
            false => Err(Error::KeyRemoved(self.slot.id)),
        }
    }
}
