//! A repository and the keys that open it: what every command works on.

use crate::blocks::BlockCache;
use crate::environment::Environment;
use crate::key_list::KeyListReader;
use crate::manifest::BACKUP_KIND;
use crate::{Error, KeyError, Result};
use crypto::key_list::SignedKeyList;
use crypto::{
    IdKey, KdfParams, KeyEntry, KeyList, KeyMaterial, KeyRing, NewSlot, Privacy, ReaderKeys, Role,
    RootVerifyKey, SlotInfo, SlotSecret,
};
use ids::{KeyEpoch, KeyId, ObjectId, SnapshotId};
use repository::Repository;
use repository::fallback::{Copy, WithCopies};
use repository::lease::{Lease, LeasePurpose};
use repository::storage::Storage;
use seal::Opener;
use std::sync::Arc;
use store::{Config, Keys, Store, WriteLease};

/// An open repository, and the keys that one key slot gave.
pub struct UnlockedRepository {
    /// The repository, local or on a server.
    pub store: Arc<dyn Store>,
    /// The engine, if the repository is local.
    local: Option<Arc<Repository>>,
    /// The keys of the slot.
    pub keys: KeyRing,
    /// The slot that was opened.
    pub slot: SlotInfo,
    /// The source of random bytes and times.
    pub(crate) environment: Environment,
    /// Opened records; `None` for write-only keys.
    pub(crate) blocks: Option<BlockCache>,
    /// The keys of the repository, and the key epoch.
    pub(crate) key_list_reader: Arc<KeyListReader>,
}

/// The settings of a new repository.
#[derive(Clone, Copy, Debug)]
pub struct InitOptions {
    /// Whether the sizes of chunks may reveal known files.
    pub privacy: Privacy,
    /// The smallest, average and largest chunk, in bytes.
    pub chunks: chunker::Params,
    /// The cost of deriving a key from the password.
    pub kdf: KdfParams,
    /// Parity of each container, in percent; 0 for none.
    pub parity_percent: u32,
    /// Whether backups share equal data; else each one stores all of its own.
    pub dedup: bool,
}

impl Default for InitOptions {
    fn default() -> Self {
        Self {
            privacy: Privacy::Standard,
            chunks: chunker::Params::DEFAULT,
            kdf: KdfParams::DEFAULT,
            parity_percent: 0,
            dedup: true,
        }
    }
}

impl UnlockedRepository {
    /// Creates a repository that `secret` opens.
    ///
    /// # Errors
    /// When `storage` already holds a repository, or cannot be written.
    pub fn init(
        storage: Arc<dyn Storage>,
        secret: SlotSecret<'_>,
        options: InitOptions,
    ) -> Result<Self> {
        Self::init_with_environment(storage, secret, options, Environment::default())
    }

    /// Like [`Self::init`], with the given environment.
    pub fn init_with_environment(
        storage: Arc<dyn Storage>,
        secret: SlotSecret<'_>,
        options: InitOptions,
        environment: Environment,
    ) -> Result<Self> {
        let material = new_material(&environment, options)?;
        let new = NewSlot::new(Role::Full, "first key", environment.now_secs(), KeyEpoch(0));
        let first = new_slot(&material, &new, secret, options.kdf, &environment)?;
        let (slot, keys) = crypto::open_slot(&first.1, secret)?;
        let config = new_config(&material, options, environment.now_secs());
        let first = new_keys(&material, vec![first], &environment)?;
        let repository = Repository::init(storage, config, &first)?;
        Ok(Self::assemble(repository, slot, keys).with_environment(environment))
    }

    /// Replaces the environment of the system.
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// Sets how many bytes of opened records are kept in memory. Records beyond that are read
    /// again.
    pub fn with_cache_bytes(self, bytes_max: usize) -> Self {
        Self { blocks: self.blocks.map(|blocks| blocks.with_cache_bytes(bytes_max)), ..self }
    }

    /// Opens the repository in `storage`.
    ///
    /// # Errors
    /// [`Error::WrongKey`] when `secret` opens no key slot.
    pub fn open(storage: Arc<dyn Storage>, secret: SlotSecret<'_>) -> Result<Self> {
        Self::open_local(Repository::open(storage)?, secret)
    }

    /// Unlocks a local repository that is open.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_local(repository: Repository, secret: SlotSecret<'_>) -> Result<Self> {
        let slots = repository::keys::key_slots(&**repository.storage())?;
        let list = || repository.key_list().ok().flatten();
        let (slot, keys) = Self::unlock(repository.config(), slots, secret, list)?;
        repository.verify_with(crypto::is_signed);
        Ok(Self::assemble(repository, slot, keys))
    }

    /// Unlocks a repository that others use, too.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_shared(repository: Arc<Repository>, secret: SlotSecret<'_>) -> Result<Self> {
        let slots = repository::keys::key_slots(&**repository.storage())?;
        let list = || repository.key_list().ok().flatten();
        let (slot, keys) = Self::unlock(repository.config(), slots, secret, list)?;
        Ok(Self::with_store(repository.clone(), Some(repository), slot, keys))
    }

    /// Unlocks `repository`; what it has lost is read from `copies`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with_copies(
        repository: Repository,
        copies: Vec<Copy>,
        secret: SlotSecret<'_>,
    ) -> Result<(Self, Arc<WithCopies>)> {
        repository.verify_with(crypto::is_signed);
        let repository = Arc::new(repository);
        let with = Arc::new(WithCopies::new(repository.clone(), copies));
        let list = || Store::key_list(&*with, false).ok().flatten();
        let slots = Store::key_slots(&*with)?;
        let (slot, keys) = Self::unlock(with.config(), slots, secret, list)?;
        Ok((Self::with_store(with.clone(), Some(repository), slot, keys), with))
    }

    /// Unlocks a repository that a server holds.
    ///
    /// # Errors
    /// [`Error::WrongKey`] when `secret` opens no key slot.
    pub fn open_store(store: Arc<dyn Store>, secret: SlotSecret<'_>) -> Result<Self> {
        // A server shows a node its own slot alone: the others are not missing.
        let (slot, keys) = Self::unlock(store.config(), store.key_slots()?, secret, || None)?;
        Ok(Self::with_store(store, None, slot, keys))
    }

    /// Opens the slot that fits `secret` (of several, the one with the most rights), and verifies
    /// the settings with its root key. A damaged slot does not prevent another one from opening. If
    /// none does, `list` says which slots there should be, where `slots` are all of them.
    pub(crate) fn unlock(
        config: &Config,
        mut slots: Vec<(KeyId, Vec<u8>)>,
        secret: SlotSecret<'_>,
        list: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<(SlotInfo, KeyRing)> {
        let root = RootVerifyKey::from_bytes(config.root_key);
        let (mut damaged, mut first, mut is_short) = (Vec::new(), None, false);
        slots.sort_by_cached_key(|(_, slot)| role_rank(slot));
        for (id, slot) in &slots {
            match open_slot(slot, &root, secret) {
                Ok((info, keys)) if info.repository == config.repository => {
                    return check_config(config, &info).map(|()| (info, keys));
                }
                Ok(_) | Err(crypto::Error::WrongKey) => {}
                // That says nothing about the file.
                Err(crypto::Error::OutOfMemory) => is_short = true,
                Err(error) => {
                    damaged.push(*id);
                    first.get_or_insert(error);
                }
            }
        }
        if is_short {
            return Err(crypto::Error::OutOfMemory.into());
        }
        if let Some(source) = first {
            return Err(Error::Crypto(KeyError { keys: damaged, source }));
        }
        let list =
            list().and_then(|list| SignedKeyList::verify(&list, &root, config.repository).ok());
        let keys = list.iter().flat_map(|list| without_slot(list.entries(), &slots));
        let missing: Vec<_> = keys.map(|key| key.id).collect();
        Err(if missing.is_empty() { Error::WrongKey } else { Error::KeysMissing(missing) })
    }

    fn assemble(repository: Repository, slot: SlotInfo, keys: KeyRing) -> Self {
        let repository = Arc::new(repository);
        Self::with_store(repository.clone(), Some(repository), slot, keys)
    }

    fn with_store(
        store: Arc<dyn Store>,
        local: Option<Arc<Repository>>,
        slot: SlotInfo,
        mut keys: KeyRing,
    ) -> Self {
        if !store.config().dedup() {
            keys.writer.ids = keys.writer.ids.without_dedup();
        }
        let key_list_reader = Arc::new(KeyListReader::new(store.clone(), &slot));
        let cache =
            |keys| BlockCache::new(store.clone(), Opener::new(keys), key_list_reader.clone());
        let blocks = keys.reader.clone().map(cache);
        let environment = Environment::default();
        Self { store, local, keys, slot, environment, blocks, key_list_reader }
    }

    /// The engine, for operations that need a local repository.
    ///
    /// # Errors
    /// When the repository is on a server.
    pub fn local(&self) -> Result<&Arc<Repository>> {
        Ok(self.local.as_ref().ok_or(store::Error::LocalOnly)?)
    }

    /// The cache of opened records; an error for write-only keys.
    pub(crate) fn blocks(&self) -> Result<&BlockCache> {
        self.blocks.as_ref().ok_or(Error::WriteOnly)
    }

    /// Seconds since 1970 by the clock of this machine.
    pub fn now_secs(&self) -> i64 {
        self.environment.now_secs()
    }

    /// The keys for reading.
    ///
    /// # Errors
    /// [`Error::WriteOnly`] for write-only keys.
    pub fn reader_keys(&self) -> Result<&ReaderKeys> {
        self.keys.reader.as_ref().ok_or(Error::WriteOnly)
    }

    /// Takes the write lease; `purpose` is shown to others who wait for it.
    pub fn lease(&self, purpose: &str) -> Result<Arc<Lease>> {
        Ok(self.local()?.lease(&holder(purpose))?)
    }

    /// Does `work` under a write lease, on a local repository or on a server. If the lease is lost,
    /// `work` can fail in many ways, because another process changes the repository; only the loss
    /// is reported.
    pub(crate) fn with_write_lease<T>(
        &self,
        purpose: &str,
        work: impl FnOnce(&dyn WriteLease) -> Result<T>,
    ) -> Result<T> {
        let writer = self.store.clone().write_lease(&holder(purpose))?;
        let done = work(&*writer).map_err(|error| lease_lost_or(writer.verify(), error))?;
        writer.finish();
        Ok(done)
    }

    /// Does `work`, which frees space, under a write lease; on a full disk it may use the reserve.
    pub(crate) fn with_reclaim_lease<T>(
        &self,
        purpose: &str,
        mut work: impl FnMut(&Arc<Lease>) -> Result<T>,
    ) -> Result<T> {
        let repository = self.local()?;
        let lease = repository.lease_for(&holder(purpose), LeasePurpose::Reclaim)?;
        self.with_reserve(|| work(&lease))
            .map_err(|error| lease_lost_or(lease.verify().map_err(Into::into), error))
    }

    /// Does `work` under a lease; when the disk is full, once more with the reserve, which is filled again behind it.
    pub(crate) fn with_reserve<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let repository = self.local()?;
        let mut done = work();
        if matches!(&done, Err(Error::Repository(error)) if error.is_full())
            && repository.release_reserve()?
        {
            done = work();
        }
        repository.fill_reserve();
        done
    }

    /// The chunker of this repository.
    ///
    /// # Errors
    /// When the chunk sizes in the config are invalid.
    pub fn chunker(&self) -> Result<chunker::Chunker> {
        let config = self.store.config();
        let [min, average, max] = config.chunk_bytes;
        let params = chunker::Params { min, average, max };
        let limit = format::limits::CHUNK_BYTES_MAX as u32;
        if !params.is_valid() || max > limit {
            return Err(format::Error::Invalid { what: "chunk sizes in the config" }.into());
        }
        let privacy = match self.keys.writer.privacy {
            Privacy::Standard => chunker::Privacy::Standard,
            Privacy::Hardened => chunker::Privacy::Hardened,
        };
        Ok(chunker::Chunker::new(privacy, &self.keys.writer.chunker.0, params))
    }

    /// The key that decides where pages end; one for each dedup domain.
    pub(crate) fn cut_key(&self) -> u64 {
        let id = self.keys.writer.ids.page_id(0, &[], b"icecore page cut key");
        id.0.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte))
    }

    /// What names the objects of a backup of `source` whose previous snapshot is `previous`. Without deduplication all
    /// backups differ in it, but for one that was interrupted and the next one: that finds what is stored already.
    pub(crate) fn backup_ids(&self, source: &ObjectId, previous: Option<SnapshotId>) -> IdKey {
        let ids = &self.keys.writer.ids;
        let previous = previous.map_or([0; SnapshotId::LEN], |id| id.0);
        let [a, b, c, d, ..] = ids.page_id(BACKUP_KIND, &[*source], &previous).0;
        ids.of_backup([a, b, c, d])
    }

    /// A sealer with fresh session keys; an error for keys that may not write.
    pub(crate) fn sealer(&self) -> Result<seal::Sealer> {
        let recipient = self.recipient()?;
        let mut random = [0; 80];
        self.environment.fill_random(&mut random)?;
        let (writer, cipher) = (&self.keys.writer, self.environment.cipher);
        Ok(seal::Sealer::with_recipient(&recipient, writer, random, cipher))
    }

    /// The key slots with a valid certificate.
    pub fn slots(&self) -> Result<Vec<(KeyId, SlotInfo)>> {
        let slots = self.store.key_slots()?.into_iter();
        let good = slots.filter_map(|(id, slot)| Some((id, self.certified(id, &slot)?)));
        Ok(good.collect())
    }

    /// The key that `secret` opens the repository with, if it does: the one that may do most.
    ///
    /// # Errors
    /// Those of the storage, and a lack of memory.
    pub fn opened_by(&self, secret: SlotSecret<'_>) -> Result<Option<SlotInfo>> {
        match Self::unlock(self.store.config(), self.store.key_slots()?, secret, || None) {
            Ok((info, _)) => Ok(Some(info)),
            Err(Error::WrongKey) => Ok(None),
            // Damaged slots open nothing.
            Err(Error::Crypto(error)) if !error.keys.is_empty() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The keys in use whose slot is lost; none where a server shows this machine not all slots. What a list of the
    /// files lacks is looked for by its name: the list may be an old one.
    pub fn keys_without_slot(&self) -> Result<Vec<KeyEntry>> {
        let Some(local) = &self.local else { return Ok(Vec::new()) };
        let (list, slots) = (self.key_list()?, self.store.key_slots()?);
        let mut lost = Vec::new();
        for key in without_slot(list.entries(), &slots) {
            if local.key_slot(key.id).map_err(store::Error::from)?.is_none() {
                lost.push(key.clone());
            }
        }
        Ok(lost)
    }

    /// Damaged slots are left out; `check` reports them.
    fn certified(&self, id: KeyId, slot: &[u8]) -> Option<SlotInfo> {
        let info = crypto::verify_slot_certificate(slot, &self.slot.root).ok()?;
        // Under another id it would be used to verify what that key signed, and fail.
        (info.id == id).then_some(info)
    }
}

/// Those of `keys` that are in use and have none of these slots.
fn without_slot<'a>(keys: &'a [KeyEntry], slots: &[(KeyId, Vec<u8>)]) -> Vec<&'a KeyEntry> {
    let has_slot = |id: KeyId| slots.iter().any(|(slot, _)| *slot == id);
    keys.iter().filter(|key| key.is_live() && !has_slot(key.id)).collect()
}

/// Generates the secrets of a new repository.
pub fn new_material(environment: &Environment, options: InitOptions) -> Result<KeyMaterial> {
    let material = environment.with_random(|random| KeyMaterial::generate(random))?;
    Ok(material.with_privacy(options.privacy))
}

/// Creates a key slot for `secret`; returns its public part and its bytes.
pub fn new_slot(
    material: &KeyMaterial,
    new: &NewSlot<'_>,
    secret: SlotSecret<'_>,
    kdf: KdfParams,
    environment: &Environment,
) -> Result<(SlotInfo, Vec<u8>)> {
    let slot = environment
        .with_random(|random| crypto::create_slot(material, new, secret, kdf, random))??;
    Ok((crypto::slot_info(&slot)?, slot))
}

/// Slots are tried by their rights, the most powerful first: ids are random and decide nothing.
fn role_rank(slot: &[u8]) -> u8 {
    match crypto::slot_info(slot).map(|info| info.role) {
        Ok(Role::Full) => 0,
        Ok(Role::ReadWrite) => 1,
        Ok(Role::Reader) => 2,
        Ok(Role::WriteOnly) => 3,
        Err(_) => 4,
    }
}

/// The key files of a new repository: its first slots, and the signed key list.
pub fn new_keys(
    material: &KeyMaterial,
    slots: Vec<(SlotInfo, Vec<u8>)>,
    environment: &Environment,
) -> Result<Keys> {
    let entries = slots.iter().map(|(info, _)| info.entry());
    let list = KeyList::new(material.repository).with_entries(entries, environment.now_secs())?;
    let slots: Vec<_> = slots.into_iter().map(|(info, slot)| (info.id, slot)).collect();
    let key_list = environment.with_random(|random| list.sign(material, &slots, random))??;
    Ok(Keys { slots, key_list })
}

/// The signed settings of a new repository.
pub fn new_config(material: &KeyMaterial, options: InitOptions, now_secs: i64) -> Config {
    let (root_key, privacy) = (*material.root_verify_key().as_bytes(), options.privacy as u8);
    let chunk_bytes = [options.chunks.min, options.chunks.average, options.chunks.max];
    let config = Config::new(material.repository, root_key, now_secs, privacy, chunk_bytes);
    let config = config.with_parity(options.parity_percent).with_dedup(options.dedup);
    config.signed(|settings| material.sign_config(settings))
}

/// Settings are valid if the root key of the opened slot signed them: the storage must not choose
/// chunk sizes and parity. Privacy is stored in both places and must be equal.
fn check_config(config: &Config, slot: &SlotInfo) -> Result<()> {
    let signed = slot.root.verify_config(&config.signed_bytes(), &config.signature);
    let is_good = signed.is_ok() && config.privacy == slot.privacy as u8;
    if is_good { Ok(()) } else { Err(Error::ForgedConfig) }
}

/// The holder of a lease, as people see it.
pub(crate) fn holder(purpose: &str) -> String {
    format!("{purpose} {}{}", here(), std::process::id())
}

/// How a process of this machine is told, up to its number.
fn here() -> String {
    format!("on {}, process ", rustix::system::uname().nodename().to_string_lossy())
}

/// The process that `message` ends with, if it is said to be of this machine, which has no such process: then the file
/// system still keeps the lock of one that has ended. A container may have the host's name and see other processes.
pub fn ended_holder(message: &str) -> Option<u32> {
    let (_, process) = message.rsplit_once(&here())?;
    let process = process.parse().ok()?;
    let is_gone = std::fs::exists("/proc/self").is_ok_and(|is_there| is_there)
        && std::fs::exists(format!("/proc/{process}")).is_ok_and(|is_there| !is_there);
    is_gone.then_some(process)
}

/// The loss of the lease, if it was lost; else `error`.
fn lease_lost_or(verified: store::Result<()>, error: Error) -> Error {
    match verified {
        Err(lost @ store::Error::LeaseLost { .. }) => lost.into(),
        _ => error,
    }
}

fn open_slot(
    slot: &[u8],
    root: &RootVerifyKey,
    secret: SlotSecret<'_>,
) -> std::result::Result<(SlotInfo, KeyRing), crypto::Error> {
    crypto::verify_slot_certificate(slot, root)?;
    crypto::open_slot(slot, secret)
}
