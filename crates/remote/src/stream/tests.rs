//! A server that is ahead of what was sent to it.

use super::fuzzing::StreamHarness;
use protocol::Packet;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn ping() -> Packet {
    Packet::Ping {}
}

fn stored(applied: u64) -> Packet {
    Packet::Stored { applied, stored_bytes: 0 }
}

/// Else a server that reads nothing and answers all could have us hold a whole backup in memory.
#[test]
fn an_answer_to_what_was_not_sent_yet_is_none() {
    let mut harness = StreamHarness::default();
    harness.ask(&ping());
    assert!(!harness.hear(1, Packet::Done {}));
    harness.ask(&ping());
    assert!(harness.write() && harness.hear(1, Packet::Done {}));
    assert!(!harness.hear(2, Packet::Done {}));
    // After a disconnect it is sent again, and only then answered.
    assert!(harness.write() && harness.reconnect(None) && !harness.hear(2, Packet::Done {}));
    assert!(harness.write() && harness.hear(2, Packet::Done {}));
    harness.check();
    harness.take(0);
    harness.take(0);
    harness.end();
}

#[test]
fn a_record_that_was_not_sent_yet_cannot_be_acknowledged() {
    let harness = StreamHarness::default();
    harness.begin_session();
    (0..3).for_each(|_| harness.send_record(vec![0; 12]));
    assert!(!harness.hear(0, stored(1)));
    assert!(harness.write() && harness.hear(0, stored(1)) && !harness.hear(0, stored(2)));
    assert!(harness.write() && harness.reconnect(Some(2)) && !harness.hear(0, stored(3)));
    assert!(harness.write() && harness.hear(0, stored(3)));
    harness.check();
    harness.end();
}

#[test]
fn what_nobody_waits_for_goes_with_a_lost_session() {
    let mut harness = StreamHarness::default();
    for _ in 0..1000 {
        harness.ask(&ping());
        harness.forget(0);
        harness.lose_session();
        harness.check();
    }
    harness.end();
}

/// Another stream may hear of the loss first, and the job begins a new session while this one still resumes the old.
#[test]
fn a_lost_session_takes_only_its_own_requests() {
    let mut harness = StreamHarness::default();
    harness.begin_session();
    harness.ask_in_session(&ping());
    harness.ask(&ping());
    (0..2).for_each(|_| assert!(harness.write()));
    harness.lose_session();
    assert!(harness.is_answered(0), "it waits for ever");
    assert!(!harness.is_answered(1), "a job would begin again, and nothing was lost");
    assert!(harness.reconnect(None) && harness.write() && !harness.write());
    assert!(harness.hear(2, Packet::Done {}) && harness.is_answered(1));
    harness.check();
    harness.end();
}

/// Else a server that answers pings and nothing else has a job wait for ever.
#[test]
fn who_owes_an_answer_brings_nothing_by_being_there() {
    let mut harness = StreamHarness::default();
    assert!(harness.hear(0, Packet::Pong {}) && harness.answers() == 1, "nothing is owed");
    assert_eq!(harness.owes_since(), None);
    harness.ask(&ping());
    let asked = owes(&harness);
    // A slow way out is none of the other end's doing.
    assert!(harness.write());
    harness.written();
    let written = owes(&harness);
    assert!(written > asked);
    assert!(
        harness.hear(0, Packet::Pong {}) && harness.hear(0, stored(0)) && harness.answers() == 1
    );
    harness.written();
    assert_eq!(owes(&harness), written, "a ping of ours was written, and its answer came");
    harness.begin_session();
    (0..2).for_each(|_| harness.send_record(vec![0; 12]));
    assert!(
        harness.write()
            && harness.write()
            && harness.hear(1, Packet::Done {})
            && harness.answers() == 2
    );
    let answered = owes(&harness);
    assert!(
        harness.hear(0, stored(1)) && owes(&harness) > answered,
        "one more has to be acknowledged"
    );
    assert!(harness.hear(0, stored(2)) && harness.owes_since().is_none() && harness.answers() == 4);
    harness.end();
}

/// Since when; the clock has gone on.
fn owes(harness: &StreamHarness) -> Instant {
    sleep(Duration::from_millis(1));
    harness.owes_since().unwrap()
}
