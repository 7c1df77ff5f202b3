//! Which objects of some records live, asked of the index at once: ids are spread all over it, and
//! asking record by record would read and check every page of it for each.

use crate::Result;
use crate::container::place_of;
use crate::container::read::ContainerReader;
use format::container::Row;
use ids::{ObjectId, RecordLocation};
use std::iter::repeat_n;

/// Ids asked for at once: about 20 MB with their places.
const IDS_MAX: usize = 1 << 18;

/// Neighboring records of a container, and the objects in them.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
    /// How many of `ids` are of each row.
    counts: Vec<usize>,
    pub(super) ids: Vec<ObjectId>,
    /// Where each of `ids` lies.
    pub(super) places: Vec<RecordLocation>,
}

impl Batch {
    /// Takes records from the front of `rows`.
    pub(super) fn take(reader: &ContainerReader, rows: &mut &[Row]) -> Result<Self> {
        let mut batch = Self::default();
        while let Some((row, rest)) = rows.split_first()
            && batch.ids.len() < IDS_MAX
        {
            let ids = reader.object_ids(row)?;
            batch.rows.push(*row);
            batch.counts.push(ids.len());
            batch.places.extend(repeat_n(place_of(reader.number(), row), ids.len()));
            batch.ids.extend(ids);
            *rows = rest;
        }
        Ok(batch)
    }

    /// Each record with its objects and what is said of them in `lives`.
    pub(super) fn records<'a>(
        &'a self,
        lives: &'a [bool],
    ) -> impl Iterator<Item = (&'a Row, &'a [ObjectId], &'a [bool])> {
        let mut at = 0;
        self.rows.iter().zip(&self.counts).map(move |(row, count)| {
            let range = at..at + count;
            at = range.end;
            (row, &self.ids[range.clone()], &lives[range])
        })
    }
}
