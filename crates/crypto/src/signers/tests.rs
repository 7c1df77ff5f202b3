//! Tests of the list of signers: what is signed is read back, and nothing else is believed.

use super::*;
use crate::Signer;
use crate::testing::{counting_random, hex, material};

fn signer(number: u8) -> SignerInfo {
    SignerInfo {
        id: KeyId([number; 8]),
        verify_key: Signer::from_seed([number; 32]).public(),
        role: Role::ReadWrite,
        bound: number.is_multiple_of(2),
        label: format!("node-{number}"),
        valid_up_to: None,
    }
}

fn list() -> SignerList {
    let all = [signer(9), signer(2), signer(5)];
    let list = SignerList::new(material().repository).with(all, 7).expect("fits");
    list.without(KeyId([5; 8]), 12, 8)
}

fn verified(bytes: &[u8]) -> Result<SignerList, Error> {
    SignerList::verify(bytes, &material().root_verify_key(), material().repository)
}

fn with_new_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let checked = bytes.len() - CHECKSUM_LEN;
    let sum = checksum(&bytes[..checked]);
    bytes[checked..].copy_from_slice(&sum);
    bytes
}

#[test]
fn a_list_of_fixed_signers_is_fixed_and_is_read_back() {
    let bytes = list().sign(&material());
    assert_eq!(verified(&bytes), Ok(list()));
    assert_eq!(version_of(&bytes), Ok(2));
    assert_eq!(bytes.len(), HEAD_LEN + 3 * ENTRY_LEN + TAIL_LEN);
    assert_eq!(hex(&checksum(&bytes)), "2ea01f617ff9a34d156ba85f3c7b88da");
}

#[test]
fn a_removed_signer_is_good_up_to_its_last_number_and_keeps_it() {
    let again = list().without(KeyId([5; 8]), 99, 9);
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
    let good = list().sign(&material());
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
    assert_eq!(verified(&list().sign(&thief)), Err(Error::BadSignature));
    let mut elsewhere = list();
    elsewhere.repository = RepositoryId([0xee; 16]);
    assert!(verified(&elsewhere.sign(&material())).is_err());
}

#[test]
fn who_signs_nothing_is_no_signer() {
    let reader = SignerInfo { role: Role::Reader, ..signer(1) };
    let list = SignerList::new(material().repository).with([reader], 0).expect("fits");
    assert!(verified(&list.sign(&material())).is_err());
}

#[test]
fn a_list_holds_as_many_as_it_says_and_no_more() {
    let many = (0..=SIGNERS_MAX as u64)
        .map(|number| SignerInfo { id: KeyId(number.to_be_bytes()), ..signer(1) });
    let many: Vec<_> = many.collect();
    let full = SignerList::new(material().repository).with(many[1..].iter().cloned(), 0);
    assert!(verified(&full.expect("fits").sign(&material())).is_ok());
    let over = SignerList::new(material().repository).with(many, 0);
    assert_eq!(over, Err(Error::TooManySigners { count: SIGNERS_MAX + 1 }));
}
