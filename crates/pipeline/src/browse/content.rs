//! The content of a file, for `cat` and `dump`.

use crate::blocks::Scratch;
use crate::pages::PageReader;
use crate::{Error, Result, UnlockedRepository};
use format::entry::{Content, Entry, Segment};
use format::list;
use ids::ObjectId;
use std::borrow::Cow;
use std::io::Write;
use tree::PageSource;

/// Zeros, written for a hole piece by piece.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Reads the content of files, and verifies each chunk against its id.
pub struct ContentReader<'a> {
    repository: &'a UnlockedRepository,
    pages: &'a PageReader<'a>,
    scratch: Scratch,
}

impl<'a> ContentReader<'a> {
    /// A reader of files in `repository`.
    pub fn new(repository: &'a UnlockedRepository, pages: &'a PageReader<'a>) -> Result<Self> {
        Ok(Self { repository, pages, scratch: Scratch::new()? })
    }

    /// `entry` with its extended attributes, fetched if they are in chunks.
    pub fn with_xattrs<'e>(&self, entry: &'e Entry) -> Result<Cow<'e, Entry>> {
        crate::xattrs::whole(entry, self.repository.blocks()?, &self.repository.keys.writer.ids)
    }

    /// Writes the content of `entry` to `output`; holes are zeros. Writes exactly as many bytes as
    /// its size says, or returns an error.
    pub fn copy(&mut self, entry: &Entry, output: &mut dyn Write) -> Result<()> {
        match &entry.content {
            Content::None => ends_at(entry, 0),
            Content::Inline(bytes) => write(output, bytes),
            Content::Segments(segments) => {
                ends_at(entry, segments.iter().map(Segment::length).fold(0, u64::saturating_add))?;
                segments.iter().try_for_each(|segment| self.segment(segment, output))
            }
            Content::Lists(lists) => {
                let mut length = 0_u64;
                for id in lists.iter() {
                    for segment in read_list(self.pages, id)? {
                        length = length.saturating_add(segment.length());
                        self.segment(&segment, output)?;
                    }
                }
                ends_at(entry, length)
            }
        }
    }

    fn segment(&mut self, segment: &Segment, output: &mut dyn Write) -> Result<()> {
        let (id, length) = match segment {
            Segment::Hole(length) => return self.zeros(*length, output),
            Segment::Data(id, length) => (id, *length),
        };
        let is_named = |bytes: &[u8]| self.repository.keys.writer.ids.is_chunk(id, bytes);
        let bytes = self.repository.blocks()?.object(id, &mut self.scratch, is_named)?;
        if bytes.len() != length as usize {
            return Err(Error::WrongContent(*id));
        }
        write(output, &bytes)
    }

    fn zeros(&self, mut length: u64, output: &mut dyn Write) -> Result<()> {
        while length > 0 {
            let some = length.min(ZEROS.len() as u64);
            write(output, &ZEROS[..some as usize])?;
            length -= some;
        }
        Ok(())
    }
}

/// The runs in a list page.
pub(crate) fn read_list(pages: &PageReader<'_>, id: &ObjectId) -> Result<Vec<Segment>> {
    let page = pages.get(id)?;
    if page.kind != format::page::PageKind::List {
        return Err(Error::WrongContent(*id));
    }
    Ok(list::decode(&page.refs, &page.payload)?)
}

fn ends_at(entry: &Entry, length: u64) -> Result<()> {
    if length == entry.size {
        Ok(())
    } else {
        Err(format::Error::Invalid { what: "length of a file" }.into())
    }
}

fn write(output: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    output.write_all(bytes).map_err(|source| Error::File { path: "the output".into(), source })
}
