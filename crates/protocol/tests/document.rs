//! `docs/PROTOCOL.md` and the code say the same.

use protocol::fault::Code;
use protocol::frame::{HEADER_BYTES, Header};
use protocol::packet::{End, PathBytes, Purpose, RULES, SnapshotName};
use protocol::state::State;
use protocol::{Packet, limits};
use std::collections::{BTreeMap, BTreeSet};

const STATES: [(&str, State); 5] = [
    ("new", State::New),
    ("greeted", State::Greeted),
    ("open", State::Open),
    ("in a session", State::InSession),
    ("over", State::Over),
];

fn read(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document() -> String {
    read("../../docs/PROTOCOL.md")
}

/// The cells of the table with this heading.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = document();
    let mut lines = text.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "no table {heading:?}");
    let rows: Vec<_> = lines.take_while(|line| line.starts_with('|')).skip(1).collect();
    assert!(!rows.is_empty(), "nothing in the table {heading:?}");
    let cell = |cell: &str| cell.trim().to_owned();
    let inner = |row: &&str| row[1..row.len() - 1].split('|').map(cell).collect();
    rows.iter().map(inner).collect()
}

fn number(cell: &str) -> u64 {
    cell.replace(',', "").parse().unwrap_or_else(|_| panic!("{cell:?} is no number"))
}

/// Types of the document by those of the code.
fn types() -> BTreeMap<String, String> {
    let rows = table("| type | in code | how it lies |");
    rows.into_iter().map(|row| (row[1].trim_matches('`').to_owned(), row[0].clone())).collect()
}

/// A type of the code in the words of the document.
fn told(code: &str, types: &BTreeMap<String, String>) -> String {
    let inner = |start: &str| code.strip_prefix(start).and_then(|rest| rest.strip_suffix('>'));
    if let Some(item) = inner("Vec<") {
        return format!("list of {}", told(item, types));
    }
    if let Some(item) = inner("Option<") {
        return format!("maybe {}", told(item, types));
    }
    types.get(code).unwrap_or_else(|| panic!("the type {code} is not in the document")).clone()
}

#[test]
fn the_packets_are_those_of_the_document() {
    let types = types();
    let rows = table("| number | packet | from | longest body | what |");
    let fields = table("| packet | fields |");
    let found: Vec<_> = rows
        .iter()
        .zip(&fields)
        .map(|(row, fields)| {
            assert_eq!(row[1], fields[0], "both tables have the same packets");
            [&row[..4], &fields[1..2]].concat()
        })
        .collect();
    assert_eq!(rows.len(), fields.len());
    let expected: Vec<Vec<String>> = RULES
        .iter()
        .map(|rule| {
            let field = |(name, code): &(&str, &str)| format!("`{name}` {}", told(code, &types));
            let fields: Vec<_> = rule.fields.iter().map(field).collect();
            vec![
                rule.kind.to_string(),
                rule.name.to_owned(),
                format!("{:?}", rule.from).to_lowercase(),
                rule.limit.to_string(),
                if fields.is_empty() { "—".to_owned() } else { fields.join("; ") },
            ]
        })
        .collect();
    for (found, expected) in found.iter().zip(&expected) {
        let mut found = found.clone();
        found[3] = number(&found[3]).to_string();
        assert_eq!(&found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn the_purposes_are_those_of_the_document() {
    let rows = table("| number | purpose | what |");
    let found = rows.iter().map(|row| (number(&row[0]), row[1].clone()));
    let known = Purpose::ALL.iter().map(|purpose| (*purpose as u64, format!("{purpose:?}")));
    assert!(found.eq(known));
}

#[test]
fn numbers_of_packets_tell_the_end_and_rise() {
    for rule in RULES {
        assert_eq!(rule.kind < 128, rule.from == End::Client, "{}", rule.name);
    }
    assert!(RULES.is_sorted_by(|one, next| one.kind < next.kind), "each number once");
}

macro_rules! known_limits {
    ($($name:ident)*) => {
        BTreeMap::from([$((stringify!($name).to_owned(), limits::$name as u64)),*])
    };
}

#[test]
fn the_limits_are_those_of_the_document() {
    let known = known_limits!(
        SMALL_BYTES_MAX RECORD_PACKET_BYTES_MAX IDS_MAX KEYS_MAX SNAPSHOTS_MAX SLOTS_MAX
        FORGET_BYTES_MAX KEY_LIST_BYTES_MAX TEXT_BYTES_MAX PATH_BYTES_MAX SNAPSHOT_BYTES_MAX
        JSON_BYTES_MAX STREAMS_MAX REQUESTS_MAX WINDOW_BYTES_MAX
    );
    let source = read("src/limits.rs");
    let constants =
        source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let missing: Vec<_> = constants.filter(|name| !known.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}: add new limits here and to the document");
    let rows = table("| constant | value | what |");
    let found = rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), number(&row[1])));
    assert_eq!(found.collect::<BTreeMap<_, u64>>(), known);
}

#[test]
fn the_frame_is_laid_out_as_told() {
    let header = Header { kind: 17, request: 0x0102_0304, body_bytes: 0x05_0607 }.encode();
    let (request, length) = (0x0102_0304u32.to_le_bytes(), 0x05_0607u32.to_le_bytes());
    let expected: [&[u8]; 4] = [&[17], &[0; 3], &request, &length];
    let mut end = 0;
    let rows = table("| offset | length | field |");
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        let (offset, length) = (number(&row[0]) as usize, number(&row[1]) as usize);
        assert_eq!(offset, end, "{}", row[2]);
        end += length;
        assert_eq!(&header[offset..end], expected, "{}", row[2]);
    }
    assert_eq!(end, HEADER_BYTES);
}

/// P-5.2.
#[test]
fn the_rest_comes_first_and_the_length_of_the_fields_last() {
    let name = SnapshotName { sequence: 1, id: ids::SnapshotId([2; 16]) };
    let mut body = Vec::new();
    Packet::Snapshot { name, file: vec![9; 5] }.encode_body(&mut body);
    let fields = [&1u64.to_le_bytes()[..], &[2; 16]].concat();
    assert_eq!(body, [&[9; 5][..], &fields, &24u16.to_le_bytes()].concat());
}

#[test]
fn what_may_come_when_is_as_told() {
    let heading = "| packets | new | greeted | open | in a session | over |";
    let mut seen = BTreeSet::new();
    for row in table(heading) {
        for name in row[0].split(", ") {
            let rule = RULES.iter().find(|rule| rule.name == name);
            let rule = rule.unwrap_or_else(|| panic!("there is no packet {name}"));
            assert!(seen.insert(rule.kind), "{name} twice");
            for ((word, state), cell) in STATES.iter().zip(&row[1..]) {
                let may_come = state.admits(rule.kind).is_ok();
                assert_eq!(may_come, cell == "✓", "{name} in the state {word}");
            }
        }
    }
    let clients = RULES.iter().filter(|rule| rule.from == End::Client).map(|rule| rule.kind);
    assert_eq!(seen, clients.collect::<BTreeSet<_>>());
}

#[test]
fn replies_change_the_state_as_documented() {
    let rows = table("| reply | state after it |");
    let state = |word: &str| STATES.iter().find(|(other, _)| *other == word).expect("a state").1;
    let told: BTreeMap<String, State> = rows
        .iter()
        .flat_map(|row| row[0].split(", ").map(|name| (name.to_owned(), state(&row[1]))))
        .collect();
    for rule in RULES.iter().filter(|rule| rule.from == End::Server) {
        let packet = smallest(rule.kind);
        for (word, before) in STATES {
            let expected = told.get(rule.name).copied().unwrap_or(before);
            assert_eq!(before.after(&packet), expected, "{} after {word}", rule.name);
        }
    }
}

/// A packet of this kind, of zeros, as few as do; P-5.2 puts the length of the fields behind a rest.
fn smallest(kind: u8) -> Packet {
    let plain = (0..128).map(|length| vec![0; length]);
    let with_rest =
        (0..128u16).map(|length| [&vec![0; length.into()][..], &length.to_le_bytes()].concat());
    let mut packets = plain.chain(with_rest).filter_map(|body| Packet::decode(kind, body).ok());
    packets.next().unwrap_or_else(|| panic!("no packet {kind} of zeros"))
}

#[test]
fn the_codes_of_errors_are_those_of_the_document() {
    let rows = table("| code | name | when | about | transient |");
    let found = rows.iter().map(|row| (number(&row[0]), row[1].clone(), row[4] == "✓"));
    let known = Code::ALL.map(|it| (it as u64, format!("{it:?}"), it.is_transient()));
    assert_eq!(found.collect::<Vec<_>>(), known);
    assert_eq!(Code::from_number(999), Code::Failed);
}

/// P-8.5.
#[test]
fn a_fault_can_always_be_decoded_again() {
    let (text, about) = ("a\u{7}\n".repeat(9000), [7; 999]);
    let fault = protocol::fault::fault(Code::Failed, &text, &text, &about);
    let mut body = Vec::new();
    fault.encode_body(&mut body);
    assert_eq!(Packet::decode(255, body), Ok(fault.clone()));
    let Packet::Fault { message, about: PathBytes(about), .. } = fault else { panic!() };
    assert!(message.chars().all(|it| it == 'a') && about.len() == 64);
}

/// The constants lie in crates above this one: they are looked up in their source.
#[test]
fn the_time_outs_are_those_of_the_code() {
    for row in table("| what | value | constant |") {
        let cell: Vec<_> = row[2].split('`').collect();
        let (name, path) = (cell[1], cell[3]);
        let source = read(&format!("../../{path}"));
        let start = format!("const {name}: Duration = Duration::from_");
        let line = source.lines().find_map(|line| line.split_once(&start));
        let (_, value) = line.unwrap_or_else(|| panic!("no {name} in {path}"));
        let (amount, unit) = row[1].split_once(' ').expect("an amount and its unit");
        let expected = match unit {
            "ms" => format!("millis({amount});"),
            "s" => format!("secs({amount});"),
            "min" => format!("secs({amount} * 60);"),
            other => panic!("the unit {other}"),
        };
        assert_eq!(value, expected, "{name} in {path}");
    }
}

#[test]
fn sentences_have_numbers_that_rise() {
    let mut before = (0, 0);
    for sentence in document().lines().filter_map(|line| line.strip_prefix("- **P-")) {
        let (number, _) = sentence.split_once("**").expect("a number");
        let (chapter, place) = number.split_once('.').expect("chapter.place");
        let now: (u32, u32) =
            (chapter.parse().expect("a chapter"), place.parse().expect("a place"));
        let next = if now.0 == before.0 { before.1 + 1 } else { 1 };
        assert!(now.0 >= before.0 && now.1 == next, "P-{number} after {before:?}");
        before = now;
    }
    assert_eq!(before.0, 14);
}
