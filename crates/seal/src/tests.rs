//! Tests: what is sealed is opened, what is damaged is not.
use super::*;
use crypto::{
    Cipher, KdfParams, KeyMaterial, KeyRing, NewSlot, Role, SlotSecret, create_slot, open_slot,
};
use format::page::{Page, PageKind};
use format::record::{Codec, RecordKind, verify};
use ids::ObjectId;

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
        &NewSlot::new(Role::Full, "test", 0, ids::KeyEpoch(0)),
        secret,
        KdfParams::default(),
        &mut random,
    );
    open_slot(&slot.unwrap(), SlotSecret::Recovery([7; 32])).unwrap().1
}

fn sealed(ring: &KeyRing) -> (Sealer, format::record::SealedRecord, Vec<ObjectId>) {
    let sealer = Sealer::new(&ring.writer, [9; 80], Cipher::Aes256Gcm);
    let mut block = Block::new(RecordKind::Data);
    let chunks = [&b"hello"[..], &[0; 100_000], b""];
    let ids: Vec<_> = chunks.iter().map(|chunk| ring.writer.ids.chunk_id(chunk)).collect();
    ids.iter().zip(chunks).for_each(|(id, chunk)| block.push_chunk(*id, chunk));
    let mut record = Sealer::empty_record();
    sealer
        .seal_block(&mut block, &mut BlockCompressor::new(Level::Fixed(1)).unwrap(), &mut record)
        .unwrap();
    assert!(block.is_empty());
    (sealer, record, ids)
}

fn opener(ring: &KeyRing, sealer: &Sealer) -> Opener {
    let opener = Opener::new(ring.reader.clone().unwrap());
    let session = sealer.session_record().to_bytes();
    opener.learn_session(verify(&session).unwrap().clear).unwrap();
    opener
}

#[test]
fn what_is_sealed_is_opened() {
    let ring = ring();
    let (sealer, record, ids) = sealed(&ring);
    let mut unpacker = zstd::bulk::Decompressor::new().unwrap();
    sealer.verify(&record, &mut unpacker, |bytes| ring.writer.ids.chunk_id(bytes)).unwrap();
    let mut bytes = record.to_bytes();
    assert!(verify(&bytes).is_ok());
    assert!(bytes.len() < 1000, "zeros compress");
    let opened = opener(&ring, &sealer).open(&mut bytes, &mut unpacker).unwrap();
    assert_eq!(opened.ids, ids);
    assert_eq!(opened.payload(0), b"hello");
    assert_eq!(opened.find(&ids[1]).unwrap(), [0; 100_000]);
    assert_eq!(opened.payload(2), b"");
}

#[test]
fn every_flipped_bit_is_found() {
    let ring = ring();
    let (sealer, record, _) = sealed(&ring);
    let opener = opener(&ring, &sealer);
    let good = record.to_bytes();
    let mut unpacker = zstd::bulk::Decompressor::new().unwrap();
    // The last 16 bytes are the checksum for readers without a key; the seal does not cover it.
    for bit in 0..(good.len() - 16) * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(opener.open(&mut bad, &mut unpacker).is_err(), "bit {bit}");
    }
}

#[test]
fn a_wrong_name_is_found_before_it_is_stored() {
    let ring = ring();
    let (sealer, record, ids) = sealed(&ring);
    let mut unpacker = zstd::bulk::Decompressor::new().unwrap();
    let wrong = sealer.verify(&record, &mut unpacker, |_| ids[0]);
    assert_eq!(wrong, Err(Error::WrongContent(ids[1])));
}

#[test]
fn pages_keep_their_references_in_the_clear() {
    let ring = ring();
    let (sealer, _, ids) = sealed(&ring);
    let page = Page { kind: PageKind::Leaf, refs: ids.clone(), payload: b"secret names".to_vec() };
    let id = ring.writer.ids.page_id(page.kind as u8, &page.refs, &page.payload);
    let mut block = Block::new(RecordKind::Pages);
    block.push_page(id, &page);
    let mut record = Sealer::empty_record();
    sealer
        .seal_block(&mut block, &mut BlockCompressor::new(Level::Fixed(1)).unwrap(), &mut record)
        .unwrap();
    let mut bytes = record.to_bytes();
    let heads = format::page::heads(&verify(&bytes).unwrap()).unwrap();
    assert_eq!(heads[0].refs().collect::<Vec<_>>(), ids);
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    let mut unpacker = zstd::bulk::Decompressor::new().unwrap();
    let opened = opener(&ring, &sealer).open(&mut bytes, &mut unpacker).unwrap();
    assert_eq!(opened.find(&id).unwrap(), page.payload);
}

#[test]
fn after_noise_only_more_noise_is_not_searched() {
    let (mut compressor, mut out) = (BlockCompressor::new(Level::Auto).unwrap(), Vec::new());
    let (noise, text) = (testkit::noise(1, 1 << 20), b"all work and no play ".repeat(50_000));
    let similar = crate::block::Similarity::default();
    let mixed = [&noise[..600_000], &text[..400_000]].concat();
    let mut codec = |plain: &[u8]| compressor.pack(plain, &similar, &mut out).unwrap();
    for _ in 0..3 {
        assert_eq!(codec(&noise), format::record::Codec::Raw);
    }
    assert_eq!(codec(&mixed), format::record::Codec::Zstd, "some of it compresses");
    assert_eq!(
        [codec(&noise), codec(&text)],
        [format::record::Codec::Raw, format::record::Codec::Zstd]
    );
    assert_eq!([codec(b""), codec(&noise[..10])], [format::record::Codec::Raw; 2]);
}

/// What a compressor that lies may give back for `plain`: nothing, noise, the frame of something
/// else, a frame that is cut, the same as if it were not compressed.
fn lies(plain: &[u8]) -> Vec<Vec<u8>> {
    let frame = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
    let mut other = plain.to_vec();
    other[7] ^= 1;
    let (good, longer) = (frame(plain), [plain, b"more"].concat());
    let cut = good[..good.len() - 1].to_vec();
    let twice = [&good[..], &good].concat();
    let noise = vec![0xa5; 60];
    vec![Vec::new(), noise, frame(&other), cut, frame(&longer), frame(b""), twice, plain.to_vec()]
}

#[test]
fn a_compressor_that_lies_is_found_before_anything_is_stored() {
    let ring = ring();
    let sealer = Sealer::new(&ring.writer, [9; 80], Cipher::Aes256Gcm);
    let chunk = b"what was to be compressed, and came back as something else".repeat(40);
    let id = ring.writer.ids.chunk_id(&chunk);
    let mut unpacker = zstd::bulk::Decompressor::new().unwrap();
    let mut block = Block::new(RecordKind::Data);
    block.push_chunk(id, &chunk);
    let (plain, _) = block.plaintext();
    let plain = plain.to_vec();
    let mut seal = |packed: Vec<u8>| {
        let mut record = Sealer::empty_record();
        (record.sealed, record.ids) = (packed, vec![id]);
        let counts = [1, block.clear.len(), plain.len(), 0];
        sealer.finish(RecordKind::Data, Codec::Zstd, counts, &block.clear, &mut record).unwrap();
        sealer.verify(&record, &mut unpacker, |bytes| ring.writer.ids.chunk_id(bytes))
    };
    seal(zstd::bulk::compress(&plain, 1).unwrap()).unwrap();
    for (at, lie) in lies(&plain).into_iter().enumerate() {
        assert!(seal(lie).is_err(), "lie {at} was believed");
    }
}
