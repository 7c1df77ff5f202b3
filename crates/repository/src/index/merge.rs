//! Several runs as one.

use super::run::{self, Row, RunReader, RunWriter};
use crate::Result;
use crate::storage::Storage;
use ids::RecordLocation;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// Writes one run from `runs` (oldest first), each prefix once, as `keep` maps its place:
/// `None` drops it. Nothing is written when nothing is left.
pub(crate) fn merge_runs(
    storage: &dyn Storage,
    name: &str,
    runs: &[Arc<RunReader>],
    mut keep: impl FnMut(RecordLocation) -> Option<RecordLocation>,
) -> Result<bool> {
    let total = runs.iter().map(|run| run.entries()).sum();
    let mut before = None;
    RunWriter::write(storage, name, total, |writer| {
        Merge::new(runs)?.for_each(|row| {
            if before == Some(row.prefix) {
                return Ok(());
            }
            match keep(row.location) {
                Some(location) => {
                    before = Some(row.prefix);
                    writer.push(Row { prefix: row.prefix, location })
                }
                None => Ok(()),
            }
        })
    })
}

/// Reads several runs as one sorted stream; of equal prefixes the newest run's comes first.
pub(super) struct Merge<'a> {
    streams: Vec<run::Stream<'a>>,
    /// The next row of each stream that has one, the smallest on top.
    heads: BinaryHeap<Reverse<Head>>,
}

/// The next row of a stream.
struct Head {
    row: Row,
    stream: usize,
}

impl Head {
    /// The smallest prefix comes first, and of equal ones that of the newest run.
    fn key(&self) -> (&run::Prefix, usize) {
        (&self.row.prefix, self.stream)
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Head {}

impl<'a> Merge<'a> {
    pub(super) fn new(runs: &'a [Arc<RunReader>]) -> Result<Self> {
        let mut streams: Vec<_> = runs.iter().rev().map(|run| run.stream()).collect();
        let mut heads = BinaryHeap::with_capacity(streams.len());
        for (stream, rows) in streams.iter_mut().enumerate() {
            heads.extend(rows.next_row()?.map(|row| Reverse(Head { row, stream })));
        }
        Ok(Self { streams, heads })
    }

    /// Calls `visit` with each row.
    pub(super) fn for_each(mut self, mut visit: impl FnMut(Row) -> Result<()>) -> Result<()> {
        while let Some(mut top) = self.heads.peek_mut() {
            let Reverse(Head { row, stream }) = &mut *top;
            visit(*row)?;
            match self.streams[*stream].next_row()? {
                Some(next) => *row = next,
                None => drop(PeekMut::pop(top)),
            }
        }
        Ok(())
    }
}
