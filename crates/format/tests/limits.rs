//! Below, at and above every limit of `docs/FORMAT.md`, chapter 3, that an entry or a page can
//! meet: what the writer's check lets through is read back, what it refuses no reader takes.

use format::check;
use format::entry::{Attributes, Content, Entry, Kind, Segment, Time, Xattr};
use format::inner::{self, Child, Sums};
use format::leaf::{LeafBuilder, LeafReader};
use format::limits::{
    CHUNK_BYTES_MAX, EXTENSION_BYTES_MAX, INLINE_BYTES_MAX, OWNER_BYTES_MAX, PAGE_ENTRIES_MAX,
    PAGE_PATH_BYTES_MAX, PAGE_REFS_MAX, PATH_BYTES_MAX, TREE_LEVELS_MAX, XATTR_BYTES_MAX,
    XATTR_SET_BYTES_MAX, XATTRS_MAX,
};
use format::list;
use format::page::{Page, PageKind};
use ids::ObjectId;
use std::sync::Arc;

type Made = Box<dyn Fn(usize) -> Entry>;

fn id(number: usize, is_page: bool) -> ObjectId {
    let mut bytes = [0; ObjectId::LEN];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ObjectId(bytes).with_type(is_page)
}

fn file(size: u64, content: Content) -> Entry {
    let plain = Entry::new(b"f", Arc::new(Attributes::new(Kind::File, 0o644)));
    Entry { size, content, ..plain }
}

fn with(change: impl FnOnce(&mut Attributes)) -> Entry {
    let mut attributes = Attributes::new(Kind::File, 0o644);
    change(&mut attributes);
    Entry::new(b"f", Arc::new(attributes))
}

fn path_of(bytes: usize) -> Vec<u8> {
    let mut path: Vec<u8> =
        std::iter::repeat_n(&b"nnnnnnn/"[..], bytes / 8 + 1).flatten().copied().collect();
    path.truncate(bytes);
    if path.ends_with(b"/") {
        path.pop();
        path.push(b'n');
    }
    path
}

/// Chunks of 512 KiB, which together have `bytes`.
fn runs(bytes: usize) -> Vec<Segment> {
    const STEP: usize = 512 << 10;
    let lengths = (0..bytes.div_ceil(STEP)).map(|at| STEP.min(bytes - at * STEP));
    lengths.enumerate().map(|(at, length)| Segment::Data(id(at, false), length as u32)).collect()
}

/// A name, its limit, and an entry that has so much of it.
fn of_entries() -> Vec<(&'static str, usize, Made)> {
    let refs = |count: usize| -> Vec<Segment> {
        (0..count).map(|at| Segment::Data(id(at, false), 1)).collect()
    };
    vec![
        ("path", PATH_BYTES_MAX, Box::new(|n| Entry { path: path_of(n), ..with(|_| ()) })),
        ("inline", INLINE_BYTES_MAX, Box::new(|n| file(n as u64, Content::Inline(vec![7; n])))),
        ("user", OWNER_BYTES_MAX, Box::new(|n| with(|set| set.user = vec![b'u'; n]))),
        ("group", OWNER_BYTES_MAX, Box::new(|n| with(|set| set.group = vec![b'g'; n]))),
        ("mode", 0o7777, Box::new(|n| with(|set| set.mode = n as u16))),
        (
            "nanoseconds",
            999_999_999,
            Box::new(|n| Entry { mtime: Time { secs: -1, nanos: n as u32 }, ..with(|_| ()) }),
        ),
        (
            "extension",
            EXTENSION_BYTES_MAX,
            Box::new(|n| Entry { extension: vec![1; n], ..with(|_| ()) }),
        ),
        (
            "extension of a set",
            EXTENSION_BYTES_MAX,
            Box::new(|n| with(|set| set.extension = vec![1; n])),
        ),
        (
            "chunk",
            CHUNK_BYTES_MAX,
            Box::new(|n| {
                file(n as u64, Content::Segments(Arc::new([Segment::Data(id(1, false), n as u32)])))
            }),
        ),
        (
            "runs",
            PAGE_REFS_MAX,
            Box::new(move |n| file(n as u64, Content::Segments(refs(n).into()))),
        ),
        (
            "lists",
            PAGE_REFS_MAX,
            Box::new(|n| file(1 << 50, Content::Lists((0..n).map(|at| id(at, true)).collect()))),
        ),
        (
            "stored attributes",
            XATTR_SET_BYTES_MAX,
            Box::new(|n| with(|set| set.xattr_runs = runs(n))),
        ),
    ]
}

fn page_of(entry: &Entry) -> Page {
    let mut builder = LeafBuilder::default();
    builder.push(entry);
    builder.finish()
}

fn read(page: &Page) -> format::Result<Vec<Entry>> {
    let mut reader = LeafReader::new(&page.refs, &page.payload)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok(entries)
}

#[test]
fn entries_below_and_at_each_limit_are_read_back_and_above_it_refused() {
    for (name, limit, made) in of_entries() {
        for n in [limit - 1, limit] {
            let entry = made(n);
            check::entry(&entry).unwrap_or_else(|error| panic!("{name} {n}: {error}"));
            let page = page_of(&entry);
            check::page(&page).unwrap_or_else(|error| panic!("{name} {n}: {error}"));
            assert_eq!(read(&page).unwrap(), [entry], "{name} {n}");
        }
        let above = made(limit + 1);
        assert!(check::entry(&above).is_err(), "{name}: the check");
        let page = page_of(&above);
        let is_refused = read(&page).is_err() || page.refs.len() > PAGE_REFS_MAX;
        assert!(is_refused && check::page(&page).is_err(), "{name}: the reader");
    }
}

#[test]
fn attributes_that_are_no_good_in_a_page_are_good_in_chunks() {
    let xattr = |bytes| Xattr { name: vec![b'n'; 255], value: vec![7; bytes] };
    let sets = [
        (vec![xattr(3000)], true),
        (vec![xattr(XATTR_BYTES_MAX)], false),
        (vec![xattr(1); XATTRS_MAX], false),
    ];
    for (set, is_small) in sets {
        let entry = with(|attributes| attributes.xattrs = set.clone());
        assert_eq!(check::entry(&entry).is_ok(), is_small);
        assert_eq!(format::xattrs::decode(&format::xattrs::encode(&set)).unwrap(), set);
    }
}

#[test]
fn pages_below_and_at_each_limit_are_read_back_and_above_it_refused() {
    let list = |n: usize| list::encode(&vec![Segment::Hole(1); n]);
    let inner = |n: usize, level| {
        let child = |at| Child { id: id(at, true), first: Vec::new(), sums: Sums::EMPTY };
        inner::encode(level, &(0..n).map(child).collect::<Vec<_>>())
    };
    let paths = |n: usize| {
        let child =
            |at: usize| Child { id: id(at, true), first: path_of(n / 16), sums: Sums::EMPTY };
        inner::encode(1, &(0..16).map(child).collect::<Vec<_>>())
    };
    let payload = |n: usize| Page { kind: PageKind::List, refs: Vec::new(), payload: vec![0; n] };
    let is_good = |page: Page| check::page(&page).is_ok();
    assert!(is_good(list(PAGE_REFS_MAX)) && !is_good(list(PAGE_REFS_MAX + 1)));
    let levels = TREE_LEVELS_MAX;
    assert!(is_good(inner(PAGE_ENTRIES_MAX, 1)) && !is_good(inner(PAGE_ENTRIES_MAX + 1, 1)));
    assert!(is_good(inner(1, levels)) && !is_good(inner(1, levels + 1)) && !is_good(inner(1, 0)));
    assert!(is_good(paths(PAGE_PATH_BYTES_MAX)) && !is_good(paths(PAGE_PATH_BYTES_MAX + 16)));
    assert!(!is_good(payload(format::limits::RECORD_PLAIN_MAX)));
}
