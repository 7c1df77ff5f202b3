//! The runs of a file, in its entry or in list pages.

use crate::Result;
use crate::pages::PageWriter;
use format::entry::{Content, Segment};
use format::limits::PAGE_REFS_MAX;
use format::list;
use ids::ObjectId;
use std::sync::Arc;

/// The most runs in an entry itself; more go into list pages of about this many.
const RUNS_INLINE_MAX: usize = 1024;
/// After this many lists (for about 400 GB of a file) the next ones become twice as long, up to
/// [`LIST_RUNS_MAX`]: an entry holds no more than [`PAGE_REFS_MAX`] of them, which is some 370 TB.
const LISTS_A_STEP: usize = 4096;
const LIST_STEPS_MAX: usize = 5;
/// The most runs in a list page: half of what readers accept.
const LIST_RUNS_MAX: usize = PAGE_REFS_MAX / 2;

/// Collects the runs of one file.
#[derive(Default)]
pub(super) struct RunListBuilder {
    runs: Vec<Segment>,
    lists: Vec<ObjectId>,
    pub(super) bytes: u64,
}

impl RunListBuilder {
    pub(super) fn data(&mut self, id: ObjectId, length: u32, pages: &PageWriter<'_>) -> Result<()> {
        self.push(Segment::Data(id, length), pages)
    }

    /// Adds a hole; merged with a hole before it.
    pub(super) fn hole(&mut self, length: u64, pages: &PageWriter<'_>) -> Result<()> {
        if let Some(Segment::Hole(before)) = self.runs.last_mut() {
            *before += length;
            self.bytes += length;
            return Ok(());
        }
        if length == 0 { Ok(()) } else { self.push(Segment::Hole(length), pages) }
    }

    fn push(&mut self, run: Segment, pages: &PageWriter<'_>) -> Result<()> {
        self.bytes += run.length();
        self.runs.push(run);
        // The id of a chunk decides where a list ends: a file that grew or changed shares most
        // lists with its earlier version.
        let ends = matches!(run, Segment::Data(id, _) if id.0[0] == 0);
        let step = (self.lists.len() / LISTS_A_STEP).min(LIST_STEPS_MAX);
        let most = ((4 * RUNS_INLINE_MAX) << step).min(LIST_RUNS_MAX);
        let enough =
            self.runs.len() >= (RUNS_INLINE_MAX / 2) << step && ends || self.runs.len() >= most;
        let is_long = !self.lists.is_empty() || self.runs.len() > RUNS_INLINE_MAX;
        if enough && is_long { self.cut_list(pages) } else { Ok(()) }
    }

    fn cut_list(&mut self, pages: &PageWriter<'_>) -> Result<()> {
        self.lists.push(pages.put(&list::encode(&self.runs))?);
        self.runs.clear();
        Ok(())
    }

    /// Whether there are more than an entry can hold; then the result of `finish` must not be
    /// stored.
    pub(super) fn are_too_many(&self) -> bool {
        self.lists.len() >= PAGE_REFS_MAX
    }

    /// The content of the entry.
    pub(super) fn finish(mut self, pages: &PageWriter<'_>) -> Result<Content> {
        if self.lists.is_empty() && self.runs.len() <= RUNS_INLINE_MAX {
            let runs: Arc<[Segment]> = self.runs.into();
            return Ok(if runs.is_empty() { Content::None } else { Content::Segments(runs) });
        }
        if !self.runs.is_empty() {
            self.cut_list(pages)?;
        }
        Ok(Content::Lists(self.lists.into()))
    }
}
