//! The stages of a backup, and the thread that feeds them: walk, merge, workers, reorder.

use super::batch::Batch;
use super::context::BackupContext;
use super::counters::Counters;
use super::merge::Merge;
use super::options::BackupOptions;
use super::queue::Queue;
use super::reorder::ReorderBuffer;
use super::{readers, worker};
use crate::{Error, Result};
use capture::walk::{Walk, WalkEvent};

/// Runs the walk, the workers and the reorder buffer until the source is done.
pub(super) fn run(
    options: &BackupOptions,
    shared: &BackupContext<'_>,
    mut merge: Merge<'_>,
    mut reorder: ReorderBuffer<'_>,
) -> Result<(tree::Root, Counters)> {
    let mut walk = Walk::start(&options.roots, options.walk.clone())?;
    let queue = Queue::default();
    std::thread::scope(|scope| {
        let closing = Closing(&queue);
        let work = || worker::run(shared, &queue);
        let workers = crate::threads::start(scope, readers::count(options), work)?;
        let fed = feed(&mut walk, &mut merge, &mut reorder, shared, &queue);
        let drained = fed.and_then(|()| reorder.drain(&queue));
        drop(closing);
        let mut counters = Counters::default();
        let mut failed = None;
        for worker in workers {
            match worker.join().unwrap_or(Err(Error::WorkerPanicked)) {
                Ok(of_worker) => counters.add(&of_worker),
                Err(error) => failed = Some(error),
            }
        }
        // The error of a worker is the cause; a batch that never came back is the consequence.
        if let Some(error) = failed {
            return Err(error);
        }
        drained?;
        counters.add(&merge.counters());
        counters.count_skipped(&walk.skipped());
        counters.report.stages.walk_wait_secs += walk.waited().as_secs_f64();
        let (root, of_reorder) = reorder.finish()?;
        counters.add(&of_reorder);
        if counters.report.objects_inspected == 0 {
            return Err(Error::NothingRead(options.paths.join(", ")));
        }
        Ok((root, counters))
    })
}

/// Closes the queue whatever happens, a panic too: workers must not wait forever.
struct Closing<'a>(&'a Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Moves batches from the walk to the workers, and on to the tree.
fn feed(
    walk: &mut Walk,
    merge: &mut Merge<'_>,
    reorder: &mut ReorderBuffer<'_>,
    shared: &BackupContext<'_>,
    queue: &Queue,
) -> Result<()> {
    let mut batch = Batch::default();
    loop {
        match walk.next() {
            Some(WalkEvent::Entry(found)) => merge.entry(&found, &mut batch, shared.monitor)?,
            Some(WalkEvent::Problem { path, problem }) => {
                merge.problem(path, problem, shared.monitor)
            }
            None => break,
        }
        if batch.is_full() {
            shared.progress.check()?;
            shared.show(&batch);
            reorder.send(std::mem::take(&mut batch), queue)?;
        }
    }
    merge.end(&mut batch, shared.monitor)?;
    shared.show(&batch);
    shared.progress.walked(merge.counters().report.bytes_inspected);
    reorder.send(batch, queue)
}
