//! Key slots: nothing about them is believed before it is checked.

use crypto::{
    KdfParams, KeyMaterial, NewSlot, Role, SlotSecret, create_slot, open_slot, slot_info,
    verify_slot_certificate,
};
use std::sync::OnceLock;

const SECRET: SlotSecret<'static> = SlotSecret::Recovery([7; 32]);

fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let mut next = 0u8;
        let mut random = |bytes: &mut [u8]| {
            bytes.iter_mut().for_each(|byte| {
                next = next.wrapping_mul(5).wrapping_add(3);
                *byte = next;
            });
        };
        let material = KeyMaterial::generate(&mut random);
        create_slot(
            &material,
            &NewSlot::new(Role::Full, "fuzz", 0, ids::KeyEpoch(0)),
            SECRET,
            KdfParams::default(),
            &mut random,
        )
        .expect("a slot")
    })
}

/// The slot with its checksum made good: what it guards against is chance, not an attacker.
fn summed(slot: &[u8]) -> Vec<u8> {
    let mut slot = slot.to_vec();
    if let Some(start) = slot.len().checked_sub(16) {
        let sum = blake3::derive_key(crypto::context::SLOT_CHECKSUM, &slot[..start]);
        slot[start..].copy_from_slice(&sum[..16]);
    }
    slot
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let good = good();
    let root = slot_info(good).expect("good").root;
    // The input as it is, and as changes to a good slot; each also with a good checksum.
    let mut changed = good.to_vec();
    changed.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    for slot in [bytes.to_vec(), summed(bytes), summed(&changed), changed] {
        let certified = verify_slot_certificate(&slot, &root);
        assert!(certified.is_err() || slot_info(&slot).is_ok());
        assert!(open_slot(&slot, SlotSecret::Password(b"p")).is_err());
        assert_eq!(open_slot(&slot, SECRET).is_ok(), slot == good, "only what was made opens");
    }
}
