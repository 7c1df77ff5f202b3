//! Benchmarks of walking and reading alone, for `icecore bench walk|read`.

use crate::read::{LargeFileReader, Piece, ReadOptions, SmallFileReader};
use crate::walk::{Directory, Row, SourceRoot, Walk, WalkError, WalkEvent, WalkOptions};
use crossbeam_channel::{Receiver, bounded};
use format::entry::Kind;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Files up to this size are read at once.
const SMALL_BYTES: u64 = 1024 * 1024;
/// Files in one message to a reader.
const BATCH: usize = 64;

/// The result of a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BenchResult {
    /// Objects visited.
    pub entries: u64,
    /// Directories among them.
    pub directories: u64,
    /// Regular files among them.
    pub files: u64,
    /// For a walk, the sizes of the files; for a read, the bytes that were read.
    pub bytes: u64,
    /// Objects that could not be inspected or read.
    pub problems: u64,
    /// Wall time in seconds.
    pub secs: f64,
}

/// Walks and visits every object.
pub fn bench_walk(roots: &[SourceRoot], threads: usize) -> Result<BenchResult, WalkError> {
    let mut bytes = 0_u64;
    let mut figures = measure(roots, threads, |_, _, row| bytes = bytes.saturating_add(row.size))?;
    figures.bytes = bytes;
    Ok(figures)
}

type Batch = Vec<(Arc<Directory>, CString, Row)>;

/// Walks, and reads every file with `threads` more threads; the content is discarded.
pub fn bench_read(roots: &[SourceRoot], threads: usize) -> Result<BenchResult, WalkError> {
    let (bytes, problems) = (AtomicU64::new(0), AtomicU64::new(0));
    let (sender, receiver) = bounded::<Batch>(4 * threads.max(1));
    let start = Instant::now();
    let mut figures = std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| read_batches(receiver.clone(), &bytes, &problems));
        }
        let mut batch = Batch::new();
        let figures = measure(roots, threads, |directory, name, row| {
            batch.push((directory.clone(), name.into(), row.clone()));
            if batch.len() >= BATCH {
                let _ = sender.send(std::mem::take(&mut batch)); // the readers live as long as we
            }
        });
        let _ = sender.send(batch);
        drop(sender);
        figures
    })?;
    figures.bytes = bytes.into_inner();
    figures.problems += problems.into_inner();
    figures.secs = start.elapsed().as_secs_f64();
    Ok(figures)
}

fn measure(
    roots: &[SourceRoot],
    threads: usize,
    mut file: impl FnMut(&Arc<Directory>, &std::ffi::CStr, &Row),
) -> Result<BenchResult, WalkError> {
    let start = Instant::now();
    let mut walk = Walk::start(roots, WalkOptions { threads, ..WalkOptions::default() })?;
    let mut figures = BenchResult::default();
    while let Some(event) = walk.next() {
        let WalkEvent::Entry(found) = event else {
            figures.problems += 1;
            continue;
        };
        figures.entries += 1;
        figures.directories += u64::from(found.row.kind == Kind::Directory);
        if found.row.kind == Kind::File {
            figures.files += 1;
            file(found.directory, found.name, found.row);
        }
    }
    figures.secs = start.elapsed().as_secs_f64();
    Ok(figures)
}

fn read_batches(batches: Receiver<Batch>, bytes: &AtomicU64, problems: &AtomicU64) {
    let (reader, mut buffer) = (SmallFileReader::default(), Vec::new());
    for (directory, name, row) in batches.into_iter().flatten() {
        let read = if row.size <= SMALL_BYTES {
            reader
                .run(&directory, &name, &row, &mut buffer)
                .map(|read| read.map_or(0, |read| read.outcome.row.size))
        } else {
            read_large(&directory, &name, &row, &mut buffer, &reader.options)
        };
        match read {
            Ok(length) => bytes.fetch_add(length, Ordering::Relaxed),
            Err(_) => problems.fetch_add(1, Ordering::Relaxed),
        };
    }
}

fn read_large(
    directory: &Arc<Directory>,
    name: &std::ffi::CStr,
    row: &Row,
    buffer: &mut Vec<u8>,
    options: &ReadOptions,
) -> Result<u64, crate::CaptureProblem> {
    let room = SMALL_BYTES as usize;
    if buffer.len() < room {
        buffer.resize(room, 0);
    }
    let mut file = LargeFileReader::open(directory, name, row, options)?;
    while file.next(&mut buffer[..room])? != Piece::End {}
    Ok(file.finish()?.row.size)
}
