//! Where the bytes of an object lie: how many chunks, how many bytes of data without holes.

use super::content::read_list;
use crate::Result;
use crate::pages::PageReader;
use format::entry::{Content, Entry, Segment};

/// What an object takes in the repository, before deduplication and compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Chunks that it refers to.
    pub chunks: u64,
    /// Bytes in them, or in the entry itself.
    pub data_bytes: u64,
}

impl Extent {
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
pub fn extent(pages: &PageReader<'_>, entry: &Entry) -> Result<Extent> {
    let mut extent = Extent::default();
    extent.add(&entry.attributes.xattr_runs);
    match &entry.content {
        Content::None => {}
        Content::Inline(bytes) => extent.data_bytes += bytes.len() as u64,
        Content::Segments(segments) => extent.add(segments),
        Content::Lists(lists) => {
            for id in lists.iter() {
                extent.add(&read_list(pages, id)?);
            }
        }
    }
    Ok(extent)
}
