//! Checkpoints over the network, and what a session leaves that ends without a snapshot.

use crate::hostile::raw::{Raw, append, record, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::enroll::Role;
use crypto::KeyRing;
use ids::ObjectId;
use protocol::Packet;
use seal::Sealer;

const CHUNKS: u8 = 5;

fn chunks() -> Vec<ObjectId> {
    (1..=CHUNKS).map(|number| ObjectId([number; 24])).collect()
}

/// A session of `machine` that has stored nothing.
async fn begun(machine: &Machine) -> (Raw, Sealer, KeyRing) {
    let mut raw = Raw::opened(machine).await;
    let (_, ring) = stolen_keys(machine, &mut raw).await;
    let sealer = sealer(&ring);
    raw.begin(&sealer).await;
    (raw, sealer, ring)
}

/// Stores all chunks.
async fn store(raw: &mut Raw, sealer: &Sealer) {
    for id in chunks() {
        let stored = raw.ask(&append(&record(sealer, id, &id.0))).await;
        assert!(matches!(stored, Packet::Stored { .. }), "{stored:?}");
    }
}

/// Which of the chunks are stored, as a bit each.
async fn stored(raw: &mut Raw) -> Vec<u8> {
    match raw.ask(&Packet::Holds { ids: chunks() }).await {
        Packet::Flags { bits, .. } => bits,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_checkpoint_holds_other_sessions_find() {
    let server = Whole::start().await;
    let machine = server.node("vault", "vault", Role::Full).await;
    let (mut first, sealer, _) = begun(&machine).await;
    let (mut second, ..) = begun(&machine).await;
    store(&mut first, &sealer).await;
    assert_eq!(stored(&mut second).await, [0]);
    for _ in 0..2 {
        assert_eq!(
            first.ask(&Packet::Checkpoint {}).await,
            Packet::Done {},
            "it may be asked again"
        );
    }
    assert_eq!(stored(&mut second).await, [(1 << CHUNKS) - 1]);
}

/// The lease does not change hands while another session is open.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_session_stored_is_found_while_another_one_is_open() {
    let server = Whole::start().await;
    let machine = server.node("vault", "vault", Role::Full).await;
    let (mut other, ..) = begun(&machine).await;
    let (mut interrupted, sealer, _) = begun(&machine).await;
    store(&mut interrupted, &sealer).await;
    let finish = Packet::Finish { is_complete: false, report: b"{}".to_vec() };
    assert_eq!(interrupted.ask(&finish).await, Packet::Done {});
    let (mut next, ..) = begun(&machine).await;
    assert_eq!(stored(&mut next).await, [(1 << CHUNKS) - 1]);
    assert_eq!(stored(&mut other).await, [(1 << CHUNKS) - 1]);
}
