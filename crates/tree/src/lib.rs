//! The snapshot tree: entries sorted by path, cut into pages where the content says so, inner
//! pages with sums above them (a prolly tree).
//!
//! Equal runs of entries make equal pages, whatever stands before them; so snapshots share what
//! did not change, a lookup costs O(log n) and a difference O(difference). Pure: pages come from
//! a [`PageSource`] and go to a [`PageSink`]. Read [`build`] first, then [`cursor`], [`diff`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod build;
pub mod cursor;
pub mod diff;

pub use build::{Builder, Root};
pub use cursor::{Cursor, read_leaf};
pub use diff::{Change, Side, diff, diff_past};

use format::page::{Page, PageKind};
use ids::ObjectId;
use std::sync::Arc;

/// Stores pages.
pub trait PageSink {
    /// Why a page could not be stored.
    type Error;

    /// Stores `page` unless it is there already, and returns its id.
    fn put(&mut self, page: Page) -> Result<ObjectId, Self::Error>;
}

/// A page that was read.
#[derive(Debug)]
pub struct PageData {
    /// What it holds.
    pub kind: PageKind,
    /// What it refers to.
    pub refs: Vec<ObjectId>,
    /// The rest.
    pub payload: Vec<u8>,
}

/// Reads pages.
pub trait PageSource {
    /// Why a page could not be read.
    type Error: From<format::Error>;

    /// The page `id`.
    fn get(&self, id: &ObjectId) -> Result<Arc<PageData>, Self::Error>;

    /// What the ids of all pages with the same content as `id` have in common: mostly the id.
    fn content_of(&self, id: &ObjectId) -> ObjectId {
        *id
    }
}

#[cfg(test)]
mod testing;
