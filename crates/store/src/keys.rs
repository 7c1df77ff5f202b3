//! Keys as a repository stores them. Whoever stores them neither opens nor signs them.

use ids::KeyId;

/// The public key with which a server signs receipts.
pub type ReceiptKey = [u8; 32];

/// The keys of a new repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Its first slots.
    pub slots: Vec<(KeyId, Vec<u8>)>,
    /// Its key list; empty for none, and then nobody can sign.
    pub key_list: Vec<u8>,
}
