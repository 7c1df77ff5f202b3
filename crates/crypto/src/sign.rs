//! Ed25519 signatures: a writer signs manifests, the domain's root signs slots.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroize;

use crate::{Error, context};

/// Length of a signature in bytes.
pub const SIGNATURE_LEN: usize = 64;

/// A signing key. The library wipes it when it is dropped.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// The key whose RFC 8032 private key is `seed`.
    pub fn from_seed(mut seed: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
        seed.zeroize();
        // Every 32 bytes are a valid seed; failing here is a bug or no memory, not input.
        Self(pair.expect("32 bytes are an Ed25519 seed"))
    }

    /// The key that checks what this one signs.
    pub fn public(&self) -> VerifyKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        VerifyKey(bytes)
    }

    /// The signature over `message`: the same bytes every time.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut bytes = [0; SIGNATURE_LEN];
        bytes.copy_from_slice(self.0.sign(message).as_ref());
        bytes
    }
}

/// Checks signatures; public.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VerifyKey([u8; 32]);

impl VerifyKey {
    /// A key as read from a file. Bytes that are not a key make every `verify` fail.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// `Ok` when `signature` was made over `message`; else [`Error::BadSignature`].
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), Error> {
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(message, signature)
            .map_err(|_| Error::BadSignature)
    }
}

/// Whether the key in `key` made `signature` over `message`: for code that has no other use of keys.
pub fn is_signed(key: &[u8; 32], message: &[u8], signature: &[u8; SIGNATURE_LEN]) -> bool {
    VerifyKey(*key).verify(message, signature).is_ok()
}

/// Verifies the certificates in key slots; stored in the repository's settings. It has its own type, so that the key
/// of a writer is never used as the root of trust.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RootVerifyKey(pub VerifyKey);

impl RootVerifyKey {
    /// A key as read from the repository's settings.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(VerifyKey(bytes))
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// `Ok` when the root key signed these settings of a repository; else [`Error::BadSignature`].
    pub fn verify_config(&self, settings: &[u8], signature: &[u8]) -> Result<(), Error> {
        self.0.verify(&[context::CONFIG.as_bytes(), settings].concat(), signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, unhex};

    #[test]
    fn the_first_test_of_rfc_8032_holds() {
        let seed = unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let signer = Signer::from_seed(seed.try_into().expect("32 bytes"));
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(hex(signer.public().as_bytes()), public);
        let signature = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555f\
                         b8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
        assert_eq!(hex(&signer.sign(b"")), signature);
    }

    #[test]
    fn a_changed_message_or_signature_or_key_is_refused() {
        let signer = Signer::from_seed([1; 32]);
        let mut signature = signer.sign(b"manifest");
        assert_eq!(signer.public().verify(b"manifest", &signature), Ok(()));
        assert_eq!(signer.public().verify(b"manifes!", &signature), Err(Error::BadSignature));
        let other = Signer::from_seed([2; 32]).public();
        assert_eq!(other.verify(b"manifest", &signature), Err(Error::BadSignature));
        signature[40] ^= 1;
        assert_eq!(signer.public().verify(b"manifest", &signature), Err(Error::BadSignature));
    }

    #[test]
    fn signatures_of_any_length_are_refused_without_panic() {
        let public = Signer::from_seed([1; 32]).public();
        for len in 0..130 {
            assert_eq!(public.verify(b"m", &vec![0; len]), Err(Error::BadSignature));
        }
    }
}
