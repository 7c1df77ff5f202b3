//! A server that is ahead of what was sent to it.

use super::fuzzing::Talk;
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
    let mut talk = Talk::default();
    talk.ask(&ping());
    assert!(!talk.hear(1, Packet::Done {}));
    talk.ask(&ping());
    assert!(talk.write() && talk.hear(1, Packet::Done {}));
    assert!(!talk.hear(2, Packet::Done {}));
    // After a cut it is sent again, and only then answered.
    assert!(talk.write() && talk.reconnect(None) && !talk.hear(2, Packet::Done {}));
    assert!(talk.write() && talk.hear(2, Packet::Done {}));
    talk.check();
    talk.take(0);
    talk.take(0);
    talk.end();
}

#[test]
fn a_record_that_was_not_sent_yet_cannot_be_confirmed() {
    let talk = Talk::default();
    talk.begin_session();
    (0..3).for_each(|_| talk.send_record(vec![0; 12]));
    assert!(!talk.hear(0, stored(1)));
    assert!(talk.write() && talk.hear(0, stored(1)) && !talk.hear(0, stored(2)));
    assert!(talk.write() && talk.reconnect(Some(2)) && !talk.hear(0, stored(3)));
    assert!(talk.write() && talk.hear(0, stored(3)));
    talk.check();
    talk.end();
}

#[test]
fn what_nobody_waits_for_goes_with_a_lost_session() {
    let mut talk = Talk::default();
    for _ in 0..1000 {
        talk.ask(&ping());
        talk.forget(0);
        talk.lose_session();
        talk.check();
    }
    talk.end();
}

/// Else a server that answers pings and nothing else has a job wait for ever.
#[test]
fn who_owes_an_answer_brings_nothing_by_being_there() {
    let mut talk = Talk::default();
    assert!(talk.hear(0, Packet::Pong {}) && talk.answers() == 1, "nothing is owed");
    assert_eq!(talk.owes_since(), None);
    talk.ask(&ping());
    let asked = owes(&talk);
    // A slow way out is none of the other end's doing.
    assert!(talk.write());
    talk.written();
    let written = owes(&talk);
    assert!(written > asked);
    assert!(talk.hear(0, Packet::Pong {}) && talk.hear(0, stored(0)) && talk.answers() == 1);
    talk.written();
    assert_eq!(owes(&talk), written, "a ping of ours was written, and its answer came");
    talk.begin_session();
    (0..2).for_each(|_| talk.send_record(vec![0; 12]));
    assert!(talk.write() && talk.write() && talk.hear(1, Packet::Done {}) && talk.answers() == 2);
    let answered = owes(&talk);
    assert!(talk.hear(0, stored(1)) && owes(&talk) > answered, "one more has to be confirmed");
    assert!(talk.hear(0, stored(2)) && talk.owes_since().is_none() && talk.answers() == 4);
    talk.end();
}

/// Since when; the clock has gone on.
fn owes(talk: &Talk) -> Instant {
    sleep(Duration::from_millis(1));
    talk.owes_since().unwrap()
}
