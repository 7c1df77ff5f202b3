//! The key list: nothing about it is believed before the root key has signed it, and what is signed is
//! decoded without a panic, to a value that has one spelling.

use crypto::key_list::{epoch_of, version_of};
use crypto::{
    KdfParams, KeyList, KeyMaterial, NewSlot, Role, SignedKeyList, SlotSecret, create_slot,
    open_slot, slot_info,
};
use std::sync::OnceLock;

const SECRET: SlotSecret<'static> = SlotSecret::Recovery([7; 32]);

struct House {
    material: KeyMaterial,
    /// A list with a removed key and a delivery.
    good: Vec<u8>,
    /// The slot that the delivery is for.
    slot: Vec<u8>,
}

fn house() -> &'static House {
    static HOUSE: OnceLock<House> = OnceLock::new();
    HOUSE.get_or_init(|| {
        let mut next = 0u8;
        let mut random = |bytes: &mut [u8]| {
            bytes.iter_mut().for_each(|byte| {
                next = next.wrapping_mul(5).wrapping_add(3);
                *byte = next;
            });
        };
        let material = KeyMaterial::generate(&mut random);
        let mut slots = Vec::new();
        for role in [Role::Full, Role::Reader, Role::ReadWrite] {
            let new = NewSlot::new(role, "fuzz", 0, ids::KeyEpoch(0));
            let slot = create_slot(&material, &new, SECRET, KdfParams::default(), &mut random);
            let slot = slot.expect("a slot");
            slots.push((slot_info(&slot).expect("a slot").id, slot));
        }
        let entries = slots.iter().map(|(_, slot)| slot_info(slot).expect("a slot").entry());
        let list = KeyList::new(material.repository).with_entries(entries, 1).expect("fits");
        let list = list.without_keys(&[slots[2].0], 7, 2);
        let good = list.sign(&material, &slots, &mut random).expect("signed");
        House { material, good, slot: slots.swap_remove(1).1 }
    })
}

/// The list with its checksum made good: what it guards against is chance, not an attacker.
fn summed(list: &[u8]) -> Vec<u8> {
    let mut list = list.to_vec();
    if let Some(start) = list.len().checked_sub(16) {
        let sum = blake3::hash(&list[..start]);
        list[start..].copy_from_slice(&sum.as_bytes()[..16]);
    }
    list
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let house = house();
    let (root, repository) = (house.material.root_verify_key(), house.material.repository);
    let mut changed = house.good.clone();
    changed.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    for list in [bytes.to_vec(), summed(bytes), summed(&changed), changed] {
        // Who has no key decodes what nobody has signed.
        assert_eq!(version_of(&list).is_ok(), epoch_of(&list).is_ok());
        let verified = SignedKeyList::verify(&list, &root, repository);
        assert_eq!(verified.is_ok(), list == house.good, "only what was made is believed");
    }
    let list = SignedKeyList::verify(&house.good, &root, repository).expect("its own");
    let reader = open_slot(&house.slot, SECRET).expect("its own").1.reader.expect("reads");
    assert!(reader.with_delivery(&list).expect("sound").is_some());
}
