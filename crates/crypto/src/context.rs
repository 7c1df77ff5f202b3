//! Context strings: one for each use of a key, so that no key ever serves two purposes.
//!
//! A changed string is a changed format. `docs/CRYPTO.md` lists all of them; a test compares.

use zeroize::Zeroizing;

/// Domain secret → seed of the id keys (what a write-only key holds).
pub const OBJECT_ID: &str = "icecore 2026 object id v1";
/// Id seed → key of chunk ids.
pub const CHUNK_ID: &str = "icecore 2026 chunk id v1";
/// Id seed → key of page ids.
pub const PAGE_ID: &str = "icecore 2026 page id v1";
/// Id seed ‖ number of a backup → mask of its ids, in a domain without deduplication.
pub const BACKUP_MASK: &str = "icecore 2026 backup mask v1";
/// Master key of a server ‖ repository id ‖ name of the domain → what opens the server's own slot.
pub const SERVER_SLOT: &str = "icecore 2026 server slot v1";
/// Domain secret → seed of the chunker.
pub const CHUNKER: &str = "icecore 2026 chunker v1";
/// Domain secret → seed of the root signing key.
pub const ROOT_SIGNING: &str = "icecore 2026 root signing v1";
/// Domain secret → secret of the last key epoch that there can be.
pub const LAST_EPOCH: &str = "icecore 2026 last key epoch v1";
/// Secret of a key epoch → secret of the epoch before.
pub const EARLIER_EPOCH: &str = "icecore 2026 earlier key epoch v1";
/// Secret of a key epoch → X25519 secret of its recipient.
pub const RECIPIENT: &str = "icecore 2026 recipient v1";
/// Seed of a key that reads → X25519 secret that its deliveries are sealed to.
pub const DELIVERY_KEY: &str = "icecore 2026 delivery key v1";
/// Shared secret ‖ ephemeral ‖ delivery key ‖ repository ‖ epoch ‖ key id → key that seals a delivery.
pub const DELIVERY: &str = "icecore 2026 delivery v1";
/// Session randomness ‖ session id ‖ cipher → AEAD key of the session's records.
pub const SESSION_KEY: &str = "icecore 2026 session key v1";
/// Shared secret ‖ ephemeral ‖ recipient ‖ repository → key that seals a session.
pub const SESSION_SEALING: &str = "icecore 2026 session sealing v1";
/// Recovery key ‖ salt → key-encryption key of a recovery slot.
pub const RECOVERY_KEK: &str = "icecore 2026 recovery kek v1";
/// Key-encryption key → AEAD key of a slot.
pub const SLOT_SEALING: &str = "icecore 2026 slot sealing v1";
/// Key-encryption key → commitment tag of a slot.
pub const SLOT_COMMITMENT: &str = "icecore 2026 slot commitment v1";
/// Prefix of what the root key signs in a slot.
pub const SLOT_CERTIFICATE: &str = "icecore 2026 slot certificate v1";
/// Prefix of what the root key signs in a key list.
pub const KEY_LIST: &str = "icecore 2026 key list v1";
/// Prefix of what the root key signs in a repository's settings.
pub const CONFIG: &str = "icecore 2026 config v2";
/// Slot bytes → checksum (unkeyed: finds damage, not forgery).
pub const SLOT_CHECKSUM: &str = "icecore 2026 slot checksum v1";
/// Recovery key → the check digits it is printed with.
pub const RECOVERY_CHECKSUM: &str = "icecore 2026 recovery checksum v1";

/// All context strings, for the test against the document.
pub const ALL: [&str; 22] = [
    OBJECT_ID,
    CHUNK_ID,
    PAGE_ID,
    BACKUP_MASK,
    SERVER_SLOT,
    CHUNKER,
    ROOT_SIGNING,
    LAST_EPOCH,
    EARLIER_EPOCH,
    RECIPIENT,
    DELIVERY_KEY,
    DELIVERY,
    SESSION_KEY,
    SESSION_SEALING,
    RECOVERY_KEK,
    SLOT_SEALING,
    SLOT_COMMITMENT,
    SLOT_CERTIFICATE,
    KEY_LIST,
    CONFIG,
    SLOT_CHECKSUM,
    RECOVERY_CHECKSUM,
];

/// A key for `context` from the joined `parts`. Every caller passes parts of fixed lengths, so
/// that two different lists never join to the same bytes.
pub(crate) fn derive(context: &str, parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(part);
    }
    Zeroizing::new(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_context_string_stands_in_the_document() {
        let document = include_str!("../../../docs/CRYPTO.md");
        for context in ALL {
            assert!(document.contains(&format!("`{context}`")), "{context} is undocumented");
        }
    }

    #[test]
    fn the_list_holds_every_constant_of_this_file() {
        let code = include_str!("context.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let found = code.matches("= \"icecore 2026 ").count();
        assert_eq!(found, ALL.len());
    }

    #[test]
    fn no_two_uses_share_a_context() {
        let distinct: std::collections::BTreeSet<_> = ALL.iter().collect();
        assert_eq!(distinct.len(), ALL.len());
    }
}
