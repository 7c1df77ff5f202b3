//! Sorted ids in a temporary file, with the first id and the checksum of each page in memory: what reclaim does not
//! find here it deletes, so a disk that gives back something else is an error.

use crate::index::run::Prefix;
use crate::{Error, Result};
use format::wire::checksum;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Ids of a page, which is read at once: 3 KiB.
pub(super) const PAGE_IDS: usize = 256;
const ID_BYTES: usize = size_of::<Prefix>();
/// So much has to be free for a temporary file: it may lie on the disk of the repository, on which reclaim needs room.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// A run.
pub(super) struct Run {
    /// How often what is in it was merged.
    pub(super) level: u32,
    pub(super) file: File,
    ids: u64,
    pages: Vec<Page>,
}

/// What is kept of a page.
struct Page {
    first: Prefix,
    sum: [u8; 8],
}

impl Page {
    fn of(ids: &[Prefix]) -> Self {
        let first = ids.first().copied().unwrap_or_default();
        Self { first, sum: sum_of(ids) }
    }
}

fn sum_of(ids: &[Prefix]) -> [u8; 8] {
    let mut sum = [0; 8];
    sum.copy_from_slice(&checksum(&[ids.as_flattened()])[..8]);
    sum
}

impl Run {
    pub(super) fn contains(&self, id: &Prefix) -> Result<bool> {
        let following = self.pages.partition_point(|page| page.first <= *id);
        let Some(page) = following.checked_sub(1) else { return Ok(false) };
        let mut ids = [Prefix::default(); PAGE_IDS];
        let ids = self.read(page as u64, &mut ids)?;
        Ok(ids.binary_search(id).is_ok())
    }

    /// Reads a page; no ids behind the last one.
    pub(super) fn read<'p>(
        &self,
        page: u64,
        ids: &'p mut [Prefix; PAGE_IDS],
    ) -> Result<&'p [Prefix]> {
        let Some(kept) = self.pages.get(page as usize) else { return Ok(&[]) };
        let first = page * PAGE_IDS as u64;
        let count = (self.ids - first).min(PAGE_IDS as u64) as usize;
        let ids = &mut ids[..count];
        let at = first * ID_BYTES as u64;
        self.file.read_exact_at(ids.as_flattened_mut(), at).map_err(failed("read"))?;
        if sum_of(ids) == kept.sum { Ok(ids) } else { Err(failed("read")(changed())) }
    }
}

/// Writes a run; the ids come in order.
pub(super) struct RunWriter {
    level: u32,
    file: BufWriter<File>,
    ids: u64,
    pages: Vec<Page>,
    /// The page in the making.
    page: Vec<Prefix>,
}

impl RunWriter {
    pub(super) fn new(level: u32, folder: &Path) -> Result<Self> {
        let free = rustix::fs::statvfs(folder).map_err(|error| failed("create")(error.into()))?;
        if free.f_bavail.saturating_mul(free.f_frsize) < FREE_BYTES_MIN {
            return Err(failed("create")(ErrorKind::StorageFull.into()));
        }
        let file = tempfile::tempfile_in(folder).map_err(failed("create"))?;
        let file = BufWriter::with_capacity(64 << 10, file);
        Ok(Self { level, file, ids: 0, pages: Vec::new(), page: Vec::with_capacity(PAGE_IDS) })
    }

    pub(super) fn push(&mut self, id: &Prefix) -> Result<()> {
        self.page.push(*id);
        self.ids += 1;
        if self.page.len() == PAGE_IDS { self.end_page() } else { Ok(()) }
    }

    fn end_page(&mut self) -> Result<()> {
        if !self.page.is_empty() {
            self.pages.push(Page::of(&self.page));
            self.file.write_all(self.page.as_flattened()).map_err(failed("write"))?;
            self.page.clear();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Run> {
        self.end_page()?;
        let Self { level, file, ids, pages, .. } = self;
        let file = file.into_inner().map_err(|error| failed("write")(error.into_error()))?;
        Ok(Run { level, file, ids, pages })
    }
}

fn changed() -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, "it does not hold what was written")
}

/// Where temporary files go. `/tmp` often lies in memory.
pub(super) fn folder() -> PathBuf {
    std::env::var_os("TMPDIR")
        .filter(|named| !named.is_empty())
        .map_or("/var/tmp".into(), PathBuf::from)
}

fn failed(operation: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Temporary { operation, folder: folder().display().to_string(), source }
}
