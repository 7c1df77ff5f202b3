//! Manifests: making, signing, reading and trusting them; and finding the snapshot that a user
//! means.

use crate::archive::Archive;
use crate::blocks::Scratch;
use crate::report::Report;
use crate::{Error, Result};
use crypto::RootVerifyKey;
use format::entry::Time;
use format::limits::MANIFEST_BODY_MAX;
use format::manifest::{Head, UNSIGNED_BYTES};
pub(crate) use format::manifest::{MANIFEST_CONTEXT, TOMBSTONE_CONTEXT};
use format::record::{self, RecordKind, SealedRecord};
use ids::{ObjectId, SnapshotId};
use repository::session::Committed;
use repository::snapshots::{SnapshotRef, Stored};
use repository::store::Sink;
use seal::{Level, Packer, Sealer};
use serde::{Deserialize, Serialize};
use tree::Root;

/// What is sealed in a manifest. Later programs add fields; none is ever taken away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Body {
    /// The machine that was backed up.
    pub node: String,
    /// What was backed up, as the user named it; bytes that are no text are escaped.
    pub paths: Vec<String>,
    /// Labels of the user.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether parts of the source could not be read.
    #[serde(default)]
    pub partial: bool,
    /// Damage epoch of the repository when it was made: see `Repository::damage_epoch`.
    #[serde(default)]
    pub damage_epoch: u64,
    /// Program and version that wrote it.
    #[serde(default)]
    pub program: String,
    /// What the backup did.
    #[serde(default)]
    pub report: Report,
}

/// A snapshot, read and trusted.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its name.
    pub name: SnapshotRef,
    /// What lies in the clear.
    pub head: Head,
    /// What was sealed.
    pub body: Body,
}

impl Snapshot {
    /// Its id.
    pub fn id(&self) -> SnapshotId {
        self.name.id
    }

    /// When the backup began.
    pub fn time(&self) -> Time {
        Time { secs: self.head.time_secs, nanos: self.head.time_nanos }
    }
}

/// Name of a source: its node and paths.
pub fn source_id(archive: &Archive, node: &str, paths: &[String]) -> ObjectId {
    let mut text = node.to_owned();
    paths.iter().for_each(|path| {
        text.push('\0');
        text.push_str(path);
    });
    archive.keys.writer.ids.page_id(SOURCE_KIND, &[], text.as_bytes())
}

/// Domain separation of the keyed hash: no page has these kinds.
const SOURCE_KIND: u8 = 0x80;
const BODY_KIND: u8 = 0x81;

/// The bytes that are signed for `message`.
pub(crate) fn signed(archive: &Archive, context: &[u8], message: &[u8]) -> Vec<u8> {
    [context, &archive.store.config().repository.0, message].concat()
}

/// What a new manifest says besides its body.
pub(crate) struct NewManifest {
    pub(crate) source: ObjectId,
    pub(crate) previous: Option<Head>,
    pub(crate) previous_id: Option<SnapshotId>,
    pub(crate) time: Time,
    pub(crate) root: Root,
}

impl NewManifest {
    /// Its number in the chain of its source.
    pub(crate) fn source_sequence(&self) -> u64 {
        self.previous.map_or(0, |head| head.source_sequence) + 1
    }
}

/// Signs a manifest and publishes the session's snapshot with it.
pub(crate) fn commit(
    archive: &Archive,
    session: Box<dyn Sink>,
    sealer: &Sealer,
    new: NewManifest,
    body: &Body,
) -> Result<Committed> {
    let bytes =
        serde_json::to_vec(body).map_err(|_| format::Error::Invalid { what: "manifest body" })?;
    let writer = &archive.keys.writer;
    let head = Head {
        sequence: session.next_snapshot()?,
        source: new.source,
        source_sequence: new.source_sequence(),
        previous: new.previous_id.unwrap_or(SnapshotId([0; 16])),
        time_secs: new.time.secs,
        time_nanos: new.time.nanos,
        root: new.root.id,
        level: new.root.level,
        body: writer.ids.page_id(BODY_KIND, &[new.root.id], &bytes),
        writer: archive.slot.id,
    };
    let unsigned = head.encode();
    let signature = writer.signer.sign(&signed(archive, MANIFEST_CONTEXT, &unsigned));
    let clear = [&unsigned[..], &signature].concat();
    let record = sealer.seal_single(
        RecordKind::Manifest,
        &clear,
        &bytes,
        &mut Packer::new(Level::Fixed(3))?,
    )?;
    Ok(session.commit(&record)?)
}

/// A record that notes that snapshots were forgotten: their ids, signed.
pub(crate) fn tombstone(
    archive: &Archive,
    sealer: &Sealer,
    names: &[SnapshotRef],
) -> Result<SealedRecord> {
    let mut clear = archive.slot.id.0.to_vec();
    clear.extend(names.iter().flat_map(|name| name.id.0));
    let signature = archive.keys.writer.signer.sign(&signed(archive, TOMBSTONE_CONTEXT, &clear));
    clear.extend_from_slice(&signature);
    Ok(sealer.seal_single(
        RecordKind::Tombstone,
        &clear,
        b"",
        &mut Packer::new(Level::Fixed(1))?,
    )?)
}

/// Reads manifests and checks who signed them.
pub struct ManifestReader<'a> {
    archive: &'a Archive,
    slots: Vec<(ids::KeyId, crypto::SlotInfo)>,
    scratch: Scratch,
    unpacker: zstd::bulk::Decompressor<'static>,
}

impl<'a> ManifestReader<'a> {
    /// A reader of `archive`'s manifests.
    pub fn new(archive: &'a Archive) -> Result<Self> {
        let unpacker = zstd::bulk::Decompressor::new().map_err(|_| seal::Error::Decompress)?;
        Ok(Self { archive, slots: archive.slots()?, scratch: Scratch::new()?, unpacker })
    }

    /// The snapshot `name`: its signature, its body and that both belong together are checked.
    pub fn read(&mut self, name: SnapshotRef) -> Result<Snapshot> {
        self.open(self.archive.store.snapshot(name)?)
    }

    /// The snapshot that was fetched as `stored`, checked in the same way.
    pub(crate) fn open(&mut self, stored: Stored) -> Result<Snapshot> {
        let name = stored.name;
        self.check_signature(&stored)?;
        let opener = self.archive.blocks()?.opener();
        let mut bytes = stored.record;
        if record::split(&bytes)?.header.plain_bytes as usize > MANIFEST_BODY_MAX {
            return Err(format::Error::Invalid { what: "manifest body" }.into());
        }
        if !opener.knows(&record::split(&bytes)?.header.session) {
            opener.learn(&stored.session)?;
        }
        let plain = opener.open_single(&mut bytes, &mut self.unpacker)?;
        let root = stored.head.root;
        if self.archive.keys.writer.ids.page_id(BODY_KIND, &[root], &plain) != stored.head.body {
            return Err(Error::Forged(name.id));
        }
        let body = serde_json::from_slice(&plain)
            .map_err(|_| format::Error::Invalid { what: "manifest body" })?;
        let _ = &self.scratch;
        Ok(Snapshot { name, head: stored.head, body })
    }

    /// Checks the signature; also possible with a write-only key.
    pub fn check_signature(&self, stored: &Stored) -> Result<()> {
        let signed = record::split(&stored.record)?.clear;
        let unsigned = signed.get(..UNSIGNED_BYTES).unwrap_or_default();
        // A key that was removed since leaves its manifests signed by nobody known; the seal and
        // the keyed body hash still vouch for them.
        let Some((_, slot)) = self.slots.iter().find(|(id, _)| *id == stored.head.writer) else {
            return Ok(());
        };
        let message = self::signed(self.archive, MANIFEST_CONTEXT, unsigned);
        slot.verify_key
            .verify(&message, &stored.signature)
            .map_err(|_| Error::Forged(stored.name.id))
    }

    /// All snapshots in the order made. What cannot be read is given to `damaged`.
    pub fn all(&mut self, mut damaged: impl FnMut(SnapshotRef, Error)) -> Result<Vec<Snapshot>> {
        let mut all = Vec::new();
        let names = self.archive.store.snapshots()?;
        for (name, stored) in fetched(self.archive, &names) {
            match stored.map_err(Error::from).and_then(|stored| self.open(stored)) {
                Ok(snapshot) => all.push(snapshot),
                Err(error) if error.is_of_the_way() => return Err(error),
                // Forgotten meanwhile.
                Err(Error::Repository(repository::Error::SnapshotMissing(_))) => {}
                Err(error) => damaged(name, error),
            }
        }
        Ok(all)
    }
}

/// Snapshots that are fetched at once: one may have two mebibytes, most have one or two thousand bytes.
const AT_ONCE: usize = 128;

/// The snapshots `names` as they are stored, one after the other.
pub(crate) fn fetched(
    archive: &Archive,
    names: &[SnapshotRef],
) -> impl Iterator<Item = (SnapshotRef, repository::Result<Stored>)> {
    let store = &archive.store;
    names.chunks(AT_ONCE).flat_map(|some| some.iter().copied().zip(store.several(some)))
}

/// The newest snapshot of `source`, as far as the clear tells: for the chain and for change
/// detection.
pub(crate) fn newest_of(archive: &Archive, source: &ObjectId) -> Result<Option<Stored>> {
    Ok(archive.store.newest(source)?)
}

/// The key that vouches for slots.
pub fn root_key(archive: &Archive) -> RootVerifyKey {
    RootVerifyKey::from_bytes(archive.store.config().root_key)
}
