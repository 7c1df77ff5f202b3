//! What the targets have in common.

pub mod memory;

use ids::ObjectId;

/// A page as the golden files hold it: its head, its references, its payload.
pub fn page(bytes: &[u8]) -> Option<(Vec<ObjectId>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(29)?;
    let count = u32::from_le_bytes(*head.last_chunk()?) as usize;
    let (refs, payload) = rest.split_at_checked(count.checked_mul(ObjectId::LEN)?)?;
    let refs = refs.chunks_exact(ObjectId::LEN).filter_map(ObjectId::from_slice);
    Some((refs.collect(), payload))
}

/// `body` with its checksum made good behind it: what that guards against is chance, not an
/// attacker.
pub fn summed(body: &[u8]) -> Vec<u8> {
    [body, &format::wire::checksum(&[body])].concat()
}
