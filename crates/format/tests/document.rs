//! `docs/FORMAT.md` and the code say the same.

use format::container::{self, Row, encode_footer};
use format::expiry::Expiry;
use format::page::{PageKind, put_head};
use format::parity::Geometry;
use format::receipt::{Lock, Receipt};
use format::record::{self, Codec, RecordKind};
use format::{limits, manifest};
use ids::{ContainerNo, KeyId, ObjectId, RepositoryId, SessionId, SnapshotId};
use std::collections::BTreeMap;

fn read(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document() -> String {
    read("../../docs/FORMAT.md")
}

/// The cells of the table that begins with `heading`, somewhere after the line `after`.
fn table(after: &str, heading: &str) -> Vec<Vec<String>> {
    let text = document();
    let lines = text.lines().skip_while(|line| *line != after).skip(1);
    let mut lines = lines.skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "no table after {after:?}");
    let rows = lines.take_while(|line| line.starts_with('|')).skip(1);
    let cell = |cell: &str| cell.trim().to_owned();
    rows.map(|row| row.trim_matches('|').split('|').map(cell).collect()).collect()
}

/// A layout table: offset, length and name of each field. Fields follow each other without gaps.
fn layout(title: &str) -> Vec<(usize, usize, String)> {
    let rows = table(title, "| offset | length | field |");
    let number = |cell: &String| cell.parse().expect("a number");
    let mut fields = Vec::new();
    let mut end = 0;
    for row in &rows {
        let (offset, length): (usize, usize) = (number(&row[0]), number(&row[1]));
        assert_eq!(offset, end, "{title} {}", row[2]);
        end += length;
        fields.push((offset, length, row[2].clone()));
    }
    fields
}

/// The bytes of each field are the ones that the table promises.
fn assert_layout(title: &str, bytes: &[u8], expected: &[&[u8]]) {
    let fields = layout(title);
    assert_eq!(fields.len(), expected.len(), "{title} number of fields");
    for ((offset, length, name), expected) in fields.iter().zip(expected) {
        let found = bytes.get(*offset..offset + length);
        assert_eq!(found, Some(*expected), "{title} {name}");
    }
    let length: usize = fields.iter().map(|(_, length, _)| length).sum();
    assert_eq!(length, bytes.len(), "{title} length");
}

#[test]
fn the_parity_head_is_laid_out_as_told() {
    let bytes = Geometry::new(1 << 20, 3).expect("a geometry").encode();
    let sum = format::wire::checksum(&[&bytes[..32]]);
    let numbers = [4096u32, 2048, 3, 0].map(u32::to_le_bytes);
    let [shard, group, percent, zero] = &numbers;
    let protected = (1u64 << 20).to_le_bytes();
    let expected: [&[u8]; 7] = [b"ICEPARI1", &protected, shard, group, percent, zero, &sum];
    assert_layout("Parity head:", &bytes, &expected);
}

macro_rules! known_limits {
    ($($name:ident)*) => {
        BTreeMap::from([$((stringify!($name).to_owned(), limits::$name as u64)),*])
    };
}

#[test]
fn the_limits_are_those_of_the_document() {
    let known = known_limits!(
        PATH_BYTES_MAX INLINE_BYTES_MAX XATTR_BYTES_MAX XATTRS_MAX XATTR_SET_BYTES_MAX
        EXTENSION_BYTES_MAX OWNER_BYTES_MAX
        RECORD_PLAIN_MAX RECORD_SEALED_MAX RECORD_CLEAR_MAX RECORD_OBJECTS_MAX CHUNK_BYTES_MAX
        PAGE_REFS_MAX PAGE_ENTRIES_MAX TREE_LEVELS_MAX CONTAINER_BYTES_MAX CONTAINER_RECORDS_MAX
        MANIFEST_BODY_MAX MANIFEST_SEALED_MAX MANIFEST_CLEAR_MAX RECORD_BYTES_MAX
        PAGE_PATH_BYTES_MAX MANIFEST_EXTENSION_MAX LOCK_SECS_MAX EXPIRY_NAMES_MAX
        PARITY_PERCENT_MAX
    );
    let source = read("src/limits.rs");
    let constants =
        source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let missing: Vec<_> = constants.filter(|name| !known.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}: add new limits here and to the document");
    let rows = table("## 3. Limits", "| constant | value | what |");
    let value = |row: &Vec<String>| row[1].replace(',', "").parse().expect("a number");
    let told = rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), value(row)));
    assert_eq!(told.collect::<BTreeMap<_, u64>>(), known);
}

#[test]
fn the_record_header_is_laid_out_as_told() {
    let header = record::Header {
        kind: RecordKind::Pages,
        codec: Codec::Zstd,
        session: SessionId([9; 16]),
        nonce: 0x0102_0304_0506_0708,
        objects: 3,
        clear_bytes: 4,
        plain_bytes: 5,
        sealed_bytes: 6,
    };
    let expected: [&[u8]; 11] = [
        b"IREC",
        &[1],
        &[2],
        &[1],
        &[0],
        &[9; 16],
        &[8, 7, 6, 5, 4, 3, 2, 1],
        &[3, 0, 0, 0],
        &[4, 0, 0, 0],
        &[5, 0, 0, 0],
        &[6, 0, 0, 0],
    ];
    let bytes = header.encode().expect("a header");
    assert_layout("Record header:", &bytes, &expected);
    assert_eq!(bytes.len(), record::HEADER_BYTES);
}

#[test]
fn the_record_kinds_are_those_of_the_document() {
    use RecordKind::{Data, Expiry, Manifest, Pages, Receipt, Session, Tombstone};
    let rows = table("Record header:", "| kind | name | clear part | plaintext |");
    let told = rows.iter().map(|row| (row[0].clone(), row[1].clone()));
    let known = [Data, Pages, Session, Manifest, Tombstone, Receipt, Expiry];
    let known = known.map(|kind| ((kind as u8).to_string(), format!("{kind:?}")));
    assert_eq!(told.collect::<Vec<_>>(), known);
}

#[test]
fn the_container_is_laid_out_as_told() {
    let (repository, number) = (RepositoryId([1; 16]), ContainerNo(2));
    let bytes = container::Header { repository, number, generation: 3 }.encode();
    let sum = format::wire::checksum(&[&bytes[..48]]);
    let (number, generation) = (2u64.to_le_bytes(), 3u64.to_le_bytes());
    let expected: [&[u8]; 6] = [b"ICECONT1", &[1; 16], &number, &generation, &[0; 8], &sum];
    assert_layout("Container header:", &bytes, &expected);
    assert_eq!(bytes.len(), container::HEADER_BYTES);

    let footer = encode_footer(&[Row { kind: 7, offset: 64, length: 65 }]);
    let (row, trailer) = footer.split_at(footer.len() - container::TRAILER_BYTES);
    let expected: [&[u8]; 3] = [&[7], &64u32.to_le_bytes(), &65u32.to_le_bytes()];
    assert_layout("Footer row, one for each record, in order:", row, &expected);
    let (length, sum) = ((row.len() as u32).to_le_bytes(), format::wire::checksum(&[row]));
    assert_layout("Trailer:", trailer, &[&length, &sum, b"ICEFOOT1"]);
}

#[test]
fn the_page_head_is_laid_out_as_told() {
    let mut bytes = Vec::new();
    put_head(&mut bytes, PageKind::List, ObjectId([5; 24]), &[]);
    assert_layout("Page head:", &bytes, &[&[3], &[5; 24], &[0; 4]]);
}

#[test]
fn the_manifest_head_is_laid_out_as_told() {
    let head = manifest::Head {
        sequence: 13,
        source: ObjectId([2; 24]),
        source_sequence: 3,
        previous: SnapshotId([4; 16]),
        time_secs: -1,
        time_nanos: 5,
        root: ObjectId([6; 24]),
        level: 7,
        body: ObjectId([8; 24]),
        writer: KeyId([9; 8]),
        flags: manifest::REWRITTEN,
        original: Some((SnapshotId([11; 16]), 12)),
    };
    let bytes = [&head.encode()[..], &[10; 64]].concat();
    let [sequence, three, twelve] = [13u64, 3, 12].map(u64::to_le_bytes);
    let expected: [&[u8]; 16] = [
        &[2, 0],
        &sequence,
        &[2; 24],
        &three,
        &[4; 16],
        &[0xff; 8],
        &[5, 0, 0, 0],
        &[6; 24],
        &[7],
        &[8; 24],
        &[9; 8],
        &[2, 0, 0, 0],
        &[11; 16],
        &twelve,
        &[0, 0],
        &[10; 64],
    ];
    assert_layout("Manifest head:", &bytes, &expected);
    assert_eq!(bytes.len(), manifest::HEAD_BYTES);
}

#[test]
fn the_receipt_is_laid_out_as_told() {
    let receipt = Receipt {
        snapshot: SnapshotId([1; 16]),
        source: ObjectId([2; 24]),
        root: ObjectId([3; 24]),
        time_secs: 4,
        begun_secs: 5,
        received_secs: 6,
        counter: 7,
        flags: 1,
        key: [8; 32],
        lock: Lock::new(10, 11),
        node: String::new(),
        policy: String::new(),
        source_name: String::new(),
        class: String::new(),
    };
    let bytes = [&receipt.encode()[..], &[9; 64]].concat();
    let [time, begun, received, counter] = [4u64, 5, 6, 7].map(u64::to_le_bytes);
    let [given, until] = [10u64, 21].map(u64::to_le_bytes);
    let expected: [&[u8]; 17] = [
        &[2, 0],
        &[1; 16],
        &[2; 24],
        &[3; 24],
        &time,
        &begun,
        &received,
        &counter,
        &[1, 0, 0, 0],
        &[8; 32],
        &given,
        &until,
        &[0],
        &[0],
        &[0],
        &[0],
        &[9; 64],
    ];
    assert_layout("Receipt:", &bytes, &expected);
}

#[test]
fn the_expiry_is_laid_out_as_told() {
    let snapshots = vec![SnapshotId([3; 16])];
    let expiry = Expiry { key: [1; 32], expired_secs: 2, snapshots };
    let bytes = [&expiry.encode()[..], &[4; 64]].concat();
    let time = 2u64.to_le_bytes();
    let expected: [&[u8]; 5] = [&[1, 0], &[1; 32], &time, &[3; 16], &[4; 64]];
    assert_layout("Expiry:", &bytes, &expected);
}

#[test]
fn sentences_have_numbers_that_rise() {
    let text = document();
    let mut before = (0, 0);
    for sentence in text.lines().filter_map(|line| line.strip_prefix("- **F-")) {
        let (number, _) = sentence.split_once("**").expect("a number");
        let (chapter, place) = number.split_once('.').expect("chapter.place");
        let now: (u32, u32) =
            (chapter.parse().expect("a chapter"), place.parse().expect("a place"));
        let next = if now.0 == before.0 { before.1 + 1 } else { 1 };
        assert!(now.0 >= before.0 && now.1 == next, "F-{number} after {before:?}");
        before = now;
    }
    assert!(before.0 >= 16);
}
