//! The keys whose signatures count. Every head of a manifest is checked here.

use crate::manifest::{MANIFEST_CONTEXT, signed_message};
use crate::{Error, Result, UnlockedRepository};
use crypto::VerifyKey;
use format::manifest::{self, Head};
use ids::KeyId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// A key that signs snapshots, or did until it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Verifies its signatures.
    pub verify_key: VerifyKey,
    /// The label of its slot.
    pub label: String,
    /// Whether it may sign only for the node that the label names.
    pub is_bound: bool,
    /// The highest snapshot number that it may have signed; `None` while it is in use.
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
    /// The key `id`, if it is in the key list; `None` for an unknown key, whose signatures do not
    /// count.
    ///
    /// # Errors
    /// Those of the key list.
    pub fn signer(&self, id: KeyId) -> Result<Option<Signer>> {
        let signer = |known: crypto::KeyEntry| Signer {
            verify_key: known.verify_key,
            label: known.label,
            is_bound: known.bound,
            valid_up_to: known.valid_up_to,
        };
        Ok(self.known_signer(id)?.map(signer))
    }

    /// Nobody trusts what a key signs for another node than that which it is bound to. Who asks for a backup asks this
    /// first; readers look for themselves.
    ///
    /// # Errors
    /// [`Error::BoundKey`].
    pub fn refuse_other_node(&self, node: &str) -> Result<()> {
        if !self.slot.bound || self.slot.label == node {
            return Ok(());
        }
        Err(Error::BoundKey { bound: self.slot.label.clone(), node: node.to_owned() })
    }
}

/// A head and its signer, or why the signature does not count.
pub(crate) type VerifiedHead = std::result::Result<(Head, Signer), String>;

/// Signers that were looked up, each once and by its id: a stale key list would make the signatures
/// of a new key look forged.
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

    /// The head in `clear` and its signer, or why its signature does not count.
    pub(crate) fn verify_head(&self, clear: &[u8]) -> Result<VerifiedHead> {
        let Ok((head, signature)) = Head::decode(clear) else {
            return Ok(Err("its head is invalid".into()));
        };
        let Some(signer) = self.find(head.writer)? else {
            let why = format!("no key of this repository signed it (key {})", head.writer);
            return Ok(Err(why));
        };
        let message = signed_message(self.repository, MANIFEST_CONTEXT, manifest::unsigned(clear));
        if signer.verify_key.verify(&message, &signature).is_err() {
            return Ok(Err(format!("its signature is not that of key {}", head.writer)));
        }
        if !signer.may_sign_number(head.sequence) {
            return Ok(Err(format!(
                "key {} was removed before the snapshot was created",
                head.writer
            )));
        }
        Ok(Ok((head, signer)))
    }
}
