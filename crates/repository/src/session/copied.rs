//! Sessions that store records of another repository with the same keys, as they are, and publish its snapshots.

use super::Session;
use crate::copy::GoodRecord;
use crate::index::pending::PendingSnapshot;
use crate::pins::Covered;
use crate::snapshots::{self, SnapshotRef};
use crate::{Error, Repository, Result};
use crate::{index::state::State, lease::Lease};
use format::record::RecordKind;
use ids::ObjectId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::StoredSnapshot;

impl Repository {
    /// Begins a session that copies: it seals nothing, and each record comes with the session record of its own.
    pub(crate) fn begin_copy(self: &Arc<Self>, lease: &Arc<Lease>) -> Session {
        let number = self.pins.lock().begin(None);
        Session::new(self.clone(), lease.clone(), number, None)
    }
}

impl Session {
    /// Appends a record that was verified, if anything in it is claimed or not stored. Objects that are stored already
    /// keep their locations.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn append_copied(&self, record: &GoodRecord) -> Result<bool> {
        let mut ids = Vec::with_capacity(record.ids.len());
        for id in &record.ids {
            let is_ours = self.objects.lock().is_claimed(id);
            if is_ours || self.claim(id)? {
                ids.push(*id);
            }
        }
        if ids.is_empty() {
            return Ok(false);
        }
        self.write_with(Some(&record.key), record.kind, &ids, &[&record.bytes])?;
        self.checkpoint_if_due()?;
        Ok(true)
    }

    /// Appends a record that was verified. `ids` are found in it from now on, wherever they were before.
    pub(crate) fn append_again(&self, record: &GoodRecord, ids: &[ObjectId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        self.objects.lock().replace(ids);
        self.write_with(Some(&record.key), record.kind, ids, &[&record.bytes])?;
        self.checkpoint_if_due()
    }

    /// Appends a record of `kind` that holds no objects.
    pub(crate) fn append_other(
        &self,
        key: Option<&[u8]>,
        kind: RecordKind,
        bytes: &[u8],
    ) -> Result<()> {
        self.write_with(key, kind, &[], &[bytes]).map(drop)
    }

    /// Whether `id` was claimed and not appended yet.
    pub(crate) fn lacks(&self, id: &ObjectId) -> bool {
        self.objects.lock().is_claimed(id)
    }

    /// Nobody will append `id`: it is lost where it came from.
    pub(crate) fn give_up(&self, id: &ObjectId) {
        self.objects.lock().unclaim(id);
    }

    /// Publishes `copied`, of which everything was appended that was not stored: each snapshot file as it was, with the
    /// number that it has. The damage epoch becomes at least `epoch`.
    ///
    /// # Errors
    /// [`Error::NotStored`], [`Error::RootMissing`], [`Error::LeaseLost`]: then those whose files were written are
    /// published, and the others are not.
    pub(crate) fn commit_copied(self, copied: &[StoredSnapshot], epoch: u64) -> Result<()> {
        if let Some(count) = self.missing_objects() {
            return Err(Error::NotStored(count));
        }
        // A recovery or a rebuild that finds the manifests takes these numbers for given.
        let last = copied.iter().map(|snapshot| snapshot.name.sequence).max().unwrap_or(0);
        self.repository.next_snapshot.fetch_max(last.saturating_add(1), Ordering::Relaxed);
        copied.iter().try_for_each(|snapshot| self.append_manifest(snapshot))?;
        self.finish_containers()?;
        self.publish_rows(&mut self.rest()?, |run| self.publish_copied(run, copied, epoch))?;
        // The copy is done, whatever comes of this: the next writer merges what is left.
        let _ = self.repository.compact_index(&self.lease);
        Ok(())
    }

    /// Manifest and receipt also lie in a container, for a rebuild.
    ///
    /// # Errors
    /// [`Error::RootMissing`].
    pub(crate) fn append_manifest(&self, snapshot: &StoredSnapshot) -> Result<()> {
        let root = snapshot.head.root;
        if !root.is_page() || !self.has_stored(&root)? {
            return Err(Error::RootMissing(root));
        }
        let (key, file) = (snapshot.session_record(), snapshot.to_bytes());
        let container =
            self.write_with(Some(key), RecordKind::Manifest, &[], &[&snapshot.record])?;
        self.repository.pending.lock().add(PendingSnapshot { name: snapshot.name, container });
        let receipt = &file[key.len() + snapshot.record.len()..];
        if receipt.is_empty() {
            return Ok(());
        }
        // Behind its manifest, in the same container: reclaim and rebuild know it by that.
        self.write(RecordKind::Receipt, &[], &[receipt]).map(drop)
    }

    /// The commit lock is held.
    fn publish_copied(
        &self,
        run: Option<u64>,
        copied: &[StoredSnapshot],
        epoch: u64,
    ) -> Result<()> {
        let repository = &self.repository;
        let covered = Covered::AllOf(self.number);
        let mut state: State = repository.next_state(covered);
        state.runs.extend(run);
        state.damage_epoch = state.damage_epoch.max(epoch);
        self.leave_list(&mut state.interrupted);
        repository.publish_index(&self.lease, state)?;
        repository.pins.lock().indexed(covered);
        self.committed.store(true, Ordering::Relaxed);
        for snapshot in copied {
            self.write_snapshot(snapshot)?;
        }
        // Who was overtaken while it wrote may have written it too late for the next writer to see.
        self.lease.verify()?;
        let mut pending = repository.pending.lock();
        copied.iter().for_each(|snapshot| pending.remove(&snapshot.name.id));
        Ok(())
    }

    fn write_snapshot(&self, snapshot: &StoredSnapshot) -> Result<SnapshotRef> {
        // The last look before the one step that makes it visible.
        self.lease.verify()?;
        let clear = &snapshot.record[..];
        let manifest = format::record::verify(clear)
            .map_err(|reason| Error::damaged(&snapshot.name.path(), reason))?;
        let (storage, bytes) = (&*self.repository.storage, snapshot.to_bytes());
        match snapshots::write_bytes(storage, manifest.associated, &bytes) {
            // A locked file cannot be replaced, and need not be by the same.
            Err(_) if self.has_file(snapshot.name, &bytes) => Ok(snapshot.name),
            written => written,
        }
    }

    fn has_file(&self, name: SnapshotRef, bytes: &[u8]) -> bool {
        self.repository.snapshot(name).is_ok_and(|there| there.to_bytes() == bytes)
    }
}
