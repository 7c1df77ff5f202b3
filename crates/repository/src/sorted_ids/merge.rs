//! Several sorted lists of ids as one.

use super::run::{PAGE_IDS, Run};
use crate::Result;
use crate::index::run::Prefix;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sorted ids of one list.
enum List<'a> {
    InMemory(std::slice::Iter<'a, Prefix>),
    InFile { run: &'a Run, next_page: u64, page: Box<[Prefix; PAGE_IDS]>, ids: usize, at: usize },
}

impl<'a> List<'a> {
    fn of(run: &'a Run) -> Self {
        let page = Box::new([Prefix::default(); PAGE_IDS]);
        List::InFile { run, next_page: 0, page, ids: 0, at: 0 }
    }

    fn next(&mut self) -> Result<Option<Prefix>> {
        match self {
            List::InMemory(ids) => Ok(ids.next().copied()),
            List::InFile { run, next_page, page, ids, at } => {
                if *at == *ids {
                    *ids = run.read(*next_page, page)?.len();
                    (*next_page, *at) = (*next_page + 1, 0);
                }
                if *ids == 0 {
                    return Ok(None);
                }
                *at += 1;
                Ok(Some(page[*at - 1]))
            }
        }
    }
}

/// All ids of some lists in order, each once.
pub(super) struct Merged<'a> {
    lists: Vec<List<'a>>,
    /// The next id of each list that has one.
    next: BinaryHeap<Reverse<(Prefix, usize)>>,
    latest: Option<Prefix>,
    /// Lists of which no id was taken yet.
    to_start: usize,
}

impl<'a> Merged<'a> {
    pub(super) fn new(ids: &'a [Prefix], runs: &'a [Run]) -> Self {
        let lists: Vec<_> = runs.iter().map(List::of).collect();
        let merged = Self { lists, next: BinaryHeap::new(), latest: None, to_start: 0 };
        merged.and(ids)
    }

    /// With these as well.
    pub(super) fn and(mut self, ids: &'a [Prefix]) -> Self {
        self.lists.push(List::InMemory(ids.iter()));
        self.to_start = self.lists.len();
        self
    }

    /// Takes the next id of a list.
    fn advance(&mut self, list: usize) -> Result<()> {
        let next = self.lists[list].next()?;
        self.next.extend(next.map(|id| Reverse((id, list))));
        Ok(())
    }

    fn following(&mut self) -> Result<Option<Prefix>> {
        while let Some(list) = self.to_start.checked_sub(1) {
            self.to_start = list;
            self.advance(list)?;
        }
        while let Some(Reverse((id, list))) = self.next.pop() {
            self.advance(list)?;
            if self.latest.replace(id) != Some(id) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Prefix>;

    fn next(&mut self) -> Option<Self::Item> {
        self.following().transpose()
    }
}
