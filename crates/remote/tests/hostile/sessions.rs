//! Answers in a session that are none; sessions that are lost.

use crate::lab::{Lab, is_refused};
use hostile_server::{Asked, Reply};
use ids::SnapshotId;
use protocol::Packet;
use protocol::fault::{Code, fault};
use protocol::packet::{SnapshotName, kind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn answers_that_are_none_end_a_backup() {
    let lab = Lab::new();
    type Instead = fn(&Asked<'_>) -> Option<Packet>;
    let lies: Vec<(&str, Instead)> = vec![
        ("too few answers", |asked| match asked.packet {
            Packet::Claim { ids } | Packet::Holds { ids } => {
                Some(Packet::Flags { count: ids.len() as u32 - 1, bits: vec![0xff; 99] })
            }
            _ => None,
        }),
        ("bits that lack", |asked| match asked.packet {
            Packet::Claim { ids } | Packet::Holds { ids } => {
                Some(Packet::Flags { count: ids.len() as u32, bits: vec![] })
            }
            _ => None,
        }),
        ("more acknowledged than sent", |asked| match &asked.honest {
            Some(Packet::Stored { applied, .. }) => {
                Some(Packet::Stored { applied: applied + 5, stored_bytes: 0 })
            }
            _ => None,
        }),
        ("less acknowledged than before", |asked| match &asked.honest {
            Some(Packet::Stored { applied: 2.., .. }) => {
                Some(Packet::Stored { applied: 0, stored_bytes: 0 })
            }
            Some(Packet::Number { .. }) => Some(Packet::Stored { applied: 0, stored_bytes: 0 }),
            _ => None,
        }),
        ("another name committed", |asked| match &asked.honest {
            Some(Packet::Committed { name, stored_bytes }) => {
                let name = SnapshotName { id: SnapshotId([5; 16]), ..*name };
                Some(Packet::Committed { name, stored_bytes: *stored_bytes })
            }
            _ => None,
        }),
        ("done instead of begun", |asked| {
            matches!(asked.packet, Packet::Begin { .. }).then_some(Packet::Done {})
        }),
        ("done instead of committed", |asked| {
            matches!(asked.packet, Packet::Commit { .. }).then_some(Packet::Done {})
        }),
        ("cancelled", |asked| {
            let reason = "\u{1b}[2J no".chars().filter(|it| !it.is_control()).collect();
            matches!(asked.packet, Packet::Claim { .. }).then_some(Packet::Cancel { reason })
        }),
    ];
    for (what, lie) in lies {
        let fake = lab.lies(move |asked| match lie(&asked) {
            Some(packet) => Reply::Say(vec![packet]),
            None => asked.honestly(),
        });
        is_refused(lab.backs_up(&fake), what);
    }
}

#[test]
fn a_server_that_cannot_commit_yet_is_asked_again() {
    let lab = Lab::new();
    let asks = AtomicU64::new(0);
    let done = Mutex::new(None);
    let fake = lab.lies(move |asked| {
        let Packet::Commit { .. } = asked.packet else { return asked.honestly() };
        let mut done = done.lock().unwrap();
        if asks.fetch_add(1, Ordering::SeqCst) == 0 {
            *done = asked.honest.clone();
            return Reply::Say(vec![fault(Code::Busy, "cannot ask the control server", "", &[])]);
        }
        Reply::Say(done.take().into_iter().collect())
    });
    lab.backs_up(&fake).expect("nothing is lost");
}

#[test]
fn a_session_that_is_lost_leaves_nothing_to_the_next() {
    let lab = Lab::new();
    let begun = AtomicU64::new(0);
    // The first session is lost at its first claim; whatever comes then must be of the second.
    let fake = lab.lies(move |asked| match asked.packet {
        Packet::Begin { .. } => {
            begun.fetch_add(1, Ordering::SeqCst);
            asked.honestly()
        }
        Packet::Claim { .. } if begun.load(Ordering::SeqCst) == 1 => Reply::Disconnect,
        Packet::Claim { .. } | Packet::Append { .. } => {
            assert!(!matches!(asked.honest, Some(Packet::Fault { .. })), "{:?}", asked.honest);
            asked.honestly()
        }
        _ => asked.honestly(),
    });
    let name = lab.backs_up(&fake).unwrap();
    assert_eq!(lab.restores(&lab.lies(|asked| asked.honestly()), name), Ok(()));
}

#[test]
fn who_greets_and_then_cuts_each_time_is_given_up() {
    let lab = Lab::new();
    let kinds = [kind::ListSlots, kind::GetSnapshot, kind::Begin, kind::Claim, kind::Commit];
    for kind in kinds {
        let fake = lab.lies(move |asked| match asked.packet.kind() == kind {
            true => Reply::Disconnect,
            false if matches!(asked.packet, Packet::Attach { .. }) => {
                Reply::Say(vec![Packet::Attached { applied: 0 }])
            }
            false => asked.honestly(),
        });
        match kind {
            kind::GetSnapshot => is_refused(lab.restores(&fake, lab.good), "cut"),
            _ => is_refused(lab.backs_up(&fake), "cut"),
        }
        let connections = fake.connections.load(Ordering::SeqCst);
        assert!(connections < 100, "it came back {connections} times in three seconds");
    }
}
