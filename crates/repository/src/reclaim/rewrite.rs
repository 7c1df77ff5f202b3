//! Rewriting some containers: what lives in them is copied, the index points to the copies, and only
//! then the old files go.

use super::copied::Copied;
use super::copy::Copier;
use super::live::LiveSet;
use super::{Repacker, mark};
use crate::check::IdPrefix;
use crate::container_numbers::ContainerNumbers;
use crate::lease::Lease;
use crate::pins::Covered;
use crate::sorted_ids::Beside;
use crate::watch::Watch;
use crate::{Repository, Result, container, reserve};
use ids::ContainerNo;
use rustc_hash::FxHashSet;

/// Rewrites containers that are condemned.
pub(super) struct Rewriter<'a, 'r> {
    pub(super) repository: &'a Repository,
    lease: &'a Lease,
    live: LiveSet,
    repacker: Option<&'r mut dyn Repacker>,
    /// Damaged records are left out.
    accept_damage: bool,
    pub(super) watch: &'a dyn Watch,
    /// Containers that go without being read.
    pub(super) cold: FxHashSet<ContainerNo>,
    /// Whether the last one that failed changed nothing.
    pub(super) is_as_before: bool,
}

impl<'a, 'r> Rewriter<'a, 'r> {
    pub(super) fn new(
        repository: &'a Repository,
        lease: &'a Lease,
        live: LiveSet,
        repacker: Option<&'r mut dyn Repacker>,
        accept_damage: bool,
        watch: &'a dyn Watch,
    ) -> Self {
        let cold = FxHashSet::default();
        Self { repository, lease, live, repacker, accept_damage, watch, cold, is_as_before: true }
    }

    /// Condemns those of `containers` that no session has pinned; the others drain. What sessions commit from now on
    /// needs nothing in them that is not marked.
    pub(super) fn condemn(&mut self, containers: &[ContainerNo]) -> Result<Vec<ContainerNo>> {
        let repository = self.repository;
        mark::with_all_marked(repository, &mut self.live, self.watch, || {
            Ok(repository.pins.lock().condemn(containers))
        })
    }

    /// Those of `containers` that no session has pinned any more.
    pub(super) fn unpinned(&self, containers: &[ContainerNo]) -> Vec<ContainerNo> {
        let pins = self.repository.pins.lock();
        containers.iter().copied().filter(|number| !pins.is_pinned(*number)).collect()
    }

    /// Of what drains, only `containers` still do.
    pub(super) fn drain_only(&self, containers: &[ContainerNo]) {
        self.repository.pins.lock().drain_only(containers);
    }

    /// Those of `condemned` that were to go without being read, and in which something lives now: a session was told of it
    /// before they were condemned.
    pub(super) fn revived(&self, condemned: &[ContainerNo]) -> Result<Vec<ContainerNo>> {
        let unread = condemned.iter().copied().filter(|number| self.cold.contains(number));
        let unread: FxHashSet<_> = unread.collect();
        if unread.is_empty() {
            return Ok(Vec::new());
        }
        let pages = self.live.sorted_pages();
        let mut marks = Beside::new(self.live.in_order(&pages))?;
        let mut revived = FxHashSet::default();
        self.repository.index().visit(|row| {
            let lives = marks.has(&IdPrefix(row.prefix), |_| Ok(()))?;
            if lives && unread.contains(&row.location.container) {
                revived.insert(row.location.container);
            }
            Ok(())
        })?;
        Ok(revived.into_iter().collect())
    }

    /// Rewrites `condemned`, together. Returns the bytes that were copied.
    pub(super) fn rewrite(&mut self, condemned: &[ContainerNo]) -> Result<u64> {
        let repository = self.repository;
        self.is_as_before = true;
        let numbers = ContainerNumbers::new(repository);
        let mut copied = Copied::default();
        let merged = self.copy(&mut copied, &numbers, condemned);
        let merged = match merged.and_then(|()| copied.merge(repository, condemned)) {
            Ok(merged) => merged,
            Err(error) => {
                // The index knows nothing of the copies, and they may have taken the last room.
                if error.is_full() && self.lease.verify().is_ok() {
                    copied.discard(repository);
                }
                return Err(error);
            }
        };
        self.is_as_before = false;
        merged.publish(self.lease, Covered::AllOf(numbers.session()))?;
        numbers.done();
        copied.remove_runs(repository)?;
        self.remove(condemned)?;
        Ok(copied.bytes)
    }

    /// Bytes that can be written.
    pub(super) fn room(&self) -> Result<u64> {
        Ok(self.repository.storage.free_bytes()?)
    }

    /// Takes a condemnation back: nothing in `containers` was deleted.
    pub(super) fn pardon(&self, containers: &[ContainerNo]) {
        self.repository.pins.lock().pardon(containers);
    }

    /// Gives back the room that is kept for a full disk; whether there was any.
    pub(super) fn release_reserve(&self) -> Result<bool> {
        Ok(reserve::release(&*self.repository.storage)?)
    }

    /// Copies what lives in `condemned`.
    fn copy(
        &mut self,
        copied: &mut Copied,
        numbers: &ContainerNumbers<'_>,
        condemned: &[ContainerNo],
    ) -> Result<()> {
        let mut repacker =
            self.repacker.as_mut().map(|repacker| &mut **repacker as &mut dyn Repacker);
        // What is left of one that found no room would be stored twice.
        if let Some(repacker) = &mut repacker {
            repacker.forget();
        }
        let mut copier =
            Copier::new(self.repository, self.lease, &self.live, numbers, repacker, copied);
        copier.watch = self.watch;
        copier.separates = self.repository.storage.separates_content()?;
        for number in condemned {
            // Nothing lives in it, nothing but content was ever there, and reading it costs.
            if self.cold.contains(number) {
                continue;
            }
            if self.accept_damage {
                copier.good_records(*number)?;
            } else {
                copier.container(*number)?;
            }
        }
        copier.finish()
    }

    /// Durably removes the files. The index points elsewhere already, durably.
    fn remove(&self, condemned: &[ContainerNo]) -> Result<()> {
        let storage = &*self.repository.storage;
        for some in condemned.chunks(storage.removed_at_once()) {
            let names: Vec<_> = some.iter().map(|number| container::name(*number)).collect();
            self.lease.verify()?;
            match &names[..] {
                [name] => storage.unlink(name)?,
                names => storage.remove_all(names)?,
            }
        }
        let mut directories: Vec<_> = condemned.iter().map(|it| container::shard(*it)).collect();
        directories.sort_unstable();
        directories.dedup();
        directories.iter().try_for_each(|name| storage.sync_directory(name))?;
        self.repository.close(condemned);
        Ok(())
    }
}
