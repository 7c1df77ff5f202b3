//! The secrets inside a slot. Both roles fill the same length, so that a slot's size tells nothing.
//!
//! Full: domain secret (32) ‖ recipient secret (32) ‖ signing seed (32) ‖ zeros (32).
//! Write-only: id seed (32) ‖ chunker key (32) ‖ recipient public key (32) ‖ signing seed (32).

use zeroize::{Zeroize, Zeroizing};

use super::Role;
use super::layout::Clear;
use crate::{
    ChunkerKey, DomainSecret, Error, IdKey, KeyMaterial, KeyRing, RecipientPublic, RecipientSecret,
    Signer, TAG_LEN, WriterKeys, error::damaged,
};

const PART_LEN: usize = 32;
/// Length of the secrets of either role in bytes.
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
    }
    out.extend_from_slice(seed);
    out.resize(PAYLOAD_LEN, 0);
    out
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
    };
    if ring.writer.signer.public() == clear.verify_key { Ok(ring) } else { Err(wrong) }
}

fn full(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> Result<KeyRing, Error> {
    let material = KeyMaterial {
        domain: DomainSecret::from_bytes(parts[0]),
        recipient: RecipientSecret::from_bytes(parts[1]),
        repository: clear.repository,
        privacy: clear.privacy,
    };
    if material.root_verify_key() != clear.root || parts[3] != [0; PART_LEN] {
        return Err(damaged("a slot's secrets"));
    }
    Ok(KeyRing::full(material, Signer::from_seed(parts[2])))
}

fn write_only(clear: &Clear, parts: &[[u8; PART_LEN]; 4]) -> KeyRing {
    let writer = WriterKeys {
        ids: IdKey::from_seed(parts[0]),
        chunker: ChunkerKey(parts[1]),
        recipient: RecipientPublic::from_bytes(parts[2]),
        signer: Signer::from_seed(parts[3]),
        repository: clear.repository,
        privacy: clear.privacy,
    };
    KeyRing { writer, reader: None }
}
