//! Records, locations, keys and trees that are not as they should be: no wrong byte is written, and nothing outside
//! of the target.

use crate::lab::{Lab, dial, ends, is_refused, open};
use crate::testkit;
use crate::testkit::forge::{Forge, directory, file, symlink};
use format::entry::Entry;
use hostile_server::{Asked, Reply};
use ids::{ContainerNo, RecordLocation};
use protocol::Packet;
use protocol::fault::{Code, fault};
use protocol::limits::KEYS_MAX;
use protocol::packet::PathBytes;
use remote::Purpose;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn an_honest_one_serves() {
    let lab = Lab::new();
    let fake = lab.lies(|asked| asked.honestly());
    assert_eq!(lab.restores(&fake, lab.good), Ok(()));
    let name = lab.backs_up(&fake).unwrap();
    assert_eq!(lab.restores(&fake, name), Ok(()));
}

/// Makes another packet of a record and its location.
type Wrong = fn(RecordLocation, Vec<u8>) -> Packet;

/// What is said instead of a record.
fn wrong_records() -> Vec<(&'static str, Wrong)> {
    vec![
        ("flipped", |location, mut record| {
            let at = record.len() / 2;
            record[at] ^= 1;
            Packet::Record { location, record }
        }),
        ("empty", |location, _| Packet::Record { location, record: vec![] }),
        ("shorter", |location, record| Packet::Record {
            location,
            record: record[..record.len() / 2].to_vec(),
        }),
        ("twice", |location, record| Packet::Record {
            location,
            record: [&record[8..], &record].concat(),
        }),
        ("zeros", |location, record| Packet::Record { location, record: vec![0; record.len()] }),
        ("of another location", |location, record| {
            let location =
                RecordLocation { container: ContainerNo(location.container.0 + 1), ..location };
            Packet::Record { location, record }
        }),
        ("nothing", |_, _| Packet::NotFound {}),
        ("done", |_, _| Packet::Done {}),
        ("locations", |_, _| Packet::Locations { locations: vec![] }),
        ("missing", |_, _| fault(Code::ObjectMissing, "gone", "", &[1; 24])),
        ("missing, of nothing", |_, _| fault(Code::ObjectMissing, "gone", "", &[])),
    ]
}

#[test]
fn wrong_records_are_found_and_no_wrong_byte_is_written() {
    let lab = Lab::new();
    for (what, wrong) in wrong_records() {
        let fake = lab.lies(move |asked| match asked.honest {
            Some(Packet::Record { location, record }) => Reply::Say(vec![wrong(location, record)]),
            _ => asked.honestly(),
        });
        let outcome = lab.restores(&fake, lab.good);
        // Where a record lies is the server's business, as long as it is the right one.
        if what != "of another location" {
            is_refused(outcome, what);
        }
    }
}

#[test]
fn records_in_each_others_place_are_found() {
    let lab = Lab::new();
    lab.folder.write("large", &[&b"another content"[..], &[3; 300_000]].concat());
    let name = lab.folder.backup(&lab.archive).snapshot;
    let before = parking_lot::Mutex::new(Vec::new());
    let fake = lab.lies(move |asked| match asked.honest {
        Some(Packet::Record { location, record }) => {
            let mut before = before.lock();
            let first: &mut Vec<u8> = &mut before;
            if first.is_empty() {
                first.clone_from(&record);
            }
            Reply::Say(vec![Packet::Record { location, record: first.clone() }])
        }
        _ => asked.honestly(),
    });
    is_refused(lab.restores(&fake, name), "always the same record");
}

#[test]
fn places_and_keys_that_are_wrong_lead_nowhere() {
    let lab = Lab::new();
    type Instead = fn(&Packet) -> Option<Packet>;
    let lies: Vec<(&str, Instead)> = vec![
        ("no locations", |packet| match packet {
            Packet::Locate { .. } => Some(Packet::Locations { locations: vec![] }),
            _ => None,
        }),
        ("one location too many", |packet| match packet {
            Packet::Locate { ids } => {
                Some(Packet::Locations { locations: vec![None; ids.len() + 1] })
            }
            _ => None,
        }),
        ("locations of nothing", |packet| match packet {
            Packet::Locate { ids } => Some(Packet::Locations { locations: vec![None; ids.len()] }),
            Packet::Fetch { .. } => Some(fault(Code::ObjectMissing, "gone", "", &[])),
            _ => None,
        }),
        ("locations far away", |packet| match packet {
            Packet::Locate { ids } => {
                let location = RecordLocation {
                    container: ContainerNo(u64::MAX),
                    offset: u32::MAX,
                    length: u32::MAX,
                };
                Some(Packet::Locations { locations: vec![Some(location); ids.len()] })
            }
            Packet::Fetch { .. } => Some(fault(Code::ObjectMissing, "gone", "", &[])),
            _ => None,
        }),
        ("no keys", |packet| match packet {
            Packet::GetSnapshot { .. } => Some(Packet::NotFound {}),
            Packet::GetKeys { .. } => Some(Packet::Keys { keys: vec![] }),
            _ => None,
        }),
        ("no slots", |packet| match packet {
            Packet::ListSlots { .. } => {
                Some(Packet::SlotList { slots: vec![], more: false, key_list: vec![] })
            }
            _ => None,
        }),
    ];
    for (what, lie) in lies {
        let fake = lab.lies(move |asked| match lie(asked.packet) {
            Some(packet) => Reply::Say(vec![packet]),
            None => asked.honestly(),
        });
        is_refused(lab.restores(&fake, lab.good), what);
    }
}

/// As many keys as fit into a reply, which open nothing.
fn other_keys() -> Packet {
    let keys = (0..KEYS_MAX as u64).map(|number| PathBytes(number.to_be_bytes().to_vec()));
    Packet::Keys { keys: keys.collect() }
}

/// Seen: they were cut off, and good data counted as damaged where the snapshot of a session was forgotten.
#[test]
fn the_keys_of_a_container_that_do_not_fit_into_one_reply_are_asked_for() {
    let lab = Lab::new();
    lab.folder.write("new", b"of another session");
    let (first, second) = (lab.good, lab.folder.backup(&lab.archive).snapshot);
    let answers = |more: fn(Asked<'_>) -> Reply| {
        lab.lies(move |asked| match asked.packet {
            Packet::GetKeys { .. } => Reply::Say(vec![other_keys()]),
            // Its file has the key, too.
            Packet::GetSnapshot { name } if name.id == first.id => {
                Reply::Say(vec![fault(Code::SnapshotMissing, "gone", "", &[])])
            }
            Packet::GetMoreKeys { .. } => more(asked),
            _ => asked.honestly(),
        })
    };
    assert_eq!(lab.restores(&answers(|asked| asked.honestly()), second), Ok(()));
    let falls = answers(|_| Reply::Say(vec![other_keys()]));
    is_refused(lab.restores(&falls, second), "keys that come again");
    let missing = answers(|_| Reply::Say(vec![Packet::Keys { keys: vec![] }]));
    is_refused(lab.restores(&missing, second), "no further keys");
}

/// Each reply as large as one may be.
#[test]
fn keys_that_have_no_end_are_a_lie() {
    let lab = Lab::new();
    lab.folder.write("new", b"of another session");
    let second = lab.folder.backup(&lab.archive).snapshot;
    let (asked_for, counted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (number, count) = (asked_for, counted.clone());
    let fake = lab.lies(move |asked| match asked.packet {
        Packet::GetKeys { .. } | Packet::GetMoreKeys { .. } => {
            count.fetch_add(1, Ordering::Relaxed);
            let first = number.fetch_add(KEYS_MAX as u64, Ordering::Relaxed);
            let key = |at: u64| [&(first + at).to_be_bytes()[..], &[0; 1000]].concat();
            let keys = (0..KEYS_MAX as u64).map(|at| PathBytes(key(at))).collect();
            Reply::Say(vec![Packet::Keys { keys }])
        }
        _ => asked.honestly(),
    });
    let _ = lab.restores(&fake, second);
    // Each record that is wanted asks once, and is given up after 64 MiB.
    let replies = counted.load(Ordering::Relaxed);
    assert!((60..=600).contains(&replies), "{replies}");
}

#[test]
fn entries_that_lead_out_of_the_target_lead_nowhere() {
    let lab = Lab::new();
    let trees: BTreeMap<&str, Vec<Entry>> = BTreeMap::from([
        ("above", vec![directory("tree"), file("tree/../../evil", b"x")]),
        ("dots", vec![file("..", b"x")]),
        ("from the root", vec![file("/tmp/evil", b"x")]),
        ("through a link", vec![symlink("tree", b"/tmp"), file("tree/evil", b"x")]),
        ("a name with a zero", vec![directory("tree"), file(b"tree/a\0b", b"x")]),
    ]);
    for (what, entries) in trees {
        let name = Forge::new(&lab.archive).publish_leaf(&entries);
        let fake = lab.lies(|asked| asked.honestly());
        let target = tempfile::tempdir_in(lab.folder.temp.path()).unwrap();
        let (dialed, to) = (dial(&fake), target.path().join("target"));
        std::fs::create_dir(&to).unwrap();
        let done = ends(move || {
            let archive = open(&dialed, Purpose::Restore)?;
            testkit::restore_to(&archive, name, &to).map_err(|error| error.to_string())
        });
        let is_told = done.as_ref().map_or(true, |report| report.failed > 0);
        assert!(is_told, "{what}: {done:?}");
        assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1, "{what}");
        assert!(!std::path::Path::new("/tmp/evil").exists(), "{what}");
    }
}
