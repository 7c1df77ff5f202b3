//! Backup of a stream: the output of a program becomes a file in a snapshot of its own.

use super::chunk_buffer::ChunkBuffer;
use super::chunk_writer::ChunkWriter;
use super::context::BackupContext;
use super::counters::Counters;
use super::monitor::BackupMonitor;
use super::object_dedup::ObjectDedup;
use super::options::BackupOptions;
use super::previous::newest;
use super::publish::{BackupOutcome, RunStart, publish};
use super::queue::Queue;
use super::run_list::RunListBuilder;
use crate::manifest::{self, NewManifest};
use crate::pages::PageWriter;
use crate::progress::Progress;
use crate::{Error, Result, UnlockedRepository};
use format::entry::{Attributes, Content, Entry, Kind};
use seal::Sealer;
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{WriteLease, WriteSession};
use tree::Builder;

/// Backs up `input` as the file `name`. `confirm` is called at the end, before anything is
/// published: a failed command creates no snapshot.
///
/// # Errors
/// [`Error::Usage`] for an invalid name; the error of `confirm`; as [`super::run`].
pub fn run_stream(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    name: &[u8],
    input: &mut dyn Read,
    confirm: &mut dyn FnMut() -> Result<()>,
    progress: &Progress,
    monitor: &dyn BackupMonitor,
) -> Result<BackupOutcome> {
    if !format::entry::is_clean_path(name) {
        return Err(Error::Usage(
            "the name of a stream must be a relative path without '..'".into(),
        ));
    }
    options.check_names()?;
    let begun = RunStart::of(repository, options);
    repository.with_write_lease("backup", |writer| {
        let source = manifest::source_id(repository, &options.node, &options.paths);
        let previous = newest(repository, options, monitor)?;
        let (sealer, session) = begin(repository, writer)?;
        let ids = repository.backup_ids(&source, previous.as_ref().map(|stored| stored.name.id));
        let pages = PageWriter::new(&*session, &sealer, &ids, None)?;
        let shared =
            BackupContext::new(repository, options, progress, monitor, &*session, &sealer, &pages)?;
        let (content, size, mut counters) = store(&shared, input)?;
        confirm()?;
        drop(shared);
        let mut builder = Builder::new(&pages, repository.cut_key());
        for entry in entries(name, content, size, begun.time) {
            format::check::entry(&entry)?;
            builder.push(&entry)?;
        }
        let (root, _) = builder.finish()?;
        counters.report.bytes_of_pages = pages.finish()?;
        counters.report.objects_inspected = 1;
        counters.report.objects_backed_up = 1;
        counters.report.objects_new = u64::from(previous.is_none());
        counters.report.bytes_inspected = size;
        drop(pages);
        let manifest = NewManifest {
            source,
            previous: previous.as_ref().map(|stored| stored.head),
            previous_id: previous.as_ref().map(|stored| stored.name.id),
            time: begun.time,
            root,
            original: None,
        };
        let ended = (counters, monitor.take_failed());
        publish(repository, options, session, &sealer, manifest, ended, &begun)
    })
}

/// Begins a session; again if a key was removed since the key list was read.
fn begin(
    repository: &UnlockedRepository,
    writer: &dyn WriteLease,
) -> Result<(Sealer, Box<dyn WriteSession>)> {
    let sealer = repository.sealer()?;
    match writer.begin(None, sealer.session_record()) {
        Err(store::Error::KeysChanged) => {
            repository.refresh_key_list()?;
            let sealer = repository.sealer()?;
            let session = writer.begin(None, sealer.session_record())?;
            Ok((sealer, session))
        }
        session => Ok((sealer, session?)),
    }
}

/// Stores the stream; other threads seal while it is read.
fn store(shared: &BackupContext<'_>, input: &mut dyn Read) -> Result<(Content, u64, Counters)> {
    let queue = Queue::default();
    std::thread::scope(|scope| {
        let helpers = std::thread::available_parallelism().map_or(1, usize::from);
        let work = || super::worker::run(shared, &queue);
        let helpers = crate::threads::start(scope, helpers, work)?;
        let stored = read_all(shared, &queue, input);
        queue.close();
        let mut counters = Counters::default();
        for helper in helpers {
            counters.add(&helper.join().unwrap_or(Err(Error::WorkerPanicked))?);
        }
        let (content, size, own) = stored?;
        counters.add(&own);
        Ok((content, size, counters))
    })
}

fn read_all(
    shared: &BackupContext<'_>,
    queue: &Queue,
    input: &mut dyn Read,
) -> Result<(Content, u64, Counters)> {
    let mut writer = ChunkWriter::new(shared, queue);
    let (mut cutter, mut runs, mut stored) =
        (ChunkBuffer::new(), RunListBuilder::default(), ObjectDedup::default());
    loop {
        shared.progress.check()?;
        let room = cutter.room(shared);
        let length = read_some(input, room)?;
        cutter.fill(length);
        writer.may_read(length as u64)?;
        writer.counters.report.bytes_processed += length as u64;
        shared.progress.bytes_read.fetch_add(length as u64, Ordering::Relaxed);
        shared.progress.bytes.fetch_add(length as u64, Ordering::Relaxed);
        cutter.cut(length == 0, &mut writer, &mut runs, &mut stored)?;
        if runs.are_too_many() {
            let text = "the input is longer than a snapshot can hold; back it up in parts";
            return Err(Error::Usage(text.into()));
        }
        if length == 0 {
            break;
        }
    }
    writer.flush()?;
    let size = runs.bytes;
    Ok((runs.finish(shared.pages)?, size, writer.counters))
}

/// Reads once; 0 is the end of the input. An interrupted read is repeated.
fn read_some(input: &mut dyn Read, room: &mut [u8]) -> Result<usize> {
    loop {
        match input.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::File { path: "the input".into(), source }),
            Ok(length) => return Ok(length),
        }
    }
}

/// The entries of the snapshot: the directories in the name, and the file.
fn entries(name: &[u8], content: Content, size: u64, time: format::entry::Time) -> Vec<Entry> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut entries: Vec<_> =
        slashes.map(|end| entry(&name[..end], Kind::Directory, Content::None, 0, time)).collect();
    entries.push(entry(name, Kind::File, content, size, time));
    entries
}

fn entry(path: &[u8], kind: Kind, content: Content, size: u64, time: format::entry::Time) -> Entry {
    let mode = if kind == Kind::Directory { 0o700 } else { 0o600 };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let attributes = Arc::new(Attributes { uid, gid, ..Attributes::new(kind, mode) });
    Entry { size, mtime: time, ctime: time, content, ..Entry::new(path, attributes) }
}
