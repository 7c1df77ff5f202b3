//! Who may sign: the keys that the repository vouches for. All heads of manifests are checked here.

use crate::manifest::{MANIFEST_CONTEXT, signed_message};
use crate::{Result, UnlockedRepository};
use crypto::VerifyKey;
use format::manifest::{self, Head};
use ids::KeyId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// A key that signs, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Verifies what it signed.
    pub verify_key: VerifyKey,
    /// Label of its slot.
    pub label: String,
    /// Whether the label is the only node for which it may sign.
    pub is_bound: bool,
    /// The last number of a snapshot that it may have signed; `None` while it is in use.
    pub valid_up_to: Option<u64>,
}

impl Signer {
    /// Whether it may sign the snapshot `number`.
    fn may_sign_number(&self, number: u64) -> bool {
        self.valid_up_to.is_none_or(|last| number <= last)
    }

    /// Whether it may sign for the node `name`.
    pub(crate) fn may_sign_for(&self, name: &str) -> bool {
        !self.is_bound || self.label == name
    }
}

impl UnlockedRepository {
    /// The key `id`, as far as the repository vouches for it; `None` is a stranger.
    pub fn signer(&self, id: KeyId) -> Result<Option<Signer>> {
        let signer = |known: crypto::KeyEntry| Signer {
            verify_key: known.verify_key,
            label: known.label,
            is_bound: known.bound,
            valid_up_to: known.valid_up_to,
        };
        Ok(self.known_signer(id)?.map(signer))
    }
}

/// A head and who signed it, or why nobody did.
pub(crate) type VerifiedHead = std::result::Result<(Head, Signer), String>;

/// Signers that were looked for. Each is looked for under its name and once: a list of them may be
/// of the past, and what a new key signed would look forged.
pub(crate) struct SignerCache<'a> {
    pub(crate) repository: &'a UnlockedRepository,
    known: Mutex<FxHashMap<KeyId, Option<Signer>>>,
}

impl<'a> SignerCache<'a> {
    /// Those of `repository`.
    pub(crate) fn new(repository: &'a UnlockedRepository) -> Self {
        Self { repository, known: Mutex::default() }
    }

    /// The key `id`.
    pub(crate) fn find(&self, id: KeyId) -> Result<Option<Signer>> {
        if let Some(known) = self.known.lock().get(&id) {
            return Ok(known.clone());
        }
        let signer = self.repository.signer(id)?;
        self.known.lock().insert(id, signer.clone());
        Ok(signer)
    }

    /// The head in `clear` and who signed it, or why nobody did.
    pub(crate) fn verify_head(&self, clear: &[u8]) -> Result<VerifiedHead> {
        let Ok((head, signature)) = Head::decode(clear) else {
            return Ok(Err("its head makes no sense".into()));
        };
        let Some(signer) = self.find(head.writer)? else {
            let why = format!("no key of this repository has signed it (key {})", head.writer);
            return Ok(Err(why));
        };
        let message = signed_message(self.repository, MANIFEST_CONTEXT, manifest::unsigned(clear));
        if signer.verify_key.verify(&message, &signature).is_err() {
            return Ok(Err(format!("its signature is not that of key {}", head.writer)));
        }
        if !signer.may_sign_number(head.sequence) {
            return Ok(Err(format!("key {} was removed before it was made", head.writer)));
        }
        Ok(Ok((head, signer)))
    }
}
