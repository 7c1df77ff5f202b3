//! Orphaned snapshots: in a container, but not in the list. Their files were lost, or their backups
//! did not finish. Nobody forgot them, so they are treated as wanted.

use crate::manifest::{ManifestReader, TOMBSTONE_CONTEXT, signed_message};
use crate::signers::SignerCache;
use crate::{Error, Result, UnlockedRepository};
use format::manifest::{self, Head, SIGNATURE_BYTES};
use format::record::{self, RecordKind};
use ids::{ContainerNo, KeyId, RecordLocation, SessionId, SnapshotId};
use repository::Repository;
use repository::container::read::ContainerReader;
use repository::rebuild::FoundManifest;
use rustc_hash::{FxHashMap, FxHashSet};
use store::SnapshotRef;

/// The head of a manifest, if a key of the repository signed it.
pub(crate) fn verified_head(signers: &SignerCache<'_>, clear: &[u8]) -> Result<Option<Head>> {
    let signed = signers.verify_head(clear)?.ok();
    Ok(signed.map(|(head, _)| head))
}

/// The snapshots that are gone on purpose: that tombstones name, or expiries of a known server.
pub(crate) fn removed(
    signers: &SignerCache<'_>,
    tombstones: &[Vec<u8>],
    expiries: &[Vec<u8>],
) -> Result<FxHashSet<SnapshotId>> {
    let mut removed = forgotten(signers, tombstones)?;
    removed.extend(signers.repository.local()?.expired(expiries)?.into_keys());
    Ok(removed)
}

/// The snapshots that `tombstones` name. Tombstones of removed keys count, since they have no
/// number that would say when they were written; those of unknown keys do not.
pub(crate) fn forgotten(
    signers: &SignerCache<'_>,
    tombstones: &[Vec<u8>],
) -> Result<FxHashSet<SnapshotId>> {
    let mut dead = FxHashSet::default();
    for clear in tombstones {
        let Some((message, signature)) = clear.split_last_chunk::<SIGNATURE_BYTES>() else {
            continue;
        };
        let Some((writer, names)) = message.split_first_chunk::<{ KeyId::LEN }>() else { continue };
        let signed = signed_message(signers.repository, TOMBSTONE_CONTEXT, message);
        let is_good = match signers.find(KeyId(*writer))? {
            Some(signer) => signer.verify_key.verify(&signed, signature).is_ok(),
            None => false,
        };
        if is_good {
            let ids = names.as_chunks::<{ SnapshotId::LEN }>().0;
            dead.extend(ids.iter().map(|id| SnapshotId(*id)));
        }
    }
    Ok(dead)
}

/// Restores all orphans to the list whose data is complete and that can be opened, before their
/// data is reclaimed. Returns how many. If damage is accepted, unreadable containers are skipped.
pub(crate) fn restore_orphans(
    repository: &UnlockedRepository,
    lease: &repository::lease::Lease,
    accept_damage: bool,
) -> Result<u64> {
    let found = scan_containers(repository.local()?, accept_damage, |_| true)?;
    let signers = SignerCache::new(repository);
    let dead = removed(&signers, &found.tombstones, &found.expiries)?;
    let listed = repository.local()?.current_snapshots()?;
    let listed: FxHashSet<_> = listed.iter().map(|name| name.id).collect();
    let mut back = 0;
    for manifest in &found.manifests {
        if listed.contains(&manifest.id) || is_gone(repository.local()?, &dead, manifest)? {
            continue;
        }
        if let Some(head) = verified_head(&signers, &manifest.clear)?
            && repository.local()?.is_complete(head.root)?
            && can_open(repository, head, manifest)?
        {
            repository.local()?.restore_manifest(lease, manifest)?;
            back += 1;
        }
    }
    Ok(back)
}

/// Whether a snapshot was removed on purpose. While it is locked, nobody can have done that by this program.
pub(crate) fn is_gone(
    repository: &Repository,
    removed: &FxHashSet<SnapshotId>,
    manifest: &FoundManifest,
) -> Result<bool> {
    Ok(removed.contains(&manifest.id) && !repository.is_manifest_locked(manifest)?)
}

/// The records of snapshots that were created and removed, from the containers.
#[derive(Default)]
pub(crate) struct SnapshotRecords {
    pub(crate) manifests: Vec<FoundManifest>,
    pub(crate) tombstones: Vec<Vec<u8>>,
    pub(crate) expiries: Vec<Vec<u8>>,
}

/// Whether a manifest can be opened. One that cannot is of no use: whoever removed its file finds
/// it gone. (A write-only key cannot tell.)
pub(crate) fn can_open(
    repository: &UnlockedRepository,
    head: Head,
    manifest: &FoundManifest,
) -> Result<bool> {
    if repository.blocks.is_none() {
        return Ok(true);
    }
    let name = SnapshotRef { sequence: head.sequence, id: manifest.id };
    let Ok(stored) = repository::snapshots::decode(name, &manifest.file) else { return Ok(false) };
    Ok(ManifestReader::new(repository)?.open(stored).is_ok())
}

/// Scans the containers: for tombstones all, for manifests those that are `settled`. If damage is accepted, unreadable
/// ones are skipped.
pub(crate) fn scan_containers(
    repository: &Repository,
    accept_damage: bool,
    settled: impl Fn(ContainerNo) -> bool,
) -> Result<SnapshotRecords> {
    let storage = &**repository.storage();
    let mut records = SnapshotRecords::default();
    let mut files = repository.current_containers()?;
    files.retain(|file| file.finished);
    let numbers: Vec<_> = files.iter().map(|file| file.number).collect();
    let without = repository.cold_content(&numbers)?;
    for file in files.iter().filter(|file| !without.contains(&file.number)) {
        let before = records.manifests.len();
        let scanned = ContainerReader::open(storage, file.number)
            .map_err(Error::from)
            .and_then(|reader| scan_container(&reader, &mut records));
        match scanned {
            Err(error) if accept_damage && error.is_damage() => {}
            Err(error) if error.is_archived() && repository.is_archived_content(file.number)? => {}
            scanned => scanned?,
        }
        if !settled(file.number) {
            records.manifests.truncate(before);
        }
    }
    Ok(records)
}

fn scan_container(reader: &ContainerReader, records: &mut SnapshotRecords) -> Result<()> {
    let rows = match reader.rows() {
        Err(repository::Error::Damaged { .. }) => reader.walk(|_, _| ())?.rows,
        rows => rows?,
    };
    let mut sessions: FxHashMap<SessionId, Vec<u8>> = FxHashMap::default();
    let mut manifests = Vec::new();
    use RecordKind::{Expiry, Manifest, Receipt, Session, Tombstone};
    let kinds = [Session, Manifest, Tombstone, Receipt, Expiry];
    let mut receipts: FxHashMap<SessionId, Vec<u8>> = FxHashMap::default();
    for row in rows.iter().filter(|row| kinds.iter().any(|kind| row.has_kind(*kind))) {
        let mut bytes = Vec::new();
        let location =
            RecordLocation { container: reader.number(), offset: row.offset, length: row.length };
        reader.read(location, &mut bytes)?;
        let Ok(record) = record::verify(&bytes) else { continue };
        match record.header.kind {
            RecordKind::Session => drop(sessions.insert(record.header.session, bytes)),
            RecordKind::Tombstone => records.tombstones.push(record.clear.to_vec()),
            RecordKind::Expiry => records.expiries.push(record.clear.to_vec()),
            RecordKind::Receipt => drop(receipts.insert(record.header.session, bytes)),
            _ => manifests.push((record.header.session, record.clear.to_vec(), bytes)),
        }
    }
    for (session, clear, manifest) in manifests {
        if let Some(key) = sessions.get(&session) {
            let id = manifest::snapshot_id(&clear);
            let receipt = receipts.get(&session).map_or(&[][..], |receipt| receipt);
            let file = [&key[..], &manifest, receipt].concat();
            records.manifests.push(FoundManifest { id, clear, file });
        }
    }
    Ok(())
}
