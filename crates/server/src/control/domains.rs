//! Domains and their keys.
//!
//! In a managed domain the server has a key slot of its own. The secret that opens it lies sealed in the catalog, the
//! slot in the repository, and neither is of use without the other and `master.key`.

use super::held::Held;
use super::repositories::Slot;
use super::{Control, Error, Result, random};
use api::Name;
use api::domains::{Privacy, Settings, WantedSettings};
use api::enrol::{KeyMode, Role};
use catalog::By;
use catalog::domains::Domain;
use crypto::{
    KdfParams, KeyMaterial, KeyRing, NewSlot, RootVerifyKey, SignerInfo, SignerList, SlotInfo,
    SlotSecret,
};
use ids::{KeyId, RepositoryId};
use repository::config::Config;
use repository::keys::Keys;

/// The label of the server's own slot.
const OWN_LABEL: &str = "server";

impl Control {
    /// The domain `name`, made when there is none; its repository too, when the server manages its keys. A start that
    /// was killed on the way is finished here.
    pub(crate) fn ensure_domain(
        &self,
        by: By<'_>,
        name: &Name,
        keys: KeyMode,
        storage: Option<&Name>,
        settings: WantedSettings,
    ) -> Result<(Domain, Option<RepositoryId>)> {
        let domain = match self.catalog.domain(name)? {
            Some(domain) if domain.keys != keys => return Err(other_keys(&domain)),
            Some(domain) if !settings.fit(domain.settings) => return Err(other_settings(&domain)),
            Some(domain) => domain,
            None => self.new_domain(by, name, keys, storage, settings.or_default())?,
        };
        let held = self.held(name, domain.storage.as_ref())?;
        let config = match held.config()? {
            Some(config) => Some(config),
            None if keys == KeyMode::Client => None,
            None if domain.storage.is_some() && domain.repository.is_some() => {
                return Err(Error::Gone(name.to_string()));
            }
            None => Some(self.new_repository(&domain, &held)?),
        };
        if let Some(config) = &config {
            self.note_repository(&domain, config)?;
        }
        Ok((domain, config.map(|config| config.repository)))
    }

    fn new_domain(
        &self,
        by: By<'_>,
        name: &Name,
        keys: KeyMode,
        storage: Option<&Name>,
        settings: Settings,
    ) -> Result<Domain> {
        let sealed = match keys {
            KeyMode::Client => None,
            KeyMode::Managed => Some(self.master.seal(name.as_str(), &*random::<32>()?)?),
        };
        let made = by.now_secs;
        let (name, storage) = (name.clone(), storage.cloned());
        let domain = Domain { name, keys, repository: None, sealed, made, storage, settings };
        self.catalog.add_domain(by, &domain)?;
        Ok(domain)
    }

    fn new_repository(&self, domain: &Domain, held: &Held) -> Result<Config> {
        let secret = self.own_secret(domain)?;
        let material = with_random(|random| KeyMaterial::generate(random))?;
        let material = material.with_privacy(privacy_of(domain.settings.privacy));
        let new = NewSlot::new(crypto::Role::Full, OWN_LABEL, self.now_secs());
        let (own, slot) = new_slot(&material, &new, &secret)?;
        let (chunks, root_key) = (chunker::Params::DEFAULT, *material.root_verify_key().as_bytes());
        let chunk_bytes = [chunks.min, chunks.average, chunks.max];
        let (privacy, now_secs) = (material.privacy as u8, self.now_secs());
        let config = Config::new(material.repository, root_key, now_secs, privacy, chunk_bytes);
        let config = config.with_parity(domain.settings.parity_percent);
        let config = config.signed(|settings| material.sign_config(settings));
        let list = SignerList::new(material.repository).with(own.signer(), now_secs)?;
        let keys = Keys { slots: vec![(own.id, slot)], signers: list.sign(&material) };
        held.init(&config, &keys)?;
        Ok(config)
    }

    /// A slot for the node `label` in the repository of `domain`, for who knows `secret`. When there is one already it
    /// is of an enrolment that was cut off: two slots that one secret opens would leave it to chance under which of them
    /// a node signs.
    pub(crate) fn add_slot(
        &self,
        domain: &Domain,
        role: Role,
        secret: &[u8; 32],
        label: &str,
    ) -> Result<KeyId> {
        let held = self.held(&domain.name, domain.storage.as_ref())?;
        let material = self.material(domain, &held)?;
        let list = signers_of(&held, &material)?;
        if let Some(id) = slot_of(&held, &list, role, secret, label)? {
            return Ok(id);
        }
        let new = NewSlot::new(role_of_node(role), label, self.now_secs()).bound();
        let (info, slot) = new_slot(&material, &new, secret)?;
        let next = list.with(info.signer(), self.now_secs())?;
        held.put_signers(&next.sign(&material))?;
        held.put_key_slot(info.id, &slot)?;
        Ok(info.id)
    }

    /// A slot that reads and does nothing else, not yet stored.
    pub(crate) fn make_reader(
        &self,
        domain: &Domain,
        secret: &[u8; 32],
        label: &str,
    ) -> Result<Slot> {
        let held = self.held(&domain.name, domain.storage.as_ref())?;
        let material = self.material(domain, &held)?;
        let new = NewSlot::new(crypto::Role::Reader, label, self.now_secs());
        let (info, slot) = new_slot(&material, &new, secret)?;
        Ok((info.id, slot))
    }

    /// Removes the slot of a node that is none any more; what it signs from now on counts for nothing.
    pub(crate) fn remove_slot(&self, domain: &Domain, id: KeyId) -> Result<()> {
        let held = self.held(&domain.name, domain.storage.as_ref())?;
        if held.config()?.is_none() {
            return Ok(());
        }
        let material = self.material(domain, &held)?;
        let list = signers_of(&held, &material)?;
        if list.find(id).is_some_and(SignerInfo::is_live) {
            let next = list.without(id, held.last_number()?, self.now_secs());
            held.put_signers(&next.sign(&material))?;
        }
        held.remove_key_slot(id)
    }

    /// All secrets of a managed domain.
    fn material(&self, domain: &Domain, held: &Held) -> Result<KeyMaterial> {
        let ring = self.unlock(domain, held)?;
        ring.certifier.ok_or_else(|| Error::Sealed(domain.name.to_string()))
    }

    /// Opens the server's own slot.
    fn unlock(&self, domain: &Domain, held: &Held) -> Result<KeyRing> {
        let secret = self.own_secret(domain)?;
        let missing = || repository::Error::NoRepository { location: domain.name.to_string() };
        let config = held.config()?.ok_or_else(missing)?;
        let root = RootVerifyKey::from_bytes(config.root_key);
        for (_, slot) in held.key_slots()? {
            let is_own = crypto::verify_slot_certificate(&slot, &root)
                .is_ok_and(|info| info.label == OWN_LABEL && info.repository == config.repository);
            if is_own && let Ok((_, ring)) = crypto::open_slot(&slot, SlotSecret::Recovery(*secret))
            {
                return Ok(ring);
            }
        }
        Err(Error::Sealed(domain.name.to_string()))
    }

    fn own_secret(&self, domain: &Domain) -> Result<zeroize::Zeroizing<[u8; 32]>> {
        let name = domain.name.as_str();
        let sealed = domain.sealed.as_ref().ok_or_else(|| Error::NoKeys(name.to_owned()))?;
        self.master.open(name, sealed)
    }

    fn note_repository(&self, domain: &Domain, config: &Config) -> Result<()> {
        let id = config.repository.to_string();
        match &domain.repository {
            Some(known) if *known == id => return Ok(()),
            // A storage server is believed once, when it says what it has made.
            Some(_) if domain.storage.is_some() => {
                return Err(Error::Gone(domain.name.to_string()));
            }
            _ => {}
        }
        Ok(self.catalog.set_domain_repository(&domain.name, &id)?)
    }
}

/// The slot of a node with this role and label that `secret` opens, and that may still sign.
fn slot_of(
    held: &Held,
    list: &SignerList,
    role: Role,
    secret: &[u8; 32],
    label: &str,
) -> Result<Option<KeyId>> {
    let is_alike = |signer: &SignerInfo| {
        let is_of_node = signer.bound && signer.label == label;
        is_of_node && signer.is_live() && signer.role == role_of_node(role)
    };
    let slots = held.key_slots()?.into_iter();
    let mut alike = slots.filter(|(id, _)| list.find(*id).is_some_and(is_alike));
    let found =
        alike.find(|(_, slot)| crypto::open_slot(slot, SlotSecret::Recovery(*secret)).is_ok());
    Ok(found.map(|(id, _)| id))
}

/// The list of signers of a domain whose secrets are `material`.
fn signers_of(held: &Held, material: &KeyMaterial) -> Result<SignerList> {
    let list = held.signers()?.ok_or(Error::NoSigners)?;
    let list = SignerList::verify(&list, &material.root_verify_key(), material.repository);
    list.map_err(|_| Error::NoSigners)
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

/// A domain that exists stays as it was made.
pub(crate) fn other_settings(domain: &Domain) -> Error {
    let (name, Settings { privacy, parity_percent }) = (&domain.name, domain.settings);
    let message = format!(
        "the domain '{name}' has {privacy} privacy and {parity_percent} % parity, and that cannot be changed"
    );
    let hint = "Name a new domain with --domain, or leave out --privacy and --parity.".to_owned();
    Error::Unfit { message, hint }
}

fn privacy_of(privacy: Privacy) -> crypto::Privacy {
    match privacy {
        Privacy::Standard => crypto::Privacy::Standard,
        Privacy::Hardened => crypto::Privacy::Hardened,
    }
}

/// What `make` makes with random bytes of the system; nothing when there were none.
fn with_random<T>(make: impl FnOnce(&mut dyn FnMut(&mut [u8])) -> T) -> Result<T> {
    let mut failed = false;
    let made = make(&mut |bytes| failed |= getrandom::fill(bytes).is_err());
    if failed { Err(Error::NoRandom) } else { Ok(made) }
}
