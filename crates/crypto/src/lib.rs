//! Keys, ids and sealing. Pure: randomness comes in as bytes.
//!
//! Read in this order: [`domain`] (the secrets a repository starts from), [`ring`] (what a writer
//! and a reader hold), [`object_id`] (names of chunks and pages), [`session`] (sealing of records),
//! [`epoch`] and [`delivery`] (who can read what is stored after a key was removed), [`slot`] (how a
//! password opens all this), [`key_list`] (whose keys count). Why each choice was made, what is promised to whom and
//! every byte layout: `docs/CRYPTO.md`.
//!
//! Nothing here reads a file, a clock or a random source: the caller passes random bytes in, so
//! that every output can be fixed in a test.

pub mod context;
pub mod delivery;
pub mod domain;
pub mod epoch;
mod error;
pub mod key_list;
pub mod nonce;
pub mod object_id;
pub mod padding;
pub mod recipient;
pub mod recovery;
pub mod ring;
pub mod session;
pub mod sign;
pub mod slot;
#[cfg(test)]
mod testing;

pub use domain::{DomainSecret, KeyMaterial, Privacy, server_slot_secret};
pub use epoch::{EpochSecrets, KEY_EPOCHS_MAX, LAST_KEY_EPOCH, Recipient};
pub use error::Error;
pub use key_list::{KeyEntry, KeyList, SignedKeyList};
pub use nonce::{Nonce, NonceCounter};
pub use object_id::IdKey;
pub use recipient::{RecipientPublic, RecipientSecret};
pub use recovery::{recovery_from_text, recovery_to_text};
pub use ring::{ChunkerKey, KeyRing, ReaderKeys, WriterKeys};
pub use session::{Cipher, SealedSession, SessionKey, TAG_LEN};
pub use sign::{RootVerifyKey, SIGNATURE_LEN, Signer, VerifyKey, is_signed};
pub use slot::{
    KdfParams, NewSlot, Role, SlotInfo, SlotSecret, create_slot, open_slot, slot_info,
    verify_slot_certificate,
};

/// A source of random bytes that the caller lends: it fills the whole slice.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);
