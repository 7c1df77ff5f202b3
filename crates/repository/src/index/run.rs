//! A run: rows of (id prefix, place), sorted, in pages of 4 KiB that carry a checksum each.
//!
//! ```text
//! header (64) | pages (4096 each, 170 rows of 24 bytes) | fence (first 8 bytes of each page) | filter | trailer sum
//! ```
//! 12 bytes are enough to tell 10^12 ids apart (two are alike with a chance of 1 in 160,000); who
//! reads the record sees the whole id.

use crate::storage::{FileReader, FileWriter, Storage, StorageError};
use crate::{Error, Result};
use format::limits::RECORD_BYTES_MAX;
use format::wire::{Reader, checksum};
use ids::{ContainerNo, RecordLocation};
use rustc_hash::FxHashMap;

/// Bytes of an id that the index keeps.
pub(crate) const PREFIX_BYTES: usize = 12;
/// The first bytes of an id.
pub(crate) type Prefix = [u8; PREFIX_BYTES];

const MAGIC: [u8; 8] = *b"ICERUN01";
const HEADER_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// Prefix 12, container 5, offset 4, length 3.
const ROW_BYTES: usize = 24;
const ROWS_PER_PAGE: usize = (PAGE_BYTES - PAGE_HEADER_BYTES) / ROW_BYTES;
/// Count 2, reserved 6, checksum 8.
const PAGE_HEADER_BYTES: usize = 16;
/// A block of the filter: one cache line.
const FILTER_BLOCK_BYTES: usize = 64;
/// 12 bits a key: one false "maybe" in about 200.
const FILTER_BITS_PER_KEY: u64 = 12;
const FILTER_PROBES: u32 = 6;
/// Pages that a stream reads at once: 256 KiB.
const STREAM_PAGES: usize = 64;

// A row keeps three bytes of a record's length.
const _: () = assert!(RECORD_BYTES_MAX < 1 << 24);

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) prefix: Prefix,
    pub(crate) location: RecordLocation,
}

impl Row {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(&self.location.container.0.to_le_bytes()[..5]);
        out.extend_from_slice(&self.location.offset.to_le_bytes());
        out.extend_from_slice(&self.location.length.to_le_bytes()[..3]);
    }

    fn decode(row: &[u8; ROW_BYTES]) -> Self {
        let [p @ .., c0, c1, c2, c3, c4, o0, o1, o2, o3, l0, l1, l2] = *row;
        let location = RecordLocation {
            container: ContainerNo(u64::from_le_bytes([c0, c1, c2, c3, c4, 0, 0, 0])),
            offset: u32::from_le_bytes([o0, o1, o2, o3]),
            length: u32::from_le_bytes([l0, l1, l2, 0]),
        };
        Self { prefix: p, location }
    }
}

/// Writes a run; rows come sorted.
pub(crate) struct RunWriter {
    file: Box<dyn FileWriter>,
    name: String,
    page: Vec<u8>,
    rows_in_page: usize,
    entries: u64,
    fence: Vec<u8>,
    filter: Vec<u8>,
    buffer: Vec<u8>,
}

impl RunWriter {
    /// A run of at most `total` rows, to be called `name`.
    pub(crate) fn create(storage: &dyn Storage, name: &str, total: u64) -> Result<Self> {
        let part = part_name(name);
        storage.remove(&part)?;
        let mut file = storage.create(&part)?;
        // The header's place: it is known only at the end, so it stands in the trailer.
        file.append(&[&MAGIC, &[0; HEADER_BYTES - MAGIC.len()]])?;
        let blocks = (total * FILTER_BITS_PER_KEY).div_ceil(FILTER_BLOCK_BYTES as u64 * 8).max(1);
        Ok(Self {
            file,
            name: name.to_owned(),
            page: Vec::with_capacity(PAGE_BYTES),
            rows_in_page: 0,
            entries: 0,
            fence: Vec::new(),
            filter: vec![0; blocks as usize * FILTER_BLOCK_BYTES],
            buffer: Vec::new(),
        })
    }

    /// Makes the run durable that `rows` writes; `false` when it has no row and is not kept. On a full
    /// disk nothing of it stays.
    pub(crate) fn write(
        storage: &dyn Storage,
        name: &str,
        total: u64,
        rows: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<bool> {
        let write = || {
            let mut writer = Self::create(storage, name, total)?;
            rows(&mut writer)?;
            writer.finish(storage)
        };
        let written = write();
        if matches!(&written, Err(error) if error.is_full()) {
            let _ = storage.remove(&part_name(name));
        }
        written
    }

    /// Appends a row, whose prefix is not smaller than any before. Of equal ones the newest comes first.
    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        if self.rows_in_page == 0 {
            self.fence.extend_from_slice(&row.prefix[..8]);
        }
        row.encode(&mut self.page);
        set_filter(&mut self.filter, &row.prefix);
        self.entries += 1;
        self.rows_in_page += 1;
        if self.rows_in_page == ROWS_PER_PAGE { self.flush_page() } else { Ok(()) }
    }

    /// Makes the run durable under its name; `false` when it had no row and is not kept.
    pub(crate) fn finish(mut self, storage: &dyn Storage) -> Result<bool> {
        if self.rows_in_page > 0 {
            self.flush_page()?;
        }
        let part = part_name(&self.name);
        if self.entries == 0 {
            storage.remove(&part)?;
            return Ok(false);
        }
        let trailer = self.trailer();
        self.file.append(&[&self.buffer, &self.fence, &self.filter, &trailer])?;
        self.file.sync()?;
        match storage.publish(&part, &self.name) {
            // No number is given twice, unless older files were copied over newer ones.
            Err(error) if error.already_exists() => {
                let name = format!("index/state is older than {}", self.name);
                Err(Error::IndexDamaged { name })
            }
            published => Ok(published.map(|()| true)?),
        }
    }

    fn flush_page(&mut self) -> Result<()> {
        self.page.resize(PAGE_BYTES - PAGE_HEADER_BYTES, 0);
        let count = (self.rows_in_page as u16).to_le_bytes();
        let sum = checksum(&[&count, &self.page]);
        for part in [&count[..], &[0; 6], &sum[..8], &self.page] {
            self.buffer.extend_from_slice(part);
        }
        self.page.clear();
        self.rows_in_page = 0;
        if self.buffer.len() >= STREAM_PAGES * PAGE_BYTES {
            self.file.append(&[&self.buffer])?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Entries, filter length, a checksum of the filter, and one over fence and all these.
    fn trailer(&self) -> Vec<u8> {
        let mut trailer = self.entries.to_le_bytes().to_vec();
        trailer.extend_from_slice(&(self.filter.len() as u64).to_le_bytes());
        trailer.extend_from_slice(&checksum(&[&self.filter]));
        let sum = checksum(&[&self.fence, &trailer]);
        trailer.extend_from_slice(&sum);
        trailer
    }
}

const TRAILER_BYTES: usize = 8 + 8 + 16 + 16;

/// What both ends of a run say.
struct Ends {
    entries: u64,
    fence: Vec<u64>,
    filter_offset: u64,
    filter_bytes: usize,
    filter_sum: [u8; 16],
}

impl Ends {
    /// Of the run `name` in `file`.
    fn read(file: &dyn FileReader, name: &str) -> Result<Self> {
        let damaged = || Error::IndexDamaged { name: name.to_owned() };
        let length = file.length().map_err(|error| refused(name, error))?;
        let mut trailer = [0; TRAILER_BYTES];
        let end = length.checked_sub(TRAILER_BYTES as u64).ok_or_else(damaged)?;
        read(file, name, &mut trailer, end)?;
        let mut reader = Reader::new(&trailer, "index run");
        let (Ok(entries), Ok(filter_bytes), Ok(filter_sum)) =
            (reader.u64(), reader.u64(), reader.array())
        else {
            return Err(damaged());
        };
        let pages = entries.div_ceil(ROWS_PER_PAGE as u64);
        let fence_offset =
            pages.saturating_mul(PAGE_BYTES as u64).saturating_add(HEADER_BYTES as u64);
        let filter_offset = fence_offset.saturating_add(pages.saturating_mul(8));
        if filter_offset.saturating_add(filter_bytes) != end || entries == 0 {
            return Err(damaged());
        }
        let mut fence = vec![0; pages as usize * 8];
        read(file, name, &mut fence, fence_offset)?;
        let mut header = [0; HEADER_BYTES];
        read(file, name, &mut header, 0)?;
        let zeros = header.strip_prefix(&MAGIC).unwrap_or(&[1]);
        let (covered, sum) = trailer.split_at(TRAILER_BYTES - 16);
        // The fence says which page an id is in: a wrong one would make ids seem missing.
        if zeros.iter().any(|byte| *byte != 0) || checksum(&[&fence, covered]) != sum {
            return Err(damaged());
        }
        let fence = fence.as_chunks::<8>().0.iter().map(|first| u64::from_be_bytes(*first));
        let (fence, filter_bytes) = (fence.collect(), filter_bytes as usize);
        Ok(Self { entries, fence, filter_offset, filter_bytes, filter_sum })
    }
}

/// Reads a run.
pub(crate) struct RunReader {
    file: Box<dyn FileReader>,
    name: String,
    ends: Ends,
    filter: std::sync::OnceLock<Vec<u8>>,
}

impl RunReader {
    /// Opens the run `name`.
    pub(crate) fn open(storage: &dyn Storage, name: &str) -> Result<Self> {
        let file = storage.open(name).map_err(|error| refused(name, error))?;
        let ends = afresh(&*file, || Ends::read(&*file, name))?;
        let filter = std::sync::OnceLock::new();
        Ok(Self { file, name: name.to_owned(), ends, filter })
    }

    /// Number of rows.
    pub(crate) fn entries(&self) -> u64 {
        self.ends.entries
    }

    /// Whether the run may have `prefix`; `false` is certain. Loads the filter when first asked:
    /// readers that only restore never do.
    pub(crate) fn may_contain(&self, prefix: &Prefix) -> Result<bool> {
        let filter = match self.filter.get() {
            Some(filter) => filter,
            None => {
                let loaded = self.load_filter()?;
                self.filter.get_or_init(|| loaded)
            }
        };
        Ok(test_filter(filter, prefix))
    }

    /// Where `prefix` lies.
    pub(crate) fn find(&self, prefix: &Prefix) -> Result<Option<RecordLocation>> {
        self.cursor().find(prefix)
    }

    /// A cursor that keeps the page it read last.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        Cursor { run: self, at: usize::MAX, page: Vec::new() }
    }

    /// All rows in order.
    pub(crate) fn stream(&self) -> Stream<'_> {
        Stream { run: self, next_page: 0, rows: Vec::new(), at: 0 }
    }

    fn load_filter(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.ends.filter_bytes];
        afresh(&*self.file, || {
            self.read(&mut bytes, self.ends.filter_offset)?;
            // A filter that lost bits would say "new" of what is there: a waste, and a sign.
            let is_good = checksum(&[&bytes]) == self.ends.filter_sum;
            is_good.then_some(()).ok_or_else(|| self.damaged())
        })?;
        Ok(bytes)
    }

    fn damaged(&self) -> Error {
        Error::IndexDamaged { name: self.name.clone() }
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        read(&*self.file, &self.name, bytes, offset)
    }

    /// The rows of `page` as they lie there, after its checksum was verified.
    fn rows_of<'p>(&self, page: &'p [u8]) -> Result<&'p [[u8; ROW_BYTES]]> {
        let (header, body) = page.split_at(PAGE_HEADER_BYTES);
        let count = usize::from(u16::from_le_bytes([header[0], header[1]]));
        // In one piece, of which several KiB are hashed at once: each lookup verifies a page.
        let mut summed = [0; PAGE_BYTES - PAGE_HEADER_BYTES + 2];
        summed[..2].copy_from_slice(&header[..2]);
        summed[2..].copy_from_slice(body);
        if checksum(&[&summed])[..8] != header[8..16] {
            return Err(self.damaged());
        }
        body.as_chunks::<ROW_BYTES>().0.get(..count).ok_or_else(|| self.damaged())
    }
}

/// What `read` reads from `file`. What this machine keeps of it can be wrong: what is damaged is read once more, past that.
fn afresh<T>(file: &dyn FileReader, mut read: impl FnMut() -> Result<T>) -> Result<T> {
    match read() {
        Err(Error::IndexDamaged { .. }) if file.distrust() => read(),
        read => read,
    }
}

fn read(file: &dyn FileReader, name: &str, bytes: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(bytes, offset).map_err(|error| refused(name, error))
}

/// What the storage does not give is as damaged as what has other bytes: a rebuild makes both.
fn refused(name: &str, error: StorageError) -> Error {
    match error.is_unreadable() {
        true => Error::IndexDamaged { name: name.to_owned() },
        false => error.into(),
    }
}

/// Finds rows one after the other.
pub(crate) struct Cursor<'a> {
    run: &'a RunReader,
    at: usize,
    /// The rows of that page, as they lie there: one of them is wanted.
    page: Vec<[u8; ROW_BYTES]>,
}

impl Cursor<'_> {
    /// The newest place of `prefix`. Cheap when it is in the page of the call before.
    pub(crate) fn find(&mut self, prefix: &Prefix) -> Result<Option<RecordLocation>> {
        let mut first = [0; 8];
        first.copy_from_slice(&prefix[..8]);
        let first = u64::from_be_bytes(first);
        // Equal first bytes may lie at the end of the page before: look from the last page that
        // begins below, up to the last that begins at it.
        let start = self.run.ends.fence.partition_point(|fence| *fence < first).saturating_sub(1);
        let end = self.run.ends.fence.partition_point(|fence| *fence <= first);
        for page in start..end.max(start + 1) {
            self.load(page)?;
            let at = self.page.partition_point(|row| row[..PREFIX_BYTES] < prefix[..]);
            if let Some(row) = self.page.get(at).filter(|row| row[..PREFIX_BYTES] == prefix[..]) {
                return Ok(Some(Row::decode(row).location));
            }
        }
        Ok(None)
    }

    fn load(&mut self, page: usize) -> Result<()> {
        if self.at == page {
            return Ok(());
        }
        let mut bytes = [0; PAGE_BYTES];
        self.page.clear();
        self.at = usize::MAX;
        afresh(&*self.run.file, || {
            self.run.read(&mut bytes, (HEADER_BYTES + page * PAGE_BYTES) as u64)?;
            self.page.extend_from_slice(self.run.rows_of(&bytes)?);
            Ok(())
        })?;
        self.at = page;
        Ok(())
    }
}

/// Reads all rows in order.
pub(crate) struct Stream<'a> {
    run: &'a RunReader,
    next_page: usize,
    rows: Vec<Row>,
    at: usize,
}

impl Stream<'_> {
    /// The next row.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>> {
        if self.at == self.rows.len() && !self.load()? {
            return Ok(None);
        }
        self.at += 1;
        Ok(self.rows.get(self.at - 1).copied())
    }

    fn load(&mut self) -> Result<bool> {
        let count = STREAM_PAGES.min(self.run.ends.fence.len() - self.next_page);
        let mut bytes = vec![0; count * PAGE_BYTES];
        let offset = HEADER_BYTES + self.next_page * PAGE_BYTES;
        self.at = 0;
        afresh(&*self.run.file, || {
            self.run.read(&mut bytes, offset as u64)?;
            self.rows.clear();
            for page in bytes.chunks_exact(PAGE_BYTES) {
                self.rows.extend(self.run.rows_of(page)?.iter().map(Row::decode));
            }
            Ok(())
        })?;
        self.next_page += count;
        Ok(count > 0)
    }
}

/// Durably writes `rows`, in any order and each prefix once, as the run `name`, which nobody has used.
pub(crate) fn write_rows(storage: &dyn Storage, name: &str, rows: &mut [Row]) -> Result<()> {
    rows.sort_unstable_by_key(|row| row.prefix);
    let total = rows.len() as u64;
    let push = |writer: &mut RunWriter| rows.iter().try_for_each(|row| writer.push(*row));
    RunWriter::write(storage, name, total, push).map(|_| ())
}

/// Durably writes `placed` as the run `name` for a time; what an earlier one left of that name goes.
pub(crate) fn write_spill(
    storage: &dyn Storage,
    name: &str,
    placed: &FxHashMap<Prefix, RecordLocation>,
) -> Result<()> {
    storage.remove(name)?;
    write_rows(storage, name, &mut rows_of(placed))
}

/// `placed` as rows.
pub(crate) fn rows_of(placed: &FxHashMap<Prefix, RecordLocation>) -> Vec<Row> {
    let row = |(prefix, location): (&Prefix, &RecordLocation)| Row {
        prefix: *prefix,
        location: *location,
    };
    placed.iter().map(row).collect()
}

fn part_name(name: &str) -> String {
    format!("{name}.part")
}

/// Block and probe bits of a prefix. It is a hash already, so its own bits serve.
fn probes(filter_bytes: usize, prefix: &Prefix) -> (usize, impl Iterator<Item = usize> + use<>) {
    let low = u32::from_le_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]);
    let high = u64::from_le_bytes([
        prefix[0], prefix[1], prefix[2], prefix[3], prefix[4], prefix[5], prefix[6], prefix[7],
    ]);
    let blocks = (filter_bytes / FILTER_BLOCK_BYTES).max(1) as u64;
    let block = ((u64::from(low) * blocks) >> 32) as usize * FILTER_BLOCK_BYTES;
    let bits = (0..FILTER_PROBES).map(move |probe| (high >> (9 * probe)) as usize % 512);
    (block, bits)
}

fn set_filter(filter: &mut [u8], prefix: &Prefix) {
    let (block, bits) = probes(filter.len(), prefix);
    bits.for_each(|bit| filter[block + bit / 8] |= 1 << (bit % 8));
}

fn test_filter(filter: &[u8], prefix: &Prefix) -> bool {
    let (block, mut bits) = probes(filter.len(), prefix);
    bits.all(|bit| filter.get(block + bit / 8).is_none_or(|byte| byte & 1 << (bit % 8) != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStorage;

    fn row(number: u64) -> Row {
        let mut prefix = [0; PREFIX_BYTES];
        let hash = checksum(&[&number.to_le_bytes()]);
        prefix.copy_from_slice(&hash[..PREFIX_BYTES]);
        let location =
            RecordLocation { container: ContainerNo(number), offset: 5, length: 0xff_ffff };
        Row { prefix, location }
    }

    fn run_of(count: u64) -> (tempfile::TempDir, LocalStorage, Vec<Row>) {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path()).unwrap();
        let mut rows: Vec<Row> = (0..count).map(row).collect();
        rows.sort_by_key(|row| row.prefix);
        let mut writer = RunWriter::create(&storage, "run", count).unwrap();
        rows.iter().for_each(|row| writer.push(*row).unwrap());
        writer.finish(&storage).unwrap();
        (directory, storage, rows)
    }

    #[test]
    fn every_row_is_found_and_others_are_not() {
        let (_directory, storage, rows) = run_of(10_000);
        let run = RunReader::open(&storage, "run").unwrap();
        for row in &rows {
            assert!(run.may_contain(&row.prefix).unwrap());
            assert_eq!(run.find(&row.prefix).unwrap(), Some(row.location));
        }
        let others = (10_000..20_000).map(row);
        let maybe = others.filter(|row| run.may_contain(&row.prefix).unwrap()).count();
        assert!(maybe < 100, "{maybe} of 10,000 pass the filter");
        assert_eq!(run.find(&row(20_001).prefix).unwrap(), None);
    }

    #[test]
    fn a_stream_reads_all_in_order() {
        let (_directory, storage, rows) = run_of(20_000);
        let run = RunReader::open(&storage, "run").unwrap();
        let mut stream = run.stream();
        rows.iter().for_each(|row| assert_eq!(stream.next_row().unwrap().as_ref(), Some(row)));
        assert_eq!(stream.next_row().unwrap(), None);
    }

    #[test]
    fn every_flip_in_the_header_of_a_run_is_found() {
        let (directory, storage, _) = run_of(10);
        let path = directory.path().join("run");
        let good = std::fs::read(&path).unwrap();
        for at in 0..HEADER_BYTES {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert!(RunReader::open(&storage, "run").is_err(), "byte {at}");
        }
    }

    #[test]
    fn damage_is_an_error_and_not_a_wrong_answer() {
        let (directory, storage, rows) = run_of(300);
        let path = directory.path().join("run");
        let good = std::fs::read(&path).unwrap();
        for at in (HEADER_BYTES..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            let Ok(run) = RunReader::open(&storage, "run") else { continue };
            let all_right = rows.iter().all(|row| {
                match (run.may_contain(&row.prefix), run.find(&row.prefix)) {
                    (Ok(maybe), Ok(found)) => maybe && found == Some(row.location),
                    _ => true,
                }
            });
            assert!(all_right, "byte {at}");
        }
    }
}
