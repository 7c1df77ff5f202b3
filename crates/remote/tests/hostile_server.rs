//! A server with a good certificate that lies. Whoever restores from it or backs up to it ends with
//! an error that says so: no wrong byte, nothing outside of the target, no panic, no hang.
//!
//! What no client can see by itself: a server that shows fewer snapshots than it showed before,
//! and one that says of an object that it has it. For the first there is the memory of a node
//! (`crates/client/src/history.rs`), for the second a check that reads data.

#![allow(
    clippy::type_complexity,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

#[path = "hostile/fake.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod fake;
#[path = "../../client/tests/it/testkit/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "of the tests of another crate, and more than is needed"
)]
mod testkit;

use client::Archive;
use fake::{Asked, Fake, Reply};
use format::entry::Entry;
use ids::{ContainerNo, Place as At, SnapshotId};
use protocol::Packet;
use protocol::fault::{Code, fault};
use protocol::frame::Header;
use protocol::packet::{PathBytes, RULES, SnapshotName};
use remote::{Purpose, Remote, Target};
use repository::snapshots::SnapshotRef;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use testkit::forge::{Forge, directory, file, symlink};
use testkit::{PASSWORD, Place};

/// Nothing here takes longer, whatever a server does.
const PATIENCE: Duration = Duration::from_secs(90);

/// A place with a source of a small and a large file, backed up.
struct Lab {
    place: Place,
    archive: Archive,
    good: SnapshotRef,
}

impl Lab {
    fn new() -> Self {
        let place = Place::new();
        place.write("small", b"a small file");
        let mut noise = vec![0; 400 << 10];
        getrandom::fill(&mut noise).unwrap();
        place.write("large", &noise);
        let archive = place.init();
        let good = place.backup(&archive).snapshot;
        Self { place, archive, good }
    }

    fn lies(&self, lie: impl Fn(Asked<'_>) -> Reply + Send + Sync + 'static) -> Fake {
        Fake::start(Some(self.archive.local().unwrap().clone()), lie)
    }

    /// Restores through `fake`; what comes is as it was, or an error.
    fn restores(&self, fake: &Fake, name: SnapshotRef) -> Result<(), String> {
        let target = tempfile::tempdir_in(self.place.folder.path()).unwrap();
        let to = target.path().join("target");
        std::fs::create_dir(&to).unwrap();
        let dialled = dial(fake);
        let path = to.clone();
        let done = ends(move || {
            let archive = open(&dialled, Purpose::Restore)?;
            testkit::restore_to(&archive, name, &path).map_err(|error| error.to_string())
        });
        let beside: Vec<_> = std::fs::read_dir(target.path()).unwrap().collect();
        assert_eq!(beside.len(), 1, "something stands beside the target");
        for name in ["small", "large"] {
            let found = std::fs::read(to.join("tree").join(name)).unwrap_or_default();
            let was = std::fs::read(self.place.source().join(name)).unwrap();
            if matches!(&done, Ok(report) if report.failed == 0) {
                assert_eq!(found, was, "{name} is not whole, and nobody said so");
            }
            let is_part = found.iter().zip(&was).all(|(one, other)| one == other || *one == 0);
            assert!(is_part && found.len() <= was.len(), "{name} holds wrong bytes");
        }
        match done? {
            report if report.failed == 0 => Ok(()),
            report => Err(format!("{} files failed", report.failed)),
        }
    }

    /// Backs up through `fake`.
    fn backs_up(&self, fake: &Fake) -> Result<SnapshotRef, String> {
        self.place.write("new", format!("{:?}", fake.address).repeat(5_000).as_bytes());
        let (dialled, options) = (dial(fake), self.place.options());
        ends(move || {
            let archive = open(&dialled, Purpose::Backup)?;
            let (progress, heard) = Default::default();
            let _: &testkit::Heard = &heard;
            let done = client::backup::run(&archive, &options, &progress, &heard);
            done.map(|done| done.snapshot).map_err(|error| error.to_string())
        })
    }
}

fn dial(fake: &Fake) -> Target {
    let tls = pki::client::client_config(&fake.authority_pem, None, protocol::ALPN).unwrap();
    Target {
        host: fake.address.ip().to_string(),
        port: fake.address.port(),
        tls: Arc::new(tls),
        domain: String::new(),
        buffer_bytes: 0,
        streams: 0,
        limits: [0, 0],
        first_patience: Duration::ZERO,
        patience: Duration::from_secs(3),
    }
}

fn open(target: &Target, purpose: Purpose) -> Result<Archive, String> {
    let remote = Remote::connect(target, purpose).map_err(|error| error.to_string())?;
    Archive::open_store(remote, PASSWORD).map_err(|error| error.to_string())
}

/// Runs to its end, or fails the test when there is none.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waits) = channel();
    let thread = std::thread::spawn(move || done.send(work()));
    match waits.recv_timeout(PATIENCE) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(RecvTimeoutError::Disconnected) => panic!("it panicked: {:?}", thread.join()),
    }
}

fn is_refused<T: std::fmt::Debug>(outcome: Result<T, String>, what: &str) {
    let error = outcome.expect_err(what);
    assert!(!error.is_empty(), "{what}: says nothing");
}

#[test]
fn an_honest_one_serves() {
    let lab = Lab::new();
    let fake = lab.lies(|asked| asked.honestly());
    assert_eq!(lab.restores(&fake, lab.good), Ok(()));
    let name = lab.backs_up(&fake).unwrap();
    assert_eq!(lab.restores(&fake, name), Ok(()));
}

/// Makes another packet of a record and its place.
type Wrong = fn(At, Vec<u8>) -> Packet;

/// What is said instead of a record.
fn wrong_records() -> Vec<(&'static str, Wrong)> {
    vec![
        ("flipped", |place, mut record| {
            let at = record.len() / 2;
            record[at] ^= 1;
            Packet::Record { place, record }
        }),
        ("empty", |place, _| Packet::Record { place, record: vec![] }),
        ("shorter", |place, record| Packet::Record {
            place,
            record: record[..record.len() / 2].to_vec(),
        }),
        ("twice", |place, record| Packet::Record {
            place,
            record: [&record[8..], &record].concat(),
        }),
        ("zeros", |place, record| Packet::Record { place, record: vec![0; record.len()] }),
        ("of another place", |place, record| {
            let place = At { container: ContainerNo(place.container.0 + 1), ..place };
            Packet::Record { place, record }
        }),
        ("nothing", |_, _| Packet::Nothing {}),
        ("done", |_, _| Packet::Done {}),
        ("places", |_, _| Packet::Places { places: vec![] }),
        ("missing", |_, _| fault(Code::ObjectMissing, "gone", "", &[1; 24])),
        ("missing, of nothing", |_, _| fault(Code::ObjectMissing, "gone", "", &[])),
    ]
}

#[test]
fn wrong_records_are_found_and_no_wrong_byte_is_written() {
    let lab = Lab::new();
    for (what, wrong) in wrong_records() {
        let fake = lab.lies(move |asked| match asked.honest {
            Some(Packet::Record { place, record }) => Reply::Say(vec![wrong(place, record)]),
            _ => asked.honestly(),
        });
        let outcome = lab.restores(&fake, lab.good);
        // Where a record lies is the server's business, as long as it is the right one.
        if what != "of another place" {
            is_refused(outcome, what);
        }
    }
}

#[test]
fn records_in_each_others_place_are_found() {
    let lab = Lab::new();
    lab.place.write("large", &[&b"another content"[..], &[3; 300_000]].concat());
    let name = lab.place.backup(&lab.archive).snapshot;
    let before = parking_lot::Mutex::new(Vec::new());
    let fake = lab.lies(move |asked| match asked.honest {
        Some(Packet::Record { place, record }) => {
            let mut before = before.lock();
            let first: &mut Vec<u8> = &mut before;
            if first.is_empty() {
                first.clone_from(&record);
            }
            Reply::Say(vec![Packet::Record { place, record: first.clone() }])
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
        ("no places", |packet| match packet {
            Packet::Locate { .. } => Some(Packet::Places { places: vec![] }),
            _ => None,
        }),
        ("one place too many", |packet| match packet {
            Packet::Locate { ids } => Some(Packet::Places { places: vec![None; ids.len() + 1] }),
            _ => None,
        }),
        ("places of nothing", |packet| match packet {
            Packet::Locate { ids } => Some(Packet::Places { places: vec![None; ids.len()] }),
            Packet::Fetch { .. } => Some(fault(Code::ObjectMissing, "gone", "", &[])),
            _ => None,
        }),
        ("places far away", |packet| match packet {
            Packet::Locate { ids } => {
                let place =
                    At { container: ContainerNo(u64::MAX), offset: u32::MAX, length: u32::MAX };
                Some(Packet::Places { places: vec![Some(place); ids.len()] })
            }
            Packet::Fetch { .. } => Some(fault(Code::ObjectMissing, "gone", "", &[])),
            _ => None,
        }),
        ("no keys", |packet| match packet {
            Packet::GetSnapshot { .. } => Some(Packet::Nothing {}),
            Packet::GetKeys { .. } => Some(Packet::Keys { keys: vec![] }),
            _ => None,
        }),
        ("no slots", |packet| match packet {
            Packet::ListSlots {} => Some(Packet::SlotList { slots: vec![] }),
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

#[test]
fn manifests_that_are_forged_or_of_others_are_refused() {
    let (lab, other) = (Lab::new(), Lab::new());
    let foreign = other.archive.store.snapshot(other.good).unwrap().to_bytes();
    let own = lab.archive.store.snapshot(lab.good).unwrap().to_bytes();
    lab.place.write("small", b"changed");
    let later = lab.place.backup(&lab.archive).snapshot;
    let mut files =
        vec![foreign, own.clone(), vec![], vec![0; 1000], own[..own.len() / 2].to_vec()];
    let honest = lab.archive.store.snapshot(later).unwrap().to_bytes();
    files.extend((0..honest.len()).step_by(honest.len() / 40).map(|at| {
        let mut flipped = honest.clone();
        flipped[at] ^= 0x20;
        flipped
    }));
    for (number, file) in files.into_iter().enumerate() {
        let fake = lab.lies(move |asked| match asked.honest {
            Some(Packet::Snapshot { name, .. }) => {
                Reply::Say(vec![Packet::Snapshot { name, file: file.clone() }])
            }
            _ => asked.honestly(),
        });
        is_refused(lab.restores(&fake, later), &format!("file {number}"));
    }
}

#[test]
fn lists_that_do_not_rise_or_do_not_end_are_refused() {
    let lab = Lab::new();
    let name = |sequence| SnapshotName { sequence, id: SnapshotId([1; 16]) };
    type List = dyn Fn(u64) -> (Vec<SnapshotName>, bool) + Send + Sync;
    let lists: Vec<Box<List>> = vec![
        Box::new(move |_| (vec![name(2), name(1)], false)),
        Box::new(move |_| (vec![name(2), name(2)], false)),
        Box::new(move |_| (vec![name(0)], false)),
        Box::new(move |_| (vec![], true)),
        Box::new(move |after| (vec![name(after)], true)),
        Box::new(move |after| ((1..=1500).map(|at| name(after + at)).collect(), true)),
    ];
    for (number, list) in lists.into_iter().enumerate() {
        let fake = lab.lies(move |asked| match asked.packet {
            Packet::ListSnapshots { after } => {
                let (names, more) = list(*after);
                Reply::Say(vec![Packet::SnapshotList { names, more }])
            }
            _ => asked.honestly(),
        });
        let dialled = dial(&fake);
        let listed = ends(move || {
            let archive = open(&dialled, Purpose::Look)?;
            archive.store.snapshots().map_err(|error| error.to_string())
        });
        is_refused(listed, &format!("list {number}"));
    }
}

#[test]
fn another_repository_behind_the_same_address_is_noticed() {
    let (lab, other) = (Lab::new(), Lab::new());
    let config = other.archive.store.config().encode();
    let fake = lab.lies(move |asked| match asked.honest {
        Some(Packet::Opened { domain, damage_epoch, .. }) if asked.connection > 1 => {
            let config = PathBytes(config.clone());
            let (may_write, may_read, may_init) = (true, true, false);
            Reply::Say(vec![Packet::Opened {
                domain,
                config,
                damage_epoch,
                may_write,
                may_read,
                may_init,
            }])
        }
        Some(Packet::Snapshot { .. }) if asked.connection == 1 => Reply::Cut,
        _ => asked.honestly(),
    });
    let error = lab.restores(&fake, lab.good).unwrap_err();
    assert!(error.contains("another repository"), "{error}");
}

#[test]
fn answers_that_are_none_end_a_backup() {
    let lab = Lab::new();
    type Instead = fn(&Asked<'_>) -> Option<Packet>;
    let lies: Vec<(&str, Instead)> = vec![
        ("too few answers", |asked| match asked.packet {
            Packet::Claim { ids } | Packet::Holds { ids } => {
                Some(Packet::Answers { count: ids.len() as u32 - 1, bits: vec![0xff; 99] })
            }
            _ => None,
        }),
        ("bits that lack", |asked| match asked.packet {
            Packet::Claim { ids } | Packet::Holds { ids } => {
                Some(Packet::Answers { count: ids.len() as u32, bits: vec![] })
            }
            _ => None,
        }),
        ("more confirmed than sent", |asked| match &asked.honest {
            Some(Packet::Stored { applied, .. }) => {
                Some(Packet::Stored { applied: applied + 5, stored_bytes: 0 })
            }
            _ => None,
        }),
        ("less confirmed than before", |asked| match &asked.honest {
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
fn a_session_that_is_lost_leaves_nothing_to_the_next() {
    let lab = Lab::new();
    let begun = AtomicU64::new(0);
    // The first session is lost at its first claim; whatever comes then must be of the second.
    let fake = lab.lies(move |asked| match asked.packet {
        Packet::Begin { .. } => {
            begun.fetch_add(1, Ordering::SeqCst);
            asked.honestly()
        }
        Packet::Claim { .. } if begun.load(Ordering::SeqCst) == 1 => Reply::Cut,
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
    for kind in [7, 5, 13, 15, 19] {
        let fake = lab.lies(move |asked| match asked.packet.kind() == kind {
            true => Reply::Cut,
            false if matches!(asked.packet, Packet::Attach { .. }) => {
                Reply::Say(vec![Packet::Attached { applied: 0 }])
            }
            false => asked.honestly(),
        });
        match kind {
            5 => is_refused(lab.restores(&fake, lab.good), "cut"),
            _ => is_refused(lab.backs_up(&fake), "cut"),
        }
        let connections = fake.connections.load(Ordering::SeqCst);
        assert!(connections < 100, "it came back {connections} times in three seconds");
    }
}

#[test]
fn what_is_no_frame_ends_the_job() {
    let lab = Lab::new();
    let header = |kind, body_bytes| Header { kind, request: 1, body_bytes }.encode().to_vec();
    let mut all = vec![vec![0xff; 40], vec![0; 12], header(99, 0), header(1, 0)];
    all.push([header(131, 1), vec![0]].concat());
    all.extend(RULES.iter().filter(|it| it.kind > 128).map(|it| header(it.kind, it.limit + 1)));
    all.push([header(137, 2), vec![0xff, 0xff]].concat());
    all.push([header(134, 3), vec![1, 2, 3]].concat());
    all.push(Packet::Done {}.frame(77_777));
    for bytes in all {
        let said = bytes.clone();
        let fake = lab.lies(move |asked| match asked.packet {
            Packet::GetSnapshot { .. } => Reply::Bytes(bytes.clone()),
            _ => asked.honestly(),
        });
        is_refused(lab.restores(&fake, lab.good), &format!("{:?}", &said[..12]));
    }
}

#[test]
fn a_server_that_greets_nobody_is_given_up() {
    let lab = Lab::new();
    let fake = lab.lies(|_| Reply::Silence);
    is_refused(lab.restores(&fake, lab.good), "silence");
}

#[test]
fn greetings_that_are_none_are_refused() {
    let lab = Lab::new();
    let welcome = |version| Packet::Welcome {
        version,
        program: String::new(),
        time_secs: i64::MIN,
        node: String::new(),
        window_bytes: 0,
        streams: 255,
    };
    for packet in [welcome(0), welcome(2), Packet::Done {}, Packet::Pong {}, Packet::Nothing {}] {
        let fake = lab.lies(move |_| Reply::Say(vec![packet.clone()]));
        is_refused(lab.restores(&fake, lab.good), "a greeting");
    }
    let config = lab.archive.store.config().encode();
    let configs: Vec<Vec<u8>> = (0..config.len())
        .map(|at| {
            let mut flipped = config.clone();
            flipped[at] ^= 1;
            flipped
        })
        .collect();
    for config in configs.into_iter().step_by(5) {
        let fake = lab.lies(move |asked| match asked.honest {
            Some(Packet::Opened { domain, .. }) => Reply::Say(vec![Packet::Opened {
                domain,
                config: PathBytes(config.clone()),
                damage_epoch: u64::MAX,
                may_write: true,
                may_read: true,
                may_init: true,
            }]),
            _ => asked.honestly(),
        });
        // What only tells a time or how to cut may differ; then all is as it was.
        let _ = lab.restores(&fake, lab.good);
    }
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
        let target = tempfile::tempdir_in(lab.place.folder.path()).unwrap();
        let (dialled, to) = (dial(&fake), target.path().join("target"));
        std::fs::create_dir(&to).unwrap();
        let done = ends(move || {
            let archive = open(&dialled, Purpose::Restore)?;
            testkit::restore_to(&archive, name, &to).map_err(|error| error.to_string())
        });
        let is_told = done.as_ref().map_or(true, |report| report.failed > 0);
        assert!(is_told, "{what}: {done:?}");
        assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1, "{what}");
        assert!(!std::path::Path::new("/tmp/evil").exists(), "{what}");
    }
}
