//! Domains and their keys.
//!
//! In a managed domain the server has a key slot of its own. The secret that opens it lies sealed in the catalog, the
//! slot in the repository, and neither is of use without the other and `master.key`.

use super::repositories::{self, Slot};
use super::{Control, Error, Result, random};
use api::Name;
use api::enrol::{KeyMode, Role};
use catalog::By;
use catalog::domains::Domain;
use crypto::{KdfParams, KeyMaterial, KeyRing, RootVerifyKey, SlotSecret};
use ids::{KeyId, RepositoryId};
use repository::config::Config;
use std::path::Path;

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
    ) -> Result<(Domain, Option<RepositoryId>)> {
        let domain = match self.catalog.domain(name)? {
            Some(domain) if domain.keys != keys => return Err(other_keys(&domain)),
            Some(domain) => domain,
            None => self.new_domain(by, name, keys)?,
        };
        let folder = self.folder.domain(name);
        let config = match repositories::config(&folder)? {
            Some(config) => Some(config),
            None if keys == KeyMode::Client => None,
            None => Some(self.new_repository(&domain, &folder)?),
        };
        if let Some(config) = &config {
            self.note_repository(&domain, config)?;
        }
        Ok((domain, config.map(|config| config.repository)))
    }

    fn new_domain(&self, by: By<'_>, name: &Name, keys: KeyMode) -> Result<Domain> {
        let sealed = match keys {
            KeyMode::Client => None,
            KeyMode::Managed => Some(self.master.seal(name.as_str(), &*random::<32>()?)?),
        };
        let made = by.now_secs;
        let domain = Domain { name: name.clone(), keys, repository: None, sealed, made };
        self.catalog.add_domain(by, &domain)?;
        Ok(domain)
    }

    fn new_repository(&self, domain: &Domain, folder: &Path) -> Result<Config> {
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
        self.repositories().init(folder, config, &[(id, slot)])?;
        Ok(config)
    }

    /// A new slot in the repository of `domain`, for who knows `secret`.
    pub(crate) fn add_slot(
        &self,
        domain: &Domain,
        role: Role,
        secret: &[u8; 32],
        label: &str,
    ) -> Result<KeyId> {
        let folder = self.folder.domain(&domain.name);
        let (id, slot) = self.make_slot(domain, role, secret, label)?;
        self.repositories().put_key_slot(&folder, id, &slot)?;
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
        let folder = self.folder.domain(&domain.name);
        let secret = self.own_secret(domain)?;
        let missing = || repository::Error::NoRepository { location: folder.display().to_string() };
        let config = repositories::config(&folder)?.ok_or_else(missing)?;
        let root = RootVerifyKey::from_bytes(config.root_key);
        for (_, slot) in repositories::key_slots(&folder)? {
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
        let role = match role {
            Role::Full => crypto::Role::Full,
            Role::WriteOnly => crypto::Role::WriteOnly,
        };
        let (kdf, now_secs) = (KdfParams::DEFAULT, self.now_secs());
        let slot = with_random(|random| {
            crypto::create_slot(material, role, secret, kdf, random, label, now_secs)
        })??;
        Ok((crypto::slot_info(&slot)?.id, slot))
    }

    fn note_repository(&self, domain: &Domain, config: &Config) -> Result<()> {
        let id = config.repository.to_string();
        if domain.repository.as_ref() == Some(&id) {
            return Ok(());
        }
        Ok(self.catalog.set_domain_repository(&domain.name, &id)?)
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
