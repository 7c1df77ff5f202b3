//! What is known of a snapshot without any key: its head, and what the receipt beside it says.
//!
//! The engine computes nothing secret and cannot verify a signature either: who opens the repository gives it a
//! [`Verifier`]. Without one no receipt is believed.

use crate::snapshots::SnapshotRef;
use crate::{Repository, Result};
use format::expiry::{EXPIRY_CONTEXT, Expiry};
use format::manifest::Head;
use format::receipt::{CLOCK_UNCERTAIN, RECEIPT_CONTEXT, Receipt, SIGNATURE_BYTES};
use ids::SnapshotId;
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
        let keys = self.readable_keys()?;
        let signed = expiries.iter().filter_map(|clear| self.signed_expiry(clear));
        let believed = signed.filter(|expiry| keys.contains(&expiry.key));
        let times = |expiry: Expiry| {
            let secs = expiry.expired_secs;
            expiry.snapshots.into_iter().map(move |id| (id, secs))
        };
        Ok(believed.flat_map(times).collect())
    }

    fn signed_expiry(&self, clear: &[u8]) -> Option<Expiry> {
        let (expiry, signature) = Expiry::decode(clear).ok()?;
        let (message, _) = clear.split_last_chunk::<SIGNATURE_BYTES>()?;
        let message = [EXPIRY_CONTEXT, &self.config.repository.0, message].concat();
        let verifier = self.verifier.get()?;
        verifier(&expiry.key, &message, &signature).then_some(expiry)
    }

    /// The receipt beside a snapshot, if it is about this one, and whether the key that it names signed it for this
    /// repository; `None` where nobody can verify that.
    pub(crate) fn own_receipt(&self, stored: &StoredSnapshot) -> Option<(Receipt, Option<bool>)> {
        let clear = stored.receipt.as_deref()?;
        let (receipt, signature) = Receipt::decode(clear).ok()?;
        let (message, _) = clear.split_last_chunk::<SIGNATURE_BYTES>()?;
        let message = [RECEIPT_CONTEXT, &self.config.repository.0, message].concat();
        let verify = |verifier: &Verifier| verifier(&receipt.key, &message, &signature);
        let is_signed = self.verifier.get().map(verify);
        receipt.matches(stored.name.id, &stored.head).then_some((receipt, is_signed))
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
