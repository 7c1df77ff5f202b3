//! The secrets inside a slot. All roles fill the same length, so that a slot's size tells nothing.
//!
//! Full: domain secret (32) ‖ recipient secret (32) ‖ signing seed (32) ‖ zeros (32).
//! Write-only: id seed (32) ‖ chunker key (32) ‖ recipient public key (32) ‖ signing seed (32).
//! Read-only: id seed (32) ‖ zeros (32) ‖ recipient secret (32) ‖ zeros (32).
//! Read-write: id seed (32) ‖ chunker key (32) ‖ recipient secret (32) ‖ signing seed (32).

use zeroize::{Zeroize, Zeroizing};

use super::Role;
use super::layout::Clear;
use crate::{
    ChunkerKey, DomainSecret, Error, IdKey, KeyMaterial, KeyRing, ReaderKeys, RecipientPublic,
    RecipientSecret, Signer, TAG_LEN, VerifyKey, WriterKeys, error::damaged,
};

const PART_LEN: usize = 32;
const NONE: [u8; PART_LEN] = [0; PART_LEN];
/// Length of the secrets of any role in bytes.
pub(super) const PAYLOAD_LEN: usize = 4 * PART_LEN;

/// The plaintext, in a buffer with room for the tag: a buffer that grew would leave a copy of the
/// secrets behind.
pub(super) fn encode(material: &KeyMaterial, role: Role, seed: &[u8; 32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAYLOAD_LEN + TAG_LEN);
    match role {
        Role::Full => {
            out.extend_from_slice(material.domain.as_bytes());
            out.extend_from_slice(material.recipient.as_bytes());
        }
        Role::WriteOnly => {
            out.extend_from_slice(material.domain.id_key().seed());
            out.extend_from_slice(&material.domain.chunker_key().0);
            out.extend_from_slice(material.recipient.public().as_bytes());
        }
        Role::Reader => {
            out.extend_from_slice(material.domain.id_key().seed());
            out.extend_from_slice(&NONE);
            out.extend_from_slice(material.recipient.as_bytes());
        }
        Role::ReadWrite => {
            out.extend_from_slice(material.domain.id_key().seed());
            out.extend_from_slice(&material.domain.chunker_key().0);
            out.extend_from_slice(material.recipient.as_bytes());
        }
    }
    if role.writes() {
        out.extend_from_slice(seed);
    }
    out.resize(PAYLOAD_LEN, 0);
    out
}

/// The key that checks what a slot's holder signs: zeros for who signs nothing.
pub(super) fn verify_key(role: Role, seed: &[u8; 32]) -> VerifyKey {
    match role.writes() {
        true => Signer::from_seed(*seed).public(),
        false => VerifyKey::from_bytes(NONE),
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
        Role::Reader if parts[1] != NONE || parts[3] != NONE => return Err(wrong),
        Role::Reader | Role::ReadWrite => reading(clear, &parts),
    };
    let verify_key =
        ring.writer.signer.as_ref().map_or(VerifyKey::from_bytes(NONE), Signer::public);
    if verify_key == clear.verify_key { Ok(ring) } else { Err(wrong) }
}

fn full(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> Result<KeyRing, Error> {
    let material = KeyMaterial {
        domain: DomainSecret::from_bytes(parts[0]),
        recipient: RecipientSecret::from_bytes(parts[1]),
        repository: clear.repository,
        privacy: clear.privacy,
    };
    if material.root_verify_key() != clear.root || parts[3] != NONE {
        return Err(damaged("a slot's secrets"));
    }
    Ok(KeyRing::full(material, Signer::from_seed(parts[2])))
}

fn write_only(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> KeyRing {
    let recipient = RecipientPublic::from_bytes(parts[2]);
    KeyRing { writer: writer(clear, parts, recipient), reader: None, certifier: None }
}

fn reading(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> KeyRing {
    let recipient = RecipientSecret::from_bytes(parts[2]);
    let writer = writer(clear, parts, recipient.public());
    let reader = ReaderKeys { recipient, repository: clear.repository };
    KeyRing { writer, reader: Some(reader), certifier: None }
}

fn writer(clear: &Clear, parts: &[[u8; PART_LEN]; 4], recipient: RecipientPublic) -> WriterKeys {
    WriterKeys {
        ids: IdKey::from_seed(parts[0]),
        chunker: ChunkerKey(parts[1]),
        recipient,
        signer: clear.role.writes().then(|| Signer::from_seed(parts[3])),
        repository: clear.repository,
        privacy: clear.privacy,
    }
}
