//! What is known of a snapshot without any key: its head, and what the receipt beside it says.
//!
//! The engine computes nothing secret and cannot verify a signature either: who opens the repository gives it a
//! [`Verifier`]. Without one no receipt is believed.

use crate::locks::Held;
use crate::snapshots::SnapshotRef;
use crate::{Repository, Result};
use format::expiry::{EXPIRY_CONTEXT, Expiry};
use format::manifest::Head;
use format::receipt::{CLOCK_UNCERTAIN, RECEIPT_CONTEXT, Receipt, SIGNATURE_BYTES};
use ids::{RepositoryId, SnapshotId};
use rustc_hash::FxHashMap;
use store::{ReceiptKey, StoredSnapshot};

/// Whether this key made this signature over this message (Ed25519).
pub type Verifier = fn(&ReceiptKey, &[u8], &[u8; SIGNATURE_BYTES]) -> bool;

/// A snapshot, as a server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSnapshot {
    /// Its name.
    pub name: SnapshotRef,
    /// Its head; the signature of its node is not verified here.
    pub head: Head,
    /// What its receipt says, if one of the repository's receipt keys signed it for this snapshot.
    pub receipt: Option<BelievedReceipt>,
    /// Until when nobody can delete it through the program, in seconds since 1970; `None` for no lock. The lock may
    /// have ended.
    pub locked_until_secs: Option<i64>,
}

/// What a known server says of a snapshot that it received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BelievedReceipt {
    /// The node that sent it.
    pub node: String,
    /// The policy that wanted it; empty for none, as are source and class.
    pub policy: String,
    /// Its source by the name in the policy.
    pub source: String,
    /// Its class in the policy.
    pub class: String,
    /// When its session began, by the clock of the server, in seconds since 1970.
    pub begun_secs: i64,
    /// When the server received it, by the same clock.
    pub received_secs: i64,
    /// Whether the server did not trust that clock then.
    pub is_doubtful: bool,
}

impl Repository {
    /// Lets `verifier` say which receipts are signed. The first one stays.
    pub fn verify_with(&self, verifier: Verifier) {
        let _ = self.verifier.set(verifier);
    }

    /// What is known of the snapshot `name` without any key.
    ///
    /// # Errors
    /// Those of [`Repository::snapshot`].
    pub fn received(&self, name: SnapshotRef) -> Result<ReceivedSnapshot> {
        let stored = self.snapshot(name)?;
        let receipt = self.believed(&stored)?.map(BelievedReceipt::from);
        let (head, locked_until_secs) = (stored.head, self.held(&stored).until_secs());
        Ok(ReceivedSnapshot { name, head, receipt, locked_until_secs })
    }

    /// The receipt of a snapshot, if a known key signed it.
    fn believed(&self, stored: &StoredSnapshot) -> Result<Option<Receipt>> {
        let Some((receipt, Some(true))) = self.own_receipt(stored) else { return Ok(None) };
        Ok(self.readable_keys()?.contains(&receipt.key).then_some(receipt))
    }

    /// The snapshots that a known server let expire, as these clear parts of expiries say, with the time of each, in
    /// seconds since 1970.
    ///
    /// # Errors
    /// When the list of receipt keys cannot be read.
    pub fn expired(&self, expiries: &[Vec<u8>]) -> Result<FxHashMap<SnapshotId, i64>> {
        let (repository, keys) = (self.config.repository, self.readable_keys()?);
        let Some(verifier) = self.verifier.get().copied() else { return Ok(FxHashMap::default()) };
        Ok(RepositoryElsewhere { repository, keys, verifier }.expired(expiries))
    }

    /// The receipt beside a snapshot, if it is about this one, and whether the key that it names signed it for this
    /// repository; `None` where nobody can verify that.
    pub(crate) fn own_receipt(&self, stored: &StoredSnapshot) -> Option<SignedReceipt> {
        own_receipt(self.config.repository, self.verifier.get().copied(), stored)
    }
}

/// A receipt, and whether the key that it names signed it; `None` where nobody can verify that.
pub(crate) type SignedReceipt = (Receipt, Option<bool>);

fn own_receipt(
    repository: RepositoryId,
    verifier: Option<Verifier>,
    stored: &StoredSnapshot,
) -> Option<SignedReceipt> {
    let clear = stored.receipt.as_deref()?;
    let (receipt, signature) = Receipt::decode(clear).ok()?;
    let (message, _) = clear.split_last_chunk::<SIGNATURE_BYTES>()?;
    let message = [RECEIPT_CONTEXT, &repository.0, message].concat();
    let is_signed = verifier.map(|verifier| verifier(&receipt.key, &message, &signature));
    receipt.matches(stored.name.id, &stored.head).then_some((receipt, is_signed))
}

/// A repository elsewhere: what is read of its snapshots is verified here.
#[derive(Clone, Debug)]
pub struct RepositoryElsewhere {
    /// Its id, which signatures name.
    pub repository: RepositoryId,
    /// The keys for receipts that it names.
    pub keys: Vec<ReceiptKey>,
    /// Verifies signatures.
    pub verifier: Verifier,
}

impl RepositoryElsewhere {
    /// As [`Repository::expired`].
    pub fn expired(&self, expiries: &[Vec<u8>]) -> FxHashMap<SnapshotId, i64> {
        let signed = expiries.iter().filter_map(|clear| self.signed_expiry(clear));
        let believed = signed.filter(|expiry| self.keys.contains(&expiry.key));
        let times = |expiry: Expiry| {
            let secs = expiry.expired_secs;
            expiry.snapshots.into_iter().map(move |id| (id, secs))
        };
        believed.flat_map(times).collect()
    }

    fn signed_expiry(&self, clear: &[u8]) -> Option<Expiry> {
        let (expiry, signature) = Expiry::decode(clear).ok()?;
        let (message, _) = clear.split_last_chunk::<SIGNATURE_BYTES>()?;
        let message = [EXPIRY_CONTEXT, &self.repository.0, message].concat();
        (self.verifier)(&expiry.key, &message, &signature).then_some(expiry)
    }

    /// What is known of a snapshot without any key: as [`Repository::received`] says it where it lies.
    pub fn received(&self, stored: &StoredSnapshot) -> ReceivedSnapshot {
        let own = || own_receipt(self.repository, Some(self.verifier), stored);
        let is_known = |one: &SignedReceipt| one.1 == Some(true) && self.keys.contains(&one.0.key);
        let receipt = own().filter(is_known).map(|(receipt, _)| receipt.into());
        let locked_until_secs = Held::of(stored, own).until_secs();
        let (name, head) = (stored.name, stored.head);
        ReceivedSnapshot { name, head, receipt, locked_until_secs }
    }
}

impl From<Receipt> for BelievedReceipt {
    fn from(receipt: Receipt) -> Self {
        Self {
            node: receipt.node,
            policy: receipt.policy,
            source: receipt.source_name,
            class: receipt.class,
            begun_secs: receipt.begun_secs,
            received_secs: receipt.received_secs,
            is_doubtful: receipt.flags & CLOCK_UNCERTAIN != 0,
        }
    }
}
