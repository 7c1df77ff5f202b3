//! Second pass: further names of files, extraneous objects to remove later, and directories from
//! the leaves upward, once nothing in them changes.

use super::Counters;
use super::entries::{Entries, Next, Selected, Selection};
use super::file::FileJob;
use super::plan::{RunReader, has_further_names};
use super::removal::Removals;
use super::work::{self, RestoreContext};
use crate::blocks::Scratch;
use crate::pages::PageReader;
use crate::{Error, Result};
use format::entry::{Entry, Kind, LinkGroup, STATUS_NOT_ENTERED, Segment};
use format::escape::escape;
use restore::{RestoreOutcome, SnapshotNames};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::Ordering;
use tree::cursor::is_below;

/// A directory whose content is being visited.
struct OpenDirectory {
    entry: Entry,
    /// It is selected itself, or something in it is.
    used: bool,
    /// The names in it, if extraneous objects are to be removed.
    names: SnapshotNames,
}

/// What the pass handles.
#[derive(Clone, Copy)]
pub(super) enum FinishPass<'a> {
    /// Everything.
    All,
    /// Objects that had to wait until directories of their names were removed.
    Late(&'a FxHashSet<Vec<u8>>),
}

struct Finisher<'a> {
    shared: &'a RestoreContext<'a>,
    selection: &'a Selection,
    part: FinishPass<'a>,
    removals: &'a mut Removals,
    open: Vec<OpenDirectory>,
    /// Names in the target itself.
    top: SnapshotNames,
    /// The first names of files with several, and how many names are left.
    first: FxHashMap<LinkGroup, (Vec<u8>, u32)>,
}

/// Runs the pass; extraneous objects are added to `removals`.
pub(super) fn run(
    shared: &RestoreContext<'_>,
    selection: &Selection,
    entries: &mut Entries<'_>,
    part: FinishPass<'_>,
    removals: &mut Removals,
) -> Result<()> {
    let (top, first, open) = (SnapshotNames::default(), FxHashMap::default(), Vec::new());
    let mut finisher = Finisher { shared, selection, part, removals, open, top, first };
    loop {
        shared.check()?;
        match entries.step()? {
            Next::Entry(selected) => finisher.entry(selected)?,
            // Further names and the attributes of directories are lost with it.
            Next::Lost(lost) => shared.lost_page(&lost),
            Next::End => break,
        }
    }
    finisher.leave_until(|_| false)?;
    if finisher.plans() && selection.is_directory {
        let top = std::mem::take(&mut finisher.top);
        let status = selection.root.as_ref().map_or(0, |root| root.status);
        finisher.plan_unless_passed(b"", status, &top)?;
    }
    Ok(())
}

impl Finisher<'_> {
    fn entry(&mut self, selected: Selected) -> Result<()> {
        let Selected { entry, wanted } = selected;
        self.leave_until(|directory| is_below(&entry.path, &directory.path))?;
        match self.part {
            FinishPass::All if wanted => self.open.iter_mut().for_each(|open| open.used = true),
            // Something was restored into it after it was finished.
            FinishPass::Late(paths) if wanted && paths.contains(&entry.path) => {
                // Those above it were opened again, too.
                self.open.iter_mut().for_each(|open| open.used = true);
            }
            _ => {}
        }
        if self.plans() {
            let names = self.open.last_mut().map_or(&mut self.top, |open| &mut open.names);
            names.insert(entry.name());
        }
        if entry.kind() == Kind::Directory {
            let used = wanted && matches!(self.part, FinishPass::All);
            self.open.push(OpenDirectory { entry, used, names: SnapshotNames::default() });
            return Ok(());
        }
        if !wanted {
            return Ok(());
        }
        if !has_further_names(&entry) {
            return self.plan_in_the_way(&entry.path);
        }
        let path = entry.path.clone();
        self.name(entry)?;
        self.plan_in_the_way(&path)
    }

    /// Whether removals are planned in this pass.
    fn plans(&self) -> bool {
        self.shared.options.delete && matches!(self.part, FinishPass::All)
    }

    /// Finishes directories until `keep` returns true for one.
    fn leave_until(&mut self, keep: impl Fn(&Entry) -> bool) -> Result<()> {
        while let Some(open) = self.open.pop_if(|open| !keep(&open.entry)) {
            if self.plans() && (open.used || self.selection.has_include()) {
                self.plan_unless_passed(&open.entry.path, open.entry.status, &open.names)?;
            }
            // What could not be made cannot be finished: that is one failure.
            if open.used
                && let Err(problem) =
                    self.shared.target.finish_directory(&self.shared.whole(&open.entry))
                && !self.shared.is_reported(&problem.path)
            {
                self.shared.problem(&problem);
            }
        }
        Ok(())
    }

    /// What the backup did not look into is no content that the snapshot lacks.
    fn plan_unless_passed(
        &mut self,
        directory: &[u8],
        status: u8,
        names: &SnapshotNames,
    ) -> Result<()> {
        if status & STATUS_NOT_ENTERED == 0 {
            return self.plan_in(directory, names);
        }
        if self.shared.target.is_full_directory(directory) {
            let path = if directory.is_empty() { "the target".into() } else { escape(directory) };
            self.shared.monitor.note(&format!(
                "{path} was another file system, which the backup did not enter: --delete leaves alone what is in it"
            ));
        }
        Ok(())
    }

    /// Notes the extraneous objects in a directory, but only where the snapshot has the complete
    /// content: neither above the paths that were backed up, nor in mount points that were not
    /// entered.
    fn plan_in(&mut self, directory: &[u8], names: &SnapshotNames) -> Result<()> {
        let target = self.shared.target;
        let is_passed = names.is_empty() && target.is_mount_point(directory);
        if is_passed || !self.selection.is_known(directory) {
            return Ok(());
        }
        let others = match target.extraneous_beside(directory, names) {
            Ok(others) => others,
            // Nothing is removed any more, and what could not be restored cannot be listed.
            Err(_) if self.shared.is_incomplete.load(Ordering::Relaxed) => return Ok(()),
            Err(problem) => {
                self.shared.failed(&problem.path, &problem.reason());
                return Ok(());
            }
        };
        let mut is_first = true;
        for other in others {
            if std::mem::take(&mut is_first) {
                target.keep_locks(directory);
            }
            match other {
                Ok(path) => self.removals.add(&path)?,
                Err(problem) => self.shared.failed(&problem.path, &problem.reason()),
            }
        }
        Ok(())
    }

    /// Also removes a directory that has the name of another kind of object in the snapshot.
    fn plan_in_the_way(&mut self, path: &[u8]) -> Result<()> {
        let is_in_the_way = self.plans() && self.shared.in_the_way.lock().contains(path);
        if is_in_the_way { self.removals.add(path) } else { Ok(()) }
    }

    /// Handles one name of an object that has several.
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
        let waits =
            |paths: &FxHashSet<Vec<u8>>| paths.contains(&existing) || paths.contains(&entry.path);
        match self.part {
            // A directory that has this name, too, is removed with that of the first one.
            FinishPass::All if waits(&self.shared.in_the_way.lock()) => {
                if self.plans() && self.shared.target.gives_way(&entry) {
                    self.shared.put_off(&entry.path);
                }
                Ok(())
            }
            FinishPass::Late(paths) if !waits(paths) => Ok(()),
            _ => {
                // The directory of this name may have been finished before, and those above it.
                self.open.iter_mut().for_each(|open| open.used = true);
                let (shared, path) = (self.shared, entry.path.clone());
                if shared.spares_better(&entry, &existing) {
                    return Ok(());
                }
                if !shared.may_be_another(&existing) || shared.target.may_be(&existing, &entry) {
                    self.link(entry, &existing)?;
                    // A link that was not replaced is on the way to it: further names are linked to the copy.
                    if !shared.options.dry_run && !shared.target.is_there(&existing) {
                        self.goes_on_with(&key, path);
                    }
                    return Ok(());
                }
                self.goes_on_with(&key, path);
                self.write_again(entry)
            }
        }
    }

    /// From now on, further names are linked to this one.
    fn goes_on_with(&mut self, key: &LinkGroup, path: Vec<u8>) {
        if let Some((first, _)) = self.first.get_mut(key) {
            *first = path;
        }
    }

    fn link(&mut self, entry: Entry, existing: &[u8]) -> Result<()> {
        let target = self.shared.target;
        let linked = target
            .parent_of(&entry.path)
            .and_then(|parent| target.hard_link(&parent, &entry, existing));
        let counters = &self.shared.counters;
        match linked {
            Ok(RestoreOutcome::NeedsCopy) => self.instead_of_link(entry)?,
            Ok(RestoreOutcome::Unchanged) if self.shared.is_to_be_replaced(existing) => {
                Counters::add(&counters.links, 1)
            }
            Ok(outcome @ (RestoreOutcome::Unchanged | RestoreOutcome::Kept)) => {
                self.shared.settled(&entry, outcome)
            }
            Ok(_) => Counters::add(&counters.links, 1),
            Err(problem) => self.shared.problem(&problem),
        }
        Ok(())
    }

    /// If a link cannot be created, writes the object again. That is reported, unless a failure is
    /// reported already.
    fn instead_of_link(&self, entry: Entry) -> Result<()> {
        let failed = || self.shared.counters.failed.load(Ordering::Relaxed);
        let (path, before) = (entry.path.clone(), failed());
        self.write_again(entry)?;
        if failed() == before {
            self.shared.lacks_link(&path);
        }
        Ok(())
    }

    fn write_again(&self, entry: Entry) -> Result<()> {
        if self.shared.lets_be(&entry) {
            return Ok(());
        }
        match entry.kind() {
            Kind::File => self.copy(entry),
            _ => {
                work::plain(self.shared, &entry);
                Ok(())
            }
        }
    }

    /// Writes the content of a file again.
    fn copy(&self, entry: Entry) -> Result<()> {
        let shared = self.shared;
        let mut scratch = Scratch::new()?;
        let pages = PageReader::new(shared.repository)?;
        let job = FileJob::new(entry, false);
        let mut offset = 0u64;
        for run in RunReader::of(&pages, &job.entry) {
            let run = match run {
                Ok(run) => run,
                Err(error) => return job.lost_by(shared, error),
            };
            match run {
                Segment::Hole(length) => job.hole(offset, length, shared),
                Segment::Data(id, length) => {
                    job.expect_piece();
                    let ids = &shared.repository.keys.writer.ids;
                    let is_named = |bytes: &[u8]| ids.is_chunk(&id, bytes);
                    match shared.blocks.object(&id, &mut scratch, is_named) {
                        Ok(bytes) if bytes.len() == length as usize => {
                            job.write(offset, &bytes, shared)
                        }
                        Ok(_) => job.lost(shared, &Error::WrongContent(id).to_string()),
                        Err(error) => job.lost_by(shared, error)?,
                    }
                }
            }
            offset = run.length().saturating_add(offset);
        }
        job.done(shared);
        Ok(())
    }
}
