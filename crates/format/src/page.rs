//! Pages: the parts that leaf, inner and list pages have in common. A page is references in the clear and a
//! payload that is sealed; the payload points at references by position.

use crate::limits::PAGE_REFS_MAX;
use crate::record::Record;
use crate::wire::Reader;
use crate::{Error, Result};
use ids::ObjectId;

/// Length of the head of a page without its references.
pub(crate) const HEAD_BYTES: usize = 1 + ObjectId::LEN + 4;

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum PageKind {
    /// Entries; refers to chunks and lists.
    Leaf = 1,
    /// Sums over pages below; refers to them.
    Inner = 2,
    /// Runs of one large file; refers to chunks.
    List = 3,
}

impl PageKind {
    /// The kind with this number.
    pub fn from_number(value: u8) -> Option<Self> {
        Self::from_u8(value).ok()
    }

    fn from_u8(value: u8) -> Result<Self> {
        use PageKind::*;
        let found = [Leaf, Inner, List].into_iter().find(|kind| *kind as u8 == value);
        found.ok_or(Error::Invalid { what: "page kind" })
    }
}

/// A page, not sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// What it holds.
    pub kind: PageKind,
    /// What it refers to, each id once.
    pub refs: Vec<ObjectId>,
    /// The rest.
    pub payload: Vec<u8>,
}

/// A page as the clear part of a record shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHead<'a> {
    /// What it holds.
    pub kind: PageKind,
    /// Its id.
    pub id: ObjectId,
    /// Its references, 24 bytes each.
    refs: &'a [[u8; ObjectId::LEN]],
}

impl<'a> PageHead<'a> {
    /// What it refers to.
    pub fn refs(&self) -> impl ExactSizeIterator<Item = ObjectId> + use<'a> {
        self.refs.iter().map(|id| ObjectId(*id))
    }
}

/// Appends the head of a page to a clear part.
pub fn put_head(out: &mut Vec<u8>, kind: PageKind, id: ObjectId, refs: &[ObjectId]) {
    out.push(kind as u8);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(&(refs.len() as u32).to_le_bytes());
    refs.iter().for_each(|id| out.extend_from_slice(&id.0));
}

/// The heads in the clear part of a record of pages.
pub fn heads<'a>(record: &Record<'a>) -> Result<Vec<PageHead<'a>>> {
    let mut reader = Reader::new(record.clear, "page heads of a record");
    let heads =
        (0..record.header.objects).map(|_| head(&mut reader)).collect::<Result<Vec<_>>>()?;
    reader.end().map(|()| heads)
}

fn head<'a>(reader: &mut Reader<'a>) -> Result<PageHead<'a>> {
    let kind = PageKind::from_u8(reader.u8()?)?;
    let id = ObjectId(reader.array()?);
    let count = reader.u32()? as usize;
    if count > PAGE_REFS_MAX {
        let (value, limit) = (count as u64, PAGE_REFS_MAX as u64);
        return Err(Error::TooLarge { what: "references of a page", value, limit });
    }
    let refs = reader.bytes(count * ObjectId::LEN)?.as_chunks().0;
    Ok(PageHead { kind, id, refs })
}
