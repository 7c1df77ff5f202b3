//! A frame of each packet, as it was first written. What reads frames today must read these for ever.
//!
//! A packet that is missing in the file is added by
//! `ICECORE_GOLDEN=write cargo test -p protocol --test golden`; one that is there is never changed.

use ids::{ContainerNo, KeyId, ObjectId, RecordLocation, SnapshotId};
use protocol::Packet;
use protocol::frame::{HEADER_BYTES, Header};
use protocol::packet::{PathBytes, Purpose, RULES, Slot, SnapshotLock, SnapshotName, rule};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The number of the request in each.
const REQUEST: u32 = 0x0a0b_0c0d;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/frames.txt")
}

/// The frames of the file by name.
fn golden() -> BTreeMap<String, Vec<u8>> {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, hex) = line.split_once(' ').expect("a name and a frame");
            let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { panic!("{name}: odd") };
            let byte = |pair: &[u8; 2]| str::from_utf8(pair).map(|it| u8::from_str_radix(it, 16));
            let frame = pairs.iter().map(|pair| byte(pair).expect("text").expect("hex")).collect();
            (name.to_owned(), frame)
        })
        .collect()
}

fn write(frames: &BTreeMap<String, Vec<u8>>) {
    let mut text = "# A frame of each packet, version 1. See ../golden.rs.\n".to_owned();
    for (name, frame) in RULES.iter().filter_map(|rule| frames.get_key_value(rule.name)) {
        let hex = frame.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes all");
            hex
        });
        writeln!(text, "{name} {hex}").expect("a string takes all");
    }
    std::fs::write(path(), text).expect("the golden file");
}

#[test]
fn what_was_sent_is_read_and_sent_alike() {
    let mut golden = golden();
    if std::env::var_os("ICECORE_GOLDEN").is_some() {
        for packet in packets() {
            golden.entry(packet.name().to_owned()).or_insert_with(|| packet.frame(REQUEST));
        }
        write(&golden);
    }
    for packet in packets() {
        let name = packet.name();
        let frame = golden.get(name).unwrap_or_else(|| panic!("no golden frame of {name}"));
        assert_eq!(&packet.frame(REQUEST), frame, "{name}: as today's program sends it");
        let (header, body) = frame.split_first_chunk::<HEADER_BYTES>().expect("a header");
        let header = Header::decode(header, rule(frame[0]).expect("a rule").from);
        let expected = Header { kind: packet.kind(), request: REQUEST, body_bytes: body.len() };
        assert_eq!(header, Ok(expected), "{name}");
        assert_eq!(Packet::decode(packet.kind(), body.to_vec()), Ok(packet));
    }
}

#[test]
fn every_packet_has_a_golden_frame_and_every_frame_a_packet() {
    let mut rules: Vec<_> = RULES.iter().map(|rule| rule.name.to_owned()).collect();
    rules.sort();
    assert_eq!(golden().into_keys().collect::<Vec<_>>(), rules);
    let mut names: Vec<_> = packets().iter().map(|packet| packet.name().to_owned()).collect();
    names.sort();
    assert_eq!(names, rules);
}

/// Every cut and every byte too many is an error, and no flipped bit makes a packet that is written
/// in another way.
#[test]
fn cut_and_flipped_bodies_are_errors_or_other_packets() {
    for (name, frame) in golden() {
        let (kind, body) = (frame[0], &frame[HEADER_BYTES..]);
        let has_rest = rule(kind).expect("a rule").fields.iter().any(|field| field.1 == "rest");
        for length in (0..body.len()).filter(|_| !has_rest) {
            assert!(Packet::decode(kind, body[..length].to_vec()).is_err(), "{name} of {length}");
        }
        if !has_rest {
            assert!(Packet::decode(kind, [body, &[0]].concat()).is_err(), "{name}: too long");
        }
        for bit in 0..body.len() * 8 {
            let mut flipped = body.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(packet) = Packet::decode(kind, flipped.clone()) {
                let mut again = Vec::new();
                packet.encode_body(&mut again);
                assert_eq!(again, flipped, "{name}, bit {bit}");
            }
        }
    }
}

fn id(byte: u8) -> ObjectId {
    ObjectId([byte; 24])
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// One packet of each kind, no two fields alike.
fn packets() -> Vec<Packet> {
    [of_clients(), of_servers()].concat()
}

const LOCATION: RecordLocation =
    RecordLocation { container: ContainerNo(7), offset: 64, length: 0x0102_0304 };
const NAME: SnapshotName = SnapshotName { sequence: 42, id: SnapshotId([0x5a; 16]) };

fn bytes(bytes: &[u8]) -> PathBytes {
    PathBytes(bytes.to_vec())
}

fn slots() -> Vec<Slot> {
    let slot = |byte| Slot { id: KeyId([byte; 8]), bytes: vec![byte; 3] };
    vec![slot(1), slot(2)]
}

fn of_clients() -> Vec<Packet> {
    let (location, name) = (LOCATION, NAME);
    vec![
        Packet::Hello { oldest: 1, newest: 2, program: text("icecore 0.1.0") },
        Packet::Open { domain: text("web"), purpose: Purpose::Backup },
        Packet::Init { config: bytes(b"settings"), slots: slots(), key_list: b"signers".to_vec() },
        Packet::ListSnapshots { after: 41 },
        Packet::GetSnapshot { name },
        Packet::GetNewest { source: id(3) },
        Packet::ListSlots { after: Some(KeyId([6; 8])) },
        Packet::Locate { ids: vec![id(4), id(5)] },
        Packet::Read { location },
        Packet::Fetch { id: id(6) },
        Packet::GetKeys { container: ContainerNo(8), healed: true },
        Packet::Heal { location },
        Packet::Begin { base: Some(name), what: text("/home"), record: bytes(b"session") },
        Packet::Attach { session: [9; 16], secret: [10; 16], stream: 2 },
        Packet::Claim { ids: vec![id(11)] },
        Packet::Holds { ids: vec![] },
        Packet::Append { record: b"a record".to_vec() },
        Packet::GetNumber {},
        Packet::Commit { manifest: b"a manifest".to_vec() },
        Packet::Progress {
            objects: 12,
            bytes: 13,
            bytes_read: 14,
            stage: text("store"),
            path: bytes(b"/home/\xff"),
        },
        Packet::Finish { is_complete: true, report: b"{}".to_vec() },
        Packet::GetNoise { bytes: 1 << 20 },
        Packet::SendNoise { noise: vec![15; 4] },
        Packet::Ping {},
        Packet::Bye {},
        Packet::CommandDone { command: 16, is_complete: false, report: b"no".to_vec() },
        Packet::PutSlot { slot: Slot { id: KeyId([29; 8]), bytes: vec![30; 3] } },
        Packet::RemoveSlot { id: KeyId([31; 8]) },
        Packet::PutKeyList { key_list: b"signers".to_vec() },
        Packet::Forget { session: bytes(b"session"), tombstone: b"a tombstone".to_vec() },
        Packet::Expire { expiry: b"an expiry".to_vec() },
        Packet::Upkeep { job: 34, goes_on: true, request: b"{}".to_vec() },
        Packet::GetExpiry { number: 36 },
        Packet::Checkpoint {},
        Packet::GetMoreKeys { container: ContainerNo(8), healed: false, after: bytes(b"a key") },
    ]
}

fn of_servers() -> Vec<Packet> {
    let (location, name) = (LOCATION, NAME);
    vec![
        Packet::Welcome {
            version: 1,
            program: text("icecore 0.1.0"),
            time_secs: -2,
            node: text("web"),
            window_bytes: 32 << 20,
            streams: 16,
        },
        Packet::Opened {
            domain: text("web"),
            config: bytes(b"settings"),
            damage_epoch: 17,
            may_write: true,
            may_read: false,
            may_init: true,
            receipt_keys: vec![bytes(&[33; 32])],
        },
        Packet::Done {},
        Packet::SnapshotList { names: vec![name], more: true },
        Packet::Snapshot { name, file: b"a snapshot file".to_vec() },
        Packet::NotFound {},
        Packet::SlotList { slots: slots(), more: true, key_list: b"signers".to_vec() },
        Packet::Locations { locations: vec![Some(location), None] },
        Packet::Record { location, record: b"a record".to_vec() },
        Packet::Keys { keys: vec![bytes(b"one"), bytes(b"two")] },
        Packet::Begun { session: [18; 16], secret: [19; 16], is_empty: true },
        Packet::Attached { applied: 20 },
        protocol::flags::pack(&[true, false, false, true, true, false, true, false, true]),
        Packet::Stored { applied: 21, stored_bytes: 22 },
        Packet::Number { number: 23 },
        Packet::Committed { name, stored_bytes: 24 },
        Packet::Noise { noise: vec![25; 3] },
        Packet::Pong {},
        Packet::Limits { up: 26, down: 0, reason: text("office hours") },
        Packet::Command { command: 27, json: b"{\"id\":27}".to_vec() },
        Packet::Cancel { reason: text("an administrator") },
        Packet::Redirect { host: text("disk.example.com"), port: 8477 },
        Packet::Forgotten { count: 12 },
        Packet::Expired { locked: vec![SnapshotLock { id: NAME.id, until_secs: -35 }] },
        Packet::UpkeepStatus { status: b"{}".to_vec() },
        Packet::ExpiryRecord { expiry: b"an expiry".to_vec() },
        Packet::Fault {
            code: 9,
            message: text("an object is missing"),
            hint: text("icecore check"),
            about: bytes(&[28; 24]),
        },
    ]
}
