//! Measures a directory: how fast files become durable, and how fast they are read again, for each way to write them.

use super::LocalStorage;
use super::histogram::{Latencies, process_cpu_ns};
use super::mode::{IoMode, IoSettings, Measured, Method, Tuning};
use crate::storage::{FileReader, Storage, StorageError, StorageResult};
use rustix::fd::AsFd;
use rustix::fs::{self, Advice, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Free space that stays beside what is written: 64 MiB.
const SPARE_BYTES: u64 = 64 << 20;
/// Length of a random read: 64 KiB.
const RANDOM_BYTES: usize = 64 << 10;
/// Pages that may be in the cache of what was written directly: those of the last block.
const CACHED_PAGES_MAX: u64 = 16;
/// A GiB, of which the processor time is told.
const GIB: f64 = (1_u64 << 30) as f64;

/// What is measured.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// Ways to write. Also those through the cache write so many bytes at once.
    pub methods: Vec<Method>,
    /// Files at the same time.
    pub streams: Vec<u32>,
    /// How often each of them is measured. The rounds take turns, so that a busy moment does not meet one way alone.
    pub rounds: u32,
    /// Bytes of a row, of all its streams together.
    pub row_bytes: u64,
    /// Random reads of a row.
    pub random_reads: u32,
    /// Nothing is begun after this time.
    pub limit: Duration,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct SweepRow {
    /// What `auto` needs of it.
    pub measured: Measured,
    /// Time from the first write until all was durable, in seconds.
    pub durable_secs: f64,
    /// Writes.
    pub write: Latencies,
    /// Syncs, one for each stream.
    pub sync: Latencies,
    /// Random reads.
    pub random: Latencies,
}

impl SweepPlan {
    /// The whole sweep: 256 KiB to 8 MiB, with 1, 4 and 16 streams.
    pub fn whole(row_bytes: u64, limit: Duration) -> Self {
        let of =
            |is_direct| (18..=23).map(move |power| Method { is_direct, block_bytes: 1 << power });
        // One beside the other, so that both were measured when the time is over.
        let methods = of(false).zip(of(true)).flat_map(|pair| [pair.0, pair.1]).collect();
        Self { methods, streams: vec![1, 4, 16], rounds: 1, row_bytes, random_reads: 64, limit }
    }

    /// What `auto` needs, in seconds.
    pub fn short(limit: Duration) -> Self {
        let direct = [18, 20, 22].map(|power| Method { is_direct: true, block_bytes: 1 << power });
        let methods = [&[Method::BUFFERED][..], &direct].concat();
        Self {
            methods,
            streams: vec![1, 4],
            rounds: 3,
            row_bytes: 64 << 20,
            random_reads: 0,
            limit,
        }
    }

    /// Rows that it has.
    pub fn rows(&self) -> usize {
        self.methods.len() * self.streams.len() * self.rounds as usize
    }

    /// The rows in the order in which they are measured.
    fn steps(&self) -> Vec<(Method, u32)> {
        let of = |streams: &u32| {
            let streams = *streams;
            self.methods.iter().map(move |method| (*method, streams))
        };
        let round: Vec<_> = self.streams.iter().flat_map(of).collect();
        round.repeat(self.rounds as usize)
    }
}

/// The directories that are written below a pool; the number of the process follows.
const BELOW: &str = "icecore-bench-";

/// Measures the directory `path`, and removes again what it wrote. `tell` gets each row, and says whether to go on.
///
/// # Errors
/// [`StorageError::is_full`] before anything is written, if there is too little space; those of the storage.
pub fn sweep(
    path: &Path,
    plan: &SweepPlan,
    tell: &mut dyn FnMut(&SweepRow) -> bool,
) -> StorageResult<Vec<SweepRow>> {
    let storage = LocalStorage::open(path)?;
    if storage.free_bytes()? < plan.row_bytes + plan.row_bytes / 4 + SPARE_BYTES {
        return Err(StorageError::new("measure", &storage.describe(), Errno::NOSPC));
    }
    remove_left(path);
    let below = path.join(format!("{BELOW}{}", std::process::id()));
    let result = rows(&below, plan, tell);
    let removed = std::fs::remove_dir_all(&below);
    let rows = result?;
    removed.map_err(|error| StorageError::new("remove", &below.to_string_lossy(), error))?;
    Ok(rows)
}

/// Removes what was written by those that were killed. A process of another machine that measures now measures again.
fn remove_left(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(BELOW)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn rows(
    below: &Path,
    plan: &SweepPlan,
    tell: &mut dyn FnMut(&SweepRow) -> bool,
) -> StorageResult<Vec<SweepRow>> {
    let (start, mut rows) = (Instant::now(), Vec::new());
    let data = noise(8 << 20);
    for (method, streams) in plan.steps() {
        if start.elapsed() > plan.limit {
            break;
        }
        let row = measure(below, plan, (method, streams), &data)?;
        rows.push(row);
        if !tell(&row) {
            break;
        }
    }
    Ok(rows)
}

/// Bytes that no disk makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

/// A storage that writes in one way, whatever the settings of the directory are.
fn storage_of(below: &Path, method: Method) -> StorageResult<LocalStorage> {
    let (mode, time_secs) = (IoMode::Auto, 0);
    let tuning = Tuning { time_secs, chosen: method, rows: Vec::new() };
    std::fs::create_dir_all(below)
        .map_err(|error| StorageError::new("create", &below.to_string_lossy(), error))?;
    LocalStorage::open_with(below, IoSettings { mode, tuning: Some(tuning) })
}

fn name(stream: u32) -> String {
    format!("containers/{stream}")
}

fn measure(
    below: &Path,
    plan: &SweepPlan,
    (method, streams): (Method, u32),
    data: &[u8],
) -> StorageResult<SweepRow> {
    let storage = storage_of(below, method)?;
    storage.create_directory("containers")?;
    let bytes = (plan.row_bytes / u64::from(streams)).next_multiple_of(method.block_bytes);
    let total = (bytes * u64::from(streams)) as f64;
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    let was_buffered = AtomicBool::new(false);
    in_parallel(streams, |stream| {
        let is_cached = write(&storage, &name(stream), (method, bytes), data)?;
        was_buffered.fetch_or(is_cached, Relaxed);
        Ok(())
    })?;
    let (durable_secs, cpu_ns) = (start.elapsed().as_secs_f64(), process_cpu_ns() - cpu);
    let counters = &storage.io.counters;
    let (write, sync) = (counters.write.latencies(), counters.sync.latencies());
    let start = Instant::now();
    in_parallel(streams, |stream| read(&*storage.open(&name(stream))?, bytes))?;
    let read_secs = start.elapsed().as_secs_f64();
    let random = read_randomly(&storage, (streams, bytes), plan.random_reads)?;
    (0..streams).try_for_each(|stream| storage.remove(&name(stream)))?;
    // A file system that has refused was not written directly.
    let was_refused = storage.io.method() != method;
    let measured = Measured {
        method,
        streams,
        durable_bytes_per_sec: total / durable_secs.max(1e-9),
        cpu_secs_per_gib: cpu_ns as f64 / 1e9 * GIB / total,
        read_bytes_per_sec: total / read_secs.max(1e-9),
        was_buffered: method.is_direct && (was_refused || was_buffered.into_inner()),
    };
    Ok(SweepRow { measured, durable_secs, write, sync, random })
}

fn in_parallel(streams: u32, work: impl Fn(u32) -> StorageResult<()> + Sync) -> StorageResult<()> {
    let work = &work;
    std::thread::scope(|scope| {
        let begin = |stream| {
            let begun = std::thread::Builder::new().spawn_scoped(scope, move || work(stream));
            begun.map_err(|error| StorageError::new("measure", "a stream", error))
        };
        let threads = (0..streams).map(begin).collect::<StorageResult<Vec<_>>>()?;
        let lost = || Err(StorageError::new("measure", "a stream", std::io::ErrorKind::Other));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| lost()))
    })
}

/// Writes a file; whether it was in the cache before it was durable.
fn write(
    storage: &LocalStorage,
    name: &str,
    (method, bytes): (Method, u64),
    data: &[u8],
) -> StorageResult<bool> {
    let mut file = storage.create(name)?;
    let block = &data[..method.block_bytes as usize];
    (0..bytes / method.block_bytes).try_for_each(|_| file.append(&[block]))?;
    // The sync drops it from the cache.
    let is_cached = storage.is_cached(name)?;
    file.sync()?;
    Ok(is_cached)
}

fn read(file: &dyn FileReader, bytes: u64) -> StorageResult<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut offsets = (0..bytes).step_by(buffer.len());
    offsets.try_for_each(|offset| {
        let length = buffer.len().min((bytes - offset) as usize);
        file.read_exact_at(&mut buffer[..length], offset)
    })
}

/// Reads pieces anywhere in the files, none of which the system has in its cache.
fn read_randomly(
    storage: &LocalStorage,
    (streams, bytes): (u32, u64),
    count: u32,
) -> StorageResult<Latencies> {
    let histogram = super::Histogram::new();
    let mut buffer = vec![0; RANDOM_BYTES];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in 0..count {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = name(at % streams);
        storage.drop_cache(&name)?;
        let file = storage.open(&name)?;
        let offset = (state >> 33) % (bytes - RANDOM_BYTES as u64 + 1);
        histogram.time(RANDOM_BYTES as u64, || file.read_exact_at(&mut buffer, offset))?;
    }
    Ok(histogram.latencies())
}

impl LocalStorage {
    fn is_cached(&self, name: &str) -> StorageResult<bool> {
        let file = self.open_file("open", name, OFlags::RDONLY)?;
        Ok(crate::system::cached_pages(file.as_fd()).is_some_and(|pages| pages > CACHED_PAGES_MAX))
    }

    fn drop_cache(&self, name: &str) -> StorageResult<()> {
        let file = self.open_file("open", name, OFlags::RDONLY)?;
        let _ = fs::fadvise(&file, 0, None, Advice::DontNeed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_tells_each_row_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let plan = SweepPlan {
            methods: vec![Method::BUFFERED, Method::DIRECT],
            streams: vec![1, 2],
            rounds: 2,
            row_bytes: 4 << 20,
            random_reads: 3,
            limit: Duration::from_secs(600),
        };
        let mut told = 0;
        let rows = sweep(folder.path(), &plan, &mut |_| {
            told += 1;
            true
        });
        let rows = rows.unwrap();
        assert_eq!((rows.len(), told), (plan.rows(), plan.rows()));
        for row in rows {
            assert!(row.measured.durable_bytes_per_sec > 0.0 && row.durable_secs > 0.0);
            assert_eq!(row.write.bytes, 4 << 20, "of this row alone");
            assert_eq!(row.sync.count, u64::from(row.measured.streams));
            assert_eq!(row.random.count, 3);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_sweep_that_is_stopped_or_has_no_space_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // No system gives so high a number to a process.
        let killed = folder.path().join("icecore-bench-4294967295");
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join("row"), "what it wrote").unwrap();
        let other = folder.path().join("icecore-bench-1");
        std::fs::create_dir(&other).unwrap();
        let plan = SweepPlan { row_bytes: 1 << 20, ..SweepPlan::short(Duration::from_secs(60)) };
        assert_eq!(sweep(folder.path(), &plan, &mut |_| false).unwrap().len(), 1);
        let greedy = SweepPlan { row_bytes: 1 << 60, ..plan };
        assert!(sweep(folder.path(), &greedy, &mut |_| true).unwrap_err().is_full());
        assert!(!killed.exists() && other.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
