//! The opener of records: session records and sealed records that an attacker made, and changes
//! to good ones.

use crypto::{
    Cipher, KdfParams, KeyMaterial, KeyRing, NewSlot, Role, SlotSecret, create_slot, open_slot,
};
use format::record::{RecordKind, verify};
use seal::{Block, BlockCompressor, Opener, Sealer};
use std::sync::OnceLock;

struct Good {
    opener: Opener,
    session: Vec<u8>,
    record: Vec<u8>,
}

fn ring() -> KeyRing {
    let mut next = 0u8;
    let mut random = |bytes: &mut [u8]| {
        bytes.iter_mut().for_each(|byte| {
            next = next.wrapping_mul(5).wrapping_add(3);
            *byte = next;
        });
    };
    let material = KeyMaterial::generate(&mut random);
    let secret = SlotSecret::Recovery([7; 32]);
    let slot = create_slot(
        &material,
        &NewSlot::new(Role::Full, "fuzz", 0, ids::KeyEpoch(0)),
        secret,
        KdfParams::default(),
        &mut random,
    );
    open_slot(&slot.expect("a slot"), secret).expect("it opens").1
}

fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| {
        let ring = ring();
        let sealer = Sealer::new(&ring.writer, [9; 80], Cipher::Aes256Gcm);
        let mut block = Block::new(RecordKind::Data);
        for chunk in [&b"hello"[..], &[0; 1000], b""] {
            block.push_chunk(ring.writer.ids.chunk_id(chunk), chunk);
        }
        let mut record = Sealer::empty_record();
        let mut packer = BlockCompressor::new(seal::Level::Fixed(1)).expect("a packer");
        sealer.seal_block(&mut block, &mut packer, &mut record).expect("a record");
        let session = sealer.session_record().to_bytes();
        let opener = Opener::new(ring.reader.expect("a reader"));
        opener.learn_session(verify(&session).expect("a session").clear).expect("its key");
        Good { opener, session, record: record.to_bytes() }
    })
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let good = good();
    let mut unpacker = zstd::bulk::Decompressor::new().expect("memory");
    assert!(good.opener.learn_session(bytes).is_err(), "no session comes from nowhere");
    let mut session = verify(&good.session).expect("good").clear.to_vec();
    session.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    let is_good = session == verify(&good.session).expect("good").clear;
    assert_eq!(good.opener.learn_session(&session).is_ok(), is_good);

    assert!(
        good.opener.open(&mut bytes.to_vec(), &mut unpacker).is_err(),
        "nothing is made by chance"
    );
    let mut record = good.record.clone();
    record.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    // The checksum at the end is for who has no key.
    let covered = record.len() - 16;
    let is_good = record[..covered] == good.record[..covered];
    assert_eq!(good.opener.open(&mut record, &mut unpacker).is_ok(), is_good);
}
