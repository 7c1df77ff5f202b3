//! Verification of receipts: signed with a key that the repository or the server names, and for
//! this snapshot, or for the one of which it is rewritten.

use crate::manifest::signed_message;
use crate::{Error, Result, UnlockedRepository};
use crypto::VerifyKey;
use format::entry::Time;
use format::receipt::{CLOCK_UNCERTAIN, Lock, RECEIPT_CONTEXT, Receipt, SIGNATURE_BYTES};
use store::{ReceiptKey, StoredSnapshot};

/// What is known of the receipt of a snapshot: when a server received it, and from which node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReceiptStatus {
    /// The snapshot has no receipt.
    #[default]
    Absent,
    /// A known server signed it for this snapshot.
    Valid {
        /// The node that sent it.
        node: String,
        /// When its session started and when it was received, by the server's clock; `None` when
        /// the server did not trust its clock.
        times: Option<(Time, Time)>,
        /// What it says of the policy that wanted the snapshot.
        labels: Labels,
    },
    /// The receipt is not from a known server, or not for this snapshot.
    Untrusted,
}

/// What a receipt says of the policy that wanted its snapshot; all empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// The policy.
    pub policy: String,
    /// The source by its name in the policy.
    pub source: String,
    /// The class in the policy.
    pub class: String,
    /// Until when nobody may delete the snapshot.
    pub lock: Option<Lock>,
}

/// Verifies receipts.
pub(crate) struct ReceiptVerifier<'a> {
    repository: &'a UnlockedRepository,
    keys: Vec<ReceiptKey>,
}

impl<'a> ReceiptVerifier<'a> {
    /// Those of `repository`. Where its list of keys is damaged none is known: then no receipt is
    /// believed.
    pub(crate) fn new(repository: &'a UnlockedRepository) -> Result<Self> {
        let keys = match repository.store.receipt_keys() {
            Err(store::Error::Damaged { .. }) => Vec::new(),
            keys => keys?,
        };
        Ok(Self { repository, keys })
    }

    /// What the receipt of `stored` says.
    pub(crate) fn of(&self, stored: &StoredSnapshot) -> ReceiptStatus {
        let Some(clear) = &stored.receipt else { return ReceiptStatus::Absent };
        let Some(receipt) =
            self.verified(clear).filter(|it| it.matches(stored.name.id, &stored.head))
        else {
            return ReceiptStatus::Untrusted;
        };
        let times = [receipt.begun_secs, receipt.received_secs];
        let [begun, received] = times.map(|secs| Time { secs, nanos: 0 });
        let is_doubtful = receipt.flags & CLOCK_UNCERTAIN != 0;
        let times = (!is_doubtful && begun <= received).then_some((begun, received));
        let Receipt { node, policy, source_name: source, class, lock, .. } = receipt;
        ReceiptStatus::Valid { node, times, labels: Labels { policy, source, class, lock } }
    }

    fn verified(&self, clear: &[u8]) -> Option<Receipt> {
        let (receipt, signature) = Receipt::decode(clear).ok()?;
        let (message, _) = clear.split_last_chunk::<SIGNATURE_BYTES>()?;
        let message = signed_message(self.repository, RECEIPT_CONTEXT, message);
        let key = self.keys.contains(&receipt.key).then(|| VerifyKey::from_bytes(receipt.key))?;
        key.verify(&message, &signature).ok().map(|()| receipt)
    }
}

impl ReceiptStatus {
    /// What a known server said of the policy that wanted the snapshot.
    pub fn labels(&self) -> Option<&Labels> {
        match self {
            Self::Valid { labels, .. } => Some(labels),
            Self::Absent | Self::Untrusted => None,
        }
    }

    /// Fails when a server received it from another node than `node`, which it names.
    pub(crate) fn check_node(&self, stored: &StoredSnapshot, node: &str) -> Result<()> {
        match self {
            Self::Valid { node: sender, .. } if sender != node => {
                let why = format!("the server received it from '{sender}', but it names '{node}'");
                Err(Error::Untrusted { id: stored.name.id, why })
            }
            _ => Ok(()),
        }
    }
}
