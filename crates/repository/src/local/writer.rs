//! Files that are written.
//!
//! A container may be written directly, past the cache of the system. Then small appends are gathered, and each write
//! begins and ends at a block; the last one is filled up with zeros, and [`FileWriter::sync`] cuts these off again. What lies on the disk is the same.
//! When the file system refuses, the file goes on through the cache: nothing of it was acknowledged before its sync.

use super::aligned::{ALIGNMENT, AlignedBuffer};
use super::io::LocalIo;
use super::mode::BUFFERED_BYTES;
use crate::storage::{FileWriter, StorageError, StorageResult, write_all};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, Advice, AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::sync::Arc;

/// Write-back is started after this many bytes, so that the final sync is short: 8 MiB.
const WRITE_BACK_BYTES: u64 = 8 << 20;
/// What is gathered before it is written through the cache of the system.
const GATHERED_BYTES: usize = BUFFERED_BYTES as usize;

/// A file of a local storage.
pub(super) struct LocalWriter {
    file: OwnedFd,
    name: String,
    /// Bytes of the file that were written. What waits begins here.
    written: u64,
    /// Up to here write-back was started.
    started: u64,
    /// What waits to be written; `None` when nothing is gathered.
    waiting: Option<AlignedBuffer>,
    /// Whether some of it was not written yet.
    is_dirty: bool,
    /// Where direct writes may begin and end, in bytes; `None` while the file is written through the cache.
    unit: Option<usize>,
    /// Most bytes of a write through the cache.
    piece_bytes: usize,
    io: Arc<LocalIo>,
}

impl LocalWriter {
    /// Writes `file` as it comes.
    pub(super) fn plain(file: OwnedFd, name: &str, io: &Arc<LocalIo>) -> Self {
        let (written, started, waiting, is_dirty, unit) = Default::default();
        let (name, io, method) = (name.to_owned(), io.clone(), io.method());
        let piece_bytes =
            if method.is_direct { GATHERED_BYTES } else { method.block_bytes as usize };
        Self { file, name, written, started, waiting, is_dirty, unit, piece_bytes, io }
    }

    /// Writes `file` directly, in large pieces, if the storage is so and `file` can. What goes through the cache is not
    /// gathered: the system does that, and the next writer finds all that a killed one had appended.
    pub(super) fn gathering(file: OwnedFd, name: &str, io: &Arc<LocalIo>) -> Self {
        let method = io.method();
        let unit = if method.is_direct { make_direct(&file, io) } else { None };
        let waiting = unit.map(|_| AlignedBuffer::new(method.block_bytes as usize));
        let mut writer = Self::plain(file, name, io);
        (writer.waiting, writer.unit) = (waiting, unit);
        writer
    }

    fn failed(&self, operation: &'static str, error: impl Into<io::Error>) -> StorageError {
        StorageError::new(operation, &self.name, error)
    }

    /// Writes `parts` at the end through the cache.
    fn write(&mut self, parts: &[&[u8]]) -> StorageResult<()> {
        let (file, at) = (&self.file, self.written);
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let write = |slices: &[IoSlice<'_>], written: usize| {
            let piece = first_of(slices, self.piece_bytes);
            Ok(rustix::io::pwritev(file, &piece, at + written as u64)?)
        };
        let done = self.io.counters.write.time(bytes, || write_all(parts, write));
        done.map_err(|error| self.failed("write", error))?;
        self.written += bytes;
        self.start_write_back();
        Ok(())
    }

    fn start_write_back(&mut self) {
        let bytes = self.written - self.started;
        if bytes >= WRITE_BACK_BYTES {
            crate::system::start_write_back(self.file.as_fd(), self.started, bytes);
            self.started = self.written;
        }
    }

    fn gather(&mut self, parts: &[&[u8]], waiting: &mut AlignedBuffer) -> StorageResult<()> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.unit.is_none() && waiting.length() + bytes >= GATHERED_BYTES {
            // One call, and what is large is not copied.
            self.write(&[&[waiting.bytes()], parts].concat())?;
            waiting.drop_front(waiting.length());
            self.is_dirty = false;
            return Ok(());
        }
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                rest = &rest[waiting.push(rest)..];
                self.is_dirty = true;
                if waiting.is_full() {
                    self.flush(waiting)?;
                }
            }
        }
        Ok(())
    }

    /// Writes what waits; of a direct file only whole blocks.
    fn flush(&mut self, waiting: &mut AlignedBuffer) -> StorageResult<()> {
        if let Some(unit) = self.unit {
            let whole = waiting.length() - waiting.length() % unit;
            if self.write_direct(&waiting.bytes()[..whole])? {
                self.written += whole as u64;
                waiting.drop_front(whole);
                return Ok(());
            }
        }
        self.write(&[waiting.bytes()])?;
        waiting.drop_front(waiting.length());
        Ok(())
    }

    /// Writes whole blocks at the end; `false` if the file goes on through the cache.
    fn write_direct(&mut self, blocks: &[u8]) -> StorageResult<bool> {
        if blocks.is_empty() {
            return Ok(true);
        }
        let pwrite = || loop {
            #[cfg(test)]
            if let Some(outcome) = tests::outcome(&self.file, blocks, self.written) {
                return outcome;
            }
            match rustix::io::pwrite(&self.file, blocks, self.written) {
                Err(Errno::INTR) => {}
                done => return done,
            }
        };
        match self.io.counters.write.time(blocks.len() as u64, pwrite) {
            Ok(count) if count == blocks.len() => Ok(true),
            Ok(count) => self.give_up(&format!("it took {count} of {} bytes", blocks.len())),
            Err(error @ (Errno::INVAL | Errno::OPNOTSUPP)) => self.give_up(&error.to_string()),
            Err(error) => Err(self.failed("write", error)),
        }
    }

    /// From here on through the cache.
    fn give_up(&mut self, why: &str) -> StorageResult<bool> {
        self.io.refuse_direct(why);
        self.leave_direct().map_err(|error| self.failed("write", error))?;
        Ok(false)
    }

    fn leave_direct(&mut self) -> rustix::io::Result<()> {
        self.unit = None;
        self.started = self.written;
        let flags = fs::fcntl_getfl(&self.file)?;
        fs::fcntl_setfl(&self.file, flags.difference(OFlags::DIRECT))
    }

    /// Writes all that waits. Of a direct file the last block stays in memory: what is appended after a sync
    /// completes it.
    fn flush_end(&mut self, waiting: &mut AlignedBuffer) -> StorageResult<()> {
        self.flush(waiting)?;
        if let Some(unit) = self.unit
            && waiting.length() > 0
        {
            if !self.write_direct(waiting.padded(unit))? {
                self.flush(waiting)?;
            }
            // The zeros; also those of a write that was taken in part.
            let length = self.written + waiting.length() as u64;
            fs::ftruncate(&self.file, length).map_err(|error| self.failed("cut", error))?;
        }
        self.is_dirty = false;
        Ok(())
    }

    fn sync_data(&self) -> rustix::io::Result<()> {
        #[cfg(test)]
        if tests::FAILS_TO_SYNC.take() {
            return Err(Errno::IO);
        }
        fs::fdatasync(&self.file)
    }

    fn with_waiting(
        &mut self,
        work: impl FnOnce(&mut Self, &mut AlignedBuffer) -> StorageResult<()>,
    ) -> StorageResult<()> {
        let Some(mut waiting) = self.waiting.take() else { return Ok(()) };
        let done = work(self, &mut waiting);
        self.waiting = Some(waiting);
        done
    }
}

impl FileWriter for LocalWriter {
    fn append(&mut self, parts: &[&[u8]]) -> StorageResult<()> {
        match self.waiting {
            Some(_) => self.with_waiting(|writer, waiting| writer.gather(parts, waiting)),
            None => self.write(parts),
        }
    }

    fn sync(&mut self) -> StorageResult<()> {
        #[cfg(test)]
        super::tests::note_sync(&self.name);
        self.with_waiting(Self::flush_end)?;
        if let Err(error) = self.io.counters.sync.time(0, || self.sync_data()) {
            if self.unit.is_some() {
                self.io.refuse_direct(&format!("a sync failed: {error}"));
            }
            return Err(self.failed("sync", error));
        }
        // What was written will not be read soon: the host keeps its cache for its own files.
        let _ = fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        Ok(())
    }
}

impl Drop for LocalWriter {
    /// The next writer saves the whole records of a container that was given up, so they are written, if possible.
    fn drop(&mut self) {
        if self.is_dirty && self.leave_direct().is_ok() {
            let _ = self.with_waiting(Self::flush);
        }
    }
}

/// The first `bytes` of `slices`.
fn first_of<'a>(slices: &'a [IoSlice<'_>], mut bytes: usize) -> Vec<IoSlice<'a>> {
    let cut = slices.iter().map(|slice| {
        let taken = slice.len().min(bytes);
        bytes -= taken;
        IoSlice::new(&slice[..taken])
    });
    cut.take_while(|slice| !slice.is_empty()).collect()
}

/// Makes the empty `file` one that is written directly; returns the unit of its writes in bytes, or `None` when it
/// stays as it is. Whether it is possible depends on the file: its attributes, and where it lies.
fn make_direct(file: &OwnedFd, io: &LocalIo) -> Option<usize> {
    let unit = match direct_unit(file) {
        Some(unit) if unit <= ALIGNMENT => unit,
        Some(unit) => {
            io.refuse_direct(&format!("its blocks have {unit} bytes"));
            return None;
        }
        // Network file systems do not say. Who wants it all the same, gets it.
        None if io.is_forced() => ALIGNMENT,
        None => {
            io.refuse_direct("the file system does not say that it can");
            return None;
        }
    };
    let flags = fs::fcntl_getfl(file).ok()?;
    match fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
        Ok(()) => Some(unit),
        Err(error) => {
            io.refuse_direct(&error.to_string());
            None
        }
    }
}

/// What the system says of direct writes to `file`: the larger one of the alignments of memory and offset, in bytes.
/// `None` if it says nothing, or that there are none.
pub(super) fn direct_unit(file: &OwnedFd) -> Option<usize> {
    let found = fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let said = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN);
    let (memory, offset) = (found.stx_dio_mem_align, found.stx_dio_offset_align);
    let is_power = memory.is_power_of_two() && offset.is_power_of_two(); // 0 is none
    (said && is_power).then_some(memory.max(offset) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::LocalStorage;
    use super::super::mode::{IoMode, IoSettings, Method, Tuning};
    use super::super::tune::put_settings;
    use super::*;
    use crate::storage::{Storage, read_small};
    use std::cell::{Cell, RefCell};

    const NAME: &str = "containers/x.part";

    thread_local! {
        /// What direct writes of this thread do instead: an error, or to take so many bytes.
        static OUTCOMES: RefCell<Vec<rustix::io::Result<usize>>> = RefCell::default();
    }

    thread_local! {
        /// The next sync of this thread fails.
        pub(super) static FAILS_TO_SYNC: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn outcome(
        file: &OwnedFd,
        blocks: &[u8],
        at: u64,
    ) -> Option<rustix::io::Result<usize>> {
        let outcome = OUTCOMES.with_borrow_mut(Vec::pop)?;
        if let Ok(count) = outcome {
            let flags = fs::fcntl_getfl(file).unwrap();
            fs::fcntl_setfl(file, flags.difference(OFlags::DIRECT)).unwrap();
            rustix::io::pwrite(file, &blocks[..count], at).unwrap();
            fs::fcntl_setfl(file, flags).unwrap();
        }
        Some(outcome)
    }

    fn storage(mode: IoMode) -> (tempfile::TempDir, LocalStorage) {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        let chosen = Method { is_direct: true, block_bytes: 256 << 10 };
        let tuning = Some(Tuning { time_secs: 1, chosen, rows: Vec::new() });
        put_settings(&storage, &IoSettings { mode, tuning }).unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        storage.create_directory("containers").unwrap();
        (folder, storage)
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 251 + at % 251) as u8).collect()
    }

    /// Writes `length` bytes in pieces of `piece`; what the file holds after the sync.
    fn written(storage: &LocalStorage, length: usize, piece: usize) -> Vec<u8> {
        storage.remove(NAME).unwrap();
        let (mut file, data) = (storage.create(NAME).unwrap(), bytes(length));
        for part in data.chunks(piece) {
            let (first, rest) = part.split_at(part.len() / 3);
            file.append(&[first, b"", rest]).unwrap();
        }
        file.sync().unwrap();
        read_small(storage, NAME, length + (1 << 20)).unwrap()
    }

    /// Below, at and above a sector, a block of memory and a write, in pieces of all sizes.
    #[test]
    fn what_is_written_directly_is_what_is_written_through_the_cache() {
        let sizes = [1, 511, 512, 513, 4095, 4096, 4097, 262_143, 262_144, 262_145, 900_000];
        for mode in [IoMode::Direct, IoMode::Auto, IoMode::Buffered] {
            let (_folder, storage) = storage(mode);
            for length in sizes.into_iter().chain([0]) {
                for piece in [1 + length / 7, 4096, 300_000] {
                    let found = written(&storage, length, piece);
                    assert_eq!(found.len(), length, "{mode}, pieces of {piece}");
                    assert!(found == bytes(length), "{mode}: {length} in pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn a_file_is_written_directly_where_the_file_system_says_that_it_can() {
        for mode in [IoMode::Auto, IoMode::Buffered] {
            let (folder, storage) = storage(mode);
            let file = std::fs::File::create(folder.path().join("a")).unwrap();
            let can = direct_unit(&file.into()).is_some_and(|unit| unit <= ALIGNMENT);
            let file = storage.open_file("create", "b", OFlags::RDWR | OFlags::CREATE).unwrap();
            let writer = LocalWriter::gathering(file, "b", &storage.io);
            assert_eq!(writer.unit.is_some(), can && mode == IoMode::Auto);
        }
    }

    /// The engine appends nothing after a sync; a measurement does.
    #[test]
    fn what_is_appended_after_a_sync_follows_what_was_there() {
        let (_folder, storage) = storage(IoMode::Direct);
        let (mut file, data) = (storage.create(NAME).unwrap(), bytes(700_000));
        for part in data.chunks(100_001) {
            file.append(&[part]).unwrap();
            file.sync().unwrap();
        }
        assert!(read_small(&storage, NAME, 1 << 20).unwrap() == data);
    }

    #[test]
    fn a_direct_write_that_is_refused_or_short_goes_on_through_the_cache() {
        let outcomes =
            [Err(Errno::INVAL), Err(Errno::OPNOTSUPP), Ok(0), Ok(100), Ok(4096), Ok(5000)];
        for outcome in outcomes {
            for at in 0..3 {
                let (_folder, storage) = storage(IoMode::Direct);
                let mut file = storage.create(NAME).unwrap();
                let data = bytes(600_000);
                for (number, part) in data.chunks(262_144).enumerate() {
                    OUTCOMES.with_borrow_mut(|all| all.extend((number == at).then_some(outcome)));
                    file.append(&[part]).unwrap();
                    if number == 2 {
                        file.sync().unwrap();
                    }
                }
                OUTCOMES.take();
                let found = read_small(&storage, NAME, 1 << 20).unwrap();
                assert!(found == data, "{outcome:?} at the write {at}: {}", found.len());
                assert_eq!(storage.io.method(), Method::BUFFERED, "the next one is not tried");
            }
        }
    }

    /// A last write that took zeros beyond the end, and was then refused.
    #[test]
    fn zeros_that_fill_a_block_never_stay() {
        for outcome in [Ok(512), Err(Errno::INVAL)] {
            let (_folder, storage) = storage(IoMode::Direct);
            let mut file = storage.create(NAME).unwrap();
            file.append(&[&[7; 100]]).unwrap();
            OUTCOMES.set(vec![outcome]);
            file.sync().unwrap();
            OUTCOMES.take();
            assert_eq!(read_small(&storage, NAME, 1 << 20).unwrap(), [7; 100]);
        }
    }

    #[test]
    fn an_error_of_the_disk_is_an_error_and_not_a_reason_to_try_otherwise() {
        let (_folder, storage) = storage(IoMode::Direct);
        let mut file = storage.create(NAME).unwrap();
        OUTCOMES.set(vec![Err(Errno::IO)]);
        let failed = file.append(&[&[1; 300_000]]).and_then(|()| file.sync());
        OUTCOMES.take();
        assert_eq!(failed.unwrap_err().operation, "write");
    }

    /// The engine writes what such a file held once more; that copy must not fail in the same way.
    #[test]
    fn after_a_direct_file_that_could_not_be_synced_the_next_one_is_buffered() {
        let (_folder, storage) = storage(IoMode::Direct);
        let mut file = storage.create(NAME).unwrap();
        file.append(&[&[7; 10_000]]).unwrap();
        FAILS_TO_SYNC.set(true);
        assert_eq!(file.sync().unwrap_err().operation, "sync");
        assert_eq!(storage.io.method(), Method::BUFFERED);
        assert_eq!(read_small(&storage, NAME, 1 << 20).unwrap(), [7; 10_000]);
    }

    /// A session that failed leaves what it appended to the next writer.
    #[test]
    fn what_was_appended_to_a_container_that_is_given_up_is_written() {
        for mode in [IoMode::Direct, IoMode::Buffered] {
            let (_folder, storage) = storage(mode);
            let mut file = storage.create(NAME).unwrap();
            file.append(&[&bytes(300_000)]).unwrap();
            file.append(&[b"end"]).unwrap();
            drop(file);
            let found = read_small(&storage, NAME, 1 << 20).unwrap();
            assert!(found == [&bytes(300_000)[..], b"end"].concat(), "{mode}");
        }
    }

    #[test]
    fn nothing_of_a_container_stays_in_the_cache() {
        for mode in [IoMode::Direct, IoMode::Auto, IoMode::Buffered] {
            let (_folder, storage) = storage(mode);
            drop(storage.create(NAME).unwrap());
            written_and_cold(&storage);
        }
    }

    fn written_and_cold(storage: &LocalStorage) {
        storage.remove(NAME).unwrap();
        let mut file = storage.create(NAME).unwrap();
        file.append(&[&bytes(3 << 20)]).unwrap();
        file.sync().unwrap();
        let file = storage.open_file("open", NAME, OFlags::RDONLY).unwrap();
        let is_memory = fs::fstatfs(&file).is_ok_and(|found| found.f_type == 0x0102_1994); // tmpfs
        if let Some(pages) = crate::system::cached_pages(file.as_fd()) {
            assert!(pages < 64 || is_memory, "{pages} pages");
        }
    }
}
