//! A repository with its copies as pipelines use it.

use super::WithCopies;
use crate::Repository;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use store::{Config, ReceiptKey, SnapshotRef, Store, StoredSnapshot, WriteLease};

impl Store for WithCopies {
    fn config(&self) -> &Config {
        self.first.config()
    }

    fn damage_epoch(&self) -> u64 {
        self.first.damage_epoch()
    }

    fn snapshots(&self) -> store::Result<Vec<SnapshotRef>> {
        match self.first.snapshots() {
            // The list of a copy may be older, and its newest snapshot would pass for the newest.
            Err(error) if error.is_unreachable() => Err(error.into()),
            listed => {
                self.has_lost_list.store(listed.is_err(), Relaxed);
                Ok(self.or_copy(listed, Repository::snapshots)?)
            }
        }
    }

    fn snapshot(&self, name: SnapshotRef) -> store::Result<StoredSnapshot> {
        Ok(self.snapshot(name)?)
    }

    fn latest_snapshot(&self, source: &ObjectId) -> store::Result<Option<StoredSnapshot>> {
        Ok(self.first.latest_snapshot(source)?)
    }

    fn key_slots(&self) -> store::Result<Vec<(KeyId, Vec<u8>)>> {
        let first = self.first.key_slots();
        Ok(self.unless_empty(first, Vec::is_empty, Repository::key_slots)?)
    }

    fn key_list(&self, _refresh: bool) -> store::Result<Option<Vec<u8>>> {
        Ok(self.unless_empty(self.first.key_list(), Option::is_none, Repository::key_list)?)
    }

    fn receipt_keys(&self) -> store::Result<Vec<ReceiptKey>> {
        Ok(self.or_copy(self.first.receipt_keys(), Repository::receipt_keys)?)
    }

    fn locate(&self, ids: &[ObjectId]) -> store::Result<Vec<Option<RecordLocation>>> {
        Ok(self.locate(ids)?)
    }

    fn locate_neighbors(&self, ids: &[ObjectId]) -> store::Result<Vec<Option<RecordLocation>>> {
        Ok(self.located(ids, self.first.locate_neighbors(ids))?)
    }

    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> store::Result<()> {
        Ok(self.read(location, buffer)?)
    }

    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        self.heal(location, buffer)
    }

    fn healed(&self) -> Vec<RecordLocation> {
        self.first.healed()
    }

    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> store::Result<RecordLocation> {
        Ok(self.fetch(id, buffer)?)
    }

    fn refresh_after(&self, gone: ContainerNo) -> store::Result<()> {
        match self.copy_of(gone) {
            Some((copy, gone)) => Ok(copy.refresh_after(gone)?),
            None => Ok(self.first.refresh_after(gone)?),
        }
    }

    fn session_keys(&self, container: ContainerNo, healed: bool) -> store::Result<Vec<Vec<u8>>> {
        Ok(self.session_keys(container, healed)?)
    }

    fn write_lease(self: Arc<Self>, holder: &str) -> store::Result<Box<dyn WriteLease>> {
        self.first.clone().write_lease(holder)
    }
}
