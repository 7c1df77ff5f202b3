//! Files of every version that was ever written. They are made once and never again: what reads
//! them today must read them for ever.
//!
//! A file that is missing is written by `ICECORE_GOLDEN=write cargo test -p format --test golden`;
//! one that is there is never overwritten.

use format::container::{self, Row, encode_footer};
use format::entry::{Attributes, Content, Entry, Kind, Segment, Time, Xattr};
use format::expiry::Expiry;
use format::inner::{self, Child, Sums};
use format::leaf::{LeafBuilder, LeafReader};
use format::page::{Page, PageKind, put_head};
use format::receipt::{Lock, Receipt};
use format::record::{self, Codec, Header, RecordKind, SealedRecord};
use format::{list, manifest};
use ids::{ContainerNo, KeyId, ObjectId, RepositoryId, SessionId, SnapshotId};
use std::path::PathBuf;
use std::sync::Arc;

/// A golden file: its name, what today's writer makes, and a decoder that encodes again.
type Golden = (&'static str, Vec<u8>, fn(&[u8]) -> Vec<u8>);

fn goldens() -> Vec<Golden> {
    vec![
        ("record-data.bin", data_record(), again_record),
        ("record-pages.bin", pages_record(), again_record),
        ("container.bin", container_file(), again_container),
        ("leaf.bin", flat(&leaf_page()), again_leaf),
        ("inner.bin", flat(&inner_page()), again_inner),
        ("list.bin", flat(&list::encode(&runs())), again_list),
        ("manifest-head.bin", manifest_head(), again_manifest),
        ("receipt.bin", receipt(), again_receipt),
        ("expiry.bin", expiry(), again_expiry),
    ]
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v1")
}

#[test]
fn what_was_written_is_read_and_written_alike() {
    for (name, today, again) in goldens() {
        let path = folder().join(name);
        if !path.exists() && std::env::var_os("ICECORE_GOLDEN").is_some() {
            std::fs::write(&path, &today).expect("a golden file");
        }
        let golden = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again(&golden), golden, "{name}: decoded and encoded");
        assert_eq!(today, golden, "{name}: today's writer");
    }
}

#[test]
fn every_golden_file_is_used() {
    let known = goldens();
    for entry in std::fs::read_dir(folder()).expect("golden files") {
        let name = entry.expect("an entry").file_name();
        assert!(known.iter().any(|(other, ..)| name == *other), "{name:?} is used by no test");
    }
}

fn receipt() -> Vec<u8> {
    let [node, policy, source_name, class] = ["web", "daily", "main", "default"].map(str::to_owned);
    let receipt = Receipt {
        snapshot: SnapshotId([1; 16]),
        source: ObjectId([2; 24]),
        root: ObjectId([3; 24]),
        time_secs: 5,
        begun_secs: 6,
        received_secs: 7,
        counter: 8,
        flags: 1,
        key: [9; 32],
        lock: Lock::new(100, 100),
        node,
        policy,
        source_name,
        class,
    };
    [&receipt.encode()[..], &[10; 64]].concat()
}

fn again_receipt(bytes: &[u8]) -> Vec<u8> {
    let (receipt, signature) = Receipt::decode(bytes).expect("a receipt");
    [&receipt.encode()[..], &signature].concat()
}

fn expiry() -> Vec<u8> {
    let snapshots = vec![SnapshotId([1; 16]), SnapshotId([2; 16])];
    let expiry = Expiry { key: [9; 32], expired_secs: 7, snapshots };
    [&expiry.encode()[..], &[10; 64]].concat()
}

fn again_expiry(bytes: &[u8]) -> Vec<u8> {
    let (expiry, signature) = Expiry::decode(bytes).expect("an expiry");
    [&expiry.encode()[..], &signature].concat()
}

fn chunk(byte: u8) -> ObjectId {
    ObjectId([byte; 24]).with_type(false)
}

fn page(byte: u8) -> ObjectId {
    ObjectId([byte; 24]).with_type(true)
}

fn record(kind: RecordKind, objects: u32, clear: Vec<u8>, sealed: Vec<u8>) -> SealedRecord {
    let header = Header {
        kind,
        codec: Codec::Zstd,
        session: SessionId([3; 16]),
        nonce: 0x0123_4567_89ab_cdef,
        objects,
        clear_bytes: clear.len() as u32,
        plain_bytes: 777,
        sealed_bytes: sealed.len() as u32,
    };
    let associated = [&header.encode().expect("a header")[..], &clear].concat();
    SealedRecord { kind, ids: Vec::new(), associated, sealed }
}

fn data_record() -> Vec<u8> {
    let clear = [chunk(2).0, chunk(4).0].concat();
    record(RecordKind::Data, 2, clear, (0..100).collect()).to_bytes()
}

fn pages_record() -> Vec<u8> {
    let mut clear = Vec::new();
    put_head(&mut clear, PageKind::Leaf, page(7), &[chunk(2), chunk(4)]);
    put_head(&mut clear, PageKind::Inner, page(9), &[page(7)]);
    record(RecordKind::Pages, 2, clear, vec![0xee; 40]).to_bytes()
}

fn again_record(bytes: &[u8]) -> Vec<u8> {
    let parts = record::verify(bytes).expect("a record");
    let header = parts.header.encode().expect("a header");
    let ids = record::object_ids(&parts).expect("ids");
    assert_eq!(ids.len(), parts.header.objects as usize);
    let sum = format::wire::checksum(&[&header, parts.clear, parts.sealed]);
    [&header[..], parts.clear, parts.sealed, &sum].concat()
}

fn container_file() -> Vec<u8> {
    let (repository, number) = (RepositoryId([1; 16]), ContainerNo(0x12_3456));
    let header = container::Header { repository, number, generation: 5 };
    let records = [data_record(), pages_record()];
    let (first, second) = (records[0].len() as u32, records[1].len() as u32);
    let rows = [
        Row { kind: 1, offset: 64, length: first },
        Row { kind: 2, offset: 64 + first, length: second },
    ];
    [&header.encode()[..], &records.concat(), &encode_footer(&rows)].concat()
}

fn again_container(bytes: &[u8]) -> Vec<u8> {
    let header = container::Header::decode(bytes).expect("a header");
    let trailer = &bytes[bytes.len() - container::TRAILER_BYTES..];
    let footer_bytes = container::footer_bytes(trailer).expect("a trailer");
    let start = bytes.len() - trailer.len() - footer_bytes;
    let footer = &bytes[start..start + footer_bytes];
    let rows = container::decode_footer(footer, trailer, bytes.len() as u64).expect("rows");
    let mut again = header.encode();
    for row in &rows {
        let end = row.offset + row.length;
        again.extend(again_record(&bytes[row.offset as usize..end as usize]));
    }
    again.extend(encode_footer(&rows));
    again
}

/// A page as one file: its head, then its payload.
fn flat(contents: &Page) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(&mut bytes, contents.kind, page(99), &contents.refs);
    bytes.extend_from_slice(&contents.payload);
    bytes
}

fn parts(bytes: &[u8]) -> (Vec<ObjectId>, &[u8]) {
    let count = u32::from_le_bytes(bytes[25..29].try_into().expect("a count")) as usize;
    let (refs, payload) = bytes[29..].split_at(count * ObjectId::LEN);
    let refs = refs.chunks_exact(ObjectId::LEN).filter_map(ObjectId::from_slice);
    (refs.collect(), payload)
}

fn runs() -> Vec<Segment> {
    vec![
        Segment::Data(chunk(2), 5),
        Segment::Data(chunk(4), 4 << 20),
        Segment::Hole(1 << 40),
        Segment::Data(chunk(2), 5),
    ]
}

fn again_list(bytes: &[u8]) -> Vec<u8> {
    let (refs, payload) = parts(bytes);
    flat(&list::encode(&list::decode(&refs, payload).expect("a list")))
}

fn inner_page() -> Page {
    let child = |byte, first: &[u8], entries, newest_secs| {
        let sums = Sums { entries, bytes: 1 << 50, newest_secs };
        Child { id: page(byte), first: first.to_vec(), sums }
    };
    let children =
        [child(1, b"a", 3, -1), child(3, b"a/b\xff", 1 << 33, 0), child(5, b"a/c", 1, i64::MAX)];
    inner::encode(2, &children)
}

fn again_inner(bytes: &[u8]) -> Vec<u8> {
    let (refs, payload) = parts(bytes);
    let (level, children) = inner::decode(&refs, payload).expect("an inner page");
    flat(&inner::encode(level, &children))
}

fn attributes(kind: Kind, xattrs: Vec<Xattr>) -> Arc<Attributes> {
    let (user, group) = (b"root".to_vec(), vec![0xff, b'x']);
    let (gid, file_system, inode_flags) = (4_000_000_000, 0x0123_4567_89ab_cdef, 2);
    let plain = Attributes::new(kind, 0o4755);
    Arc::new(Attributes { gid, user, group, file_system, inode_flags, xattrs, ..plain })
}

fn entry(path: &[u8], kind: Kind, size: u64, content: Content) -> Entry {
    Entry {
        size,
        mtime: Time { secs: -5_000_000_000, nanos: 999_999_999 },
        ctime: Time { secs: 1_700_000_000, nanos: 0 },
        inode: u64::MAX - path.len() as u64,
        content,
        ..Entry::new(path, attributes(kind, Vec::new()))
    }
}

fn leaf_page() -> Page {
    let one: Arc<[Segment]> = Arc::new([Segment::Data(chunk(10), 4)]);
    let total = runs().iter().map(Segment::length).sum();
    let lists: Arc<[ObjectId]> = Arc::new([page(11), page(13)]);
    let mut linked = entry(b"d/c", Kind::File, 4, Content::Segments(one.clone()));
    (linked.links, linked.status) = (70_000, 7);
    let mut device = entry(b"d/g", Kind::BlockDevice, 0, Content::None);
    device.rdev = 0x0801;
    let mut tagged = entry(b"d/h\n", Kind::Fifo, 0, Content::None);
    let xattr = Xattr { name: b"user.a".to_vec(), value: vec![0, 1, 2] };
    tagged.attributes = attributes(Kind::Fifo, vec![xattr]);
    let mut later = entry(b"d/i", Kind::File, 0, Content::None);
    later.birth = Some(Time { secs: 1_699_999_999, nanos: 999_999_999 });
    later.extension = vec![1, 2];
    let set = attributes(Kind::File, Vec::new()).as_ref().clone();
    let xattr_runs = vec![Segment::Data(chunk(30), 70_000), Segment::Data(chunk(32), 9)];
    later.attributes = Arc::new(Attributes { xattr_runs, extension: vec![3], ..set });
    page_of(&[
        entry(b"d", Kind::Directory, 0, Content::None),
        entry(b"d/a", Kind::File, 4, Content::Segments(one)),
        entry(b"d/b", Kind::File, 3, Content::Inline(b"xyz".to_vec())),
        linked,
        entry(b"d/d", Kind::File, total, Content::Segments(runs().into())),
        entry(b"d/e", Kind::File, 1 << 42, Content::Lists(lists)),
        entry(b"d/f", Kind::Symlink, 2, Content::Inline(b"..".to_vec())),
        device,
        tagged,
        later,
        entry(b"d-e", Kind::Socket, 0, Content::None),
        entry(b"e", Kind::CharDevice, 0, Content::None),
    ])
}

fn page_of(entries: &[Entry]) -> Page {
    let mut builder = LeafBuilder::default();
    entries.iter().for_each(|entry| builder.push(entry));
    builder.finish()
}

fn again_leaf(bytes: &[u8]) -> Vec<u8> {
    let (refs, payload) = parts(bytes);
    let mut reader = LeafReader::new(&refs, payload).expect("a leaf");
    let entries = std::iter::from_fn(|| reader.next_entry().expect("an entry"));
    flat(&page_of(&entries.collect::<Vec<_>>()))
}

/// The snapshot that the golden manifest head names.
const SNAPSHOT: &str = "509fa3a54fcc687737e0ded6c7afd1d6";

fn manifest_head() -> Vec<u8> {
    let head = manifest::Head {
        sequence: 5,
        source: page(1),
        source_sequence: 2,
        previous: SnapshotId([2; 16]),
        time_secs: 1_795_000_000,
        time_nanos: 3,
        root: page(5),
        level: 3,
        body: page(7),
        writer: KeyId([6; 8]),
        flags: manifest::PARTIAL | manifest::REWRITTEN,
        original: Some((SnapshotId([8; 16]), 4)),
    };
    [&head.encode()[..], &[9; manifest::SIGNATURE_BYTES]].concat()
}

fn again_manifest(bytes: &[u8]) -> Vec<u8> {
    let (head, signature) = manifest::Head::decode(bytes).expect("a head");
    assert_eq!(manifest::snapshot_id(bytes).to_string(), SNAPSHOT);
    [&head.encode()[..], &signature].concat()
}
