//! Manifests: creating, signing, reading and verifying them; and finding the newest snapshot of a
//! source.

use crate::backup::FailedObject;
use crate::receipts::{ReceiptStatus, ReceiptVerifier};
use crate::report::BackupReport;
use crate::signers::{Signer, SignerCache};
use crate::unlocked::UnlockedRepository;
use crate::{Error, Result};
use crypto::RootVerifyKey;
use format::entry::Time;
use format::limits::MANIFEST_BODY_MAX;
use format::manifest::{Head, PARTIAL, REWRITTEN};
pub(crate) use format::manifest::{MANIFEST_CONTEXT, TOMBSTONE_CONTEXT};
use format::record::{self, RecordKind, SealedRecord};
use ids::{ObjectId, SnapshotId};
use seal::{BlockCompressor, Level, Sealer};
use serde::{Deserialize, Serialize};
use store::{CommittedSnapshot, SnapshotRef, StoredSnapshot, WriteSession};
use tree::Root;

/// The sealed part of a manifest. Later versions add fields; none is ever removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManifestBody {
    /// The machine that was backed up.
    pub node: String,
    /// The paths that were backed up, as the user named them; bytes that are not UTF-8 are escaped.
    pub paths: Vec<String>,
    /// The tags of the user.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether parts of the source could not be read; stored in the head.
    #[serde(skip)]
    pub partial: bool,
    /// The damage epoch of the repository when the snapshot was created: see
    /// `Repository::damage_epoch`.
    #[serde(default)]
    pub damage_epoch: u64,
    /// The program and version that wrote it.
    #[serde(default)]
    pub program: String,
    /// The report of the backup.
    #[serde(default)]
    pub report: BackupReport,
    /// Objects that could not be read, or not completely; not all of them if there were many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedObject>,
}

/// A snapshot whose signature, body and receipt were verified.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its name.
    pub name: SnapshotRef,
    /// The part that is not encrypted.
    pub head: Head,
    /// The sealed part.
    pub body: ManifestBody,
    /// What is known of its receipt.
    pub receipt: ReceiptStatus,
}

impl Snapshot {
    /// Its id.
    pub fn id(&self) -> SnapshotId {
        self.name.id
    }

    /// When the backup started, by the clock of the node.
    pub fn time(&self) -> Time {
        crate::effective_time::recorded_time(&self.head)
    }
}

/// The id of a source: a keyed hash of its node and paths.
pub fn source_id(repository: &UnlockedRepository, node: &str, paths: &[String]) -> ObjectId {
    let mut text = node.to_owned();
    paths.iter().for_each(|path| {
        text.push('\0');
        text.push_str(path);
    });
    repository.keys.writer.ids.page_id(SOURCE_KIND, &[], text.as_bytes())
}

/// Domain separation of the keyed hash: no page has these kinds.
const SOURCE_KIND: u8 = 0x80;
const BODY_KIND: u8 = 0x81;
pub(crate) const BACKUP_KIND: u8 = 0x82;

/// The bytes that are signed for `message`.
pub(crate) fn signed_message(
    repository: &UnlockedRepository,
    context: &[u8],
    message: &[u8],
) -> Vec<u8> {
    [context, &repository.store.config().repository.0, message].concat()
}

/// What a new manifest says besides its body.
pub(crate) struct NewManifest {
    pub(crate) source: ObjectId,
    pub(crate) previous: Option<Head>,
    pub(crate) previous_id: Option<SnapshotId>,
    pub(crate) time: Time,
    pub(crate) root: Root,
    /// The original of a rewritten snapshot, with its number.
    pub(crate) original: Option<(SnapshotId, u64)>,
}

impl NewManifest {
    /// Its number in the chain of its source.
    pub(crate) fn source_sequence(&self) -> u64 {
        self.previous.map_or(0, |head| head.source_sequence) + 1
    }
}

/// Signs a manifest and publishes the session's snapshot with it.
pub(crate) fn commit(
    repository: &UnlockedRepository,
    session: Box<dyn WriteSession>,
    sealer: &Sealer,
    new: NewManifest,
    body: &ManifestBody,
) -> Result<CommittedSnapshot> {
    let sequence = session.next_snapshot()?;
    let manifest = seal_manifest(repository, sequence, sealer, new, body)?;
    match session.commit(&manifest) {
        // The answer was lost, and perhaps nothing else: a second snapshot of the same state would be one too many.
        Err(store::Error::SessionLost) => {
            published(repository, &manifest)?.ok_or(store::Error::SessionLost.into())
        }
        done => Ok(done?),
    }
}

/// The snapshot of this manifest, if it is there.
fn published(
    repository: &UnlockedRepository,
    manifest: &SealedRecord,
) -> Result<Option<CommittedSnapshot>> {
    let id = format::manifest::snapshot_id(record::head_only(&manifest.associated)?.clear);
    let found = repository.store.snapshots()?.into_iter().find(|name| name.id == id);
    Ok(found.map(|snapshot| CommittedSnapshot { snapshot, stored_bytes: 0 }))
}

/// The signed manifest of the snapshot `sequence`.
pub(crate) fn seal_manifest(
    repository: &UnlockedRepository,
    sequence: u64,
    sealer: &Sealer,
    new: NewManifest,
    body: &ManifestBody,
) -> Result<SealedRecord> {
    let bytes =
        serde_json::to_vec(body).map_err(|_| format::Error::Invalid { what: "manifest body" })?;
    let writer = &repository.keys.writer;
    let remade = if new.original.is_some() { REWRITTEN } else { 0 };
    let head = Head {
        sequence,
        source: new.source,
        source_sequence: new.source_sequence(),
        previous: new.previous_id.unwrap_or(SnapshotId([0; 16])),
        time_secs: new.time.secs,
        time_nanos: new.time.nanos,
        root: new.root.id,
        level: new.root.level,
        body: writer.ids.page_id(BODY_KIND, &[new.root.id], &bytes),
        writer: repository.slot.id,
        flags: remade | if body.partial { PARTIAL } else { 0 },
        original: new.original,
    };
    let unsigned = head.encode();
    let signature = writer.sign(&signed_message(repository, MANIFEST_CONTEXT, &unsigned))?;
    let clear = [&unsigned[..], &signature].concat();
    let packer = &mut BlockCompressor::new(Level::Fixed(3))?;
    let record =
        sealer.seal_single(RecordKind::Manifest, &clear, &through_memory(&bytes), packer)?;
    opens_to(&record, sealer, &bytes)?;
    Ok(record)
}

/// Whether the manifest that was sealed is the one that was meant. It is small, and a snapshot
/// whose manifest does not open is none: who may only write could not see that later either.
fn opens_to(record: &SealedRecord, sealer: &Sealer, meant: &[u8]) -> Result<()> {
    let mut unpacker = zstd::bulk::Decompressor::new().map_err(|_| seal::Error::Decompress)?;
    let opened = sealer.open_sealed(record, &mut unpacker);
    if opened.is_ok_and(|opened| opened == meant) { Ok(()) } else { Err(Error::ManifestChanged) }
}

/// Memory loses no bit but in a test.
#[cfg(not(test))]
fn through_memory(bytes: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    bytes.into()
}

#[cfg(test)]
use crate::backup::bit_flips::flip_bit_of_manifest as through_memory;

/// A record that notes that snapshots were forgotten: their ids, signed.
pub(crate) fn tombstone(
    repository: &UnlockedRepository,
    sealer: &Sealer,
    names: &[SnapshotRef],
) -> Result<SealedRecord> {
    let mut clear = repository.slot.id.0.to_vec();
    clear.extend(names.iter().flat_map(|name| name.id.0));
    let signature =
        repository.keys.writer.sign(&signed_message(repository, TOMBSTONE_CONTEXT, &clear))?;
    clear.extend_from_slice(&signature);
    Ok(sealer.seal_single(
        RecordKind::Tombstone,
        &clear,
        b"",
        &mut BlockCompressor::new(Level::Fixed(1))?,
    )?)
}

/// Reads manifests and verifies their signatures.
pub struct ManifestReader<'a> {
    repository: &'a UnlockedRepository,
    signers: SignerCache<'a>,
    receipts: ReceiptVerifier<'a>,
    unpacker: zstd::bulk::Decompressor<'static>,
}

impl<'a> ManifestReader<'a> {
    /// A reader of the manifests of `repository`.
    ///
    /// # Errors
    /// When the list of receipt keys cannot be read.
    pub fn new(repository: &'a UnlockedRepository) -> Result<Self> {
        let unpacker = zstd::bulk::Decompressor::new().map_err(|_| seal::Error::Decompress)?;
        let (signers, receipts) = (SignerCache::new(repository), ReceiptVerifier::new(repository)?);
        Ok(Self { repository, signers, receipts, unpacker })
    }

    /// Reads the snapshot `name` and verifies its signature, its body, and that both belong
    /// together.
    ///
    /// # Errors
    /// [`Error::Untrusted`] when a check fails; [`Error::WriteOnly`] for write-only keys.
    pub fn read(&mut self, name: SnapshotRef) -> Result<Snapshot> {
        self.open(self.repository.store.snapshot(name)?)
    }

    /// The snapshot that was fetched as `stored`, checked in the same way.
    pub(crate) fn open(&mut self, stored: StoredSnapshot) -> Result<Snapshot> {
        let signer = self.check_signature(&stored)?;
        let (name, head, receipt) = (stored.name, stored.head, self.receipts.of(&stored));
        let body = ManifestBody { partial: head.is_partial(), ..self.body(&stored)? };
        receipt.check_node(&stored, &body.node)?;
        if source_id(self.repository, &body.node, &body.paths) != head.source {
            let why =
                format!("it names the node '{}' but was created for another source", body.node);
            return Err(Error::Untrusted { id: name.id, why });
        }
        check_signer(&signer, name, &body.node)?;
        Ok(Snapshot { name, head, body, receipt })
    }

    /// What is sealed in `stored`, if that is what its head means.
    fn body(&mut self, stored: &StoredSnapshot) -> Result<ManifestBody> {
        let blocks = self.repository.blocks()?;
        let opener = blocks.opener();
        let mut bytes = stored.record.clone();
        if record::split(&bytes)?.header.plain_bytes as usize > MANIFEST_BODY_MAX {
            return Err(format::Error::Invalid { what: "manifest body" }.into());
        }
        if !opener.knows_session(&record::split(&bytes)?.header.session) {
            blocks.learn_key(&stored.session)?;
        }
        let plain = opener.open_single(&mut bytes, &mut self.unpacker)?;
        let root = stored.head.root;
        if self.repository.keys.writer.ids.page_id(BODY_KIND, &[root], &plain) != stored.head.body {
            let why = "its body does not match its signature".to_owned();
            return Err(Error::Untrusted { id: stored.name.id, why });
        }
        Ok(serde_json::from_slice(&plain)
            .map_err(|_| format::Error::Invalid { what: "manifest body" })?)
    }

    /// The key that signed `stored`; works with a write-only key, too.
    ///
    /// # Errors
    /// [`Error::Untrusted`] when the key list does not have that key, or the signature is wrong.
    pub fn check_signature(&self, stored: &StoredSnapshot) -> Result<Signer> {
        let signed = self.signers.verify_head(record::split(&stored.record)?.clear)?;
        let signed = signed.map(|(_, signer)| signer);
        signed.map_err(|why| Error::Untrusted { id: stored.name.id, why })
    }

    /// What the server's receipt of `stored` says.
    pub(crate) fn receipt_status(&self, stored: &StoredSnapshot) -> ReceiptStatus {
        self.receipts.of(stored)
    }

    /// Whether `stored` may count for the source of `node` that its head names, as far as the clear
    /// tells: also possible with a write-only key.
    pub(crate) fn check_clear(&self, stored: &StoredSnapshot, node: &str) -> Result<()> {
        self.receipts.of(stored).check_node(stored, node)?;
        check_signer(&self.check_signature(stored)?, stored.name, node)
    }

    /// All snapshots in the order in which they were created. `damaged` is called for each that
    /// cannot be read.
    pub fn all(&mut self, mut damaged: impl FnMut(SnapshotRef, Error)) -> Result<Vec<Snapshot>> {
        let mut all = Vec::new();
        let names = self.repository.store.snapshots()?;
        for (name, stored) in fetch_all(self.repository, &names) {
            match stored.map_err(Error::from).and_then(|stored| self.open(stored)) {
                Ok(snapshot) => all.push(snapshot),
                Err(error) if error.is_unreachable() => return Err(error),
                // Forgotten meanwhile.
                Err(Error::Repository(store::Error::SnapshotMissing(_))) => {}
                Err(error) => damaged(name, error),
            }
        }
        Ok(all)
    }
}

/// A bound key signs for one node, and for no other.
fn check_signer(signer: &Signer, name: SnapshotRef, node: &str) -> Result<()> {
    if signer.may_sign_for(node) {
        return Ok(());
    }
    let why = format!("the key of '{}' signed it, but it names the node '{node}'", signer.label);
    Err(Error::Untrusted { id: name.id, why })
}

/// Snapshots that are fetched at once: one may have two mebibytes, most have one or two thousand
/// bytes.
const AT_ONCE: usize = 128;

/// The snapshots `names` as they are stored, one after the other.
pub(crate) fn fetch_all(
    repository: &UnlockedRepository,
    names: &[SnapshotRef],
) -> impl Iterator<Item = (SnapshotRef, store::Result<StoredSnapshot>)> {
    let store = &repository.store;
    names.chunks(AT_ONCE).flat_map(|some| some.iter().copied().zip(store.read_snapshots(some)))
}

/// The newest trusted snapshot of a source of `node`: the one before in its chain, and the one for
/// change detection. `note` is called for a newer one that is untrusted.
pub(crate) fn newest_of(
    repository: &UnlockedRepository,
    source: &ObjectId,
    node: &str,
    note: &mut dyn FnMut(&str),
) -> Result<Option<StoredSnapshot>> {
    let Some(newest) = repository.store.latest_snapshot(source)? else { return Ok(None) };
    let reader = ManifestReader::new(repository)?;
    match reader.check_clear(&newest, node) {
        Ok(()) => Ok(Some(newest)),
        Err(Error::Untrusted { id, why }) => {
            note(&format!(
                "snapshot {id} is untrusted and not built upon: {why}. To see more: icecore check"
            ));
            newest_trusted(repository, &reader, source, node)
        }
        Err(error) => Err(error),
    }
}

/// The same, by looking at all of them.
fn newest_trusted(
    repository: &UnlockedRepository,
    reader: &ManifestReader<'_>,
    source: &ObjectId,
    node: &str,
) -> Result<Option<StoredSnapshot>> {
    if repository.reader_keys().is_err() && repository.store.is_remote() {
        return Ok(None); // who may only write is shown no list
    }
    let mut names = repository.store.snapshots()?;
    names.reverse();
    for (_, stored) in fetch_all(repository, &names) {
        match stored {
            Ok(stored) if stored.head.source == *source => {
                match reader.check_clear(&stored, node) {
                    Err(Error::Untrusted { .. }) => {}
                    checked => return checked.map(|()| Some(stored)),
                }
            }
            Err(error) if error.is_unreachable() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether a snapshot that was read is not in the repository any more. What cannot be listed is not called gone.
pub fn is_gone(repository: &UnlockedRepository, snapshot: &Snapshot) -> bool {
    let listed = repository.store.snapshots();
    listed.is_ok_and(|names| names.iter().all(|name| name.id != snapshot.id()))
}

/// The key that certifies key slots.
pub fn root_key(repository: &UnlockedRepository) -> RootVerifyKey {
    RootVerifyKey::from_bytes(repository.store.config().root_key)
}
