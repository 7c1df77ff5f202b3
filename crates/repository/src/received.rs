//! What is known of a snapshot without any key: its head, and what the receipt beside it says.
//!
//! The engine computes nothing secret and cannot verify a signature either: who opens the repository gives it a
//! [`Verifier`]. Without one no receipt is believed.

use crate::snapshots::SnapshotRef;
use crate::{Error, Repository, Result};
use format::manifest::Head;
use format::receipt::{CLOCK_UNCERTAIN, RECEIPT_CONTEXT, Receipt, SIGNATURE_BYTES};
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
        let (head, locked_until_secs) = (stored.head, None);
        Ok(ReceivedSnapshot { name, head, receipt, locked_until_secs })
    }

    /// The receipt of a snapshot, if a known key signed it. A damaged list of keys knows none.
    fn believed(&self, stored: &StoredSnapshot) -> Result<Option<Receipt>> {
        let Some(receipt) = self.signed_receipt(stored) else { return Ok(None) };
        let keys = match self.receipt_keys() {
            Err(Error::Damaged { .. }) => Vec::new(),
            keys => keys?,
        };
        Ok(keys.contains(&receipt.key).then_some(receipt))
    }

    /// The receipt of a snapshot, if the key that it names signed it for this snapshot of this repository.
    fn signed_receipt(&self, stored: &StoredSnapshot) -> Option<Receipt> {
        let clear = stored.receipt.as_deref()?;
        let (receipt, signature) = Receipt::decode(clear).ok()?;
        let (message, _) = clear.split_last_chunk::<SIGNATURE_BYTES>()?;
        let message = [RECEIPT_CONTEXT, &self.config.repository.0, message].concat();
        let is_signed = self.verifier.get()?(&receipt.key, &message, &signature);
        (is_signed && receipt.matches(stored.name.id, &stored.head)).then_some(receipt)
    }
}

impl From<Receipt> for BelievedReceipt {
    fn from(receipt: Receipt) -> Self {
        Self {
            node: receipt.node,
            begun_secs: receipt.begun_secs,
            received_secs: receipt.received_secs,
            is_doubtful: receipt.flags & CLOCK_UNCERTAIN != 0,
            ..Self::default()
        }
    }
}
