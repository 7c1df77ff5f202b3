//! Domains and their keys.
//!
//! In a managed domain the server has a key slot of its own. The secret that opens it lies sealed in the catalog, the
//! slot in the repository, and neither is of use without the other and `master.key`.

use super::held::Held;
use super::repositories::Slot;
use super::{Control, Error, Result, random};
use api::Name;
use api::enrol::{KeyMode, Role};
use catalog::By;
use catalog::domains::Domain;
use crypto::{KdfParams, KeyMaterial, KeyRing, RootVerifyKey, SlotSecret};
use ids::{KeyId, RepositoryId};
use repository::config::Config;

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
    ) -> Result<(Domain, Option<RepositoryId>)> {
        let domain = match self.catalog.domain(name)? {
            Some(domain) if domain.keys != keys => return Err(other_keys(&domain)),
            Some(domain) => domain,
            None => self.new_domain(by, name, keys, storage)?,
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
    ) -> Result<Domain> {
        let sealed = match keys {
            KeyMode::Client => None,
            KeyMode::Managed => Some(self.master.seal(name.as_str(), &*random::<32>()?)?),
        };
        let made = by.now_secs;
        let (name, storage) = (name.clone(), storage.cloned());
        let domain = Domain { name, keys, repository: None, sealed, made, storage };
        self.catalog.add_domain(by, &domain)?;
        Ok(domain)
    }

    fn new_repository(&self, domain: &Domain, held: &Held) -> Result<Config> {
        let secret = self.own_secret(domain)?;
        let material = with_random(|random| KeyMaterial::generate(random))?;
        let (id, slot) =
            self.slot(&material, Role::Full, SlotSecret::Recovery(*secret), OWN_LABEL)?;
        let chunks = chunker::Params::DEFAULT;
        let config = Config {
            repository: material.repository,
            features: 0,
            created_secs: self.now_secs(),
            privacy: 0,
            chunk_bytes: [chunks.min, chunks.average, chunks.max],
            root_key: *material.root_verify_key().as_bytes(),
        };
        held.init(&config, &[(id, slot)])?;
        Ok(config)
    }

    /// A slot in the repository of `domain`, for who knows `secret`. When there is one already it is of an enrolment
    /// that was cut off: two slots that one secret opens would leave it to chance under which of them a node signs.
    pub(crate) fn add_slot(
        &self,
        domain: &Domain,
        role: Role,
        secret: &[u8; 32],
        label: &str,
    ) -> Result<KeyId> {
        let held = self.held(&domain.name, domain.storage.as_ref())?;
        if let Some(id) = slot_of(&held, role, secret, label)? {
            return Ok(id);
        }
        let (id, slot) = self.make_slot(domain, role, secret, label)?;
        held.put_key_slot(id, &slot)?;
        Ok(id)
    }

    /// The same, not yet stored.
    pub(crate) fn make_slot(
        &self,
        domain: &Domain,
        role: Role,
        secret: &[u8; 32],
        label: &str,
    ) -> Result<Slot> {
        let ring = self.unlock(domain)?;
        let reader = ring.reader.ok_or_else(|| Error::Sealed(domain.name.to_string()))?;
        self.slot(reader.material(), role, SlotSecret::Recovery(*secret), label)
    }

    /// Opens the server's own slot.
    fn unlock(&self, domain: &Domain) -> Result<KeyRing> {
        let held = self.held(&domain.name, domain.storage.as_ref())?;
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

    fn slot(
        &self,
        material: &KeyMaterial,
        role: Role,
        secret: SlotSecret<'_>,
        label: &str,
    ) -> Result<Slot> {
        let role = crypto_role(role);
        let (kdf, now_secs) = (KdfParams::DEFAULT, self.now_secs());
        let slot = with_random(|random| {
            crypto::create_slot(material, role, secret, kdf, random, label, now_secs)
        })??;
        Ok((crypto::slot_info(&slot)?.id, slot))
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

/// The slot with this role and label that `secret` opens.
fn slot_of(held: &Held, role: Role, secret: &[u8; 32], label: &str) -> Result<Option<KeyId>> {
    let slots = held.key_slots()?.into_iter();
    let mut alike = slots.filter(|(id, slot)| {
        crypto::slot_info(slot).is_ok_and(|info| {
            info.id == *id && info.label == label && info.role == crypto_role(role)
        })
    });
    let found =
        alike.find(|(_, slot)| crypto::open_slot(slot, SlotSecret::Recovery(*secret)).is_ok());
    Ok(found.map(|(id, _)| id))
}

fn crypto_role(role: Role) -> crypto::Role {
    match role {
        Role::Full => crypto::Role::Full,
        Role::WriteOnly => crypto::Role::WriteOnly,
    }
}

fn other_keys(domain: &Domain) -> Error {
    let (name, keys) = (&domain.name, domain.keys);
    Error::Usage(format!("the domain '{name}' has {keys:?} keys, and that cannot be changed"))
}

/// What `make` makes with random bytes of the system; nothing when there were none.
fn with_random<T>(make: impl FnOnce(&mut dyn FnMut(&mut [u8])) -> T) -> Result<T> {
    let mut failed = false;
    let made = make(&mut |bytes| failed |= getrandom::fill(bytes).is_err());
    if failed { Err(Error::NoRandom) } else { Ok(made) }
}
