//! Sorted ids in a temporary file, with the first id of each page in memory.

use crate::index::run::Prefix;
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Ids of a page, which is read at once: 3 KiB.
pub(super) const PAGE_IDS: usize = 256;
const ID_BYTES: usize = size_of::<Prefix>();

/// A run.
pub(super) struct Run {
    /// How often what is in it was merged.
    pub(super) level: u32,
    file: File,
    ids: u64,
    /// The first id of each page.
    fence: Vec<Prefix>,
}

impl Run {
    pub(super) fn contains(&self, id: &Prefix) -> Result<bool> {
        let Some(page) = self.fence.partition_point(|first| first <= id).checked_sub(1) else {
            return Ok(false);
        };
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
        let first = page * PAGE_IDS as u64;
        let count = self.ids.saturating_sub(first).min(PAGE_IDS as u64) as usize;
        let ids = &mut ids[..count];
        let at = first * ID_BYTES as u64;
        self.file.read_exact_at(ids.as_flattened_mut(), at).map_err(failed("read"))?;
        Ok(ids)
    }
}

/// Writes a run; the ids come in order.
pub(super) struct RunWriter {
    level: u32,
    file: BufWriter<File>,
    ids: u64,
    fence: Vec<Prefix>,
}

impl RunWriter {
    pub(super) fn new(level: u32) -> Result<Self> {
        let file = tempfile::tempfile_in(folder()).map_err(failed("create"))?;
        let file = BufWriter::with_capacity(64 << 10, file);
        Ok(Self { level, file, ids: 0, fence: Vec::new() })
    }

    pub(super) fn push(&mut self, id: &Prefix) -> Result<()> {
        if self.ids.is_multiple_of(PAGE_IDS as u64) {
            self.fence.push(*id);
        }
        self.ids += 1;
        self.file.write_all(id).map_err(failed("write"))
    }

    pub(super) fn finish(self) -> Result<Run> {
        let Self { level, file, ids, fence } = self;
        let file = file.into_inner().map_err(|error| failed("write")(error.into_error()))?;
        Ok(Run { level, file, ids, fence })
    }
}

/// Where temporary files go. `/tmp` often lies in memory.
fn folder() -> PathBuf {
    std::env::var_os("TMPDIR")
        .filter(|named| !named.is_empty())
        .map_or("/var/tmp".into(), PathBuf::from)
}

fn failed(operation: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Temporary { operation, folder: folder().display().to_string(), source }
}
