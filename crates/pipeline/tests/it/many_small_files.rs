//! Very many tiny files: what grows with their number, and what does not.

use crate::testkit::alone::is_alone;
use crate::testkit::build::{noise, write};
use crate::testkit::forge::{Forge, entry};
use crate::testkit::{TestFolder, restore_to};
use format::entry::{Content, Entry, Kind, Segment};
use ids::ObjectId;
use pipeline::restore::RestoreReport;

const FILES: u64 = 100_000;
const FILES_A_FOLDER: u64 = 1000;
const FILE_BYTES: usize = 100;
/// Above what the process had before: three windows of files, their records and pages.
const MEMORY_KIB_MAX: u64 = 80 << 10;

/// Bytes that this process has read from files so far, whether from a disk or from memory.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    value(&io, "rchar:")
}

fn memory_kib(line: &str) -> u64 {
    value(&std::fs::read_to_string("/proc/self/status").unwrap(), line)
}

fn value(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Restores everything, and returns what that read and by how many KiB memory grew.
fn restored(test_folder: &TestFolder) -> (RestoreReport, u64, u64) {
    let name = test_folder.open().store.snapshots().unwrap()[0];
    let repository = test_folder.open();
    // From now on the peak is that of what follows.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (memory, read) = (memory_kib("VmRSS:"), bytes_read());
    let report = restore_to(&repository, name, &test_folder.at("restored")).unwrap();
    (report, bytes_read() - read, memory_kib("VmHWM:").saturating_sub(memory))
}

#[test]
fn a_restore_of_tiny_files_reads_little_more_than_is_stored_in_bounded_memory() {
    if !is_alone(
        "many_small_files::a_restore_of_tiny_files_reads_little_more_than_is_stored_in_bounded_memory",
    ) {
        return;
    }
    let test_folder = TestFolder::new();
    for number in 0..FILES {
        let name = format!("{:04}/{number:08}", number / FILES_A_FOLDER);
        write(&test_folder.source(), &name, &noise(number, FILE_BYTES));
    }
    test_folder.backup(&test_folder.init());
    let (report, read, memory) = restored(&test_folder);
    assert_eq!((report.files, report.failed), (FILES, 0));
    let stored = test_folder.bytes();
    eprintln!("read {read} of {stored} bytes, {memory} KiB");
    assert!(read < 2 * stored, "read {read} bytes of a repository of {stored}");
    assert!(memory < MEMORY_KIB_MAX, "{memory} KiB");
}

/// A record names its chunks in the clear, and leads to others that are wanted. Who sent it may have named any.
#[test]
fn a_record_that_names_the_chunk_of_another_with_wrong_content_leads_nobody_astray() {
    let test_folder = TestFolder::new();
    let repository = test_folder.init();
    let named = |bytes: &[u8]| repository.keys.writer.ids.chunk_id(bytes);
    let numbers: Vec<Vec<u8>> = (0..9000u32).map(|n| n.to_le_bytes().to_vec()).collect();
    let chunks: Vec<(ObjectId, &[u8])> = numbers.iter().map(|n| (named(n), &n[..])).collect();
    // The index is larger than what is read whole, and the chunk of 8999 lies with others.
    let (mine, others) = chunks.split_at(300);
    let forge = Forge::new(&repository);
    forge.chunks_as(others);
    forge.publish_leaf(&[of_chunk(0, others[0].0)]);
    let forge = Forge::new(&repository);
    let (borrowed, right) = others[8699];
    forge.send_chunks(&[mine, &[(borrowed, b"evil")]].concat());
    let ids = mine.iter().map(|(id, _)| *id).chain([borrowed]);
    let entries: Vec<_> = ids.enumerate().map(|(at, id)| of_chunk(at, id)).collect();
    let name = forge.publish_leaf(&entries);
    let target = test_folder.at("restored");
    let report = restore_to(&test_folder.open(), name, &target).unwrap();
    assert_eq!((report.files, report.failed), (301, 0));
    assert_eq!(std::fs::read(target.join("000300")).unwrap(), right);
}

/// A file of one chunk of four bytes.
fn of_chunk(at: usize, id: ObjectId) -> Entry {
    let content = Content::Segments(vec![Segment::Data(id, 4)].into());
    Entry { size: 4, content, ..entry(Kind::File, format!("{at:06}")) }
}
