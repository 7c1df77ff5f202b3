//! Domains and their keys: new domains, and the key slots of nodes.
//!
//! In a managed domain the server has a key slot of its own, in the repository. What opens it derives from `master.key`
//! and lies sealed in the catalog, too: with a repository and `master.key` a lost catalog costs no domain.

use crate::catalog_mark::CatalogMark;
use crate::domain_repository::{DomainRepositories, DomainRepository};
use crate::pools::Pools;
use crate::sealing::MasterKey;
use crate::{Error, Result, now_secs};
use api::Name;
use api::domains::{Dedup, Privacy, WantedSettings};
use api::enroll::{KeyMode, Role};
use catalog::domains::Domain;
use catalog::{By, Catalog};
use crypto::{
    KdfParams, KeyEntry, KeyList, KeyMaterial, KeyRing, LAST_KEY_EPOCH, NewSlot, RootVerifyKey,
    SignedKeyList, SlotInfo, SlotSecret,
};
use ids::{KeyEpoch, KeyId, RepositoryId};
use repository::config::Config;
use repository::keys::Keys;
use server_contract::settings::settings_of;
use std::sync::Arc;

/// The label of the server's own slot.
const OWN_LABEL: &str = "server";

/// The keys of managed domains, and the domains as such.
pub(crate) struct DomainKeys {
    catalog: Arc<Catalog>,
    repositories: Arc<DomainRepositories>,
    pools: Pools,
    mark: Arc<CatalogMark>,
    master: MasterKey,
}

/// Where a new domain shall lie.
#[derive(Clone, Copy)]
pub(crate) enum Home<'a> {
    /// On this server, in this pool or where there is the most room.
    Here(Option<&'a Name>),
    /// On this storage server.
    There(&'a Name),
}

impl DomainKeys {
    /// The keys whose secrets `master` seals.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        repositories: Arc<DomainRepositories>,
        pools: Pools,
        mark: Arc<CatalogMark>,
        master: MasterKey,
    ) -> Self {
        Self { catalog, repositories, pools, mark, master }
    }

    /// The domain `name`, created if it does not exist, with its repository if the server manages its keys. An
    /// interrupted creation is completed.
    pub(crate) fn ensure_domain(
        &self,
        by: By<'_>,
        name: &Name,
        keys: KeyMode,
        home: Home<'_>,
        settings: WantedSettings,
    ) -> Result<(Domain, Option<RepositoryId>)> {
        let mut domain = match self.catalog.domain(name)? {
            Some(domain) if domain.keys != keys => return Err(other_keys(&domain)),
            Some(domain) if !settings.fit(domain.settings) => return Err(other_settings(&domain)),
            Some(domain) => domain,
            None => self.new_domain(by, name, keys, home, settings)?,
        };
        let repository = self.repositories.of(&domain)?;
        let config = match repository.config()? {
            Some(config) => Some(config),
            None if domain.repository.is_some() => return Err(Error::Gone(name.to_string())),
            None if keys == KeyMode::Client => None,
            None => Some(self.new_repository(&domain, &repository)?),
        };
        if let Some(config) = &config {
            self.note_repository(&mut domain, config)?;
        }
        Ok((domain, config.map(|config| config.repository)))
    }

    fn new_domain(
        &self,
        by: By<'_>,
        name: &Name,
        keys: KeyMode,
        home: Home<'_>,
        wanted: WantedSettings,
    ) -> Result<Domain> {
        let pool = match home {
            Home::There(_) => None,
            Home::Here(pool) => self.pools.choose(name, pool)?,
        };
        let storage = if let Home::There(storage) = home { Some(storage.clone()) } else { None };
        let (made, settings) = (by.now_secs, wanted.or_default());
        let (name, repository, sealed) = (name.clone(), None, None);
        let new = Domain { name, keys, repository, sealed, made, storage, pool, settings };
        let domain = match self.as_it_is_there(&new, wanted)? {
            Some(domain) => domain,
            None => {
                self.lies_on_no_other(&new)?;
                self.mark.allows_new_domain(&new.name).map(|()| new)?
            }
        };
        self.catalog.add_domain(by, &domain)?;
        Ok(domain)
    }

    /// Refuses to make a domain that a storage server has: its node would go on in an empty one, also when the catalog
    /// was confirmed. One that cannot be asked keeps nobody from a new domain, unless the catalog may have lost it.
    fn lies_on_no_other(&self, new: &Domain) -> Result<()> {
        let name = &new.name;
        match self.repositories.found_on(name, new.storage.as_ref()) {
            Ok(None) => Ok(()),
            Ok(Some(storage)) => {
                let message = format!(
                    "the domain '{name}' lies on the storage server '{storage}', and the token is for another place"
                );
                let hint = format!(
                    "On the server, with the same --keys: icecore server token NODE --domain {name} --on {storage}. If it is to be a new one, give it another name, or delete the old one there."
                );
                Err(Error::Unfit { message, hint })
            }
            Err(error) if self.mark.is_older()? => Err(error),
            Err(error) => {
                tracing::warn!(%error, domain = %name, "not every storage server was asked for a new domain");
                Ok(())
            }
        }
    }

    /// A domain whose repository is there, since only the catalog was lost: it has the settings that it was made with,
    /// and the server must have its keys if it is to manage them. `None` if no repository is there.
    fn as_it_is_there(&self, new: &Domain, wanted: WantedSettings) -> Result<Option<Domain>> {
        let repository = self.repositories.of(new)?;
        let Some(config) = repository.config()? else { return Ok(None) };
        let settings = settings_of(&config).ok_or_else(|| strange_keys(new))?;
        let domain = Domain { settings, ..new.clone() };
        if !wanted.fit(domain.settings) {
            return Err(other_settings(&domain));
        }
        if domain.keys == KeyMode::Managed {
            let secret = self.master.slot_secret(domain.name.as_str(), config.repository);
            own_ring(&repository, &config, &secret)?.ok_or_else(|| strange_keys(&domain))?;
        }
        Ok(Some(domain))
    }

    fn new_repository(&self, domain: &Domain, repository: &DomainRepository) -> Result<Config> {
        let material = with_random(|random| KeyMaterial::generate(random))?;
        let material = material.with_privacy(privacy_of(domain.settings.privacy));
        let secret = self.master.slot_secret(domain.name.as_str(), material.repository);
        let new = NewSlot::new(crypto::Role::Full, OWN_LABEL, now_secs(), KeyEpoch(0));
        let (own, slot) = new_slot(&material, &new, &secret)?;
        let (chunks, root_key) = (chunker::Params::DEFAULT, *material.root_verify_key().as_bytes());
        let chunk_bytes = [chunks.min, chunks.average, chunks.max];
        let (privacy, now_secs) = (material.privacy as u8, now_secs());
        let config = Config::new(material.repository, root_key, now_secs, privacy, chunk_bytes);
        let config = config.with_parity(domain.settings.parity_percent);
        let config = config.with_dedup(domain.settings.dedup == Dedup::On);
        let config = config.signed(|settings| material.sign_config(settings));
        let list = KeyList::new(material.repository).with_entries([own.entry()], now_secs)?;
        let key_list = with_random(|random| list.sign(&material, &[], random))??;
        let keys = Keys { slots: vec![(own.id, slot)], key_list };
        repository.init(&config, &keys)?;
        Ok(config)
    }

    /// Adds a slot that `secret` opens for the node `label` in the repository of `domain`. If one exists, it comes
    /// from an interrupted enrollment and is used: with two slots for one secret it would be chance with which one a
    /// node signs.
    pub(crate) fn add_slot(
        &self,
        domain: &Domain,
        role: Role,
        secret: &[u8; 32],
        label: &str,
    ) -> Result<KeyId> {
        let repository = self.repositories.of(domain)?;
        let material = self.material(domain, &repository)?;
        let list = key_list_of(&repository, &material)?;
        if let Some(id) = slot_of(&repository, &list, role, secret, label)? {
            return Ok(id);
        }
        let (role, now_secs) = (role_of_node(role), now_secs());
        let new = NewSlot::new(role, label, now_secs, list.epoch()).bound();
        let (info, slot) = new_slot(&material, &new, secret)?;
        put_key_list(&repository, &material, &list.with_entries([info.entry()], now_secs)?)?;
        repository.put_key_slot(info.id, &slot)?;
        Ok(info.id)
    }

    /// Adds a read-only slot. When `before` is such a key in use, the key stays and gets another secret: nobody loses
    /// access, so no key epoch begins. `note` gets the id before anything is stored.
    pub(crate) fn add_reader(
        &self,
        domain: &Domain,
        secret: &[u8; 32],
        label: &str,
        before: Option<KeyId>,
        note: impl FnOnce(KeyId) -> Result<()>,
    ) -> Result<KeyId> {
        let repository = self.repositories.of(domain)?;
        let material = self.material(domain, &repository)?;
        let (list, now_secs) = (key_list_of(&repository, &material)?, now_secs());
        let is_reader = |entry: &KeyEntry| entry.is_live() && entry.role == crypto::Role::Reader;
        let before = before.filter(|id| list.find(*id).is_some_and(is_reader));
        let new = NewSlot::new(crypto::Role::Reader, label, now_secs, list.epoch());
        let (info, slot) = new_slot(&material, &new.replacing(before), secret)?;
        note(info.id)?;
        if list.find(info.id) != Some(&info.entry()) {
            put_key_list(&repository, &material, &list.with_entries([info.entry()], now_secs)?)?;
        }
        repository.put_key_slot(info.id, &slot)?;
        Ok(info.id)
    }

    /// Removes slots: what their keys sign from now on is void, and they cannot read what is stored from now on. One
    /// key epoch begins for all of them.
    pub(crate) fn remove_slots(&self, domain: &Domain, ids: &[KeyId]) -> Result<()> {
        let repository = self.repositories.of(domain)?;
        if repository.config()?.is_none() {
            return Ok(());
        }
        // The list first. When it cannot be made (the server's own slot is gone), the slots go all the same.
        let ended = self.end_keys(domain, &repository, ids);
        ids.iter().try_for_each(|id| repository.remove_key_slot(*id))?;
        ended
    }

    /// Which of `ids` are in use there: a repository that came back from an older copy has keys that were removed
    /// since.
    pub(crate) fn live_of(&self, domain: &Domain, ids: &[KeyId]) -> Result<Vec<KeyId>> {
        let repository = self.repositories.of(domain)?;
        let Some(config) = repository.config()? else { return Ok(Vec::new()) };
        let root = RootVerifyKey::from_bytes(config.root_key);
        let list = repository.key_list()?.ok_or(Error::NoKeyList)?;
        let list = SignedKeyList::verify(&list, &root, config.repository);
        let list = list.map_err(|_| Error::NoKeyList)?;
        Ok(ids.iter().copied().filter(|id| list.is_live(*id)).collect())
    }

    fn end_keys(
        &self,
        domain: &Domain,
        repository: &DomainRepository,
        ids: &[KeyId],
    ) -> Result<()> {
        let material = self.material(domain, repository)?;
        let list = key_list_of(repository, &material)?;
        if !ids.iter().any(|id| list.is_live(*id)) {
            return Ok(());
        }
        let next = list.without_keys(ids, repository.last_number()?, now_secs());
        if next.epoch() == LAST_KEY_EPOCH {
            tracing::error!(domain = %domain.name, "this is the last key epoch: removed keys can read what is stored from now on; use a new domain");
        }
        put_key_list(repository, &material, &next)
    }

    /// All secrets of a managed domain.
    fn material(&self, domain: &Domain, repository: &DomainRepository) -> Result<KeyMaterial> {
        let ring = self.unlock(domain, repository)?;
        ring.certifier.ok_or_else(|| Error::Sealed(domain.name.to_string()))
    }

    /// Opens the server's own slot.
    fn unlock(&self, domain: &Domain, repository: &DomainRepository) -> Result<KeyRing> {
        let secret = self.own_secret(domain)?;
        let missing = || repository::Error::NoRepository { location: domain.name.to_string() };
        let config = repository.config()?.ok_or_else(missing)?;
        let ring = own_ring(repository, &config, &secret)?;
        ring.ok_or_else(|| Error::Sealed(domain.name.to_string()))
    }

    /// What opens the server's own slot in a domain whose keys it manages.
    ///
    /// # Errors
    /// [`Error::NoKeys`] where only nodes know them, [`Error::Sealed`].
    pub(crate) fn own_secret(&self, domain: &Domain) -> Result<zeroize::Zeroizing<[u8; 32]>> {
        let name = domain.name.as_str();
        let sealed = domain.sealed.as_ref().ok_or_else(|| Error::NoKeys(name.to_owned()))?;
        self.master.open(name, sealed)
    }

    fn note_repository(&self, domain: &mut Domain, config: &Config) -> Result<()> {
        let id = config.repository.to_string();
        match &domain.repository {
            Some(known) if *known == id => return Ok(()),
            // A storage server is believed once, when it says what it has made.
            Some(_) if domain.storage.is_some() => {
                return Err(Error::Gone(domain.name.to_string()));
            }
            _ => {}
        }
        if domain.keys == KeyMode::Managed && domain.sealed.is_none() {
            let name = domain.name.as_str();
            let secret = self.master.slot_secret(name, config.repository);
            domain.sealed = Some(self.master.seal(name, &secret)?);
        }
        let sealed = domain.sealed.as_ref();
        self.catalog.set_domain_repository(&domain.name, &id, sealed)?;
        domain.repository = Some(id);
        Ok(())
    }
}

/// What the server's own slot gives, if `secret` opens it.
fn own_ring(
    repository: &DomainRepository,
    config: &Config,
    secret: &[u8; 32],
) -> Result<Option<KeyRing>> {
    let root = RootVerifyKey::from_bytes(config.root_key);
    let is_own = |slot: &[u8]| {
        crypto::verify_slot_certificate(slot, &root)
            .is_ok_and(|info| info.label == OWN_LABEL && info.repository == config.repository)
    };
    let mut slots = repository.key_slots()?.into_iter().filter(|(_, slot)| is_own(slot));
    let opened = |slot: &[u8]| crypto::open_slot(slot, SlotSecret::Recovery(*secret)).ok();
    Ok(slots.find_map(|(_, slot)| opened(&slot)).map(|(_, ring)| ring))
}

/// The error for a repository that is there and that `master.key` does not open.
fn strange_keys(domain: &Domain) -> Error {
    let name = &domain.name;
    let message = format!(
        "the repository of the domain '{name}' is there, and the catalog does not know it; this server's master.key does not open it"
    );
    let hint = format!(
        "If only nodes have its keys: icecore server token NODE --domain {name} --keys client. Otherwise restore master.key from the backup of the server's directory."
    );
    Error::Unfit { message, hint }
}

/// The slot of a node with this role and label that `secret` opens, and that may still sign.
fn slot_of(
    repository: &DomainRepository,
    list: &KeyList,
    role: Role,
    secret: &[u8; 32],
    label: &str,
) -> Result<Option<KeyId>> {
    let is_alike = |signer: &KeyEntry| {
        let is_of_node = signer.bound && signer.label == label;
        is_of_node && signer.is_live() && signer.role == role_of_node(role)
    };
    let slots = repository.key_slots()?.into_iter();
    let mut alike = slots.filter(|(id, _)| list.find(*id).is_some_and(is_alike));
    let found =
        alike.find(|(_, slot)| crypto::open_slot(slot, SlotSecret::Recovery(*secret)).is_ok());
    Ok(found.map(|(id, _)| id))
}

/// The key list of a domain whose secrets are `material`.
fn key_list_of(repository: &DomainRepository, material: &KeyMaterial) -> Result<KeyList> {
    let list = repository.key_list()?.ok_or(Error::NoKeyList)?;
    let list = SignedKeyList::verify(&list, &material.root_verify_key(), material.repository);
    let list = list.map_err(|_| Error::NoKeyList)?;
    Ok(KeyList::clone(&list))
}

/// Durably replaces the key list by `next`, with deliveries to the slots that are there.
fn put_key_list(
    repository: &DomainRepository,
    material: &KeyMaterial,
    next: &KeyList,
) -> Result<()> {
    let is_due = next.pending_deliveries().next().is_some();
    let slots = if is_due { repository.key_slots()? } else { Vec::new() };
    repository.put_key_list(&with_random(|random| next.sign(material, &slots, random))??)
}

/// A slot that the 32 bytes `secret` open.
fn new_slot(
    material: &KeyMaterial,
    new: &NewSlot<'_>,
    secret: &[u8; 32],
) -> Result<(SlotInfo, Vec<u8>)> {
    let (secret, kdf) = (SlotSecret::Recovery(*secret), KdfParams::DEFAULT);
    let slot = with_random(|random| crypto::create_slot(material, new, secret, kdf, random))??;
    Ok((crypto::slot_info(&slot)?, slot))
}

/// A node never gets the secret of its domain: it cannot make keys.
fn role_of_node(role: Role) -> crypto::Role {
    match role {
        Role::Full => crypto::Role::ReadWrite,
        Role::WriteOnly => crypto::Role::WriteOnly,
    }
}

fn other_keys(domain: &Domain) -> Error {
    let (name, keys) = (&domain.name, domain.keys);
    Error::Usage(format!("the domain '{name}' has {keys:?} keys, and that cannot be changed"))
}

/// The error for other settings than an existing domain has.
pub(crate) fn other_settings(domain: &Domain) -> Error {
    let (name, settings) = (&domain.name, domain.settings);
    let message = format!("the domain '{name}' has {settings}, and that cannot be changed");
    let hint =
        "Name a new domain with --domain, or leave out --privacy, --parity and --dedup.".to_owned();
    Error::Unfit { message, hint }
}

fn privacy_of(privacy: Privacy) -> crypto::Privacy {
    match privacy {
        Privacy::Standard => crypto::Privacy::Standard,
        Privacy::Hardened => crypto::Privacy::Hardened,
    }
}

/// Calls `make` with the system's random bytes; fails if there were none.
fn with_random<T>(make: impl FnOnce(&mut dyn FnMut(&mut [u8])) -> T) -> Result<T> {
    let mut failed = false;
    let made = make(&mut |bytes| failed |= getrandom::fill(bytes).is_err());
    if failed { Err(server_contract::Error::NoRandom.into()) } else { Ok(made) }
}
