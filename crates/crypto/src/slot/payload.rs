//! The secrets inside a slot. All roles fill the same length, so that a slot's size tells nothing.
//!
//! Full: domain secret (32) ‖ zeros (32) ‖ signing seed (32) ‖ zeros (32).
//! Write-only: id seed (32) ‖ chunker key (32) ‖ recipient public key (32) ‖ signing seed (32).
//! Read-only: id seed (32) ‖ zeros (32) ‖ epoch secret (32) ‖ delivery seed (32).
//! Read-write: id seed (32) ‖ chunker key (32) ‖ epoch secret (32) ‖ signing seed (32).
//!
//! Recipient and secret are those of the key epoch in which the slot was made. A full key computes
//! them; a read-write key's delivery seed is its signing seed, used under a context of its own.

use std::sync::Arc;

use ids::KeyEpoch;
use zeroize::{Zeroize, Zeroizing};

use super::Role;
use super::layout::Clear;
use crate::delivery::{self, DeliveryKey};
use crate::epoch::{EpochSecret, EpochSecrets, LAST_KEY_EPOCH, Recipient};
use crate::{
    ChunkerKey, DomainSecret, Error, IdKey, KeyMaterial, KeyRing, ReaderKeys, RecipientPublic,
    Signer, TAG_LEN, VerifyKey, WriterKeys, error::damaged,
};

const PART_LEN: usize = 32;
const NONE: [u8; PART_LEN] = [0; PART_LEN];
/// Length of the secrets of any role in bytes.
pub(super) const PAYLOAD_LEN: usize = 4 * PART_LEN;

/// The plaintext, in a buffer with room for the tag: a buffer that grew would leave a copy of the
/// secrets behind.
pub(super) fn encode(
    material: &KeyMaterial,
    role: Role,
    epoch: KeyEpoch,
    seed: &[u8; 32],
) -> Result<Vec<u8>, Error> {
    let beyond = || Error::LaterEpoch { epoch, newest: LAST_KEY_EPOCH };
    let (domain, secret) = (&material.domain, material.epochs.secret(epoch).ok_or_else(beyond)?);
    let (id_seed, chunker, public) =
        (domain.id_key(), domain.chunker_key(), secret.recipient().public());
    let parts: [&[u8; PART_LEN]; 4] = match role {
        Role::Full => [domain.as_bytes(), &NONE, seed, &NONE],
        Role::WriteOnly => [id_seed.seed(), &chunker.0, public.as_bytes(), seed],
        Role::Reader => [id_seed.seed(), &NONE, secret.as_bytes(), seed],
        Role::ReadWrite => [id_seed.seed(), &chunker.0, secret.as_bytes(), seed],
    };
    let mut out = Vec::with_capacity(PAYLOAD_LEN + TAG_LEN);
    parts.iter().for_each(|part| out.extend_from_slice(&part[..]));
    Ok(out)
}

/// The key that verifies signatures of the slot's holder; zeros for a key that does not sign.
pub(super) fn verify_key(role: Role, seed: &[u8; 32]) -> VerifyKey {
    match role.writes() {
        true => Signer::from_seed(*seed).public(),
        false => VerifyKey::from_bytes(NONE),
    }
}

/// The key that later secrets are delivered to; zeros for a key that needs none.
pub(super) fn delivery_key(role: Role, seed: &[u8; 32]) -> DeliveryKey {
    match role.needs_deliveries() {
        true => delivery::public_of(seed),
        false => DeliveryKey::NONE,
    }
}

/// The keys in `plain`, which is wiped.
pub(super) fn decode(clear: &Clear, plain: &mut [u8]) -> Result<KeyRing, Error> {
    let wrong = damaged("a slot's secrets");
    let copy = <[u8; PAYLOAD_LEN]>::try_from(&*plain).map_err(|_| wrong.clone());
    plain.zeroize();
    let copy = Zeroizing::new(copy?);
    let mut parts = Zeroizing::new([[0; PART_LEN]; 4]);
    for (part, bytes) in parts.iter_mut().zip(copy.chunks_exact(PART_LEN)) {
        part.copy_from_slice(bytes);
    }
    let ring = match clear.role {
        Role::Full => full(clear, &parts)?,
        Role::WriteOnly => write_only(clear, &parts),
        Role::Reader if parts[1] != NONE => return Err(wrong),
        Role::Reader | Role::ReadWrite => reading(clear, &parts)?,
    };
    let verify_key =
        ring.writer.signer.as_ref().map_or(VerifyKey::from_bytes(NONE), Signer::public);
    let is_whole =
        verify_key == clear.verify_key && delivery_key(clear.role, &parts[3]) == clear.delivery;
    if is_whole { Ok(ring) } else { Err(wrong) }
}

fn full(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> Result<KeyRing, Error> {
    let domain = DomainSecret::from_bytes(parts[0]);
    let material = KeyMaterial::new(domain, clear.repository, clear.privacy);
    if material.root_verify_key() != clear.root || parts[1] != NONE || parts[3] != NONE {
        return Err(damaged("a slot's secrets"));
    }
    let recipient = material.epochs.recipient(clear.epoch).ok_or(damaged("a slot's key epoch"))?;
    Ok(KeyRing::full(material, Signer::from_seed(parts[2]), clear.id, recipient))
}

fn write_only(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> KeyRing {
    let public = RecipientPublic::from_bytes(parts[2]);
    let recipient = Recipient { epoch: clear.epoch, public };
    KeyRing { writer: writer(clear, parts, recipient), reader: None, certifier: None }
}

fn reading(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> Result<KeyRing, Error> {
    let epochs = EpochSecrets::up_to(clear.epoch, EpochSecret::from_bytes(parts[2]));
    let recipient = epochs.recipient(clear.epoch).ok_or(damaged("a slot's key epoch"))?;
    let reader = ReaderKeys {
        id: clear.id,
        epochs: Arc::new(epochs),
        delivery: Some(delivery::secret_of(&parts[3])),
        repository: clear.repository,
    };
    let writer = writer(clear, parts, recipient);
    Ok(KeyRing { writer, reader: Some(reader), certifier: None })
}

fn writer(clear: &Clear, parts: &[[u8; PART_LEN]; 4], recipient: Recipient) -> WriterKeys {
    WriterKeys {
        ids: IdKey::from_seed(parts[0]),
        chunker: ChunkerKey(parts[1]),
        recipient,
        signer: clear.role.writes().then(|| Signer::from_seed(parts[3])),
        repository: clear.repository,
        privacy: clear.privacy,
    }
}
