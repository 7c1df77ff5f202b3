//! Walking the pages of a snapshot in the first place.

use super::Copier;
use crate::index::prefix_of;
use crate::page_heads::{LatestHeads, RecordHeads};
use crate::{Error, Repository, Result, container};
use format::page::heads;
use format::record;
use ids::{ObjectId, RecordLocation};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Reads what pages refer to.
pub(super) struct HeadReader<'a> {
    repository: &'a Repository,
    latest: LatestHeads,
    buffer: Vec<u8>,
}

impl<'a> HeadReader<'a> {
    pub(super) fn new(repository: &'a Repository) -> Self {
        Self { repository, latest: LatestHeads::default(), buffer: Vec::new() }
    }

    /// The references of `page`, also while reclaim moves it.
    pub(super) fn refs(&mut self, page: &ObjectId) -> Result<Arc<[ObjectId]>> {
        let location = self.repository.index().find(page)?;
        let heads = match location.and_then(|location| self.latest.at(&location)) {
            Some(heads) => heads.clone(),
            None => {
                let location = self.repository.fetch(page, &mut self.buffer)?;
                self.heads_at(location)?
            }
        };
        heads.get(&prefix_of(page)).cloned().ok_or(Error::ObjectMissing(*page))
    }

    /// The heads of the record in the buffer, if its checksum is good.
    fn heads_at(&mut self, location: RecordLocation) -> Result<Arc<RecordHeads>> {
        let damaged = |reason| Error::damaged(&container::name(location.container), reason);
        if let Err(reason) = record::verify(&self.buffer)
            && !self.repository.heal(location, &mut self.buffer)
        {
            return Err(damaged(reason));
        }
        let record = record::split(&self.buffer).map_err(damaged)?;
        let heads = heads(&record).map_err(damaged)?;
        Ok(self.latest.keep(location, &heads))
    }
}

impl Copier<'_, '_> {
    /// Walks the tree `root` as far as it was not walked, and asks the copy what it lacks.
    pub(super) fn walk(&mut self, root: ObjectId) -> Result<()> {
        let source = self.source.clone();
        let mut reader = HeadReader::new(&source);
        let mut left = vec![root];
        while let Some(page) = left.pop() {
            if !self.visited.insert(prefix_of(&page)) {
                continue;
            }
            if !self.watch.goes_on() {
                return Ok(());
            }
            self.outcome.pages += 1;
            self.want(&page)?;
            let refs = match reader.refs(&page) {
                Err(error) if error.is_unreachable() => return Err(error),
                Err(error) => {
                    self.lose(page, &error.to_string());
                    continue;
                }
                Ok(refs) => refs,
            };
            // In the order of the tree, which is mostly that in which the records lie.
            let from = left.len();
            for id in refs.iter() {
                if id.is_page() { left.push(*id) } else { self.want(id)? }
            }
            left[from..].reverse();
        }
        Ok(())
    }

    /// Whether the tree `root` reaches something that is lost. Walks it once more, if anything is.
    pub(super) fn has_lost(&self, root: ObjectId) -> Result<bool> {
        if self.lost.is_empty() {
            return Ok(false);
        }
        let is_lost = |id: &ObjectId| self.lost.contains(&prefix_of(id));
        let (mut reader, mut seen) = (HeadReader::new(self.source), FxHashSet::default());
        let mut left = vec![root];
        while let Some(page) = left.pop() {
            if is_lost(&page) {
                return Ok(true);
            }
            if !seen.insert(prefix_of(&page)) {
                continue;
            }
            let refs = match reader.refs(&page) {
                Err(error) if error.is_unreachable() => return Err(error),
                Err(_) => return Ok(true),
                Ok(refs) => refs,
            };
            if refs.iter().any(is_lost) {
                return Ok(true);
            }
            left.extend(refs.iter().filter(|id| id.is_page()));
        }
        Ok(false)
    }
}
