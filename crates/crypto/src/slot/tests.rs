//! Tests of slots: fixed bytes, roles, and that nothing changed is ever accepted.

use proptest::prelude::*;

use super::layout::checksum;
use super::*;
use crate::testing::{CHEAP, counting_random, hex, material};
use crate::{Cipher, SessionKey};

const PASSWORD: SlotSecret<'_> = SlotSecret::Password(b"correct horse");
const RECOVERY: SlotSecret<'_> = SlotSecret::Recovery([0x3c; 32]);
const CREATED_SECS: i64 = 1_795_000_000;
const EPOCH: KeyEpoch = KeyEpoch(3);

fn slot(role: Role, secret: SlotSecret<'_>) -> Vec<u8> {
    let mut random = counting_random(100);
    create_slot(
        &material(),
        &NewSlot::new(role, "laptop", CREATED_SECS, EPOCH),
        secret,
        CHEAP,
        &mut random,
    )
    .expect("fits")
}

/// The recipient in the epoch of all these slots.
fn recipient() -> crate::Recipient {
    material().epochs.recipient(EPOCH).expect("an epoch")
}

/// `bytes` after somebody who knows the format changed them.
fn with_new_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let checked = bytes.len() - 16;
    let sum = checksum(&bytes[..checked]);
    bytes[checked..].copy_from_slice(&sum);
    bytes
}

#[test]
fn slots_of_fixed_secrets_are_fixed() {
    let of = |role, secret| hex(&slot(role, secret));
    assert_eq!(of(Role::Full, PASSWORD), include_str!("golden/full.hex").trim());
    assert_eq!(of(Role::WriteOnly, RECOVERY), include_str!("golden/write_only.hex").trim());
    assert_eq!(of(Role::Reader, RECOVERY), include_str!("golden/reader.hex").trim());
    assert_eq!(of(Role::ReadWrite, PASSWORD), include_str!("golden/read_write.hex").trim());
}

#[test]
fn a_slot_tells_about_itself_without_a_password() {
    let info = slot_info(&slot(Role::WriteOnly, PASSWORD)).expect("intact");
    assert_eq!((info.role, info.label.as_str()), (Role::WriteOnly, "laptop"));
    assert_eq!((info.created_secs, info.kdf), (CREATED_SECS, Some(CHEAP)));
    assert_eq!(info.repository, material().repository);
    assert_eq!(info.root, material().root_verify_key());
    assert_eq!(slot_info(&slot(Role::Full, RECOVERY)).map(|info| info.kdf), Ok(None));
}

#[test]
fn a_full_slot_gives_back_all_secrets() {
    for secret in [PASSWORD, RECOVERY] {
        let (info, ring) = open_slot(&slot(Role::Full, secret), secret).expect("right secret");
        assert!(ring.reader.is_some(), "a full key reads");
        let all = ring.certifier.expect("a full key certifies");
        assert_eq!(all.domain.as_bytes(), material().domain.as_bytes());
        assert_eq!(ring.writer.recipient, recipient());
        assert_eq!(ring.writer.signer.map(|signer| signer.public()), Some(info.verify_key));
    }
}

#[test]
fn a_write_only_slot_names_and_cuts_alike_and_reads_nothing() {
    let bytes = slot(Role::WriteOnly, PASSWORD);
    let (_, ring) = open_slot(&bytes, PASSWORD).expect("right password");
    assert!(ring.reader.is_none());
    assert_eq!(ring.writer.ids.chunk_id(b"x"), material().domain.id_key().chunk_id(b"x"));
    assert_eq!(ring.writer.chunker.0, material().domain.chunker_key().0);
    assert_eq!(ring.writer.recipient, recipient());
}

/// What each role is for, and nothing beyond.
#[test]
fn a_role_opens_what_it_needs_and_no_more() {
    for (role, reads, writes, certifies) in [
        (Role::Full, true, true, true),
        (Role::WriteOnly, false, true, false),
        (Role::Reader, true, false, false),
        (Role::ReadWrite, true, true, false),
    ] {
        let (_, ring) = open_slot(&slot(role, PASSWORD), PASSWORD).expect("opens");
        let got = (ring.reader.is_some(), ring.writer.signer.is_some(), ring.certifier.is_some());
        assert_eq!(got, (reads, writes, certifies), "{role:?}");
        assert_eq!((role.reads(), role.writes(), role.certifies()), (reads, writes, certifies));
        assert_eq!(ring.writer.sign(b"x").is_ok(), writes, "{role:?}");
        assert_eq!(ring.writer.recipient, recipient());
        assert_eq!(ring.writer.ids.chunk_id(b"x"), material().domain.id_key().chunk_id(b"x"));
    }
}

/// The seed of zeros is everybody's: its public key must not stand where a verify key is looked for.
#[test]
fn who_only_reads_has_no_verify_key_and_no_chunker() {
    let bytes = slot(Role::Reader, PASSWORD);
    let info = slot_info(&bytes).expect("intact");
    assert_eq!(info.verify_key.as_bytes(), &[0; 32]);
    assert_ne!(info.verify_key, crate::Signer::from_seed([0; 32]).public());
    assert_eq!(info.entry().role, Role::Reader);
    let (_, ring) = open_slot(&bytes, PASSWORD).expect("opens");
    assert_eq!(ring.writer.chunker.0, [0; 32]);
}

#[test]
fn no_slot_but_a_full_one_holds_the_domain_secret() {
    for role in [Role::WriteOnly, Role::Reader, Role::ReadWrite] {
        let payload = payload::encode(&material(), role, EPOCH, &[0; 32]).expect("an epoch");
        let domain = *material().domain.as_bytes();
        assert!(!payload.windows(32).any(|window| window == domain), "{role:?}");
    }
}

/// A key that can compute them needs no deliveries, and a key that may not read gets none.
#[test]
fn a_slot_has_a_delivery_key_where_it_reads_and_is_not_full() {
    let of = |role| slot_info(&slot(role, PASSWORD)).expect("intact").delivery;
    assert_eq!([of(Role::Full), of(Role::WriteOnly)], [DeliveryKey::NONE; 2]);
    for role in [Role::Reader, Role::ReadWrite] {
        let (_, ring) = open_slot(&slot(role, PASSWORD), PASSWORD).expect("opens");
        let secret = ring.reader.expect("reads").delivery.expect("not full");
        assert_eq!(secret.public().as_bytes(), &of(role).0, "{role:?}");
    }
}

#[test]
fn a_key_reads_the_epoch_in_which_it_was_made_and_those_before() {
    let session = |epoch| {
        let key = SessionKey::new(ids::SessionId([1; 16]), [2; 32], Cipher::fastest());
        let to = material().epochs.recipient(KeyEpoch(epoch)).expect("an epoch");
        key.seal_for(&to, material().repository, [3; 32])
    };
    for role in [Role::Reader, Role::ReadWrite, Role::Full] {
        let (_, ring) = open_slot(&slot(role, PASSWORD), PASSWORD).expect("opens");
        let reader = ring.reader.expect("reads");
        for epoch in 0..=EPOCH.0 {
            assert!(reader.open_session(session(epoch).as_bytes()).is_ok(), "{role:?} {epoch}");
        }
        let later = reader.open_session(session(EPOCH.0 + 1).as_bytes()).map(|_| ());
        let denied = Error::LaterEpoch { epoch: KeyEpoch(EPOCH.0 + 1), newest: EPOCH };
        assert_eq!(later, if role == Role::Full { Ok(()) } else { Err(denied) });
    }
}

#[test]
fn no_slot_is_made_beyond_the_last_epoch() {
    for (epoch, is_good) in [(crate::LAST_KEY_EPOCH.0, true), (crate::KEY_EPOCHS_MAX, false)] {
        let new = NewSlot::new(Role::Reader, "", 0, KeyEpoch(epoch));
        let made = create_slot(&material(), &new, RECOVERY, CHEAP, &mut counting_random(0));
        assert_eq!(made.is_ok(), is_good, "{epoch}");
    }
}

#[test]
fn a_slot_is_bound_to_a_node_by_its_certificate() {
    let create = |label| {
        let (new, mut random) =
            (NewSlot::new(Role::ReadWrite, label, 0, EPOCH).bound(), counting_random(0));
        create_slot(&material(), &new, RECOVERY, CHEAP, &mut random)
    };
    let bytes = create("web").expect("fits");
    let root = material().root_verify_key();
    let info = verify_slot_certificate(&bytes, &root).expect("certified");
    assert_eq!((info.bound, info.label.as_str()), (true, "web"));
    let mut free = bytes.clone();
    free[233] = 0;
    let freed = verify_slot_certificate(&with_new_checksum(free), &root);
    assert_eq!(freed, Err(Error::BadSignature));
    assert_eq!(create(""), Err(Error::BadLabel), "bound to nobody");
}

#[test]
fn the_payload_of_a_write_only_slot_holds_no_secret_of_a_reader() {
    let payload = payload::encode(&material(), Role::WriteOnly, EPOCH, &[0; 32]);
    let payload = payload.expect("an epoch");
    let secret = material().epochs.secret(EPOCH).expect("an epoch");
    let recipient = secret.recipient();
    for secret in [material().domain.as_bytes(), secret.as_bytes(), recipient.as_bytes()] {
        assert!(!payload.windows(32).any(|window| window == secret));
    }
}

#[test]
fn a_full_key_opens_what_a_write_only_key_sealed() {
    let (_, writer) = open_slot(&slot(Role::WriteOnly, PASSWORD), PASSWORD).expect("opens");
    let (_, full) = open_slot(&slot(Role::Full, RECOVERY), RECOVERY).expect("opens");
    let key = SessionKey::new(ids::SessionId([1; 16]), [2; 32], Cipher::fastest());
    let sealed = key.seal_for(&writer.writer.recipient, writer.writer.repository, [3; 32]);
    assert!(full.reader.expect("full").open_session(sealed.as_bytes()).is_ok());
}

#[test]
fn a_wrong_password_is_told_from_damage() {
    let bytes = slot(Role::Full, PASSWORD);
    let open = |secret| open_slot(&bytes, secret).map(|_| ()).unwrap_err();
    assert_eq!(open(SlotSecret::Password(b"wrong")), Error::WrongKey);
    assert_eq!(open(SlotSecret::Password(b"")), Error::WrongKey);
    assert_eq!(open(RECOVERY), Error::WrongKey);
    let recovery = slot(Role::Full, RECOVERY);
    let wrong = open_slot(&recovery, SlotSecret::Recovery([0; 32])).map(|_| ());
    assert_eq!(wrong, Err(Error::WrongKey));
}

#[test]
fn every_flipped_byte_is_damage() {
    let good = slot(Role::Full, PASSWORD);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        let opened = open_slot(&bad, PASSWORD).map(|_| ());
        assert!(matches!(opened, Err(Error::Damaged { .. })), "byte {at}: {opened:?}");
        assert!(slot_info(&bad).is_err(), "byte {at}");
    }
}

#[test]
fn every_byte_changed_by_somebody_who_fixes_the_checksum_is_refused() {
    for role in [Role::Full, Role::WriteOnly, Role::Reader, Role::ReadWrite] {
        let good = slot(role, PASSWORD);
        for at in 0..good.len() - 16 {
            let mut bad = good.clone();
            bad[at] ^= 0x01;
            assert!(open_slot(&with_new_checksum(bad), PASSWORD).is_err(), "byte {at}");
        }
    }
}

#[test]
fn no_truncation_or_extension_is_accepted() {
    let good = slot(Role::Full, PASSWORD);
    assert_eq!(good.len(), SLOT_LEN);
    for len in 0..good.len() {
        assert!(open_slot(&good[..len], PASSWORD).is_err(), "length {len}");
    }
    for len in 16..good.len() {
        assert!(slot_info(&with_new_checksum(good[..len].to_vec())).is_err(), "length {len}");
    }
    assert!(slot_info(&[&good[..], &[0]].concat()).is_err());
}

#[test]
fn greedy_costs_in_a_forged_slot_are_never_run() {
    let mut bytes = slot(Role::Full, PASSWORD);
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let opened = open_slot(&with_new_checksum(bytes), PASSWORD).map(|_| ());
    assert_eq!(opened, Err(damaged("a slot's certificate")));
}

#[test]
fn only_the_root_of_the_repository_certifies_slots() {
    let bytes = slot(Role::WriteOnly, PASSWORD);
    assert!(verify_slot_certificate(&bytes, &material().root_verify_key()).is_ok());
    let stranger = KeyMaterial::generate(&mut counting_random(200));
    let refused = verify_slot_certificate(&bytes, &stranger.root_verify_key());
    assert_eq!(refused, Err(Error::BadSignature));
}

#[test]
fn a_slot_certified_by_a_root_of_its_own_is_untrusted() {
    let mut thief = material();
    thief.domain = crate::DomainSecret::from_bytes([0xee; 32]);
    let mut random = counting_random(1);
    let forged =
        create_slot(&thief, &NewSlot::new(Role::Full, "", 0, EPOCH), PASSWORD, CHEAP, &mut random)
            .expect("fits");
    let verified = verify_slot_certificate(&forged, &material().root_verify_key());
    assert_eq!(verified, Err(Error::BadSignature));
}

#[test]
fn slots_of_all_roles_have_one_length() {
    for role in [Role::Full, Role::WriteOnly, Role::Reader, Role::ReadWrite] {
        assert_eq!(slot(role, RECOVERY).len(), SLOT_LEN);
    }
}

#[test]
fn labels_that_are_long_or_talk_to_the_terminal_are_refused() {
    let create = |label: &str| {
        let mut random = counting_random(0);
        create_slot(
            &material(),
            &NewSlot::new(Role::Full, label, 0, EPOCH),
            RECOVERY,
            CHEAP,
            &mut random,
        )
        .map(|_| ())
    };
    assert_eq!(create(&"x".repeat(64)), Ok(()));
    assert_eq!(create(&"x".repeat(65)), Err(Error::BadLabel));
    assert_eq!(create("\u{1b}[2J"), Err(Error::BadLabel));
}

#[test]
fn an_empty_password_is_refused() {
    let mut random = counting_random(0);
    let empty = SlotSecret::Password(b"");
    let made = create_slot(
        &material(),
        &NewSlot::new(Role::Full, "", 0, EPOCH),
        empty,
        CHEAP,
        &mut random,
    );
    assert_eq!(made, Err(Error::EmptyPassword));
}

#[test]
fn privacy_survives_in_the_slot() {
    let material = material().with_privacy(Privacy::Hardened);
    let mut random = counting_random(0);
    let bytes = create_slot(
        &material,
        &NewSlot::new(Role::WriteOnly, "", 0, EPOCH),
        RECOVERY,
        CHEAP,
        &mut random,
    );
    let (_, ring) = open_slot(&bytes.expect("fits"), RECOVERY).expect("opens");
    assert_eq!(ring.writer.privacy, Privacy::Hardened);
}

proptest! {
    #[test]
    fn random_bytes_are_no_slot(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(slot_info(&bytes).is_err());
    }

    #[test]
    fn random_fields_with_a_right_checksum_never_panic(
        at in 8..SLOT_LEN - 16,
        noise in proptest::collection::vec(any::<u8>(), 1..64),
    ) {
        let mut bytes = slot(Role::Full, RECOVERY);
        let end = (at + noise.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&noise[..end - at]);
        let _ = slot_info(&with_new_checksum(bytes.clone()));
        let _ = open_slot(&with_new_checksum(bytes), RECOVERY).map(|_| ());
    }
}
