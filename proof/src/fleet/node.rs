//! What a node backs up, made before the race, and the race itself.

use super::member::Member;
use super::wire::{self, Tls, ask};
use crypto::Cipher;
use format::entry::{Attributes, Content, Entry, Kind, Segment, Time};
use format::leaf::LeafBuilder;
use format::manifest::{Head, MANIFEST_CONTEXT};
use format::record::RecordKind;
use ids::{ObjectId, SnapshotId};
use pipeline::manifest::ManifestBody;
use protocol::Packet;
use protocol::packet::{PathBytes, Purpose};
use seal::{Block, BlockCompressor, Level, Sealer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::io::AsyncWriteExt;

/// Kinds in keyed hashes, as clients have them.
const SOURCE_KIND: u8 = 0x80;
const BODY_KIND: u8 = 0x81;

/// Everything that a node will send, sealed.
pub(super) struct Cargo {
    member: Member,
    sealer: Sealer,
    ids: Vec<ObjectId>,
    records: Vec<Vec<u8>>,
    root: ObjectId,
    pub(super) bytes: u64,
}

impl Cargo {
    pub(super) fn pack(member: Member) -> Result<Self, String> {
        let text = |error: seal::Error| error.to_string();
        let mut random = [0; 80];
        getrandom::fill(&mut random).map_err(|error| error.to_string())?;
        let sealer = Sealer::new(&member.ring.writer, random, Cipher::fastest());
        let mut packer = BlockCompressor::new(Level::Fixed(1)).map_err(text)?;
        let (mut ids, mut blocks, mut leaf) = (Vec::new(), Vec::new(), LeafBuilder::default());
        let names = &member.ring.writer.ids;
        leaf.push(&entry(Kind::Directory, "tree", 0, Content::None));
        for (name, bytes) in member.files() {
            let id = names.chunk_id(&bytes);
            let mut block = Block::new(RecordKind::Data);
            block.push_chunk(id, &bytes);
            let runs = [Segment::Data(id, bytes.len() as u32)];
            let content = Content::Segments(Arc::new(runs));
            leaf.push(&entry(Kind::File, &format!("tree/{name}"), bytes.len() as u64, content));
            ids.push(id);
            blocks.push(block);
        }
        let page = leaf.finish();
        let root = names.page_id(page.kind as u8, &page.refs, &page.payload);
        let mut block = Block::new(RecordKind::Pages);
        block.push_page(root, &page);
        ids.push(root);
        blocks.push(block);
        let mut records = Vec::new();
        for mut block in blocks {
            let mut record = Sealer::empty_record();
            sealer.seal_block(&mut block, &mut packer, &mut record).map_err(text)?;
            records.push(Packet::Append { record: record.to_bytes() }.frame(0));
        }
        let bytes = records.iter().map(|record| record.len() as u64).sum();
        Ok(Self { member, sealer, ids, records, root, bytes })
    }

    /// Connects, begins a session and says what it will store; how many tries that took.
    pub(super) async fn begin(&self, port: u16) -> Result<(Tls, u32), String> {
        let (mut stream, tries) = self.member.dial.open(port, Purpose::Backup).await?;
        let record = PathBytes(self.sealer.session_record().to_bytes());
        let begin = Packet::Begin { base: None, what: String::new(), record };
        match ask(&mut stream, &begin).await? {
            Packet::Begun { .. } => {}
            other => return Err(format!("Begin was answered with {}", other.name())),
        }
        ask(&mut stream, &Packet::Claim { ids: self.ids.clone() }).await?;
        Ok((stream, tries))
    }

    /// Sends everything, and publishes it. `confirmed` are the bytes that the server has.
    pub(super) async fn send(&self, stream: Tls, confirmed: &AtomicU64) -> Result<(), String> {
        let (mut read, mut write) = tokio::io::split(stream);
        let sending = async {
            for record in &self.records {
                write.write_all(record).await.map_err(|error| error.to_string())?;
                // All nodes share the processors of this machine: each gets its turn.
                tokio::task::yield_now().await;
            }
            write.flush().await.map_err(|error| error.to_string())
        };
        let hearing = async {
            for record in &self.records {
                match wire::next(&mut read).await? {
                    Packet::Stored { .. } => confirmed.fetch_add(record.len() as u64, Relaxed),
                    other => return Err(format!("Append was answered with {}", other.name())),
                };
            }
            Ok(())
        };
        tokio::try_join!(sending, hearing)?;
        let mut stream = read.unsplit(write);
        let Packet::Number { number } = ask(&mut stream, &Packet::GetNumber {}).await? else {
            return Err("no number".to_owned());
        };
        let manifest = self.manifest(number)?;
        match ask(&mut stream, &Packet::Commit { manifest }).await? {
            Packet::Committed { .. } => {}
            other => return Err(format!("Commit was answered with {}", other.name())),
        }
        ask(&mut stream, &Packet::Bye {}).await.map(|_| ())
    }

    fn manifest(&self, sequence: u64) -> Result<Vec<u8>, String> {
        let (member, writer) = (&self.member, &self.member.ring.writer);
        let body = ManifestBody { node: member.name.clone(), ..ManifestBody::default() };
        let body = serde_json::to_vec(&body).map_err(|error| error.to_string())?;
        let head = Head {
            sequence,
            source: writer.ids.page_id(SOURCE_KIND, &[], member.name.as_bytes()),
            source_sequence: 1,
            previous: SnapshotId([0; 16]),
            time_secs: 1,
            time_nanos: 0,
            root: self.root,
            level: 0,
            body: writer.ids.page_id(BODY_KIND, &[self.root], &body),
            writer: member.key,
            flags: 0,
            original: None,
        };
        let unsigned = head.encode();
        let message = [MANIFEST_CONTEXT, &member.repository, &unsigned].concat();
        let clear =
            [&unsigned[..], &writer.sign(&message).map_err(|error| error.to_string())?].concat();
        let mut packer =
            BlockCompressor::new(Level::Fixed(1)).map_err(|error| error.to_string())?;
        let sealed = self.sealer.seal_single(RecordKind::Manifest, &clear, &body, &mut packer);
        Ok(sealed.map_err(|error| error.to_string())?.to_bytes())
    }
}

fn entry(kind: Kind, path: &str, size: u64, content: Content) -> Entry {
    let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
    Entry {
        size,
        mtime: Time { secs: 1, nanos: 0 },
        content,
        ..Entry::new(path.as_bytes(), Arc::new(Attributes::new(kind, mode)))
    }
}
