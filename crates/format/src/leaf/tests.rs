//! Tests of leaf pages.
use super::*;
use crate::check;
use crate::entry::Xattr;

fn attributes_of(kind: Kind, mode: u16) -> Arc<Attributes> {
    Arc::new(Attributes {
        gid: 1000,
        user: b"root".to_vec(),
        group: vec![0xff],
        file_system: u64::MAX - 1,
        xattrs: vec![Xattr { name: b"user.a".to_vec(), value: vec![0, 1, 2] }],
        ..Attributes::new(kind, mode)
    })
}

fn entry(path: &[u8], kind: Kind, size: u64, content: Content) -> Entry {
    Entry {
        size,
        mtime: Time { secs: -5_000_000_000, nanos: 999_999_999 },
        ctime: Time { secs: 1_700_000_000, nanos: 1 },
        inode: u64::MAX,
        content,
        ..Entry::new(path, attributes_of(kind, 0o644))
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
    let mut born = entry(b"dir/g", Kind::File, 10, Content::Segments(one.clone()));
    born.birth = Some(Time { secs: 1_699_999_999, nanos: 999_999_999 });
    let mut tagged = entry(b"dir/h", Kind::Fifo, 0, Content::None);
    tagged.birth = Some(Time { secs: 1_700_000_300, nanos: 0 });
    tagged.extension = vec![1, 2, 3];
    tagged.attributes = Arc::new(Attributes {
        xattrs: Vec::new(),
        // The first is a chunk that a file has, too.
        xattr_runs: vec![data(1, 10), data(20, 5), data(20, 5)],
        extension: vec![4],
        ..tagged.attributes.as_ref().clone()
    });
    vec![
        entry(b"dir", Kind::Directory, 0, Content::None),
        entry(b"dir/a", Kind::File, 10, Content::Segments(one)),
        entry(b"dir/b", Kind::File, 3, Content::Inline(b"xyz".to_vec())),
        linked,
        entry(b"dir/d", Kind::File, (1 << 40) + 24, Content::Segments(runs)),
        entry(b"dir/e", Kind::File, 1 << 42, Content::Lists(lists)),
        entry(b"dir/f", Kind::Symlink, 2, Content::Inline(b"..".to_vec())),
        born,
        tagged,
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
    assert_eq!(page.refs.len(), 2 + 4, "an id is stored once, and once more for the sets");
    check::page(&page).unwrap();
    samples().iter().for_each(|entry| check::entry(entry).unwrap());
}

#[test]
fn entries_are_read_whatever_was_in_the_memory_before() {
    let pages: Vec<_> =
        samples().into_iter().map(|entry| (page_of(std::slice::from_ref(&entry)), entry)).collect();
    for before in samples() {
        for (page, entry) in &pages {
            let mut place = before.clone();
            let mut reader = LeafReader::new(&page.refs, &page.payload).unwrap();
            assert!(reader.next_into(&mut place).unwrap());
            assert_eq!(&place, entry);
            assert!(!reader.next_into(&mut place).unwrap());
        }
    }
}

/// Memory is given for what the bytes can hold, not for what the page says.
#[test]
fn a_page_that_says_more_than_it_has_takes_no_memory_for_it() {
    let mut page = page_of(&samples()[..1]);
    let honest = LeafReader::new(&page.refs, &page.payload).unwrap().left();
    assert_eq!(honest, 1);
    page.payload = vec![0, 0xff, 0xff, 3, 1, 2, 3];
    assert_eq!(LeafReader::new(&page.refs, &page.payload).unwrap().left(), 0);
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

/// What a later version puts there is passed over in a page, and passed on in an entry.
#[test]
fn extensions_that_nobody_knows_are_passed_over() {
    let mut page = page_of(&samples());
    page.payload.extend_from_slice(&[3, 9, 9, 9]);
    assert_eq!(read(&page.refs, &page.payload).unwrap(), samples());
    for bad in [&[0][..], &[3, 9, 9], &[1, 9, 9]] {
        let payload = [&page_of(&samples()).payload[..], bad].concat();
        assert!(read(&page.refs, &payload).is_err(), "{bad:?}");
    }
}

#[test]
fn births_on_either_side_of_a_whole_second_come_back() {
    let seconds = [i64::MIN, -1, 0, 1, 1_700_000_300, i64::MAX];
    let nanos = [0, 1, 500_000_000, 999_999_999];
    let times = || seconds.into_iter().flat_map(|secs| nanos.map(|nanos| Time { secs, nanos }));
    for (ctime, birth) in times().flat_map(|ctime| times().map(move |birth| (ctime, birth))) {
        let mut born = entry(b"a", Kind::File, 0, Content::None);
        (born.ctime, born.birth) = (ctime, Some(birth));
        let page = page_of(std::slice::from_ref(&born));
        let is_near = ctime.secs.abs_diff(birth.secs) < 9_000_000_000;
        let told = read(&page.refs, &page.payload).unwrap()[0].birth;
        assert_eq!(told, Some(birth).filter(|_| is_near), "{ctime:?}");
    }
}

#[test]
fn a_birth_too_far_away_to_be_told_is_left_out() {
    let mut old = entry(b"a", Kind::File, 0, Content::None);
    old.birth = Some(Time { secs: i64::MIN, nanos: 0 });
    let page = page_of(std::slice::from_ref(&old));
    assert_eq!(read(&page.refs, &page.payload).unwrap()[0].birth, None);
}

#[test]
fn names_of_one_file_are_those_of_one_inode_and_birth() {
    let first = entry(b"a", Kind::File, 0, Content::None);
    let mut again = entry(b"b", Kind::File, 0, Content::None);
    assert_eq!(first.link_group(), again.link_group());
    again.ctime.nanos += 1;
    assert_ne!(first.link_group(), again.link_group(), "nothing tells when it was made");
    let (mut first, birth) = (first, Some(Time { secs: 5, nanos: 0 }));
    (first.birth, again.birth) = (birth, birth);
    assert_eq!(first.link_group(), again.link_group(), "changed between two looks");
    let same = again.clone();
    again.birth = Some(Time { secs: 6, nanos: 0 });
    assert_ne!(first.link_group(), again.link_group(), "the inode was used again");
    let other = Entry { size: same.size + 1, ..same.clone() };
    assert_ne!(first.link_group(), other.link_group(), "another state of the file");
    let other = Entry { mtime: Time { secs: 7, nanos: 0 }, ..same };
    assert_ne!(first.link_group(), other.link_group(), "another state of the file");
}
