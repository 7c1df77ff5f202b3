//! A repository with keys: what every command opens.

use crate::blocks::BlockCache;
use crate::environment::Environment;
use crate::key_list::KeyListReader;
use crate::{Error, Result};
use crypto::{
    KdfParams, KeyList, KeyMaterial, KeyRing, NewSlot, Privacy, ReaderKeys, Role, RootVerifyKey,
    SlotInfo, SlotSecret,
};
use ids::{KeyEpoch, KeyId};
use repository::Repository;
use repository::config::Config;
use repository::keys::Keys;
use repository::lease::{Lease, LeasePurpose};
use repository::storage::Storage;
use repository::store::{Store, WriteLease};
use seal::Opener;
use std::sync::Arc;

/// An open repository and what its key allows.
pub struct UnlockedRepository {
    /// Where what it holds lies: here, or behind a server.
    pub store: Arc<dyn Store>,
    /// The engine, when it lies here.
    local: Option<Arc<Repository>>,
    /// The keys.
    pub keys: KeyRing,
    /// The slot that was opened.
    pub slot: SlotInfo,
    /// Where random bytes and times come from.
    pub(crate) environment: Environment,
    /// Opened records, for who may read.
    pub(crate) blocks: Option<BlockCache>,
    /// Which keys there are, and the key epoch.
    pub(crate) key_list_reader: Arc<KeyListReader>,
}

/// What `init` may choose.
#[derive(Clone, Copy, Debug)]
pub struct InitOptions {
    /// What sizes of chunks may tell.
    pub privacy: Privacy,
    /// Smallest, average and largest chunk in bytes.
    pub chunks: chunker::Params,
    /// Cost of the password.
    pub kdf: KdfParams,
    /// Parity of every container in per cent; 0 for none.
    pub parity_percent: u32,
}

impl Default for InitOptions {
    fn default() -> Self {
        Self {
            privacy: Privacy::Standard,
            chunks: chunker::Params::DEFAULT,
            kdf: KdfParams::DEFAULT,
            parity_percent: 0,
        }
    }
}

impl UnlockedRepository {
    /// Makes a repository that `secret` opens.
    pub fn init(
        storage: Arc<dyn Storage>,
        secret: SlotSecret<'_>,
        options: InitOptions,
    ) -> Result<Self> {
        Self::init_with_environment(storage, secret, options, Environment::default())
    }

    /// The same with other surroundings than those of the system.
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

    /// This with other surroundings than those of the system.
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// This with room for so many bytes of opened records. What does not fit is read again, as it is
    /// where a tree has more pages than there is room.
    pub fn with_cache_bytes(self, bytes_max: usize) -> Self {
        Self { blocks: self.blocks.map(|blocks| blocks.with_cache_bytes(bytes_max)), ..self }
    }

    /// Opens the repository in `storage` with `secret`.
    pub fn open(storage: Arc<dyn Storage>, secret: SlotSecret<'_>) -> Result<Self> {
        Self::open_local(Repository::open(storage)?, secret)
    }

    /// An open repository with what `secret` opens.
    pub(crate) fn open_local(repository: Repository, secret: SlotSecret<'_>) -> Result<Self> {
        let slots = repository::keys::key_slots(&**repository.storage())?;
        let (slot, keys) = Self::unlock(repository.config(), slots, secret)?;
        Ok(Self::assemble(repository, slot, keys))
    }

    /// What `secret` opens of a repository that lies elsewhere.
    pub fn open_store(store: Arc<dyn Store>, secret: SlotSecret<'_>) -> Result<Self> {
        let (slot, keys) = Self::unlock(store.config(), store.key_slots()?, secret)?;
        Ok(Self::with_store(store, None, slot, keys))
    }

    /// Opens the slot that `secret` fits, of several the one that may most, and believes the settings
    /// when they are those of its root. A damaged slot does not keep another from opening.
    pub(crate) fn unlock(
        config: &Config,
        mut slots: Vec<(KeyId, Vec<u8>)>,
        secret: SlotSecret<'_>,
    ) -> Result<(SlotInfo, KeyRing)> {
        let root = RootVerifyKey::from_bytes(config.root_key);
        let mut damaged = None;
        slots.sort_by_cached_key(|(_, slot)| role_rank(slot));
        for (_, slot) in slots {
            match open_slot(&slot, &root, secret) {
                Ok((info, keys)) if info.repository == config.repository => {
                    return check_config(config, &info).map(|()| (info, keys));
                }
                Ok(_) | Err(crypto::Error::WrongKey) => {}
                Err(error) => damaged = Some(error),
            }
        }
        Err(damaged.map_or(Error::WrongKey, Error::from))
    }

    fn assemble(repository: Repository, slot: SlotInfo, keys: KeyRing) -> Self {
        let repository = Arc::new(repository);
        Self::with_store(repository.clone(), Some(repository), slot, keys)
    }

    fn with_store(
        store: Arc<dyn Store>,
        local: Option<Arc<Repository>>,
        slot: SlotInfo,
        keys: KeyRing,
    ) -> Self {
        let key_list_reader = Arc::new(KeyListReader::new(store.clone(), &slot));
        let cache =
            |keys| BlockCache::new(store.clone(), Opener::new(keys), key_list_reader.clone());
        let blocks = keys.reader.clone().map(cache);
        let environment = Environment::default();
        Self { store, local, keys, slot, environment, blocks, key_list_reader }
    }

    /// The engine, for what can only be done where the repository lies.
    pub fn local(&self) -> Result<&Arc<Repository>> {
        Ok(self.local.as_ref().ok_or(repository::Error::LocalOnly)?)
    }

    /// Opened records; an error for write-only keys.
    pub(crate) fn blocks(&self) -> Result<&BlockCache> {
        self.blocks.as_ref().ok_or(Error::WriteOnly)
    }

    /// Seconds since 1970 by the clock of this machine.
    pub fn now_secs(&self) -> i64 {
        self.environment.now_secs()
    }

    /// The keys that read; an error for write-only keys.
    pub fn reader_keys(&self) -> Result<&ReaderKeys> {
        self.keys.reader.as_ref().ok_or(Error::WriteOnly)
    }

    /// The right to write, for `purpose`.
    pub fn lease(&self, purpose: &str) -> Result<Arc<Lease>> {
        Ok(self.local()?.lease(&holder(purpose))?)
    }

    /// Does `work` with the right to write, wherever the repository lies. Who loses that right while it works meets all kinds of
    /// errors, since another process changes everything under it; only the loss is worth telling.
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

    /// The same for work that gives space back: on a full disk it has the room that is kept for it.
    pub(crate) fn with_reclaim_lease<T>(
        &self,
        purpose: &str,
        mut work: impl FnMut(&Arc<Lease>) -> Result<T>,
    ) -> Result<T> {
        let repository = self.local()?;
        let lease = repository.lease_for(&holder(purpose), LeasePurpose::Reclaim)?;
        let mut done = work(&lease);
        if matches!(&done, Err(Error::Repository(error)) if error.is_full())
            && repository.release_reserve()?
        {
            done = work(&lease);
        }
        repository.fill_reserve();
        done.map_err(|error| lease_lost_or(lease.verify(), error))
    }

    /// How files are cut in this repository.
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

    /// Decides where pages end; belongs to the domain.
    pub(crate) fn cut_key(&self) -> u64 {
        let id = self.keys.writer.ids.page_id(0, &[], b"icecore page cut key");
        id.0.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte))
    }

    /// A session's sealer with fresh keys; an error when what it makes could not be signed.
    pub(crate) fn sealer(&self) -> Result<seal::Sealer> {
        let recipient = self.recipient()?;
        let mut random = [0; 80];
        self.environment.fill_random(&mut random)?;
        let (writer, cipher) = (&self.keys.writer, self.environment.cipher);
        Ok(seal::Sealer::with_recipient(&recipient, writer, random, cipher))
    }

    /// The key slots, those that are certified.
    pub fn slots(&self) -> Result<Vec<(KeyId, SlotInfo)>> {
        let slots = self.store.key_slots()?.into_iter();
        let good = slots.filter_map(|(id, slot)| Some((id, self.certified(id, &slot)?)));
        Ok(good.collect())
    }

    /// A damaged slot is as good as none; `check` tells of it.
    fn certified(&self, id: KeyId, slot: &[u8]) -> Option<SlotInfo> {
        let info = crypto::verify_slot_certificate(slot, &self.slot.root).ok()?;
        // Under the name of another it would vouch for what that one signed, and fail.
        (info.id == id).then_some(info)
    }
}

/// The secrets of a new repository.
pub fn new_material(environment: &Environment, options: InitOptions) -> Result<KeyMaterial> {
    let material = environment.with_random(|random| KeyMaterial::generate(random))?;
    Ok(material.with_privacy(options.privacy))
}

/// A key slot for `secret`, and what it says about itself.
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

/// When it is a slot's turn to be tried: by what it may, so that ids, which are random, decide nothing.
fn role_rank(slot: &[u8]) -> u8 {
    match crypto::slot_info(slot).map(|info| info.role) {
        Ok(Role::Full) => 0,
        Ok(Role::ReadWrite) => 1,
        Ok(Role::Reader) => 2,
        Ok(Role::WriteOnly) => 3,
        Err(_) => 4,
    }
}

/// The keys of a new repository: its first slots, and the list of them.
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

/// The settings of a new repository.
pub fn new_config(material: &KeyMaterial, options: InitOptions, now_secs: i64) -> Config {
    let (root_key, privacy) = (*material.root_verify_key().as_bytes(), options.privacy as u8);
    let chunk_bytes = [options.chunks.min, options.chunks.average, options.chunks.max];
    let config = Config::new(material.repository, root_key, now_secs, privacy, chunk_bytes);
    config.with_parity(options.parity_percent).signed(|settings| material.sign_config(settings))
}

/// Settings count when the root key of the slot that was opened signed them: chunk sizes and parity
/// are not the storage's to choose. Privacy stands in both, and must be the same.
fn check_config(config: &Config, slot: &SlotInfo) -> Result<()> {
    let signed = slot.root.verify_config(&config.signed_bytes(), &config.signature);
    let is_good = signed.is_ok() && config.privacy == slot.privacy as u8;
    if is_good { Ok(()) } else { Err(Error::ForgedConfig) }
}

/// Who takes a lease, for people.
fn holder(purpose: &str) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{purpose} on {host}, process {}", std::process::id())
}

/// What to tell of `error`: that the lease was lost, when it was.
fn lease_lost_or(verified: repository::Result<()>, error: Error) -> Error {
    match verified {
        Err(lost @ repository::Error::LeaseLost { .. }) => lost.into(),
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
