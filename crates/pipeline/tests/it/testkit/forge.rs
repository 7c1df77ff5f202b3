//! Snapshots that no backup would make, sealed and signed as by somebody who has the key.

use crate::testkit::SMALL_CHUNKS;
use crypto::Cipher;
use format::entry::{Attributes, Content, Entry, Kind, Time};
use format::inner::{self, Child, Sums};
use format::leaf::LeafBuilder;
use format::manifest::{Head, MANIFEST_CONTEXT};
use format::page::Page;
use format::record::RecordKind;
use ids::{KeyId, ObjectId, SnapshotId};
use pipeline::UnlockedRepository;
use pipeline::manifest::{ManifestBody, source_id};
use repository::session::Session;
use seal::{Block, BlockCompressor, Level, Sealer};
use std::sync::Arc;
use store::SnapshotRef;

/// Kind in the keyed hash of a manifest's body, as the writer has it.
const BODY_KIND: u8 = 0x81;

/// A session in which anything may be stored.
pub(crate) struct Forge<'a> {
    repository: &'a UnlockedRepository,
    session: Session,
    sealer: Sealer,
    secs: i64,
    writer: KeyId,
    body: Option<ObjectId>,
    source: Option<ObjectId>,
    paths: Vec<String>,
}

impl<'a> Forge<'a> {
    pub(crate) fn new(repository: &'a UnlockedRepository) -> Self {
        let lease = repository.lease("forge").unwrap();
        let mut random = [0; 80];
        getrandom(&mut random);
        let sealer = Sealer::new(&repository.keys.writer, random, Cipher::fastest());
        let session =
            repository.local().unwrap().begin(&lease, None, sealer.session_record()).unwrap();
        Self {
            repository,
            session,
            sealer,
            secs: 1,
            writer: repository.slot.id,
            body: None,
            source: None,
            paths: Vec::new(),
        }
    }

    /// As if these paths had been backed up.
    pub(crate) fn of_paths(self, paths: &[&str]) -> Self {
        Self { paths: paths.iter().map(|path| (*path).to_owned()).collect(), ..self }
    }

    /// As if the clock had shown this when the backup began.
    pub(crate) fn at(self, secs: i64) -> Self {
        Self { secs, ..self }
    }

    /// As if `writer` had signed it.
    pub(crate) fn signed_as(self, writer: KeyId) -> Self {
        Self { writer, ..self }
    }

    /// With a head that was made for another body.
    pub(crate) fn for_body(self, body: ObjectId) -> Self {
        Self { body: Some(body), ..self }
    }

    /// As if it were of another source than its body says.
    pub(crate) fn of_source(self, source: ObjectId) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Stores a chunk under its own name.
    pub(crate) fn chunk(&self, bytes: &[u8]) -> ObjectId {
        self.chunk_as(self.repository.keys.writer.ids.chunk_id(bytes), bytes)
    }

    /// Stores a chunk under any name.
    pub(crate) fn chunk_as(&self, id: ObjectId, bytes: &[u8]) -> ObjectId {
        self.chunks_as(&[(id, bytes)]);
        id
    }

    /// Stores chunks under any names, in one record.
    pub(crate) fn chunks_as(&self, chunks: &[(ObjectId, &[u8])]) {
        let mut block = Block::new(RecordKind::Data);
        chunks.iter().for_each(|(id, bytes)| block.push_chunk(*id, bytes));
        self.store(&chunks.iter().map(|(id, _)| *id).collect::<Vec<_>>(), block);
    }

    /// Stores pages under any names, in one record.
    pub(crate) fn pages_as(&self, pages: &[(ObjectId, &Page)]) {
        let mut block = Block::new(RecordKind::Pages);
        pages.iter().for_each(|(id, page)| block.push_page(*id, page));
        self.store(&pages.iter().map(|(id, _)| *id).collect::<Vec<_>>(), block);
    }

    /// Stores a page under its own name.
    pub(crate) fn page(&self, page: &Page) -> ObjectId {
        let ids = &self.repository.keys.writer.ids;
        self.page_as(ids.page_id(page.kind as u8, &page.refs, &page.payload), page)
    }

    /// Stores a page under any name.
    pub(crate) fn page_as(&self, id: ObjectId, page: &Page) -> ObjectId {
        self.pages_as(&[(id, page)]);
        id
    }

    /// Stores chunks as a node sends them: what is stored already keeps its place, and the record names it all the
    /// same.
    pub(crate) fn send_chunks(&self, chunks: &[(ObjectId, &[u8])]) {
        let mut block = Block::new(RecordKind::Data);
        chunks.iter().for_each(|(id, bytes)| block.push_chunk(*id, bytes));
        let mut record = Sealer::empty_record();
        let mut packer = BlockCompressor::new(Level::Fixed(3)).unwrap();
        self.sealer.seal_block(&mut block, &mut packer, &mut record).unwrap();
        self.session.append_bytes(&record.to_bytes()).unwrap();
    }

    /// Stores what is not stored already.
    fn store(&self, ids: &[ObjectId], mut block: Block) {
        let is_new: Vec<_> = ids.iter().map(|id| self.session.claim(id).unwrap()).collect();
        if is_new.contains(&true) {
            let mut record = Sealer::empty_record();
            let mut packer = BlockCompressor::new(Level::Fixed(3)).unwrap();
            self.sealer.seal_block(&mut block, &mut packer, &mut record).unwrap();
            self.session.append(&record).unwrap();
        }
    }

    /// A leaf of these entries, as they are.
    pub(crate) fn leaf(&self, entries: &[Entry]) -> ObjectId {
        let mut builder = LeafBuilder::default();
        entries.iter().for_each(|entry| builder.push(entry));
        self.page(&builder.finish())
    }

    /// Publishes a tree as a snapshot.
    pub(crate) fn publish(self, root: ObjectId, level: u8) -> SnapshotRef {
        self.try_publish(root, level).unwrap()
    }

    /// The same, where it may be refused.
    pub(crate) fn try_publish(self, root: ObjectId, level: u8) -> repository::Result<SnapshotRef> {
        let (node, paths) = ("node".to_owned(), self.paths.clone());
        let body = ManifestBody { node, paths, ..ManifestBody::default() };
        let body = serde_json::to_vec(&body).unwrap();
        let writer = &self.repository.keys.writer;
        let head = Head {
            sequence: self.session.next_snapshot(),
            source: self.source.unwrap_or_else(|| source_id(self.repository, "node", &self.paths)),
            source_sequence: 1,
            previous: SnapshotId([0; 16]),
            time_secs: self.secs,
            time_nanos: 0,
            root,
            level,
            body: self.body.unwrap_or_else(|| writer.ids.page_id(BODY_KIND, &[root], &body)),
            writer: self.writer,
            flags: 0,
            original: None,
        };
        let (unsigned, repository_id) =
            (head.encode(), self.repository.local().unwrap().config().repository);
        let message = [MANIFEST_CONTEXT, &repository_id.0, &unsigned].concat();
        let clear = [&unsigned[..], &writer.sign(&message).unwrap()].concat();
        let mut packer = BlockCompressor::new(Level::Fixed(3)).unwrap();
        let manifest = self.sealer.seal_single(RecordKind::Manifest, &clear, &body, &mut packer);
        Ok(self.session.commit(&manifest.unwrap())?.snapshot)
    }

    /// Publishes a tree of one leaf.
    pub(crate) fn publish_leaf(self, entries: &[Entry]) -> SnapshotRef {
        let root = self.leaf(entries);
        self.publish(root, 0)
    }

    /// An inner page of `count` times the same child, with rising first paths or none.
    pub(crate) fn inner(&self, level: u8, child: ObjectId, count: usize, named: bool) -> ObjectId {
        let first = |at: usize| if named { format!("{at:06}").into_bytes() } else { Vec::new() };
        let children: Vec<_> =
            (0..count).map(|at| Child { id: child, first: first(at), sums: Sums::EMPTY }).collect();
        self.page(&inner::encode(level, &children))
    }
}

fn getrandom(bytes: &mut [u8]) {
    use std::io::Read;
    std::fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
}

pub(crate) fn entry(kind: Kind, path: impl AsRef<[u8]>) -> Entry {
    let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
    Entry {
        mtime: Time { secs: 1, nanos: 0 },
        ..Entry::new(path.as_ref(), Arc::new(Attributes::new(kind, mode)))
    }
}

pub(crate) fn file(path: impl AsRef<[u8]>, bytes: &[u8]) -> Entry {
    let content = if bytes.is_empty() { Content::None } else { Content::Inline(bytes.to_vec()) };
    Entry { size: bytes.len() as u64, content, ..entry(Kind::File, path) }
}

pub(crate) fn directory(path: impl AsRef<[u8]>) -> Entry {
    entry(Kind::Directory, path)
}

pub(crate) fn symlink(path: impl AsRef<[u8]>, to: &[u8]) -> Entry {
    let content = Content::Inline(to.to_vec());
    Entry { size: to.len() as u64, content, ..entry(Kind::Symlink, path) }
}

/// A further name, or the first, of the file `inode`.
pub(crate) fn linked(entry: Entry, inode: u64) -> Entry {
    Entry { inode, links: 2, ..entry }
}

/// Larger than any chunk of the tests' repositories, which nobody looks at.
pub(crate) const LARGE_CHUNK: usize = SMALL_CHUNKS.max as usize * 200;
