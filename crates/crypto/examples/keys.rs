//! What keys cost on one core: `cargo run --release -p crypto --example keys`.

use std::time::Instant;

use crypto::{
    Cipher, KdfParams, KeyMaterial, NewSlot, NonceCounter, Role, SessionKey, SlotSecret,
    create_slot, open_slot,
};

const RECORD_LEN: usize = 512 << 10;
const RECORDS: u32 = 1024;

fn main() {
    open_a_slot();
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        seal(cipher);
    }
    name_chunks();
}

fn open_a_slot() {
    // Not random: nothing is protected here.
    let random: &mut dyn FnMut(&mut [u8]) = &mut |bytes| bytes.fill(7);
    let material = KeyMaterial::generate(random);
    let secret = SlotSecret::Password(b"password");
    let slot = create_slot(
        &material,
        &NewSlot::new(Role::Full, "", 0, ids::KeyEpoch(0)),
        secret,
        KdfParams::DEFAULT,
        random,
    );
    let slot = slot.expect("the default parameters are valid");
    let start = Instant::now();
    assert!(open_slot(&slot, secret).is_ok());
    println!("opening a slot: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
}

fn seal(cipher: Cipher) {
    let key = SessionKey::new(ids::SessionId([1; 16]), [2; 32], cipher);
    let (counter, mut buffer) = (NonceCounter::new(), vec![0; RECORD_LEN]);
    let start = Instant::now();
    for _ in 0..RECORDS {
        buffer.truncate(RECORD_LEN);
        key.seal_in_place(counter.next(RECORD_LEN).expect("room"), b"aad", &mut buffer);
    }
    print_speed(&format!("{cipher:?}"), start);
}

fn name_chunks() {
    let ids = crypto::DomainSecret::from_bytes([1; 32]).id_key();
    let chunk = vec![0; RECORD_LEN];
    let start = Instant::now();
    for _ in 0..RECORDS {
        std::hint::black_box(ids.chunk_id(&chunk));
    }
    print_speed("chunk ids", start);
}

fn print_speed(what: &str, start: Instant) {
    let bytes = RECORD_LEN as f64 * f64::from(RECORDS);
    println!("{what}: {:.0} MB/s", bytes / start.elapsed().as_secs_f64() / 1e6);
}
