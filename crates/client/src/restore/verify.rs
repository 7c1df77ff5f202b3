//! Third pass: everything is read again and compared with the snapshot. Chunks are compared by
//! their names, so nothing is fetched.

use super::entries::Entries;
use super::finish::runs_of;
use super::work::Shared;
use super::{Counters, threads};
use crate::pages::PageReader;
use crate::{Error, Result};
use crossbeam_channel::Receiver;
use format::entry::{Content, Entry, Kind, Segment};
use std::fs::File;
use std::io::Read;

/// Objects that travel together.
const BATCH: usize = 64;

/// Runs the pass.
pub(super) fn run(shared: &Shared<'_>, entries: &mut Entries<'_>) -> Result<()> {
    let threads = threads(shared.options);
    let (queue, batches) = crossbeam_channel::bounded::<Vec<Entry>>(threads * 8);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let batches = batches.clone();
                scope.spawn(move || work(shared, &batches))
            })
            .collect();
        drop(batches);
        let mut batch = Vec::new();
        while let Some(selected) = entries.next()? {
            if !selected.wanted {
                continue;
            }
            batch.push(selected.entry);
            if batch.len() >= BATCH {
                queue.send(std::mem::take(&mut batch)).map_err(|_| Error::ThreadGone)?;
            }
        }
        queue.send(batch).map_err(|_| Error::ThreadGone)?;
        drop(queue);
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Err(Error::ThreadGone)))
    })
}

fn work(shared: &Shared<'_>, batches: &Receiver<Vec<Entry>>) -> Result<()> {
    let pages = PageReader::new(shared.archive)?;
    let mut buffer = Vec::new();
    for batch in batches {
        shared.check()?;
        batch.iter().for_each(|entry| object(shared, &pages, entry, &mut buffer));
    }
    Ok(())
}

fn object(shared: &Shared<'_>, pages: &PageReader<'_>, entry: &Entry, buffer: &mut Vec<u8>) {
    Counters::add(&shared.counters.verified, 1);
    let entry = &*shared.whole(entry);
    let differences = shared.target.compare_metadata(entry);
    for difference in &differences {
        shared.monitor.problem(
            &difference.path,
            &format!("{:?} differs from the snapshot", difference.attribute),
        );
    }
    let content =
        if entry.kind() == Kind::File { content(shared, pages, entry, buffer) } else { Ok(true) };
    match content {
        Ok(true) if differences.is_empty() => {}
        Ok(true) => Counters::add(&shared.counters.differing, 1),
        Ok(false) => {
            Counters::add(&shared.counters.differing, 1);
            shared.monitor.problem(&entry.path, "content differs from the snapshot");
        }
        Err(text) => {
            Counters::add(&shared.counters.differing, 1);
            shared.monitor.problem(&entry.path, &text);
        }
    }
}

/// Whether the file's bytes are those of the snapshot.
fn content(
    shared: &Shared<'_>,
    pages: &PageReader<'_>,
    entry: &Entry,
    buffer: &mut Vec<u8>,
) -> std::result::Result<bool, String> {
    let file = shared.target.open_for_verify(&entry.path).map_err(|problem| problem.to_string())?;
    if let Content::Inline(bytes) = &entry.content {
        return same(&file, bytes.len() as u64, buffer, |read| read == bytes);
    }
    let runs = runs_of(pages, entry).map_err(|error| error.to_string())?;
    let ids = &shared.archive.keys.writer.ids;
    for run in runs {
        let equal = match run {
            Segment::Data(id, length) => {
                same(&file, length.into(), buffer, |read| ids.chunk_id(read) == id)?
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

/// A hole reads as zeros. Real holes are skipped: a terabyte of nothing takes no time.
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
