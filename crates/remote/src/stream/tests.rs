//! A server that is ahead of what was sent to it.

use super::fuzzing::Talk;
use protocol::Packet;

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
