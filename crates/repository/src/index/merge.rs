//! Several runs as one.

use super::run::{self, Row, RunReader, RunWriter};
use crate::Result;
use crate::storage::Storage;
use ids::ContainerNo;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// What becomes of rows.
#[derive(Default)]
pub(crate) struct Rules {
    /// Rows that lead there are dropped.
    pub(crate) condemned: FxHashSet<ContainerNo>,
    /// Running sessions rely on what lies there: such rows stay behind newer ones of the same prefix. Of the newest no
    /// such session was told, so it may be dropped before the session commits.
    pub(crate) needed: FxHashSet<ContainerNo>,
}

/// Writes one run from `runs` (oldest first): of each prefix the newest row, and those that are needed besides. Nothing
/// is written when nothing is left.
pub(crate) fn merge_runs(
    storage: &dyn Storage,
    name: &str,
    runs: &[Arc<RunReader>],
    rules: &Rules,
) -> Result<bool> {
    let total = runs.iter().map(|run| run.entries()).sum();
    let mut kept = Kept::default();
    RunWriter::write(storage, name, total, |writer| {
        Merge::new(runs)?
            .for_each(|row| if kept.takes(&row, rules) { writer.push(row) } else { Ok(()) })
    })
}

/// The rows of one prefix that stay.
#[derive(Default)]
struct Kept {
    prefix: Option<run::Prefix>,
    containers: Vec<ContainerNo>,
}

impl Kept {
    /// Whether `row`, the next one, stays.
    fn takes(&mut self, row: &Row, rules: &Rules) -> bool {
        if self.prefix.replace(row.prefix) != Some(row.prefix) {
            self.containers.clear();
        }
        let container = row.location.container;
        let is_wanted = self.containers.is_empty()
            || rules.needed.contains(&container) && !self.containers.contains(&container);
        let stays = is_wanted && !rules.condemned.contains(&container);
        self.containers.extend(stays.then_some(container));
        stays
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStorage;
    use ids::RecordLocation;

    /// More than fit on a page.
    const ROWS: u8 = 200;

    fn row(prefix: u8, container: u64) -> Row {
        let location = RecordLocation { container: ContainerNo(container), offset: 7, length: 9 };
        Row { prefix: [prefix; run::PREFIX_BYTES], location }
    }

    /// Merges a run for each of `containers`, oldest first, each with every prefix.
    fn merged(containers: &[u64], rules: &Rules) -> (tempfile::TempDir, RunReader) {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path()).unwrap();
        let write = |container: &u64| {
            let mut rows: Vec<_> = (0..ROWS).map(|prefix| row(prefix, *container)).collect();
            let name = format!("of-{container}");
            run::write_rows(&storage, &name, &mut rows).unwrap();
            Arc::new(RunReader::open(&storage, &name).unwrap())
        };
        let runs: Vec<_> = containers.iter().map(write).collect();
        assert!(merge_runs(&storage, "merged", &runs, rules).unwrap());
        let merged = RunReader::open(&storage, "merged").unwrap();
        (directory, merged)
    }

    fn set(containers: &[u64]) -> FxHashSet<ContainerNo> {
        containers.iter().copied().map(ContainerNo).collect()
    }

    #[test]
    fn what_sessions_need_stays_behind_what_is_newer() {
        let rules = Rules { condemned: set(&[3]), needed: set(&[1, 3, 5]) };
        let (_directory, run) = merged(&[1, 2, 3, 4], &rules);
        let mut stream = run.stream();
        for prefix in 0..ROWS {
            for container in [4, 1] {
                assert_eq!(stream.next_row().unwrap(), Some(row(prefix, container)));
            }
            let newest = run.find(&row(prefix, 0).prefix).unwrap();
            assert_eq!(newest.map(|it| it.container.0), Some(4), "also where a page ends");
        }
        assert_eq!(stream.next_row().unwrap(), None);
    }
}
