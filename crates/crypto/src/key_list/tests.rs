//! Tests of the key list: what is signed is read back, and nothing else is believed; a key epoch begins
//! when a key that reads is removed, and who stays follows.

use super::layout::{CHECKSUM_LEN, ENTRY_LEN, HEAD_LEN, TAIL_LEN, checksum};
use super::*;
use crate::delivery::DELIVERY_LEN;
use crate::testing::{CHEAP, counting_random, hex, material};
use crate::{
    Cipher, KeyRing, NewSlot, SessionKey, Signer, SlotSecret, create_slot, open_slot, slot_info,
};

fn signer(number: u8) -> KeyEntry {
    KeyEntry {
        id: KeyId([number; 8]),
        verify_key: Signer::from_seed([number; 32]).public(),
        role: Role::ReadWrite,
        bound: number.is_multiple_of(2),
        label: format!("node-{number}"),
        epoch: KeyEpoch(0),
        valid_up_to: None,
    }
}

fn list() -> KeyList {
    let all = [signer(9), signer(2), KeyEntry { role: Role::WriteOnly, ..signer(5) }];
    let list = KeyList::new(material().repository).with_entries(all, 7).expect("fits");
    list.without_keys(&[KeyId([5; 8])], 12, 8)
}

fn verified(bytes: &[u8]) -> Result<SignedKeyList, Error> {
    SignedKeyList::verify(bytes, &material().root_verify_key(), material().repository)
}

fn signed(list: &KeyList) -> Vec<u8> {
    list.sign(&material(), &[], &mut counting_random(1)).expect("keys are sound")
}

fn with_new_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let checked = bytes.len() - CHECKSUM_LEN;
    let sum = checksum(&bytes[..checked]);
    bytes[checked..].copy_from_slice(&sum);
    bytes
}

/// A repository of some keys, each with its slot.
struct House {
    slots: Vec<(KeyId, Vec<u8>)>,
    list: KeyList,
}

const SECRET: SlotSecret<'static> = SlotSecret::Recovery([3; 32]);

impl House {
    fn new(roles: &[Role]) -> Self {
        let mut house = Self { slots: Vec::new(), list: KeyList::new(material().repository) };
        for role in roles {
            house.add(*role);
        }
        house
    }

    fn add(&mut self, role: Role) -> KeyId {
        let new = NewSlot::new(role, "key", 0, self.list.epoch());
        let mut random = counting_random(self.slots.len() as u8 * 50);
        let slot = create_slot(&material(), &new, SECRET, CHEAP, &mut random).expect("fits");
        let info = slot_info(&slot).expect("a slot");
        self.list = self.list.clone().with_entries([info.entry()], 0).expect("fits");
        self.slots.push((info.id, slot));
        info.id
    }

    fn remove(&mut self, at: usize) {
        self.list = self.list.clone().without_keys(&[self.slots[at].0], 5, 0);
    }

    fn signed(&self) -> SignedKeyList {
        let bytes = self.list.sign(&material(), &self.slots, &mut counting_random(9));
        verified(&bytes.expect("keys are sound")).expect("its own")
    }

    fn ring(&self, at: usize) -> KeyRing {
        open_slot(&self.slots[at].1, SECRET).expect("its own").1
    }

    /// Whether slot `at` reads what is sealed to the recipient in `list`, given that list.
    fn reads(&self, at: usize, list: &SignedKeyList) -> bool {
        let key = SessionKey::new(ids::SessionId([1; 16]), [2; 32], Cipher::fastest());
        let sealed = key.seal_for(&list.recipient(), material().repository, [3; 32]);
        let own = self.ring(at).reader.expect("reads");
        let keys = own.with_delivery(list).expect("sound").unwrap_or(own);
        keys.open_session(sealed.as_bytes()).is_ok()
    }
}

#[test]
fn a_list_of_fixed_keys_is_fixed_and_is_read_back() {
    let bytes = signed(&list());
    assert_eq!(verified(&bytes).map(|signed| signed.list), Ok(list()));
    assert_eq!((version_of(&bytes), epoch_of(&bytes)), (Ok(2), Ok(KeyEpoch(0))));
    assert_eq!(bytes.len(), HEAD_LEN + 3 * ENTRY_LEN + TAIL_LEN);
    assert_eq!(hex(&checksum(&bytes)), "e2d241bccf372bd6c974ae29c75bca62");
    let mut house = House::new(&[Role::Full, Role::ReadWrite, Role::Reader, Role::WriteOnly]);
    house.add(Role::Reader);
    house.remove(4);
    let bytes = house.list.sign(&material(), &house.slots, &mut counting_random(9)).unwrap();
    assert_eq!(bytes.len(), HEAD_LEN + 5 * ENTRY_LEN + 2 * DELIVERY_LEN + TAIL_LEN);
    assert_eq!(hex(&checksum(&bytes)), "012cdccb96c8092d894c757c5fc0b5c0");
}

#[test]
fn a_key_epoch_begins_when_a_key_that_reads_is_removed_and_once_for_several() {
    for (role, begins) in
        [(Role::Full, 1), (Role::ReadWrite, 1), (Role::Reader, 1), (Role::WriteOnly, 0)]
    {
        let mut house = House::new(&[Role::Full, role]);
        house.remove(1);
        assert_eq!(house.list.epoch(), KeyEpoch(begins), "{role:?}");
        house.remove(1);
        assert_eq!(house.list.epoch(), KeyEpoch(begins), "{role:?} is removed once");
    }
    let house = House::new(&[Role::Reader, Role::ReadWrite, Role::WriteOnly]);
    let ids: Vec<_> = house.slots.iter().map(|(id, _)| *id).collect();
    let list = house.list.without_keys(&ids, 5, 0);
    assert_eq!((list.epoch(), list.version()), (KeyEpoch(1), 4));
    assert!(list.entries().iter().all(|entry| !entry.is_live()));
}

#[test]
fn who_stays_reads_the_new_epoch_and_who_was_removed_does_not() {
    let mut house = House::new(&[Role::Full, Role::ReadWrite, Role::Reader, Role::Reader]);
    let before = house.signed();
    assert!((0..4).all(|at| house.reads(at, &before)));
    house.remove(3);
    let after = house.signed();
    assert_eq!(
        (0..4).map(|at| house.reads(at, &after)).collect::<Vec<_>>(),
        [true, true, true, false]
    );
    let reads_old = house.ring(3).reader.unwrap().latest_epoch() >= before.epoch();
    assert!(reads_old, "what was stored before");
    house.add(Role::Reader);
    house.remove(2);
    let last = house.signed();
    assert_eq!(last.epoch(), KeyEpoch(2));
    let reads: Vec<_> = (0..5).map(|at| house.reads(at, &last)).collect();
    assert_eq!(reads, [true, true, false, false, true]);
    let follower = house.ring(1).reader.unwrap().with_delivery(&last).unwrap().expect("delivered");
    assert_eq!(follower.latest_epoch(), KeyEpoch(2));
    assert!(follower.with_delivery(&after).unwrap().is_none(), "an older list tells it nothing");
    assert!(last.undelivered().next().is_none());
}

/// The storage keeps old files, and makes slots of its own.
#[test]
fn a_removed_or_foreign_slot_that_is_there_gets_no_delivery() {
    let mut house = House::new(&[Role::Full, Role::ReadWrite, Role::Reader, Role::Reader]);
    house.remove(2);
    house.remove(3);
    let thief = crate::KeyMaterial::generate(&mut counting_random(77));
    let new = NewSlot::new(Role::Reader, "key", 0, KeyEpoch(0));
    let foreign = create_slot(&thief, &new, SECRET, CHEAP, &mut counting_random(50)).unwrap();
    let foreign_id = slot_info(&foreign).unwrap().id;
    assert!(house.list.is_live(foreign_id), "under the name of a live key");
    let mut slots = house.slots.clone();
    slots.retain(|(id, _)| *id != foreign_id);
    slots.push((foreign_id, foreign));
    // Under the name of another, a good slot gets nothing either.
    slots.push((KeyId([0xee; 8]), house.slots[1].1.clone()));
    let signed = house.list.sign(&material(), &slots, &mut counting_random(9)).unwrap();
    let signed = verified(&signed).unwrap();
    assert!(signed.deliveries.is_empty(), "{:?}", signed.deliveries);
    let missing: Vec<_> = signed.undelivered().map(|entry| entry.id).collect();
    assert_eq!(missing, [foreign_id], "the live one, whose slot was not there");
}

#[test]
fn at_the_last_epoch_keys_are_removed_and_no_epoch_begins() {
    let mut house = House::new(&[Role::Full, Role::ReadWrite, Role::Reader]);
    house.list = house.list.continuing_from(7, KeyEpoch(u32::MAX));
    assert_eq!(house.list.epoch(), LAST_KEY_EPOCH);
    house.remove(2);
    let signed = house.signed();
    assert_eq!((signed.epoch(), signed.version()), (LAST_KEY_EPOCH, 8));
    assert!(!signed.is_live(house.slots[2].0) && house.reads(1, &signed));
}

#[test]
fn a_list_older_than_the_key_or_with_another_recipient_is_refused() {
    let mut house = House::new(&[Role::Full, Role::Reader]);
    let old = house.signed();
    house.remove(1);
    house.add(Role::WriteOnly);
    let (new, writer) = (house.signed(), house.ring(2).writer);
    assert_eq!(writer.recipient_in(&new), Ok(new.recipient()));
    let made_in = KeyEpoch(1);
    let denied = Error::OldKeyList { epoch: KeyEpoch(0), made_in };
    assert_eq!(writer.recipient_in(&old), Err(denied));
    let other = SignedKeyList { recipient: old.recipient, ..new };
    assert!(matches!(writer.recipient_in(&other), Err(Error::Damaged { .. })));
}

#[test]
fn a_removed_signer_is_good_up_to_its_last_number_and_keeps_it() {
    let again = list().without_keys(&[KeyId([5; 8])], 99, 9);
    let removed = again.find(KeyId([5; 8])).expect("it stays in the list");
    assert_eq!((removed.valid_up_to, removed.is_live()), (Some(12), false));
    assert!(removed.may_sign(12) && !removed.may_sign(13));
    let live = again.find(KeyId([9; 8])).expect("known");
    assert!(live.is_live() && live.may_sign(u64::MAX));
    assert_eq!(again.find(KeyId([1; 8])), None);
    assert_eq!(again.version(), 3);
}

#[test]
fn a_bound_signer_signs_for_its_own_node_only() {
    let list = list();
    let (bound, free) = (list.find(KeyId([2; 8])).unwrap(), list.find(KeyId([9; 8])).unwrap());
    assert!(bound.may_sign_for("node-2") && !bound.may_sign_for("node-9"));
    assert!(free.may_sign_for("node-9") && free.may_sign_for("anything"));
}

#[test]
fn every_changed_byte_is_refused_with_or_without_a_new_checksum() {
    let mut house = House::new(&[Role::Full, Role::ReadWrite, Role::Reader]);
    house.remove(2);
    let good = house.list.sign(&material(), &house.slots, &mut counting_random(9)).unwrap();
    for at in 0..good.len() - CHECKSUM_LEN {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(verified(&bad).is_err(), "byte {at}");
        assert!(verified(&with_new_checksum(bad)).is_err(), "byte {at}");
    }
    for length in 0..good.len() {
        assert!(verified(&good[..length]).is_err(), "length {length}");
    }
}

#[test]
fn the_list_of_another_root_or_repository_is_refused() {
    let thief = KeyMaterial::generate(&mut counting_random(9));
    let theirs = list().sign(&thief, &[], &mut counting_random(1)).unwrap();
    assert_eq!(verified(&theirs), Err(Error::BadSignature));
    let mut elsewhere = list();
    elsewhere.repository = RepositoryId([0xee; 16]);
    assert!(verified(&signed(&elsewhere)).is_err());
}

/// A verify key of zeros is a point of small order: signatures under it can be made by anybody.
#[test]
fn who_signs_nothing_is_no_signer() {
    let house = House::new(&[Role::Reader]);
    let signed = house.signed();
    let entry = signed.find(house.slots[0].0).expect("listed");
    assert_eq!(signed.signer(entry.id), None);
    assert!(!entry.may_sign(0) && !entry.may_sign_for("key"));
    for (role, key) in [(Role::Reader, signer(1).verify_key), (Role::ReadWrite, entry.verify_key)] {
        let entry = KeyEntry { role, verify_key: key, ..signer(1) };
        let list = KeyList::new(material().repository).with_entries([entry], 0).expect("fits");
        assert!(verified(&super::tests::signed(&list)).is_err(), "{role:?}");
    }
}

#[test]
fn a_list_holds_as_many_as_it_says_and_no_more() {
    let many = (0..=KEYS_MAX as u64)
        .map(|number| KeyEntry { id: KeyId(number.to_be_bytes()), ..signer(1) });
    let many: Vec<_> = many.collect();
    let full = KeyList::new(material().repository).with_entries(many[1..].iter().cloned(), 0);
    assert!(verified(&signed(&full.expect("fits"))).is_ok());
    let over = KeyList::new(material().repository).with_entries(many, 0);
    assert_eq!(over, Err(Error::TooManyKeys { count: KEYS_MAX + 1 }));
}
