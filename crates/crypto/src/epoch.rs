//! Key epochs: a hash chain from the last epoch down to the first.
//!
//! ```text
//! domain secret ─► secret of epoch 16,383 ─► … ─► secret of e + 1 ─► secret of e ─► … ─► secret of 0
//!                                                                       │
//!                                                                       └─► recipient of e
//! ```
//! Each arrow is a hash. From the secret of an epoch follow those of all earlier epochs and of no later one. From the
//! domain secret follow all of them, so that none can be lost.

use std::sync::{Mutex, PoisonError};

use ids::KeyEpoch;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::context::{self, derive};
use crate::{RecipientPublic, RecipientSecret};

/// Epochs that a repository can have. A full key walks over all of them once: about 1 ms.
pub const KEY_EPOCHS_MAX: u32 = 1 << 14;
/// The last epoch.
pub const LAST_KEY_EPOCH: KeyEpoch = KeyEpoch(KEY_EPOCHS_MAX - 1);
/// Every so many epochs a secret is kept once it was computed: no session costs more steps.
const KEPT_EVERY: u32 = 128;

/// The recipient of the sessions of an epoch: its public key, which every writer holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// The epoch.
    pub epoch: KeyEpoch,
    /// Its public key.
    pub public: RecipientPublic,
}

/// The secret of one epoch: opens what was sealed in it and before.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct EpochSecret([u8; 32]);

impl EpochSecret {
    /// The secret with these bytes.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for a slot or a delivery.
    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// That of the last epoch there can be.
    pub(crate) fn last(domain: &[u8; 32]) -> Self {
        Self(*derive(context::LAST_EPOCH, &[domain]))
    }

    /// That of the epoch `steps` before.
    fn earlier(&self, steps: u32) -> Self {
        let mut secret = self.clone();
        // The same as `derive`, without hashing the context at each step.
        let mut hasher = blake3::Hasher::new_derive_key(context::EARLIER_EPOCH);
        for _ in 0..steps {
            secret.0 = *hasher.reset().update(&secret.0).finalize().as_bytes();
        }
        secret
    }

    /// Opens the sessions of this epoch.
    pub(crate) fn recipient(&self) -> RecipientSecret {
        RecipientSecret::from_bytes(*derive(context::RECIPIENT, &[&self.0]))
    }
}

/// The secrets of an epoch and of all before it. Used by many threads.
pub struct EpochSecrets {
    newest: KeyEpoch,
    /// Every [`KEPT_EVERY`]th from the newest one down, as far as somebody asked.
    kept: Mutex<Vec<EpochSecret>>,
}

impl EpochSecrets {
    /// Those up to `newest`, which has this secret.
    pub(crate) fn up_to(newest: KeyEpoch, secret: EpochSecret) -> Self {
        Self { newest, kept: Mutex::new(vec![secret]) }
    }

    /// The latest epoch that they open.
    pub fn latest_epoch(&self) -> KeyEpoch {
        self.newest
    }

    /// The secret of `epoch`; `None` for a later one.
    pub(crate) fn secret(&self, epoch: KeyEpoch) -> Option<EpochSecret> {
        let steps = self.newest.0.checked_sub(epoch.0)?;
        let wanted = (steps / KEPT_EVERY) as usize;
        // A panic elsewhere leaves the list whole: it only ever grows.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() <= wanted {
            let next = kept.last()?.earlier(KEPT_EVERY);
            kept.push(next);
        }
        Some(kept.get(wanted)?.earlier(steps % KEPT_EVERY))
    }

    /// What opens the sessions of `epoch`; `None` for a later one.
    pub(crate) fn recipient_secret(&self, epoch: KeyEpoch) -> Option<RecipientSecret> {
        self.secret(epoch).map(|secret| secret.recipient())
    }

    /// The recipient of sessions of `epoch`; `None` for a later one.
    pub(crate) fn recipient(&self, epoch: KeyEpoch) -> Option<Recipient> {
        let public = self.recipient_secret(epoch)?.public();
        Some(Recipient { epoch, public })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    fn all() -> EpochSecrets {
        EpochSecrets::up_to(LAST_KEY_EPOCH, EpochSecret::last(&[7; 32]))
    }

    #[test]
    fn secrets_of_a_fixed_domain_are_fixed() {
        let secret = |epoch| hex(all().secret(KeyEpoch(epoch)).expect("known").as_bytes());
        assert_eq!(
            secret(LAST_KEY_EPOCH.0),
            "3a5af85f3ad8a1188192cc8b4f45f86a45c766e3d0d7d157bb4972d63b543f95"
        );
        assert_eq!(secret(1), "b426131fd639b498b0e7b06c73aa8cb1ad6ff9bd54cb4c40b9d56ec8d253cefa");
        assert_eq!(secret(0), "aafcd06f9b9bc489770c28ad60f8db819191200f0b8dbec4f6ae013b88dbc435");
        let public = all().recipient(KeyEpoch(0)).expect("known").public;
        assert_eq!(
            hex(public.as_bytes()),
            "34f2d6b0d6b6b0d1a6abae61173ea1bc63c3673e53300ae109ee38126e732701"
        );
    }

    #[test]
    fn who_has_the_secret_of_an_epoch_has_those_before_and_none_after() {
        let all = all();
        for newest in [0, 1, 127, 128, 129, 5000] {
            let own = all.secret(KeyEpoch(newest)).expect("known");
            let some = EpochSecrets::up_to(KeyEpoch(newest), own);
            for epoch in [0, 1, 126, 127, 128, 129, 255, 256, 4999, 5000, 5001, 16_383] {
                let epoch = KeyEpoch(epoch);
                let expected = (epoch.0 <= newest).then(|| all.secret(epoch)).flatten();
                let found = some.secret(epoch);
                assert_eq!(
                    found.as_ref().map(EpochSecret::as_bytes),
                    expected.as_ref().map(EpochSecret::as_bytes),
                    "{epoch} up to {newest}"
                );
            }
        }
        assert!(all.secret(KeyEpoch(KEY_EPOCHS_MAX)).is_none());
    }

    #[test]
    fn neighboring_secrets_and_recipients_differ() {
        let (all, mut seen) = (all(), std::collections::BTreeSet::new());
        for epoch in (0..300).map(KeyEpoch) {
            let secret = all.secret(epoch).expect("known");
            assert!(seen.insert(*secret.as_bytes()));
            assert!(seen.insert(*secret.recipient().as_bytes()));
        }
    }
}
