//! A worker: reads the objects of batches and stores what is new.

use super::batch::{Batch, EntryChange, Item, Job, Read, found_name_of};
use super::chunk_buffer::ChunkBuffer;
use super::chunk_writer::ChunkWriter;
use super::context::BackupContext;
use super::counters::{Counters, timed};
use super::links::has_more_names;
use super::object_dedup::ObjectDedup;
use super::queue::{Queue, Task};
use super::run_list::RunListBuilder;
use super::storable::storable;
use crate::Result;
use capture::owners::OwnerNames;
use capture::read::{LargeFileReader, Piece, ReadOutcome, SmallFileReader, link_target};
use capture::xattrs::{self, Xattrs};
use capture::{CaptureOperation, CaptureProblem};
use format::entry::{
    Attributes, Content, Entry, Kind, STATUS_CHANGED, STATUS_PARTIAL, STATUS_WHOLE_CONTENT, Segment,
};
use format::xattrs::INLINE_BYTES_MAX as XATTRS_INLINE_BYTES_MAX;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Larger files are read in pieces.
const SMALL_BYTES_MAX: u64 = 1 << 20;
/// Files up to this many bytes are stored in their entry: less than a reference to a chunk takes.
const INLINE_BYTES_MAX: usize = 48;

/// Works until the queue is closed.
pub(super) fn run(shared: &BackupContext<'_>, queue: &Queue) -> Result<Counters> {
    let result = Worker::new(shared, queue).work();
    if result.is_err() {
        queue.fail();
    }
    result
}

struct Worker<'a> {
    shared: &'a BackupContext<'a>,
    queue: &'a Queue,
    writer: ChunkWriter<'a>,
    buffer: Vec<u8>,
    cutter: ChunkBuffer,
    reader: SmallFileReader,
}

/// Why an object is not in the snapshot.
enum Missing {
    /// A problem of this object; the backup continues.
    Object(CaptureProblem),
    /// An error of the repository; the backup stops.
    Repository(crate::Error),
}

impl From<crate::Error> for Missing {
    fn from(error: crate::Error) -> Self {
        Missing::Repository(error)
    }
}

impl<'a> Worker<'a> {
    fn new(shared: &'a BackupContext<'a>, queue: &'a Queue) -> Self {
        let writer = ChunkWriter::new(shared, queue);
        let reader = SmallFileReader { options: shared.options.read, ..SmallFileReader::default() };
        Self { shared, queue, writer, buffer: Vec::new(), cutter: ChunkBuffer::new(), reader }
    }

    fn work(mut self) -> Result<Counters> {
        loop {
            let before = Instant::now();
            let task = self.queue.next();
            self.writer.counters.report.stages.reader_wait_secs += before.elapsed().as_secs_f64();
            match task {
                Some(Task::Read(batch, reply)) => {
                    // Nobody waits for it if the backup failed elsewhere.
                    let _ = reply.send(self.batch(batch)?);
                }
                Some(Task::Seal(mut block)) => self.writer.seal(&mut block)?,
                None => break,
            }
        }
        self.writer.flush()?;
        let report = &mut self.writer.counters.report;
        report.transfer_secs = report.stages.store_secs;
        Ok(self.writer.counters)
    }

    fn batch(&mut self, mut batch: Batch) -> Result<Batch> {
        self.shared.progress.check()?;
        let mut read = 0;
        for item in batch.items_mut() {
            if matches!(item, Item::Job(_))
                && let Item::Job(job) = std::mem::replace(item, Item::Failed)
            {
                *item = self.job(*job)?;
                read += 1;
            }
        }
        self.shared.checkpoints.make_if_due(read)?;
        Ok(batch)
    }

    fn job(&mut self, job: Job) -> Result<Item> {
        let previous = job.previous.clone();
        let directory = job.directory.clone();
        let is_root = job.row.is_root;
        let has_more_names = has_more_names(job.row.kind, job.row.links);
        let found_name = has_more_names.then(|| found_name_of(&job));
        let read = self.object(job).and_then(|entry| {
            let is_storable = storable(&entry, || directory.path_of(entry.name()));
            is_storable.map(|()| entry).map_err(Missing::Object)
        });
        match read {
            Ok(entry) => {
                self.note_partial(&entry);
                let change = previous.map_or(EntryChange::New, |before| change(&before, &entry));
                Ok(Item::Done(Box::new(Read { entry, found_name, change })))
            }
            Err(Missing::Object(problem)) if problem.vanished() && !is_root => Ok(Item::Vanished),
            Err(Missing::Object(problem)) => {
                self.shared.monitor.problem(&problem);
                Ok(Item::Failed)
            }
            Err(Missing::Repository(error)) => Err(error),
        }
    }

    fn object(&mut self, job: Job) -> std::result::Result<Entry, Missing> {
        match job.row.kind {
            Kind::File if job.row.size > SMALL_BYTES_MAX => self.large_file(job),
            Kind::File => self.small_file(job),
            Kind::Symlink => self.symlink(job),
            _ => self.other(job),
        }
    }

    fn small_file(&mut self, job: Job) -> std::result::Result<Entry, Missing> {
        self.writer.may_read(job.row.size)?;
        let (reader, buffer) = (self.reader, &mut self.buffer);
        let read_secs = &mut self.writer.counters.report.stages.read_secs;
        let read = timed(read_secs, || reader.run(&job.directory, &job.name, &job.row, buffer));
        let Some(read) = read.map_err(Missing::Object)? else { return self.large_file(job) };
        let size = read.outcome.row.size as usize;
        self.note_read(size as u64, &read.outcome);
        let content = self.small_content(size)?;
        Ok(self.complete(job, content, &read.outcome, read.xattrs)?)
    }

    /// The content of a small file, whose bytes are in the buffer.
    fn small_content(&mut self, size: usize) -> Result<Content> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let result = self.small_bytes(&bytes[..size]);
        std::mem::swap(&mut self.buffer, &mut bytes);
        result
    }

    fn small_bytes(&mut self, bytes: &[u8]) -> Result<Content> {
        if bytes.is_empty() {
            return Ok(Content::None);
        }
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(Content::Inline(bytes.to_vec()));
        }
        let mut stored = ObjectDedup::default();
        let content = if bytes.len() <= self.shared.chunker.params().average as usize {
            let id = self.writer.chunk(bytes, &mut stored)?;
            Content::Segments(Arc::new([Segment::Data(id, bytes.len() as u32)]))
        } else {
            self.cut_bytes(bytes, &mut stored)?
        };
        self.writer.count(&stored);
        Ok(content)
    }

    fn cut_bytes(&mut self, mut rest: &[u8], stored: &mut ObjectDedup) -> Result<Content> {
        let mut runs = RunListBuilder::default();
        while let Some(length) =
            self.shared.chunker.next_cut(rest, true).filter(|length| *length > 0)
        {
            let (chunk, tail) = rest.split_at(length);
            let id = self.writer.chunk(chunk, stored)?;
            runs.data(id, length as u32, self.shared.pages)?;
            rest = tail;
        }
        runs.finish(self.shared.pages)
    }

    fn large_file(&mut self, mut job: Job) -> std::result::Result<Entry, Missing> {
        let mut tries = 0;
        loop {
            let file =
                LargeFileReader::open(&job.directory, &job.name, &job.row, &self.reader.options);
            let mut file = file.map_err(Missing::Object)?;
            let xattrs = file.xattrs();
            let path = || job.directory.path_of(job.name.to_bytes());
            let before = self.writer.counters.report.bytes_processed;
            let content = self.large_content(&mut file, path)?;
            let outcome = file.finish().map_err(Missing::Object)?;
            // From here on the file counts with its holes, or is read again.
            let read = self.writer.counters.report.bytes_processed - before;
            self.shared.progress.bytes.fetch_sub(read, Ordering::Relaxed);
            if outcome.changed() && tries < self.reader.options.retries {
                tries += 1;
                self.writer.counters.report.retries += 1;
                job.row = outcome.row;
                continue;
            }
            self.note_read(0, &outcome);
            return Ok(self.complete(job, content, &outcome, xattrs)?);
        }
    }

    fn large_content(
        &mut self,
        file: &mut LargeFileReader,
        path: impl Fn() -> Vec<u8>,
    ) -> std::result::Result<Content, Missing> {
        let shared = self.shared;
        let (mut runs, mut stored) = (RunListBuilder::default(), ObjectDedup::default());
        self.cutter.restart();
        loop {
            shared.progress.check()?;
            let room = self.cutter.room(shared);
            let read_secs = &mut self.writer.counters.report.stages.read_secs;
            let piece = timed(read_secs, || file.next(room)).map_err(Missing::Object)?;
            let length = if let Piece::Data { length, .. } = piece { length } else { 0 };
            self.cutter.fill(length);
            self.writer.may_read(length as u64)?;
            shared.progress.bytes_read.fetch_add(length as u64, Ordering::Relaxed);
            shared.progress.bytes.fetch_add(length as u64, Ordering::Relaxed);
            self.writer.counters.report.bytes_processed += length as u64;
            let at_end = !matches!(piece, Piece::Data { .. });
            self.cutter.cut(at_end, &mut self.writer, &mut runs, &mut stored)?;
            if runs.are_too_many() {
                return Err(Missing::Object(CaptureProblem::cannot_store(path(), "the length")));
            }
            match piece {
                Piece::Data { .. } => {}
                Piece::Hole { length, .. } | Piece::Lost { length, .. } => {
                    runs.hole(length, shared.pages)?
                }
                Piece::End => break,
            }
        }
        self.writer.count(&stored);
        Ok(runs.finish(shared.pages)?)
    }

    fn symlink(&mut self, mut job: Job) -> std::result::Result<Entry, Missing> {
        let target = link_target(&job.directory, &job.name).map_err(Missing::Object)?;
        job.entry.size = target.len() as u64;
        job.entry.content = Content::Inline(target);
        self.other(job)
    }

    /// An object that is never opened.
    fn other(&mut self, job: Job) -> std::result::Result<Entry, Missing> {
        let mut xattrs = xattrs::of_object(&job.directory, &job.name);
        if let Some(problem) = problem_of(&job, &xattrs) {
            match (problem.vanished(), job.row.kind) {
                (false, _) => self.shared.monitor.problem(&problem),
                // A directory that vanished was listed before, and its content may be in the
                // snapshot. A made-up one, above a source stored under another path, never existed.
                (true, Kind::Directory) => xattrs.error = None,
                (true, _) => return Err(Missing::Object(problem)),
            }
        }
        Ok(self.with_xattrs(job.entry, xattrs)?)
    }

    /// Adds the extended attributes to the entry; in chunks if they are large.
    fn with_xattrs(&mut self, mut entry: Entry, xattrs: Xattrs) -> Result<Entry> {
        if xattrs.error.is_some() {
            let is_whole = entry.status & STATUS_PARTIAL == 0;
            entry.status |= if is_whole { STATUS_WHOLE_CONTENT } else { 0 } | STATUS_PARTIAL;
        }
        if xattrs.list.is_empty() {
            return Ok(entry);
        }
        let mut attributes = entry.attributes.as_ref().clone();
        if format::xattrs::encoded_bytes_max(&xattrs.list) <= XATTRS_INLINE_BYTES_MAX {
            attributes.xattrs = xattrs.list;
        } else {
            attributes.xattr_runs = self.xattr_runs(&format::xattrs::encode(&xattrs.list))?;
        }
        entry.attributes = Arc::new(attributes);
        Ok(entry)
    }

    fn xattr_runs(&mut self, bytes: &[u8]) -> Result<Vec<Segment>> {
        let (mut rest, mut runs, mut stored) = (bytes, Vec::new(), ObjectDedup::beside_content());
        while let Some(length) =
            self.shared.chunker.next_cut(rest, true).filter(|length| *length > 0)
        {
            let (chunk, tail) = rest.split_at(length);
            runs.push(Segment::Data(self.writer.chunk(chunk, &mut stored)?, length as u32));
            rest = tail;
        }
        Ok(runs)
    }

    /// Counts an object that could not be read completely; it makes the snapshot partial.
    fn note_partial(&mut self, entry: &Entry) {
        let is_partial = entry.status & STATUS_PARTIAL != 0;
        self.writer.counters.report.objects_incomplete += u64::from(is_partial);
    }

    /// The entry of a file that was read, with its attributes after reading.
    fn complete(
        &mut self,
        job: Job,
        content: Content,
        outcome: &ReadOutcome,
        xattrs: Xattrs,
    ) -> Result<Entry> {
        if let Some(problem) = problem_of(&job, &xattrs) {
            self.shared.monitor.problem(&problem);
        }
        if !outcome.lost.is_empty() {
            let (operation, error) = (CaptureOperation::Read, Errno::IO);
            let path = job.directory.path_of(job.name.to_bytes());
            self.shared.monitor.problem(&CaptureProblem { path, operation, error });
        }
        for lost in &outcome.lost {
            self.writer.counters.report.bytes_processed =
                self.writer.counters.report.bytes_processed.saturating_sub(lost.end - lost.start);
        }
        if outcome.status & STATUS_CHANGED != 0 {
            self.writer.counters.report.objects_changed_during_read += 1;
        }
        let row = &outcome.row;
        let mut entry = Entry {
            size: row.size,
            mtime: row.mtime,
            ctime: row.ctime,
            inode: row.inode,
            birth: row.birth,
            status: outcome.status,
            content,
            ..job.entry
        };
        let now = (row.mode, row.uid, row.gid);
        if now != (job.row.mode, job.row.uid, job.row.gid) {
            entry.attributes = Arc::new(given(&entry.attributes, now, &self.shared.owners));
        }
        self.with_xattrs(entry, xattrs)
    }

    fn note_read(&mut self, bytes: u64, outcome: &ReadOutcome) {
        let sum = &mut self.writer.counters.report.bytes_processed;
        *sum = sum.saturating_add(bytes);
        self.shared.progress.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        self.shared.progress.bytes.fetch_add(outcome.row.size, Ordering::Relaxed);
    }
}

/// The attributes of what another mode or owner was given since the walk. A restore goes by the names.
fn given(old: &Attributes, now: (u16, u32, u32), owners: &OwnerNames) -> Attributes {
    let (mode, uid, gid) = now;
    let (user, group) = (owners.user(uid).to_vec(), owners.group(gid).to_vec());
    Attributes { mode, uid, gid, user, group, ..old.clone() }
}

fn problem_of(job: &Job, xattrs: &Xattrs) -> Option<CaptureProblem> {
    xattrs.error?;
    let problem = xattrs.problem(job.directory.path_of(job.name.to_bytes()))?;
    Some(problem.told_apart(&job.directory, &job.name))
}

/// What changed since the previous snapshot.
fn change(before: &Entry, now: &Entry) -> EntryChange {
    let has_same_content =
        before.kind() == now.kind() && before.size == now.size && before.content == now.content;
    let has_same_attributes = before.mtime == now.mtime
        && before.links == now.links
        && before.attributes == now.attributes;
    match (has_same_content, has_same_attributes) {
        (false, _) => EntryChange::Content,
        (true, false) => EntryChange::Attributes,
        (true, true) => EntryChange::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_got_a_file_since_the_walk_is_named_by_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let [passwd, group] = ["passwd", "group"].map(|name| folder.path().join(name));
        std::fs::write(&passwd, "alice:x:1000:\nbob:x:1001:\n").unwrap();
        std::fs::write(&group, "staff:x:50:\n").unwrap();
        let owners = OwnerNames::from_files(&passwd, &group);
        let (user, group) = (b"alice".to_vec(), b"staff".to_vec());
        let of_alice =
            Attributes { uid: 1000, gid: 50, user, group, ..Attributes::new(Kind::File, 0o644) };
        let now = given(&of_alice, (0o600, 1001, 7), &owners);
        assert_eq!((now.mode, now.uid, now.gid), (0o600, 1001, 7));
        assert_eq!((&*now.user, &*now.group), (&b"bob"[..], &b""[..]));
    }
}
