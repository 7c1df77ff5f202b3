//! Planning in windows: which records hold what the next files need, in the order of the
//! containers.

use super::Counters;
use super::budget::{Budget, Share};
use super::entries::{Entries, Next};
use super::file::FileJob;
use super::verify;
use super::work::{ChunkUse, QUEUED_OBJECTS_MAX, RestoreContext, Task};
use crate::pages::PageReader;
use crate::{Error, Result, xattrs};
use crossbeam_channel::Sender;
use format::entry::{Content, Entry, Kind, LinkGroup, Segment};
use format::list;
use format::page::PageKind;
use ids::{ObjectId, RecordLocation};
use restore::{ContentMatch, Overwrite};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tree::PageSource;
use tree::cursor::is_below;

/// Objects in a window. Neighbors in the tree are neighbors in the containers, except for the
/// interleaving of the threads that wrote them; a window is much longer than that.
const WINDOW_ENTRIES: usize = 8192;
/// Pieces in a window.
pub(super) const WINDOW_USES: usize = 16384;
/// Objects without chunks in one task.
const PLAIN_MAX: usize = 64;

/// Plans a restore.
pub(super) struct Planner<'a> {
    shared: &'a RestoreContext<'a>,
    pages: &'a PageReader<'a>,
    queue: Sender<Task>,
    budget: Arc<Budget>,
    plain: Vec<Entry>,
    uses: Vec<ChunkUse>,
    entries: usize,
    /// Files whose first name was visited, and how many more names they have; these are linked
    /// later.
    linked: FxHashMap<LinkGroup, u32>,
    /// Only these objects, in the pass for objects that had to wait.
    only: Option<&'a FxHashSet<Vec<u8>>>,
    /// Directories, the outer ones first, of which nothing was compared yet.
    not_looked_into: Vec<Vec<u8>>,
    /// A buffer for comparing content.
    buffer: Vec<u8>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        shared: &'a RestoreContext<'a>,
        pages: &'a PageReader<'a>,
        queue: Sender<Task>,
        only: Option<&'a FxHashSet<Vec<u8>>>,
    ) -> Self {
        let (plain, uses, not_looked_into, buffer) = Default::default();
        let (linked, budget) = (FxHashMap::default(), Budget::new(QUEUED_OBJECTS_MAX));
        Self {
            shared,
            pages,
            queue,
            budget,
            plain,
            uses,
            entries: 0,
            linked,
            only,
            not_looked_into,
            buffer,
        }
    }

    /// Plans everything.
    pub(super) fn all(&mut self, entries: &mut Entries<'_>) -> Result<()> {
        loop {
            match entries.step()? {
                Next::Entry(selected) => {
                    self.look_around(&selected.entry, selected.wanted);
                    if selected.wanted {
                        self.entry(selected.entry)?;
                    }
                }
                Next::Lost(lost) => self.shared.lost_page(&lost),
                Next::End => break,
            }
            self.flush_if_full()?;
        }
        self.flush()
    }

    /// Looks into the directories of an entry before anything in them is compared, and only where something is.
    fn look_around(&mut self, entry: &Entry, is_wanted: bool) {
        if self.only.is_some() || self.shared.is_new {
            return;
        }
        self.not_looked_into.retain(|directory| is_below(&entry.path, directory));
        if is_wanted {
            self.not_looked_into.drain(..).for_each(|path| self.shared.target.look_into(&path));
        }
        if entry.kind() == Kind::Directory {
            self.not_looked_into.push(entry.path.clone());
        }
    }

    fn entry(&mut self, entry: Entry) -> Result<()> {
        self.shared.check()?;
        self.entries += 1;
        if self.only.is_none() {
            self.shared.progress.objects.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_further_name(&entry) || self.is_put_off(&entry) {
            self.shared.pass(entry.size);
            return Ok(());
        }
        if self.shared.lets_be(&entry) {
            self.shared.pass(entry.size);
            return Ok(());
        }
        if entry.kind() == Kind::File && !self.shared.is_new && self.is_unchanged(&entry)? {
            self.shared.pass(entry.size);
            Counters::add(&self.shared.counters.unchanged, 1);
            return Ok(());
        }
        match entry.content.clone() {
            Content::Segments(segments) => self.file(entry, &segments),
            Content::Lists(lists) => self.listed_file(entry, &lists),
            Content::None | Content::Inline(_) => {
                self.shared.pass(entry.size);
                self.plain(entry)
            }
        }
    }

    /// Whether another name of the object was visited before.
    fn is_further_name(&mut self, entry: &Entry) -> bool {
        if !has_further_names(entry) {
            return false;
        }
        let key = entry.link_group();
        let Some(left) = self.linked.get_mut(&key) else {
            self.linked.insert(key, entry.links - 1);
            return false;
        };
        *left -= 1;
        if *left == 0 {
            self.linked.remove(&key);
        }
        true
    }

    /// Whether the object is none of this pass.
    fn is_put_off(&self, entry: &Entry) -> bool {
        self.only.is_some_and(|only| !only.contains(&entry.path))
    }

    /// Whether an equal file exists already, so that nothing has to be fetched.
    fn is_unchanged(&mut self, entry: &Entry) -> Result<bool> {
        let shared = self.shared;
        if shared.options.overwrite != Overwrite::IfChanged {
            return Ok(false);
        }
        let Ok(whole) = xattrs::whole(entry, shared.blocks, &shared.repository.keys.writer.ids)
        else {
            return Ok(false);
        };
        match shared.target.match_metadata(&whole) {
            ContentMatch::Equal => Ok(true),
            ContentMatch::Different => Ok(false),
            ContentMatch::Uncertain => {
                let equal = verify::has_content(shared, self.pages, entry, &mut self.buffer)?;
                Ok(equal && shared.target.match_after_comparison(&whole) == ContentMatch::Equal)
            }
        }
    }

    fn plain(&mut self, entry: Entry) -> Result<()> {
        self.plain.push(entry);
        if self.plain.len() >= PLAIN_MAX { self.send_plain() } else { Ok(()) }
    }

    fn send_plain(&mut self) -> Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let plain = std::mem::take(&mut self.plain);
        self.send(plain.len(), |share| Task::Plain(plain, share))
    }

    fn file(&mut self, entry: Entry, segments: &[Segment]) -> Result<()> {
        let is_dry = self.shared.options.dry_run;
        let is_single = !is_dry && matches!(segments, [Segment::Data(..)]);
        let job = Arc::new(FileJob::new(entry, is_single));
        self.segments(&job, segments, 0)?;
        job.done(self.shared);
        Ok(())
    }

    /// A file with very many runs: list by list, window by window.
    fn listed_file(&mut self, entry: Entry, lists: &[ObjectId]) -> Result<()> {
        let size = entry.size;
        let job = Arc::new(FileJob::new(entry, false));
        let mut offset = 0;
        for (at, id) in lists.iter().enumerate() {
            self.pages.prefetch(lists.iter().copied().skip(at))?;
            let segments = match read_list(self.pages, id) {
                Ok(segments) => segments,
                Err(error) => return job.lost_by(self.shared, error),
            };
            offset = self.segments(&job, &segments, offset)?;
            self.flush_if_full()?;
        }
        if offset == size {
            job.done(self.shared);
        } else {
            job.lost(self.shared, "its runs do not add up to its size");
        }
        Ok(())
    }

    /// Adds runs that begin at `offset`; returns where they end.
    fn segments(
        &mut self,
        job: &Arc<FileJob>,
        segments: &[Segment],
        mut offset: u64,
    ) -> Result<u64> {
        for segment in segments {
            match segment {
                _ if self.shared.options.dry_run => self.shared.pass(segment.length()),
                Segment::Hole(length) => job.hole(offset, *length, self.shared),
                Segment::Data(id, length) => {
                    job.expect_piece();
                    self.uses.push(ChunkUse {
                        file: job.clone(),
                        id: *id,
                        length: *length,
                        offset,
                    });
                }
            }
            let end = offset.checked_add(segment.length());
            offset = end.ok_or(format::Error::Invalid { what: "runs of a file" })?;
        }
        Ok(offset)
    }

    fn flush_if_full(&mut self) -> Result<()> {
        let is_full = self.entries >= WINDOW_ENTRIES || self.uses.len() >= WINDOW_USES;
        if is_full { self.flush() } else { Ok(()) }
    }

    /// Sends the window: one task for each record, in the order of the containers.
    fn flush(&mut self) -> Result<()> {
        self.entries = 0;
        self.send_plain()?;
        let uses = std::mem::take(&mut self.uses);
        let ids: Vec<_> = uses.iter().map(|used| used.id).collect();
        let locations = self.shared.repository.store.locate_neighbors(&ids)?;
        let mut located: Vec<(RecordLocation, ChunkUse)> = Vec::with_capacity(uses.len());
        for (used, location) in uses.into_iter().zip(locations) {
            match location {
                Some(location) => located.push((location, used)),
                None => used.file.lost(
                    self.shared,
                    &format!("chunk {} is missing from all containers", used.id),
                ),
            }
        }
        located.sort_by_key(|(location, _)| *location);
        let records = by_record(located);
        // All records of the window, before a worker gets the first: latency is hidden within a
        // window.
        for (location, _) in &records {
            self.shared.repository.store.prefetch(*location)?;
        }
        records.into_iter().try_for_each(|(location, uses)| {
            self.send(uses.len(), |share| Task::Record(location, uses, share))
        })
    }

    /// Sends a task of so many objects, once there is room for them.
    fn send(&self, objects: usize, task: impl FnOnce(Share) -> Task) -> Result<()> {
        let share = self.budget.take(objects);
        self.queue.send(task(share)).map_err(|_| Error::WorkerPanicked)
    }
}

/// Groups sorted uses by record.
fn by_record(located: Vec<(RecordLocation, ChunkUse)>) -> Vec<(RecordLocation, Vec<ChunkUse>)> {
    let mut records: Vec<(RecordLocation, Vec<ChunkUse>)> = Vec::new();
    for (location, used) in located {
        match records.last_mut() {
            Some((last, uses)) if *last == location => uses.push(used),
            _ => records.push((location, vec![used])),
        }
    }
    records
}

/// Whether the object may have other names; also for symlinks and FIFOs. The link count of a
/// directory only reflects its subdirectories.
pub(super) fn has_further_names(entry: &Entry) -> bool {
    entry.links > 1 && entry.kind() != Kind::Directory
}

/// Reads the runs of a file, list by list: there may be more than fit into memory.
pub(super) struct RunReader<'a> {
    pages: &'a PageReader<'a>,
    lists: &'a [ObjectId],
    waiting: VecDeque<Segment>,
}

impl<'a> RunReader<'a> {
    pub(super) fn of(pages: &'a PageReader<'a>, entry: &'a Entry) -> Self {
        let (lists, waiting): (&[ObjectId], VecDeque<Segment>) = match &entry.content {
            Content::Segments(segments) => (&[], segments.iter().copied().collect()),
            Content::Lists(lists) => (lists, VecDeque::new()),
            Content::None | Content::Inline(_) => (&[], VecDeque::new()),
        };
        Self { pages, lists, waiting }
    }
}

impl Iterator for RunReader<'_> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.waiting.is_empty() {
            let (list, rest) = self.lists.split_first()?;
            self.lists = rest;
            match read_list(self.pages, list) {
                Ok(runs) => self.waiting = runs.into(),
                Err(error) => return Some(Err(error)),
            }
        }
        self.waiting.pop_front().map(Ok)
    }
}

/// The runs of a list page.
pub(super) fn read_list(pages: &PageReader<'_>, id: &ObjectId) -> Result<Vec<Segment>> {
    let page = pages.get(id)?;
    if page.kind != PageKind::List {
        return Err(format::Error::Invalid { what: "list page" }.into());
    }
    Ok(list::decode(&page.refs, &page.payload)?)
}
