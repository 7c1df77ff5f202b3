//! The dry run of a backup.

use super::batch::{Batch, Item};
use super::counters::Counters;
use super::merge::Merge;
use super::monitor::BackupMonitor;
use super::options::BackupOptions;
use super::previous::{failed_of, newest, previous_pages};
use crate::report::BackupReport;
use crate::{Result, UnlockedRepository};
use capture::walk::{Walk, WalkEvent};
use format::entry::Entry;

/// Determines what a backup would do: returns the counters, and calls `would_read` for each object
/// that would be read.
pub fn dry_run(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
    mut would_read: impl FnMut(&Entry),
) -> Result<BackupReport> {
    let previous = newest(repository, options, monitor)?;
    let pages = previous_pages(repository, options, previous.as_ref(), monitor)?;
    let failed = failed_of(repository, previous.as_ref());
    let head = previous.map(|stored| stored.head);
    let mut merge = Merge::new(options, pages.as_ref(), head, None, &failed);
    let mut walk = Walk::start(&options.roots, options.walk.clone())?;
    let mut batch = Batch::default();
    let mut counters = Counters::default();
    while let Some(event) = walk.next() {
        match event {
            WalkEvent::Entry(found) => merge.entry(&found, &mut batch, monitor)?,
            WalkEvent::Problem { path, problem } => merge.problem(path, problem, monitor),
        }
        count_dry(&mut batch, &mut counters, &mut would_read);
    }
    merge.end(&mut batch, monitor)?;
    count_dry(&mut batch, &mut counters, &mut would_read);
    counters.add(&merge.counters());
    counters.count_skipped(&walk.skipped());
    Ok(counters.report)
}

fn count_dry(batch: &mut Batch, counters: &mut Counters, would_read: &mut impl FnMut(&Entry)) {
    for item in batch.take() {
        match item {
            Item::Unchanged(_) => counters.report.objects_unchanged += 1,
            Item::Page(page, _) => counters.report.objects_unchanged += page.sums.entries,
            Item::Job(job) => {
                would_read(&job.entry);
                counters.report.objects_backed_up += 1;
                counters.report.objects_new += u64::from(job.previous.is_none());
            }
            Item::Link(job) => {
                // Its content is counted under its first name.
                would_read(&Entry { size: 0, ..job.entry.clone() });
                counters.report.objects_backed_up += 1;
                counters.report.objects_new += u64::from(job.previous.is_none());
            }
            Item::Done(_) | Item::Failed | Item::Vanished => {}
        }
    }
}
