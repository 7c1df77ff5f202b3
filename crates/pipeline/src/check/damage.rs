//! The snapshots and paths that damage affects; searched only if there is damage.

use super::data::ContainerFindings;
use super::structure::StructureFindings;
use super::{CheckReport, Damage};
use crate::manifest::Snapshot;
use crate::pages::{LostPage, PageReader};
use crate::{Result, UnlockedRepository};
use format::entry::{Content, Entry, Segment};
use ids::{ContainerNo, ObjectId, RecordLocation};
use repository::check::{ContainerDamage, IdPrefix, lost_objects};
use repository::rebuild::would_find;
use rustc_hash::FxHashSet;
use tree::{Cursor, PageSource};

/// Paths listed for each damage; the others are counted.
const PATHS_MAX: usize = 100;

pub(super) fn attribute(
    repository: &UnlockedRepository,
    found: &StructureFindings,
    seen: &ContainerFindings,
    report: &mut CheckReport,
) -> Result<()> {
    for damage in seen.damages.iter().chain(&healed(repository, seen)) {
        let range = damage
            .range
            .map_or(String::new(), |(offset, length)| format!(" at {offset} (+{length})"));
        let what = format!("container {}{range}: {}", damage.container, damage.reason);
        let healable = damage.is_healable;
        report.damages.push(Damage { what, healable, ..Damage::default() });
    }
    if !found.missing.is_empty() {
        let what = format!("{} chunks are missing from all containers", found.missing.len());
        report.damages.push(Damage { what, ..Damage::default() });
    }
    // The index may be older than the containers.
    let is_missed = !found.missing.is_empty() || !found.bad_pages.is_empty();
    report.needs_rebuild |= is_missed && a_rebuild_finds_some(repository, found, &seen.unnamed)?;
    let mut wanted = found.missing.clone();
    if seen.has_losses() {
        let lost = lost_objects(repository.local()?, |location, id| seen.is_lost(location, id))?;
        // Otherwise the index no longer refers to the damaged data.
        report.needs_rebuild |= !lost.is_empty();
        wanted.extend(lost);
    }
    if wanted.is_empty() && found.bad_pages.is_empty() {
        return Ok(());
    }
    search(repository, found, &wanted, report)
}

/// Whether a rebuild finds what is missed in one of the containers `unnamed`, which the index does not have. If not,
/// another rebuild changes nothing: the container may be a second one of another, which was written to the wrong place,
/// or its damaged records were left out before.
fn a_rebuild_finds_some(
    repository: &UnlockedRepository,
    found: &StructureFindings,
    unnamed: &[ContainerNo],
) -> Result<bool> {
    let bad_pages: FxHashSet<_> = found.bad_pages.iter().map(IdPrefix::new).collect();
    let is_missed = |id: &IdPrefix| found.missing.contains(id) || bad_pages.contains(id);
    for number in unnamed {
        if would_find(repository.local()?, *number, is_missed)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Finds the snapshots and paths that need a `wanted` object or a bad page.
pub(super) fn search(
    repository: &UnlockedRepository,
    found: &StructureFindings,
    wanted: &FxHashSet<IdPrefix>,
    report: &mut CheckReport,
) -> Result<()> {
    let search = Search { wanted, bad_pages: &found.bad_pages };
    let pages = PageReader::new(repository)?;
    for snapshot in &found.snapshots {
        search.snapshot(&pages, snapshot, &mut report.damages)?;
    }
    Ok(())
}

/// Records that could only be read with the help of parity, and are not reported yet.
fn healed(repository: &UnlockedRepository, seen: &ContainerFindings) -> Vec<ContainerDamage> {
    let damage = |location: RecordLocation| ContainerDamage {
        range: Some((location.offset.into(), location.length.into())),
        is_healable: true,
        ..ContainerDamage::of_container(location.container, "it was healed from parity".into())
    };
    let said: FxHashSet<_> = seen.damages.iter().map(|it| (it.container, it.range)).collect();
    let healed = repository.store.healed().into_iter().map(damage);
    healed.filter(|it| !said.contains(&(it.container, it.range))).collect()
}

struct Search<'a> {
    wanted: &'a FxHashSet<IdPrefix>,
    bad_pages: &'a FxHashSet<ObjectId>,
}

impl Search<'_> {
    /// Reports the paths of one snapshot.
    fn snapshot(
        &self,
        pages: &PageReader<'_>,
        snapshot: &Snapshot,
        damages: &mut Vec<Damage>,
    ) -> Result<()> {
        let id = snapshot.id();
        let mut cursor = Cursor::new(pages, snapshot.head.root, snapshot.head.level);
        let (mut paths, mut count) = (Vec::new(), 0u64);
        let mut tell = |what, paths: Vec<Vec<u8>>, count: u64| {
            let snapshots = vec![id.to_string()];
            let more_paths = count.saturating_sub(paths.len() as u64);
            damages.push(Damage { what, snapshots, paths, more_paths, ..Damage::default() });
        };
        loop {
            match cursor.next_entry() {
                Ok(Some(entry)) if self.concerns(pages, &entry) => {
                    count += 1;
                    if paths.len() < PATHS_MAX {
                        paths.push(entry.path);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => match LostPage::at(&mut cursor, &error) {
                    Some(lost) => tell(format!("snapshot {id}: {lost}"), vec![lost.first], 1),
                    None if !error.is_damage() => return Err(error),
                    None => {
                        let what = format!("the tree of snapshot {id} cannot be read: {error}");
                        tell(what, Vec::new(), 0);
                        break;
                    }
                },
            }
        }
        if count > 0 {
            let files = if count == 1 { "file" } else { "files" };
            let what = format!("{count} {files} of snapshot {id} cannot be restored completely");
            tell(what, paths, count);
        }
        Ok(())
    }

    fn concerns(&self, pages: &PageReader<'_>, entry: &Entry) -> bool {
        if entry.attributes.xattr_runs.iter().any(|run| self.is_bad_run(run)) {
            return true;
        }
        match &entry.content {
            Content::Segments(segments) => segments.iter().any(|segment| self.is_bad_run(segment)),
            Content::Lists(lists) => lists.iter().any(|id| match pages.get(id) {
                Ok(page) => page.refs.iter().any(|id| self.is_bad(id)),
                Err(_) => true,
            }),
            Content::None | Content::Inline(_) => false,
        }
    }

    fn is_bad_run(&self, segment: &Segment) -> bool {
        matches!(segment, Segment::Data(id, _) if self.is_bad(id))
    }

    fn is_bad(&self, id: &ObjectId) -> bool {
        self.wanted.contains(&IdPrefix::new(id)) || self.bad_pages.contains(id)
    }
}
