//! An inode that is used again while the walk goes on.

use super::*;
use crate::UnlockedRepository;
use crate::backup::batch::found_name_of;
use crate::backup::merge::Merge;
use crate::backup::options::BackupOptions;
use crate::backup::previous::begin_session;
use crate::backup::queue::Task;
use crate::unlocked::InitOptions;
use capture::CaptureProblem;
use capture::walk::{SourceRoot, Walk, WalkEvent};
use crypto::{KdfParams, SlotSecret};
use format::entry::Content;
use repository::local::LocalStorage;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(in crate::backup) struct Silent;

impl BackupMonitor for Silent {
    fn problem(&self, _: &CaptureProblem) {}
    fn note(&self, _: &str) {}
}

pub(in crate::backup) fn repository(place: &Path) -> UnlockedRepository {
    let storage = Arc::new(LocalStorage::create(&place.join("repository")).unwrap());
    let kdf = KdfParams { memory_kib: 64, passes: 1, lanes: 1 };
    let options = InitOptions { kdf, ..InitOptions::default() };
    UnlockedRepository::init(storage, SlotSecret::Password(b"p"), options).unwrap()
}

pub(in crate::backup) fn options(source: &Path) -> BackupOptions {
    let source = source.as_os_str().as_bytes().to_vec();
    BackupOptions {
        roots: vec![SourceRoot { source, shown_as: Some(b"/".to_vec()) }],
        node: "node".into(),
        paths: vec!["/".into()],
        tags: Vec::new(),
        walk: Default::default(),
        read: Default::default(),
        threads: 1,
        level: seal::Level::Fixed(1),
        full: false,
        is_partial: false,
        read_since: None,
        ignore_inode: false,
        verify_blocks: false,
        limits: Default::default(),
        checkpoint_after: Default::default(),
        cache: None,
        time: None,
        skip_if_unchanged: false,
        mount_points: Vec::new(),
    }
}

fn done(job: Job, bytes: &[u8]) -> Item {
    let found_name = Some(found_name_of(&job));
    let mut entry = job.entry;
    (entry.size, entry.content) = (bytes.len() as u64, Content::Inline(bytes.to_vec()));
    Item::Done(Box::new(Read { entry, found_name, change: EntryChange::Content }))
}

/// Two names of one file, as the walk tells them; `later` happens to the second one. Returns how
/// often a file was read alone, and the groups that are still waited for.
fn two_names(later: impl Fn(&mut Job)) -> (usize, usize) {
    two_names_of(LINKED_MAX, later)
}

/// The same if so many files are kept for further names.
fn two_names_of(files_max: usize, later: impl Fn(&mut Job)) -> (usize, usize) {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("a"), b"first").unwrap();
    std::fs::hard_link(source.join("a"), source.join("b")).unwrap();
    std::fs::write(source.join("c"), b"other").unwrap();
    let (repository, options) = (repository(place.path()), options(&source));
    let found = repository.with_write_lease("test", |writer| {
        let sealer = repository.sealer()?;
        let (_, session) = begin_session(&repository, writer, &options, &sealer, &Silent)?;
        let pages = PageWriter::new(&*session, &sealer, &repository.keys.writer.ids, None)?;
        let mut merge = Merge::new(&options, None, None, None, &[]);
        let mut reorder = ReorderBuffer::new(&pages, repository.cut_key(), &Silent);
        reorder.linked = LinkedFiles::at_most(files_max);
        let (mut walk, mut batch) =
            (Walk::start(&options.roots, options.walk.clone())?, Batch::default());
        while let Some(event) = walk.next() {
            let WalkEvent::Entry(found) = event else { panic!("{event:?}") };
            if found.name != c"c" {
                merge.entry(&found, &mut batch, &Silent)?;
            }
        }
        let queue = Queue::default();
        let alone = std::thread::scope(|scope| {
            let worker = scope.spawn(|| read_alone(&queue));
            for item in batch.take() {
                match item {
                    Item::Job(job) => reorder.item(done(*job, b"first"))?,
                    Item::Link(mut job) => {
                        later(&mut job);
                        reorder.link(*job, &queue)?;
                    }
                    _ => panic!("neither a file nor a name"),
                }
            }
            queue.close();
            Ok::<_, Error>(worker.join().unwrap())
        })?;
        let report = &reorder.counters.report;
        assert_eq!(report.objects_backed_up + report.objects_unchanged, 2);
        Ok((alone, reorder.linked.len()))
    });
    found.unwrap()
}

/// Reads what is asked for, and counts it.
fn read_alone(queue: &Queue) -> usize {
    let mut count = 0;
    while let Some(Task::Read(mut batch, reply)) = queue.next() {
        let mut read = Batch::default();
        for item in batch.take() {
            let Item::Job(job) = item else { panic!("no job") };
            count += 1;
            read.push(done(*job, b"second"));
        }
        reply.send(read).unwrap();
    }
    count
}

#[test]
fn a_further_name_takes_over_what_the_first_one_has() {
    assert_eq!(two_names(|_| {}), (0, 0));
    let later = |job: &mut Job| job.entry.ctime.nanos ^= u32::from(job.entry.birth.is_some());
    assert_eq!(two_names(later), (0, 0));
}

#[test]
fn what_waits_for_further_names_has_a_bound() {
    let another = |job: &mut Job| job.entry.inode += 1;
    assert_eq!(two_names_of(2, another), (1, 2));
    assert_eq!(two_names_of(1, another), (1, 1), "the first one is forgotten for the second");
}

/// It was written to between the looks at its two names.
#[test]
fn names_of_a_file_in_use_stay_one_file() {
    let shorter = |job: &mut Job| {
        job.entry.size -= 1;
        job.entry.mtime.secs -= 1;
    };
    assert_eq!(two_names(shorter), (0, 0));
}

/// An overlay may show two files with one inode and time of birth: a file, and its state in a snapshot of the volume.
#[test]
fn another_state_of_an_inode_is_another_file() {
    let elsewhere = |job: &mut Job| {
        job.entry.mtime.secs -= 1;
        job.name = c"c".to_owned();
    };
    assert_eq!(two_names(elsewhere), (1, 2));
}

#[test]
fn what_is_unchanged_and_no_further_name_is_taken_over() {
    let unchanged = |job: &mut Job| {
        job.entry.mtime.secs -= 1;
        job.name = c"c".to_owned();
        job.is_unchanged = true;
        job.previous = Some(job.entry.clone());
    };
    assert_eq!(two_names(unchanged), (0, 1));
}

#[test]
fn an_inode_that_was_used_again_is_read_and_makes_a_group_of_its_own() {
    let born_later = |job: &mut Job| match &mut job.entry.birth {
        Some(birth) => birth.secs += 1,
        None => job.entry.ctime.secs += 1,
    };
    assert_eq!(two_names(born_later), (1, 2));
    let without_birth = |job: &mut Job| {
        job.entry.birth = None;
        job.entry.ctime.secs += 1;
    };
    assert_eq!(two_names(without_birth), (1, 2));
}
