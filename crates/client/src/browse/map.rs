//! Where the bytes of an object lie: how many chunks, how many bytes of data without holes.

use super::content::read_list;
use crate::Result;
use crate::pages::PageReader;
use format::entry::{Content, Entry, Segment};

/// What an object takes in the repository, before deduplication and compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredSize {
    /// Chunks that it refers to.
    pub chunks: u64,
    /// Bytes in them, or in the entry itself.
    pub data_bytes: u64,
}

impl StoredSize {
    fn add(&mut self, segments: &[Segment]) {
        for segment in segments {
            if let Segment::Data(_, length) = segment {
                self.chunks += 1;
                self.data_bytes = self.data_bytes.saturating_add(u64::from(*length));
            }
        }
    }
}

/// What `entry` takes.
pub fn stored_size(pages: &PageReader<'_>, entry: &Entry) -> Result<StoredSize> {
    let mut stored_size = StoredSize::default();
    stored_size.add(&entry.attributes.xattr_runs);
    match &entry.content {
        Content::None => {}
        Content::Inline(bytes) => stored_size.data_bytes += bytes.len() as u64,
        Content::Segments(segments) => stored_size.add(segments),
        Content::Lists(lists) => {
            for id in lists.iter() {
                stored_size.add(&read_list(pages, id)?);
            }
        }
    }
    Ok(stored_size)
}
