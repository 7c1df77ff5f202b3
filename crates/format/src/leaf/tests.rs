//! Tests of leaf pages.
use super::*;

fn attributes_of(kind: Kind, mode: u16) -> Arc<Attributes> {
    Arc::new(Attributes {
        kind,
        mode,
        uid: 0,
        gid: 1000,
        user: b"root".to_vec(),
        group: vec![0xff],
        device: 1,
        inode_flags: 0,
        xattrs: vec![Xattr { name: b"user.a".to_vec(), value: vec![0, 1, 2] }],
    })
}

fn entry(path: &[u8], kind: Kind, size: u64, content: Content) -> Entry {
    Entry {
        path: path.to_vec(),
        attributes: attributes_of(kind, 0o644),
        size,
        mtime: Time { secs: -5_000_000_000, nanos: 999_999_999 },
        ctime: Time { secs: 1_700_000_000, nanos: 1 },
        inode: u64::MAX,
        links: 1,
        rdev: 0,
        status: 0,
        content,
    }
}

fn data(byte: u8, length: u32) -> Segment {
    Segment::Data(ObjectId([byte; 24]).with_type(false), length)
}

fn samples() -> Vec<Entry> {
    let one: Arc<[Segment]> = Arc::new([data(1, 10)]);
    let runs: Arc<[Segment]> =
        Arc::new([data(2, 7), Segment::Hole(1 << 40), data(1, 10), data(2, 7)]);
    let lists: Arc<[ObjectId]> = Arc::new([ObjectId([9; 24]), ObjectId([11; 24])]);
    let mut linked = entry(b"dir/c", Kind::File, 10, Content::Segments(one.clone()));
    (linked.links, linked.status, linked.inode) = (70_000, 3, 5);
    let mut device = entry(b"dir\xff", Kind::CharDevice, 0, Content::None);
    device.rdev = 0x0103;
    vec![
        entry(b"dir", Kind::Directory, 0, Content::None),
        entry(b"dir/a", Kind::File, 10, Content::Segments(one)),
        entry(b"dir/b", Kind::File, 3, Content::Inline(b"xyz".to_vec())),
        linked,
        entry(b"dir/d", Kind::File, (1 << 40) + 24, Content::Segments(runs)),
        entry(b"dir/e", Kind::File, 1 << 42, Content::Lists(lists)),
        entry(b"dir/f", Kind::Symlink, 2, Content::Inline(b"..".to_vec())),
        device,
    ]
}

fn page_of(entries: &[Entry]) -> Page {
    let mut builder = LeafBuilder::default();
    entries.iter().for_each(|entry| builder.push(entry));
    builder.finish()
}

fn read(refs: &[ObjectId], payload: &[u8]) -> Result<Vec<Entry>> {
    let mut reader = LeafReader::new(refs, payload)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok(entries)
}

#[test]
fn entries_are_read_back() {
    let page = page_of(&samples());
    assert_eq!(read(&page.refs, &page.payload).unwrap(), samples());
    assert_eq!(page.refs.len(), 4, "an id is stored once");
}

#[test]
fn truncations_and_flips_never_panic() {
    let page = page_of(&samples());
    for length in 0..page.payload.len() {
        assert!(read(&page.refs, &page.payload[..length]).is_err(), "length {length}");
    }
    for bit in 0..page.payload.len() * 8 {
        let mut damaged = page.payload.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let _ = read(&page.refs, &damaged);
    }
}

#[test]
fn a_page_cannot_keep_what_no_entry_names() {
    let page = page_of(&samples());
    let refs = [&page.refs[..], &[ObjectId([7; 24])]].concat();
    assert!(read(&refs, &page.payload).is_err());
}

#[test]
fn hostile_entries_are_refused() {
    let escapes = entry(b"../etc/passwd", Kind::File, 0, Content::None);
    let short = entry(b"a", Kind::File, 11, Content::Segments(Arc::new([data(1, 10), data(2, 2)])));
    let fat = entry(b"a", Kind::Directory, 0, Content::Inline(Vec::new()));
    let link = entry(b"a", Kind::Symlink, 10, Content::Segments(Arc::new([data(1, 10)])));
    for bad in [escapes, short, fat, link] {
        let page = page_of(&[bad]);
        assert!(read(&page.refs, &page.payload).is_err());
    }
    let twice = entry(b"a", Kind::File, 0, Content::None);
    let page = page_of(&[twice.clone(), twice]);
    assert!(read(&page.refs, &page.payload).is_err(), "a name stands once");
}
