//! An inode that is used again while the walk goes on.

use super::*;
use crate::UnlockedRepository;
use crate::backup::merge::Merge;
use crate::backup::options::BackupOptions;
use crate::backup::previous::begin_session;
use crate::backup::queue::Task;
use crate::unlocked::InitOptions;
use capture::CaptureProblem;
use capture::walk::{SourceRoot, Walk, WalkEvent};
use crypto::{KdfParams, SlotSecret};
use repository::local::LocalStorage;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

struct Silent;

impl BackupMonitor for Silent {
    fn problem(&self, _: &CaptureProblem) {}
    fn note(&self, _: &str) {}
}

fn repository(place: &Path) -> UnlockedRepository {
    let storage = Arc::new(LocalStorage::create(&place.join("repository")).unwrap());
    let kdf = KdfParams { memory_kib: 64, passes: 1, lanes: 1 };
    let options = InitOptions { kdf, ..InitOptions::default() };
    UnlockedRepository::init(storage, SlotSecret::Password(b"p"), options).unwrap()
}

fn options(source: &Path) -> BackupOptions {
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
    }
}

fn done(mut entry: Entry, bytes: &[u8]) -> Item {
    (entry.size, entry.content) = (bytes.len() as u64, Content::Inline(bytes.to_vec()));
    Item::Done(Box::new(Read { entry, change: EntryChange::Content }))
}

/// Two names of one file, as the walk tells them; `later` happens to the second one. Returns how
/// often a file was read alone, and the groups that are still waited for.
fn two_names(later: impl Fn(&mut Entry)) -> (usize, usize) {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("a"), b"first").unwrap();
    std::fs::hard_link(source.join("a"), source.join("b")).unwrap();
    let (repository, options) = (repository(place.path()), options(&source));
    let found = repository.with_write_lease("test", |writer| {
        let sealer = repository.sealer()?;
        let (_, session) = begin_session(&repository, writer, &options, &sealer, &Silent)?;
        let pages = PageWriter::new(&*session, &sealer, &repository.keys.writer.ids, None)?;
        let mut merge = Merge::new(&options, None, None, None, &[]);
        let mut reorder = ReorderBuffer::new(&pages, repository.cut_key(), &Silent);
        let (mut walk, mut batch) =
            (Walk::start(&options.roots, options.walk.clone())?, Batch::default());
        while let Some(event) = walk.next() {
            let WalkEvent::Entry(found) = event else { panic!("{event:?}") };
            merge.entry(&found, &mut batch, &Silent)?;
        }
        let queue = Queue::default();
        let alone = std::thread::scope(|scope| {
            let worker = scope.spawn(|| read_alone(&queue));
            for item in batch.take() {
                match item {
                    Item::Job(job) => reorder.item(done(job.entry, b"first"))?,
                    Item::Link(mut job) => {
                        later(&mut job.entry);
                        reorder.link(*job, &queue)?;
                    }
                    _ => panic!("neither a file nor a name"),
                }
            }
            queue.close();
            Ok::<_, Error>(worker.join().unwrap())
        })?;
        assert_eq!(reorder.counters.report.objects_backed_up, 2);
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
            read.push(done(job.entry, b"second"));
        }
        reply.send(read).unwrap();
    }
    count
}

#[test]
fn a_further_name_takes_over_what_the_first_one_has() {
    assert_eq!(two_names(|_| {}), (0, 0));
    assert_eq!(two_names(|entry| entry.ctime.nanos ^= u32::from(entry.birth.is_some())), (0, 0));
}

#[test]
fn an_inode_that_was_used_again_is_read_and_makes_a_group_of_its_own() {
    let born_later = |entry: &mut Entry| match &mut entry.birth {
        Some(birth) => birth.secs += 1,
        None => entry.ctime.secs += 1,
    };
    assert_eq!(two_names(born_later), (1, 2));
    let without_birth = |entry: &mut Entry| {
        entry.birth = None;
        entry.ctime.secs += 1;
    };
    assert_eq!(two_names(without_birth), (1, 2));
}
