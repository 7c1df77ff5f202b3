//! Structure: every snapshot is signed, its pages match their ids, and every chunk that they need
//! is in the index.

use super::located::ChunkLocator;
use super::{CheckReport, Damage};
use crate::manifest::{ManifestReader, Snapshot};
use crate::pages::PageReader;
use crate::progress::Progress;
use crate::{Error, Result, UnlockedRepository};
use format::leaf::LeafReader;
use format::page::PageKind;
use format::{inner, list};
use ids::{ObjectId, SnapshotId};
use repository::Repository;
use repository::check::{IdPrefix, missing_ids};
use repository::sorted_ids::SortedIds;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use tree::{PageData, PageSource};

/// The result of the structure check.
pub(super) struct StructureFindings {
    pub(super) snapshots: Vec<Snapshot>,
    /// Snapshots whose files are invalid.
    pub(super) unreadable: Vec<SnapshotId>,
    /// Pages that cannot be read.
    pub(super) bad_pages: FxHashSet<ObjectId>,
    /// Chunks that are not in the index.
    pub(super) missing: FxHashSet<IdPrefix>,
}

#[derive(Default)]
struct Walk<'a, 'b> {
    /// Set for a remote repository.
    located: Option<&'b mut ChunkLocator<'a>>,
    pages: FxHashSet<ObjectId>,
    bad_pages: FxHashSet<ObjectId>,
    chunks: SortedIds,
}

pub(super) fn check(
    repository: &UnlockedRepository,
    progress: &Progress,
    report: &mut CheckReport,
) -> Result<StructureFindings> {
    check_with(repository, None, progress, report)
}

/// Like [`check`]; for a remote repository, `located` collects the missing chunks.
pub(super) fn check_with(
    repository: &UnlockedRepository,
    located: Option<&mut ChunkLocator<'_>>,
    progress: &Progress,
    report: &mut CheckReport,
) -> Result<StructureFindings> {
    let mut reader = ManifestReader::new(repository)?;
    let damages = &mut report.damages;
    let mut unreadable = Vec::new();
    let snapshots = reader.all(|name, error| {
        if matches!(error, Error::Repository(store::Error::Damaged { .. })) {
            unreadable.push(name.id);
        }
        let what = format!("snapshot {}: {error}", name.id);
        damages.push(Damage { what, snapshots: vec![name.id.to_string()], ..Damage::default() });
    })?;
    check_chains(&snapshots, report);
    let pages = PageReader::new(repository)?;
    let is_far = located.is_some();
    let mut walk = Walk { located, ..Walk::default() };
    for snapshot in &snapshots {
        walk.tree(&pages, snapshot.head.root, progress, report)?;
    }
    report.snapshots = snapshots.len() as u64;
    report.pages = walk.pages.len() as u64;
    let missing;
    (report.chunks, missing) = match is_far {
        true => (walk.ask()?, FxHashSet::default()),
        false => walk.find(repository.local()?)?,
    };
    Ok(StructureFindings { snapshots, unreadable, bad_pages: walk.bad_pages, missing })
}

/// The repository assigns each number once. Two snapshots with the same number come from two
/// histories: somebody presented an old state to a writer. The number within a source may repeat
/// without that: if a backup failed in its last step, or its file was lost, the next one builds on
/// the snapshot before it, and a rebuild restores both.
fn check_chains(snapshots: &[Snapshot], report: &mut CheckReport) {
    let mut seen = FxHashSet::default();
    for snapshot in snapshots.iter().filter(|snapshot| !seen.insert(snapshot.head.sequence)) {
        let number = snapshot.head.sequence;
        let what = format!("two snapshots have the number {number}: the history was forked");
        let snapshots = vec![snapshot.id().to_string()];
        report.damages.push(Damage { what, snapshots, ..Damage::default() });
    }
}

/// The page, once all of it was decoded: a holder of the key could have sealed anything.
fn understood(page: Arc<PageData>) -> Result<Arc<PageData>> {
    match page.kind {
        PageKind::Inner => drop(inner::decode(&page.refs, &page.payload)?),
        PageKind::List => drop(list::decode(&page.refs, &page.payload)?),
        PageKind::Leaf => {
            let mut reader = LeafReader::new(&page.refs, &page.payload)?;
            while reader.next_entry()?.is_some() {}
        }
    }
    Ok(page)
}

impl Walk<'_, '_> {
    fn tree(
        &mut self,
        pages: &PageReader<'_>,
        root: ObjectId,
        progress: &Progress,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            if !self.pages.insert(id) {
                continue;
            }
            progress.check()?;
            let later = stack.iter().rev().filter(|id| !self.pages.contains(id));
            pages.prefetch(std::iter::once(&id).chain(later).copied())?;
            let page = match pages.get(&id).and_then(understood) {
                Ok(page) => page,
                Err(error) if error.is_unreachable() => return Err(error),
                Err(error) => {
                    self.bad_pages.insert(id);
                    let what = format!("page {id}: {error}");
                    report.damages.push(Damage { what, ..Damage::default() });
                    continue;
                }
            };
            if page.kind != PageKind::Inner {
                progress
                    .objects
                    .fetch_add(page.refs.len() as u64, std::sync::atomic::Ordering::Relaxed);
            }
            // Reversed: the first page below is read next, and its neighbors lie beside it.
            stack.extend(page.refs.iter().rev().filter(|id| id.is_page()));
            page.refs.iter().filter(|id| !id.is_page()).try_for_each(|id| self.add(id))?;
        }
        Ok(())
    }

    fn add(&mut self, id: &ObjectId) -> Result<()> {
        if let Some(located) = &mut self.located {
            return located.add(id);
        }
        self.chunks.insert(IdPrefix::new(id)).map_err(store::Error::from)?;
        Ok(())
    }

    /// Queries the rest of a remote repository; the number of all chunks.
    fn ask(&mut self) -> Result<u64> {
        self.located.as_mut().map_or(Ok(0), |located| located.end())
    }

    /// How many chunks there are, and those that the index does not have.
    fn find(&mut self, repository: &Repository) -> Result<(u64, FxHashSet<IdPrefix>)> {
        self.chunks.sort();
        let mut count = 0;
        let counted = self.chunks.in_order().inspect(|_| count += 1);
        let missing = missing_ids(repository, counted)?;
        Ok((count, missing.into_iter().collect()))
    }
}
