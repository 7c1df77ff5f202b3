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

/// Whether to go on behind what cannot be read.
type Passes<'a> = &'a mut dyn FnMut(Error) -> Result<()>;

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
        self.write(entry, output, &mut Err)
    }

    /// The same, with zeros in place of what is damaged. Returns the first damage; an error is one that has nothing to
    /// do with this file, or makes it none.
    pub fn copy_with_gaps(
        &mut self,
        entry: &Entry,
        output: &mut dyn Write,
    ) -> Result<Option<Error>> {
        let mut first = None;
        let mut passes = |error: Error| match error.is_damage() {
            true => {
                first.get_or_insert(error);
                Ok(())
            }
            false => Err(error),
        };
        self.write(entry, output, &mut passes)?;
        Ok(first)
    }

    /// `passes` says whether to go on behind what cannot be read.
    fn write(&mut self, entry: &Entry, output: &mut dyn Write, passes: Passes<'_>) -> Result<()> {
        match &entry.content {
            Content::None => ends_at(entry, 0),
            Content::Inline(bytes) => write(output, bytes),
            Content::Segments(segments) => {
                ends_at(entry, segments.iter().map(Segment::length).fold(0, u64::saturating_add))?;
                segments.iter().try_for_each(|segment| self.segment(segment, output, passes))
            }
            Content::Lists(lists) => {
                let mut length = 0_u64;
                for id in lists.iter() {
                    let segments = match read_list(self.pages, id) {
                        Ok(segments) => segments,
                        // How much of the file it covers is lost with it, and so is where the next one begins.
                        Err(error) => {
                            passes(error)?;
                            return self.zeros(entry.size.saturating_sub(length), output);
                        }
                    };
                    for segment in segments {
                        length = length.saturating_add(segment.length());
                        self.segment(&segment, output, passes)?;
                    }
                }
                ends_at(entry, length)
            }
        }
    }

    fn segment(
        &mut self,
        segment: &Segment,
        output: &mut dyn Write,
        passes: Passes<'_>,
    ) -> Result<()> {
        let (id, length) = match segment {
            Segment::Hole(length) => return self.zeros(*length, output),
            Segment::Data(id, length) => (id, *length),
        };
        match self.chunk(id, length) {
            Ok(bytes) => write(output, &bytes),
            Err(error) => {
                passes(error)?;
                self.zeros(length.into(), output)
            }
        }
    }

    fn chunk(&mut self, id: &ObjectId, length: u32) -> Result<Vec<u8>> {
        let is_named = |bytes: &[u8]| self.repository.keys.writer.ids.is_chunk(id, bytes);
        let bytes = self.repository.blocks()?.object(id, &mut self.scratch, is_named)?;
        if bytes.len() == length as usize { Ok(bytes) } else { Err(Error::WrongContent(*id)) }
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
