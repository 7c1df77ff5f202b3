//! The secrets of a repository. Only a full key holds them.

use std::sync::Arc;

use ids::RepositoryId;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::context::{self, derive};
use crate::epoch::{EpochSecret, EpochSecrets, LAST_KEY_EPOCH};
use crate::{ChunkerKey, IdKey, Random, RootVerifyKey, Signer};

/// The secret of a dedup domain: ids, cut points, the root
/// signing key and the secrets of all key epochs derive from it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct DomainSecret([u8; 32]);

impl DomainSecret {
    /// A secret from 32 random bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for a key slot.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key that makes ids of chunks and pages.
    pub fn id_key(&self) -> IdKey {
        IdKey::from_seed(*derive(context::OBJECT_ID, &[&self.0]))
    }

    /// The key that decides the cut points of files.
    pub fn chunker_key(&self) -> ChunkerKey {
        ChunkerKey(*derive(context::CHUNKER, &[&self.0]))
    }

    /// Certifies the signing keys of slots.
    pub(crate) fn root_signer(&self) -> Signer {
        Signer::from_seed(*derive(context::ROOT_SIGNING, &[&self.0]))
    }
}

/// What opens a server's own slot in the repository of the domain `name`: with it and the repository, `master` is enough.
/// Another domain has another one, whichever repository its storage server shows.
pub fn server_slot_secret(
    master: &[u8; 32],
    repository: RepositoryId,
    name: &str,
) -> Zeroizing<[u8; 32]> {
    derive(context::SERVER_SLOT, &[master, &repository.0, name.as_bytes()])
}

/// How much the sizes of chunks may reveal; fixed when a repository is created. Every slot holds it, so that an
/// operator of the storage cannot lower it in the repository's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Privacy {
    /// Keyed Gear cutting, the fast one.
    #[default]
    Standard = 1,
    /// Cut points that leak nothing of the key.
    Hardened = 2,
}

impl Privacy {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Standard, Self::Hardened].into_iter().find(|privacy| *privacy as u8 == byte)
    }
}

/// All secrets of a domain: the content of a full slot.
#[derive(Clone)]
pub struct KeyMaterial {
    /// The domain's secret.
    pub domain: DomainSecret,
    /// The secrets of all key epochs: they open the sessions that writers seal.
    pub epochs: Arc<EpochSecrets>,
    /// The repository all this belongs to.
    pub repository: RepositoryId,
    /// How files are cut.
    pub privacy: Privacy,
}

impl KeyMaterial {
    /// A new domain in a new repository, `Privacy::Standard`.
    pub fn generate(random: Random<'_>) -> Self {
        let repository = RepositoryId(draw(random));
        Self::new(DomainSecret::from_bytes(draw(random)), repository, Privacy::Standard)
    }

    /// All that follows from the secret of a domain.
    pub(crate) fn new(domain: DomainSecret, repository: RepositoryId, privacy: Privacy) -> Self {
        let last = EpochSecret::last(&domain.0);
        let epochs = Arc::new(EpochSecrets::up_to(LAST_KEY_EPOCH, last));
        Self { domain, epochs, repository, privacy }
    }

    /// The same secrets with another privacy level. Only for a new repository: a later change would move all cut
    /// points.
    pub fn with_privacy(self, privacy: Privacy) -> Self {
        Self { privacy, ..self }
    }

    /// `message`, signed by the root key.
    pub(crate) fn sign_as_root(&self, message: &[u8]) -> [u8; crate::SIGNATURE_LEN] {
        self.domain.root_signer().sign(message)
    }

    /// The root key's signature over the settings of the repository.
    pub fn sign_config(&self, settings: &[u8]) -> [u8; crate::SIGNATURE_LEN] {
        self.sign_as_root(&[context::CONFIG.as_bytes(), settings].concat())
    }

    /// The key that every slot's certificate is checked with; public.
    pub fn root_verify_key(&self) -> RootVerifyKey {
        RootVerifyKey(self.domain.root_signer().public())
    }
}

/// `N` bytes from `random`.
pub(crate) fn draw<const N: usize>(random: Random<'_>) -> [u8; N] {
    let mut bytes = [0; N];
    random(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{counting_random, hex};

    #[test]
    fn the_slot_of_a_server_opens_for_its_domain_and_repository_only() {
        let secret = |master, repository, name: &str| {
            *server_slot_secret(&[master; 32], RepositoryId([repository; 16]), name)
        };
        let own = secret(1, 2, "web");
        let expected = [&[1; 32][..], &[2; 16], b"web"].concat();
        assert_eq!(own, blake3::derive_key("icecore 2026 server slot v1", &expected));
        let others =
            [secret(2, 2, "web"), secret(1, 3, "web"), secret(1, 2, "we"), secret(1, 2, "")];
        assert!(!others.contains(&own));
    }

    #[test]
    fn keys_of_a_fixed_secret_are_fixed() {
        let secret = DomainSecret::from_bytes([7; 32]);
        assert_eq!(
            hex(&secret.chunker_key().0),
            "63ef29cc0f5ebce2d7f9b311272c1582ecfe7150adc4edb3548db497540a4c62"
        );
        assert_eq!(
            hex(secret.root_signer().public().as_bytes()),
            "2c45a0c0378c370aeb104d22e0142143f9766ce8bd16d29fa764af4d86105b1a"
        );
        assert_eq!(
            hex(secret.id_key().seed()),
            "b40d4ccb3cef00b4515af71ce00b25e3c1d4bd4e2149133e8e72ea78431cfe01"
        );
    }

    #[test]
    fn generated_parts_differ_from_each_other() {
        let material = KeyMaterial::generate(&mut counting_random(1));
        assert_ne!(material.domain.as_bytes()[..16], material.repository.0);
        assert_eq!(material.epochs.latest_epoch(), LAST_KEY_EPOCH);
        assert_eq!(material.privacy, Privacy::Standard);
    }
}
