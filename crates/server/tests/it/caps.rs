//! Caps on what one node can have a server keep or send.

use crate::hostile::raw::{Raw, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::enroll::Role;
use ids::ObjectId;
use protocol::Packet;
use protocol::fault::Code;
use protocol::limits::IDS_MAX;

/// A session may promise so many objects, and all of a node twice as many.
const SESSION_PROMISES: usize = 1 << 20;

/// A session that promises, and how many objects it has promised.
struct Promising {
    raw: Raw,
    session: u8,
    promised: usize,
    /// The last claim that was answered, with its number.
    last: Option<(u32, Packet)>,
}

impl Promising {
    async fn begin(machine: &Machine, session: u8) -> Self {
        let mut raw = Raw::opened(machine).await;
        let (_, ring) = stolen_keys(machine, &mut raw).await;
        raw.begin(&sealer(&ring)).await;
        Self { raw, session, promised: 0, last: None }
    }

    /// Promises more objects, of which nobody has heard; whether it may.
    async fn promises(&mut self, count: usize) -> bool {
        let first = self.promised as u64;
        let ids = (first..).take(count).map(|number| {
            let mut id = ObjectId([self.session; 24]);
            id.0[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            id
        });
        let claim = Packet::Claim { ids: ids.collect() };
        let request = self.raw.send(&claim).await;
        match self.raw.next().await.unwrap() {
            Packet::Flags { .. } => {
                self.promised += count;
                self.last = Some((request, claim));
                true
            }
            Packet::Fault { code, .. } => {
                assert_eq!(Code::from_number(code), Code::NotAllowed);
                false
            }
            other => panic!("{other:?}"),
        }
    }

    /// Asks the last claim once more, as who has not got its answer; whether that is answered.
    async fn repeats(&mut self) -> bool {
        let (request, claim) = self.last.as_ref().unwrap();
        self.raw.send_bytes(&claim.frame(*request)).await;
        matches!(self.raw.next().await, Some(Packet::Flags { .. }))
    }

    /// Promises until it may not.
    async fn promises_all(mut self) -> Self {
        while self.promises(IDS_MAX).await {}
        self
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_of_all_sessions_of_a_node_are_bounded_and_others_may_go_on() {
    let server = Whole::start().await;
    let greedy = server.node("greedy", "greedy", Role::Full).await;
    let honest = server.node("honest", "honest", Role::Full).await;
    let mut first = Promising::begin(&greedy, 1).await.promises_all().await;
    let second = Promising::begin(&greedy, 2).await.promises_all().await;
    assert_eq!([first.promised, second.promised], [SESSION_PROMISES; 2], "each has its own cap");
    let mut third = Promising::begin(&greedy, 3).await;
    assert!(first.repeats().await, "an answer that was lost promises nothing more");
    assert!(!third.promises(1).await, "a third session has no promise left");
    assert!(Promising::begin(&honest, 4).await.promises(IDS_MAX).await, "another node has its own");
    // What a session does not need any more, another one of its node may have.
    first.raw.ask(&Packet::Finish { is_complete: false, report: Vec::new() }).await;
    assert!(third.promises(IDS_MAX).await, "what an ended session had is free again");
    honest.write("file", b"honest");
    honest.backup().await;
}

/// How much it is in all is a test beside the code; here, that nobody else has to wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_noise_without_end_keeps_nobody_waiting() {
    let server = Whole::start().await;
    let greedy = server.node("greedy", "greedy", Role::Full).await;
    let honest = server.node("honest", "honest", Role::Full).await;
    let mut deaf = Raw::opened(&greedy).await;
    deaf.send(&Packet::GetNoise { bytes: u64::MAX }).await;
    let mut listening = Raw::opened(&greedy).await;
    listening.send(&Packet::GetNoise { bytes: u64::MAX }).await;
    for _ in 0..64 {
        let packet = listening.next().await;
        assert!(matches!(packet, Some(Packet::Noise { ref noise }) if noise.len() == 256 << 10));
    }
    honest.write("file", b"honest");
    honest.backup().await;
}
