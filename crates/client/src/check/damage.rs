//! Whom damage concerns: snapshots and paths. Only looked for when there is damage.

use super::data::Bad;
use super::structure::Found;
use super::{Damage, Report};
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use crate::{Archive, Result};
use format::entry::{Content, Entry, Segment};
use ids::{ObjectId, Place};
use repository::check::{Damage as ContainerDamage, Wanted};
use rustc_hash::FxHashSet;
use tree::{Cursor, PageSource};

/// Paths named for each kind of damage; the number of others is told.
const PATHS_MAX: usize = 100;

pub(super) fn attribute(
    archive: &Archive,
    found: &Found,
    bad: Bad,
    report: &mut Report,
) -> Result<()> {
    for damage in bad.damages.iter().chain(&healed(archive, &bad)) {
        let range = damage
            .range
            .map_or(String::new(), |(offset, length)| format!(" at {offset} (+{length})"));
        let what = format!("container {}{range}: {}", damage.container, damage.reason);
        let healable = damage.is_healable;
        report.damages.push(Damage { what, healable, ..Damage::default() });
    }
    if !found.missing.is_empty() {
        let what = format!("{} chunks are in no container", found.missing.len());
        report.damages.push(Damage { what, ..Damage::default() });
    }
    let mut wanted = found.missing.clone();
    wanted.extend(bad.objects.iter().map(Wanted::new));
    let mut lost = bad.lost.clone();
    lost.sort_unstable();
    if wanted.is_empty() && lost.is_empty() && found.bad_pages.is_empty() {
        return Ok(());
    }
    let search = Search { archive, wanted: &wanted, bad_pages: &found.bad_pages, lost: &lost };
    let pages = PageReader::new(archive)?;
    for snapshot in &found.snapshots {
        if let Some(damage) = search.snapshot(&pages, snapshot) {
            report.damages.push(damage);
        }
    }
    Ok(())
}

/// What could only be read by its parity while the structure was checked, and is not said yet.
fn healed(archive: &Archive, bad: &Bad) -> Vec<ContainerDamage> {
    let damage = |place: Place| ContainerDamage {
        range: Some((place.offset.into(), place.length.into())),
        is_healable: true,
        ..ContainerDamage::whole(place.container, "it was read from parity".into())
    };
    let said: FxHashSet<_> = bad.damages.iter().map(|it| (it.container, it.range)).collect();
    let healed = archive.repository.healed().into_iter().map(damage);
    healed.filter(|it| !said.contains(&(it.container, it.range))).collect()
}

struct Search<'a> {
    archive: &'a Archive,
    wanted: &'a FxHashSet<Wanted>,
    bad_pages: &'a FxHashSet<ObjectId>,
    lost: &'a [ids::ContainerNo],
}

impl Search<'_> {
    /// What of a snapshot is concerned.
    fn snapshot(&self, pages: &PageReader<'_>, snapshot: &Snapshot) -> Option<Damage> {
        let mut cursor = Cursor::new(pages, snapshot.head.root, snapshot.head.level);
        let (mut paths, mut count) = (Vec::new(), 0u64);
        let ended = loop {
            match cursor.next_entry() {
                Ok(Some(entry)) if self.concerns(pages, &entry) => {
                    count += 1;
                    if paths.len() < PATHS_MAX {
                        paths.push(entry.path);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let what = match ended {
            None if count == 0 => return None,
            None => {
                format!("{count} files of snapshot {} cannot be restored wholly", snapshot.id())
            }
            Some(error) => {
                format!("the tree of snapshot {} cannot be read to its end: {error}", snapshot.id())
            }
        };
        let snapshots = vec![snapshot.id().to_string()];
        Some(Damage { what, healable: false, snapshots, paths })
    }

    fn concerns(&self, pages: &PageReader<'_>, entry: &Entry) -> bool {
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
        self.wanted.contains(&Wanted::new(id)) || self.bad_pages.contains(id) || self.is_lost(id)
    }

    /// Whether the container that should hold `id` cannot be read.
    fn is_lost(&self, id: &ObjectId) -> bool {
        if self.lost.is_empty() {
            return false;
        }
        let place = self.archive.repository.index().find(id).ok().flatten();
        place.is_none_or(|place| self.lost.binary_search(&place.container).is_ok())
    }
}
