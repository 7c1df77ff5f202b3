//! How much data an object refers to: its chunks, and their bytes without holes.

use super::content::read_list;
use crate::Result;
use crate::pages::{LostPage, PageReader};
use format::entry::{Content, Entry, Segment};

/// The data of an object, before deduplication and compression.
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

/// The data that `entry` refers to. Lists of chunks that cannot be read are added to `lost`, and count nothing.
pub fn stored_size(
    pages: &PageReader<'_>,
    entry: &Entry,
    lost: &mut Vec<LostPage>,
) -> Result<StoredSize> {
    let mut stored_size = StoredSize::default();
    stored_size.add(&entry.attributes.xattr_runs);
    match &entry.content {
        Content::None => {}
        Content::Inline(bytes) => stored_size.data_bytes += bytes.len() as u64,
        Content::Segments(segments) => stored_size.add(segments),
        Content::Lists(lists) => {
            for id in lists.iter() {
                match read_list(pages, id) {
                    Err(error) if error.is_damage() => {
                        lost.push(LostPage::of_list(*id, &entry.path, &error));
                    }
                    read => stored_size.add(&read?),
                }
            }
        }
    }
    Ok(stored_size)
}
