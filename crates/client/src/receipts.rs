//! Receipts, as readers believe them: signed with a key that the repository or the server names, and
//! made for this very snapshot, or for the one that it was made anew of.

use crate::manifest::signed_message;
use crate::{Error, Result, UnlockedRepository};
use crypto::VerifyKey;
use format::entry::Time;
use format::receipt::{CLOCK_UNCERTAIN, RECEIPT_CONTEXT, Receipt, SIGNATURE_BYTES};
use repository::receipts::ReceiptKey;
use repository::snapshots::StoredSnapshot;

/// What is known of when a snapshot reached a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReceiptStatus {
    /// No server gave a receipt.
    #[default]
    Absent,
    /// Its word.
    Valid {
        /// The node that sent it.
        node: String,
        /// When its session began, and when it was received, by the server's clock; `None` when that
        /// clock was in doubt.
        times: Option<(Time, Time)>,
    },
    /// There is a receipt, and nobody known made it, or not for this snapshot.
    Untrusted,
}

/// Verifies receipts.
pub(crate) struct ReceiptVerifier<'a> {
    repository: &'a UnlockedRepository,
    keys: Vec<ReceiptKey>,
}

impl<'a> ReceiptVerifier<'a> {
    /// Those of `repository`. Where its list of keys is damaged none is known: then no receipt is believed.
    pub(crate) fn new(repository: &'a UnlockedRepository) -> Result<Self> {
        let keys = match repository.store.receipt_keys() {
            Err(repository::Error::Damaged { .. }) => Vec::new(),
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
        ReceiptStatus::Valid { node: receipt.node, times }
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
    /// Fails when a server received it from another node than `node`, which it names.
    pub(crate) fn check_node(&self, stored: &StoredSnapshot, node: &str) -> Result<()> {
        match self {
            Self::Valid { node: sender, .. } if sender != node => {
                let why = format!("the server received it from '{sender}', and it names '{node}'");
                Err(Error::Untrusted { id: stored.name.id, why })
            }
            _ => Ok(()),
        }
    }
}
