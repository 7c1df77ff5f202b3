//! What a restore needs, from the tree and the index alone: no container with content is read for it.

use super::RestoreOptions;
use super::entries::{Entries, Next, Selection};
use super::plan::RunReader;
use crate::manifest::Snapshot;
use crate::pages::PageReader;
use crate::progress::Progress;
use crate::{Result, UnlockedRepository};
use format::entry::{Entry, Kind, Segment};
use ids::{ContainerNo, ObjectId};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Chunks that the index is asked for at once.
const AT_ONCE: usize = 16 << 10;

/// What a restore needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreNeeds {
    /// Files with content.
    pub files: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// The containers with it, and how many bytes are read of each.
    pub containers: BTreeMap<ContainerNo, u64>,
    /// Chunks that are in no container, and pages that cannot be read.
    pub missing: u64,
}

/// What a restore of `subpath` of `snapshot` to an empty target needs.
///
/// # Errors
/// As [`super::run`], without those of a target.
pub fn needs(
    repository: &UnlockedRepository,
    snapshot: &Snapshot,
    subpath: &[u8],
    options: &RestoreOptions,
    progress: &Progress,
) -> Result<RestoreNeeds> {
    let pages = PageReader::cached(repository, options.cache.as_deref())?;
    let selection = Selection::new(&pages, snapshot, subpath, options)?;
    let mut entries = Entries::new(&pages, snapshot, &selection)?;
    let mut needs = Needs::new(repository);
    loop {
        progress.check()?;
        match entries.step()? {
            Next::Entry(selected) if selected.wanted => {
                progress.objects.fetch_add(1, Ordering::Relaxed);
                needs.entry(&pages, &selected.entry)?;
            }
            Next::Entry(_) => {}
            Next::Lost(_) => needs.found.missing += 1,
            Next::End => break,
        }
    }
    needs.locate()?;
    Ok(needs.found)
}

struct Needs<'a> {
    repository: &'a UnlockedRepository,
    waiting: Vec<ObjectId>,
    /// Where records lie that are counted.
    records: FxHashSet<(ContainerNo, u32)>,
    found: RestoreNeeds,
}

impl<'a> Needs<'a> {
    fn new(repository: &'a UnlockedRepository) -> Self {
        let (waiting, records, found) = Default::default();
        Self { repository, waiting, records, found }
    }

    fn entry(&mut self, pages: &PageReader<'_>, entry: &Entry) -> Result<()> {
        if entry.kind() == Kind::File {
            self.found.files += 1;
            self.found.bytes += entry.size;
        }
        entry.attributes.xattr_runs.iter().try_for_each(|run| self.run(run))?;
        for run in RunReader::of(pages, entry) {
            match run {
                Ok(run) => self.run(&run)?,
                Err(error) if error.is_damage() => self.found.missing += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &Segment) -> Result<()> {
        if let Segment::Data(id, _) = run {
            self.waiting.push(*id);
        }
        if self.waiting.len() >= AT_ONCE { self.locate() } else { Ok(()) }
    }

    /// Asks the index where the chunks lie that wait.
    fn locate(&mut self) -> Result<()> {
        let ids = std::mem::take(&mut self.waiting);
        for location in self.repository.store.locate(&ids)? {
            let Some(location) = location else {
                self.found.missing += 1;
                continue;
            };
            if self.records.insert((location.container, location.offset)) {
                *self.found.containers.entry(location.container).or_default() +=
                    u64::from(location.length);
            }
        }
        Ok(())
    }
}
