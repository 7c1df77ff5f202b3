//! Second pass: further names of files, what is to be removed, and directories from the leaves
//! upward, once nothing in them changes any more.

use super::Counters;
use super::entries::{Entries, Selected, Selection};
use super::file::FileJob;
use super::plan::{has_further_names, read_list};
use super::work::{self, Shared};
use crate::blocks::Scratch;
use crate::pages::PageReader;
use crate::{Error, Result};
use format::entry::{Content, Entry, Kind, LinkGroup, Segment};
use restore::Outcome;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::Ordering;
use tree::cursor::is_below;

/// A directory whose content is being passed.
struct Open {
    entry: Entry,
    /// It is wanted itself, or something in it is.
    used: bool,
    /// Names in it, when others are to be removed.
    names: FxHashSet<Vec<u8>>,
}

struct Finisher<'a> {
    shared: &'a Shared<'a>,
    selection: &'a Selection,
    open: Vec<Open>,
    /// Names in the target itself.
    top: FxHashSet<Vec<u8>>,
    /// First names of files with several, and how many names are left.
    first: FxHashMap<LinkGroup, (Vec<u8>, u32)>,
}

/// Runs the pass.
pub(super) fn run(
    shared: &Shared<'_>,
    selection: &Selection,
    entries: &mut Entries<'_>,
) -> Result<()> {
    let (top, first) = (FxHashSet::default(), FxHashMap::default());
    let mut finisher = Finisher { shared, selection, open: Vec::new(), top, first };
    while let Some(selected) = entries.next()? {
        shared.check()?;
        finisher.entry(selected)?;
    }
    finisher.leave_until(|_| false);
    if shared.deletes() && selection.is_directory {
        finisher.delete_in(b"", &finisher.top);
    }
    Ok(())
}

impl Finisher<'_> {
    fn entry(&mut self, selected: Selected) -> Result<()> {
        let Selected { entry, wanted } = selected;
        self.leave_until(|directory| is_below(&entry.path, &directory.path));
        if wanted {
            self.open.iter_mut().for_each(|open| open.used = true);
        }
        if self.shared.deletes() {
            let names = self.open.last_mut().map_or(&mut self.top, |open| &mut open.names);
            names.insert(entry.name().to_vec());
        }
        if entry.kind() == Kind::Directory {
            self.open.push(Open { entry, used: wanted, names: FxHashSet::default() });
            return Ok(());
        }
        if wanted && has_further_names(&entry) { self.name(entry) } else { Ok(()) }
    }

    /// Finishes directories until one is left that `keep` says still has something in it.
    fn leave_until(&mut self, keep: impl Fn(&Entry) -> bool) {
        while let Some(open) = self.open.pop_if(|open| !keep(&open.entry)) {
            let selected = open.used || self.selection.has_include();
            if self.shared.deletes() && selected {
                self.delete_in(&open.entry.path, &open.names);
            }
            if open.used
                && let Err(problem) =
                    self.shared.target.finish_directory(&self.shared.whole(&open.entry))
            {
                self.shared.failed(&open.entry.path, &problem.to_string());
            }
        }
    }

    /// Only what is selected is removed, as only that is restored.
    fn delete_in(&self, directory: &[u8], names: &FxHashSet<Vec<u8>>) {
        let keep = |name: &[u8]| names.contains(name);
        let unselected =
            |path: &[u8], is_directory| !self.selection.wants_in_target(path, is_directory);
        let spare = self.selection.has_patterns().then_some(&unselected as restore::Spare<'_>);
        for removed in self.shared.target.delete_others(directory, &keep, spare) {
            match removed {
                Ok(removed) => Counters::add(&self.shared.counters.deleted, removed.objects),
                Err(problem) => self.shared.failed(&problem.path, &problem.to_string()),
            }
        }
    }

    /// A name of an object that has several.
    fn name(&mut self, entry: Entry) -> Result<()> {
        let key = entry.link_group();
        let Some((first, left)) = self.first.get_mut(&key) else {
            self.first.insert(key, (entry.path.clone(), entry.links.saturating_sub(1)));
            return Ok(());
        };
        let existing = first.clone();
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.first.remove(&key);
        }
        let target = self.shared.target;
        let linked = target
            .parent_of(&entry.path)
            .and_then(|parent| target.hard_link(&parent, &entry, &existing));
        match linked {
            Ok(Outcome::NeedsCopy) => self.instead_of_link(entry),
            Ok(Outcome::Unchanged) => {
                Counters::add(&self.shared.counters.unchanged, 1);
                Ok(())
            }
            Ok(_) => {
                Counters::add(&self.shared.counters.links, 1);
                Ok(())
            }
            Err(problem) => {
                self.shared.failed(&entry.path, &problem.to_string());
                Ok(())
            }
        }
    }

    /// Where no link can be made, the object is written once more: that is told, unless it is told
    /// already that it could not be.
    fn instead_of_link(&self, entry: Entry) -> Result<()> {
        let failed = || self.shared.counters.failed.load(Ordering::Relaxed);
        let (path, before) = (entry.path.clone(), failed());
        match entry.kind() {
            Kind::File => self.copy(entry)?,
            _ => work::plain(self.shared, &entry),
        }
        if failed() == before {
            self.shared.lacks_link(&path);
        }
        Ok(())
    }

    /// The content of a file once more.
    fn copy(&self, entry: Entry) -> Result<()> {
        let shared = self.shared;
        let mut scratch = Scratch::new()?;
        let pages = PageReader::new(shared.archive)?;
        let job = FileJob::new(entry, false);
        let mut offset = 0;
        let runs = match runs_of(&pages, &job.entry) {
            Ok(runs) => runs,
            Err(error) => {
                job.lost(shared, &error.to_string());
                return Ok(());
            }
        };
        for run in runs {
            match run {
                Segment::Hole(length) => job.hole(offset, length, shared),
                Segment::Data(id, length) => {
                    job.expect_piece();
                    let name = |bytes: &[u8]| shared.archive.keys.writer.ids.chunk_id(bytes);
                    match shared.blocks.object(&id, &mut scratch, name) {
                        Ok(bytes) if bytes.len() == length as usize => {
                            job.write(offset, &bytes, shared)
                        }
                        Ok(_) => job.lost(shared, &Error::WrongContent(id).to_string()),
                        Err(error) => job.lost(shared, &error.to_string()),
                    }
                }
            }
            offset = run.length().saturating_add(offset);
        }
        job.done(shared);
        Ok(())
    }
}

/// All runs of a file that has chunks.
pub(super) fn runs_of(pages: &PageReader<'_>, entry: &Entry) -> Result<Vec<Segment>> {
    match &entry.content {
        Content::Segments(segments) => Ok(segments.to_vec()),
        Content::Lists(lists) => {
            let mut runs = Vec::new();
            for id in lists.iter() {
                runs.extend(read_list(pages, id)?);
            }
            Ok(runs)
        }
        Content::None | Content::Inline(_) => Ok(Vec::new()),
    }
}
