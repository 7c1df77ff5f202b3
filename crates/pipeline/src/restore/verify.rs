//! Third pass: everything is read again and compared with the snapshot. Chunks are compared by
//! their ids, so nothing is fetched.

use super::entries::{Entries, Next};
use super::plan::RunReader;
use super::work::RestoreContext;
use super::{Counters, threads};
use crate::pages::PageReader;
use crate::{Error, Result};
use crossbeam_channel::Receiver;
use format::entry::{Content, Entry, Kind, Segment};
use restore::Attribute;
use std::fs::File;
use std::io::Read;

/// Objects in one batch.
const BATCH: usize = 64;

/// Runs the pass.
pub(super) fn run(shared: &RestoreContext<'_>, entries: &mut Entries<'_>) -> Result<()> {
    let threads = threads(shared.options);
    let (queue, batches) = crossbeam_channel::bounded::<Vec<Entry>>(threads * 8);
    std::thread::scope(|scope| {
        let workers = crate::threads::start(scope, threads, move || work(shared, &batches))?;
        let mut batch = Vec::new();
        loop {
            match entries.step()? {
                Next::Entry(selected) if selected.wanted => batch.push(selected.entry),
                Next::Entry(_) => {}
                Next::Lost(lost) => shared.lost_page(&lost),
                Next::End => break,
            }
            if batch.len() >= BATCH {
                queue.send(std::mem::take(&mut batch)).map_err(|_| Error::WorkerPanicked)?;
            }
        }
        queue.send(batch).map_err(|_| Error::WorkerPanicked)?;
        drop(queue);
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or(Err(Error::WorkerPanicked)))
    })
}

fn work(shared: &RestoreContext<'_>, batches: &Receiver<Vec<Entry>>) -> Result<()> {
    let pages = PageReader::new(shared.repository)?;
    let mut buffer = Vec::new();
    for batch in batches {
        shared.check()?;
        batch.iter().for_each(|entry| object(shared, &pages, entry, &mut buffer));
    }
    Ok(())
}

/// Compares one object. Differences are reported in one line, unless its failure was reported
/// already.
fn object(
    shared: &RestoreContext<'_>,
    pages: &PageReader<'_>,
    entry: &Entry,
    buffer: &mut Vec<u8>,
) {
    Counters::add(&shared.counters.verified, 1);
    let entry = &*shared.whole(entry);
    let mut differing: Vec<String> = shared
        .target
        .compare_metadata(entry)
        .iter()
        .map(|difference| difference.attribute.to_string())
        .collect();
    let is_there = !differing.contains(&Attribute::Presence.to_string());
    if entry.kind() == Kind::File && is_there {
        match content(shared, pages, entry, buffer) {
            Ok(true) => {}
            Ok(false) => differing.push("content".into()),
            Err(text) => differing.push(format!("content ({text})")),
        }
    }
    if differing.is_empty() {
        return;
    }
    Counters::add(&shared.counters.differing, 1);
    if !shared.is_reported(&entry.path) {
        let text = format!("differs from the snapshot: {}", differing.join(", "));
        shared.monitor.problem(&entry.path, &text);
    }
}

/// Whether an existing file has the content of the entry; if either cannot be read, it has not.
pub(super) fn has_content(
    shared: &RestoreContext<'_>,
    pages: &PageReader<'_>,
    entry: &Entry,
    buffer: &mut Vec<u8>,
) -> Result<bool> {
    shared.check()?;
    Ok(content(shared, pages, entry, buffer).unwrap_or(false))
}

/// Whether the bytes of the file are those of the snapshot.
fn content(
    shared: &RestoreContext<'_>,
    pages: &PageReader<'_>,
    entry: &Entry,
    buffer: &mut Vec<u8>,
) -> std::result::Result<bool, String> {
    let file = shared.target.open_for_verify(&entry.path).map_err(|problem| problem.reason())?;
    if let Content::Inline(bytes) = &entry.content {
        return same(&file, bytes.len() as u64, buffer, |read| read == bytes);
    }
    let ids = &shared.repository.keys.writer.ids;
    for run in RunReader::of(pages, entry) {
        let equal = match run.map_err(|error| error.to_string())? {
            Segment::Data(id, length) => {
                same(&file, length.into(), buffer, |read| ids.is_chunk(&id, read))?
            }
            Segment::Hole(length) => zeros(&file, length, buffer)?,
        };
        if !equal {
            return Ok(false);
        }
    }
    let mut one = [0];
    Ok((&file).read(&mut one).map_err(|error| error.to_string())? == 0)
}

fn same(
    mut file: &File,
    length: u64,
    buffer: &mut Vec<u8>,
    is_same: impl Fn(&[u8]) -> bool,
) -> std::result::Result<bool, String> {
    buffer.resize(length as usize, 0);
    match file.read_exact(buffer) {
        Ok(()) => Ok(is_same(buffer)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the next `length` bytes are zeros. Holes are skipped: a terabyte of them takes no time.
fn zeros(file: &File, length: u64, buffer: &mut Vec<u8>) -> std::result::Result<bool, String> {
    use rustix::fs::{SeekFrom, seek};
    /// Bytes read at once.
    const PIECE: u64 = 1 << 20;
    let mut at = seek(file, SeekFrom::Current(0)).map_err(|error| error.to_string())?;
    let end = at + length;
    while at < end {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(end),
            Err(rustix::io::Errno::NXIO) => end,
            Err(_) => at,
        };
        seek(file, SeekFrom::Start(data)).map_err(|error| error.to_string())?;
        let piece = PIECE.min(end - data);
        if piece > 0 && !same(file, piece, buffer, |read| read.iter().all(|byte| *byte == 0))? {
            return Ok(false);
        }
        at = data + piece;
    }
    seek(file, SeekFrom::Start(end)).map_err(|error| error.to_string())?;
    let whole = file.metadata().map_err(|error| error.to_string())?.len();
    Ok(whole >= end)
}
