//! Sealing to a recipient: X25519 between a fresh key and the recipient's, then one AEAD message.
//!
//! This is what lets a write-only key store data that it cannot read back. The sealing is
//! anonymous: the signature of the manifest tells who wrote.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use ids::RepositoryId;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::context::{self, derive};
use crate::{Error, error::damaged};

/// The public half of a recipient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecipientPublic([u8; 32]);

impl RecipientPublic {
    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The X25519 public key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Opens the sealed sessions of one key epoch; a reader computes it (`crate::epoch`).
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct RecipientSecret([u8; 32]);

impl RecipientSecret {
    /// A secret from 32 random bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[cfg(test)]
    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The public half.
    pub fn public(&self) -> RecipientPublic {
        let mut bytes = [0; 32];
        // X25519 takes every 32 bytes as a private key: failing here is a bug, not input.
        let public = private(self).compute_public_key().expect("an X25519 key has a public key");
        bytes.copy_from_slice(public.as_ref());
        RecipientPublic(bytes)
    }
}

/// A key that seals one message: made by [`sending`] on one side and [`receiving`] on the other.
pub(crate) struct SingleUseKey(Zeroizing<[u8; 32]>);

/// The sender's half: `ephemeral` is fresh for each message. Errors only when `to` is a point of
/// small order, which would make the shared secret known to everybody.
pub(crate) fn sending(
    ephemeral: &RecipientSecret,
    to: &RecipientPublic,
    repository: RepositoryId,
) -> Result<SingleUseKey, Error> {
    let shared = exchange(ephemeral, to)?;
    Ok(mix(&shared, &ephemeral.public(), to, repository))
}

/// The receiver's half.
pub(crate) fn receiving(
    own: &RecipientSecret,
    ephemeral: &RecipientPublic,
    repository: RepositoryId,
) -> Result<SingleUseKey, Error> {
    let shared = exchange(own, ephemeral)?;
    Ok(mix(&shared, ephemeral, &own.public(), repository))
}

fn private(secret: &RecipientSecret) -> PrivateKey {
    PrivateKey::from_private_key(&X25519, &secret.0).expect("32 bytes are an X25519 key")
}

/// The shared secret of two keys; an error when it would be known to everybody.
pub(crate) fn exchange(
    own: &RecipientSecret,
    other: &RecipientPublic,
) -> Result<Zeroizing<[u8; 32]>, Error> {
    let weak = damaged("a public key without strength");
    agree(&private(own), UnparsedPublicKey::new(&X25519, other.0), weak.clone(), |shared| {
        let bytes: [u8; 32] = shared.try_into().map_err(|_| weak.clone())?;
        // The library refuses the all-zero secret as well; this holds whatever library is below.
        if bytes == [0; 32] { Err(weak) } else { Ok(Zeroizing::new(bytes)) }
    })
}

/// Binds both public keys (as HPKE does) and the repository, so that a sealed session cannot be
/// carried into another repository that has the same recipient.
fn mix(
    shared: &[u8; 32],
    ephemeral: &RecipientPublic,
    recipient: &RecipientPublic,
    repository: RepositoryId,
) -> SingleUseKey {
    let parts: [&[u8]; 4] = [shared, &ephemeral.0, &recipient.0, &repository.0];
    SingleUseKey(derive(context::SESSION_SEALING, &parts))
}

impl SingleUseKey {
    pub(crate) fn new(key: Zeroizing<[u8; 32]>) -> Self {
        Self(key)
    }

    /// Appends the tag to `buffer`. Consumes the key: the nonce is zero, so a second message
    /// under it would break both.
    pub(crate) fn seal(self, aad: &[u8], buffer: &mut Vec<u8>) {
        let sealed = self.aead().seal_in_place_append_tag(zero_nonce(), Aad::from(aad), buffer);
        sealed.expect("a message of a few bytes can be sealed");
    }

    /// The plaintext, or `None` when anything was changed.
    pub(crate) fn open<'a>(self, aad: &[u8], buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.aead().open_in_place(zero_nonce(), Aad::from(aad), buffer).ok()
    }

    fn aead(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.0[..]).expect("a 32-byte key"))
    }
}

fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, unhex};

    fn secret(text: &str) -> RecipientSecret {
        RecipientSecret::from_bytes(unhex(text).try_into().expect("32 bytes"))
    }

    #[test]
    fn the_first_scalar_multiplication_of_rfc_7748_holds() {
        let own = secret("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
        let point = secret("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
        let shared = exchange(&own, &RecipientPublic(*point.as_bytes())).expect("a strong point");
        let expected = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552";
        assert_eq!(hex(&shared[..]), expected);
    }

    #[test]
    fn a_point_of_small_order_is_refused() {
        let own = RecipientSecret::from_bytes([9; 32]);
        for weak in [[0; 32], core::array::from_fn(|i| u8::from(i == 0))] {
            let result = sending(&own, &RecipientPublic(weak), RepositoryId([0; 16]));
            assert!(matches!(result, Err(Error::Damaged { .. })));
        }
    }

    #[test]
    fn both_sides_agree_only_within_one_repository() {
        let (own, ephemeral) =
            (RecipientSecret::from_bytes([1; 32]), RecipientSecret::from_bytes([2; 32]));
        let sent = sending(&ephemeral, &own.public(), RepositoryId([5; 16])).expect("strong keys");
        let here =
            receiving(&own, &ephemeral.public(), RepositoryId([5; 16])).expect("strong keys");
        let elsewhere =
            receiving(&own, &ephemeral.public(), RepositoryId([6; 16])).expect("strong keys");
        assert_eq!(sent.0, here.0);
        assert_ne!(sent.0, elsewhere.0);
        assert_eq!(
            hex(&sent.0[..]),
            "d76919e4944bb1db2e1bf646332681d5dfe55dbddaff759299cd02e7a7dc8b97"
        );
    }
}
