//! Tests of reading files that are at rest, that change, and that are not what they were.

use super::*;
use crate::syscalls::{SharedByte, cached_pages, write_back};
use crate::testing::{bytes, met};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const CALM: ReadOptions =
    ReadOptions { retries: 2, window: RacyWindow(Duration::ZERO), sync_young: false };

fn folder_with(name: &str, content: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    folder
}

fn small(
    folder: &Path,
    options: ReadOptions,
    between: impl FnOnce(),
) -> (std::result::Result<SmallFileOutcome, CaptureProblem>, Vec<u8>) {
    let (directory, row) = met(folder, c"f");
    between();
    let mut buffer = Vec::new();
    let result = SmallFileReader { options, ..SmallFileReader::default() }.run(
        &directory,
        c"f",
        &row,
        &mut buffer,
    );
    let result = result.map(|read| read.expect("it has no holes"));
    if let Ok(read) = &result {
        buffer.truncate(read.outcome.row.size as usize);
    }
    (result, buffer)
}

#[test]
fn a_file_at_rest_is_read_whole_and_bears_no_mark() {
    let folder = folder_with("f", b"hello");
    let (result, bytes) = small(folder.path(), CALM, || ());
    assert_eq!(bytes, b"hello");
    assert_eq!(result.unwrap().outcome.status, 0);
}

#[test]
fn a_young_file_is_marked_racy() {
    let folder = folder_with("f", b"");
    let (result, _) = small(folder.path(), ReadOptions::default(), || ());
    assert_eq!(result.unwrap().outcome.status, STATUS_RACY);
}

#[test]
fn a_file_that_grew_or_shrank_since_it_was_met_is_read_again() {
    for content in [&b"much longer than before"[..], b"", b"x"] {
        let folder = folder_with("f", b"before");
        let path = folder.path().join("f");
        let (result, bytes) = small(folder.path(), CALM, || fs::write(&path, content).unwrap());
        assert_eq!(bytes, content);
        assert_eq!(result.unwrap().outcome.status, 0);
        let once = ReadOptions { retries: 0, ..CALM };
        let folder = folder_with("f", b"before");
        let path = folder.path().join("f");
        let (result, bytes) = small(folder.path(), once, || fs::write(&path, content).unwrap());
        let outcome = result.unwrap().outcome;
        assert!(outcome.changed());
        assert_eq!(bytes, content[..content.len().min(6)]);
        assert_eq!(outcome.row.size, bytes.len() as u64);
    }
}

#[test]
fn a_small_file_that_becomes_huge_does_not_fill_the_memory() {
    let folder = folder_with("f", b"before");
    let (directory, row) = met(folder.path(), c"f");
    File::options().write(true).open(folder.path().join("f")).unwrap().set_len(1 << 40).unwrap();
    let (reader, mut buffer) =
        (SmallFileReader { options: CALM, ..SmallFileReader::default() }, Vec::new());
    let outcome = reader.run(&directory, c"f", &row, &mut buffer).unwrap().unwrap().outcome;
    assert!(outcome.changed());
    assert_eq!((buffer.len(), outcome.row.size), (6, 6));
    let (_, row) = met(folder.path(), c"f");
    assert_eq!(reader.run(&directory, c"f", &row, &mut buffer).unwrap_err().error, Errno::FBIG);
}

#[test]
fn a_log_that_never_rests_is_read_to_an_end() {
    let folder = folder_with("f", &[b'x'; 100_000]);
    let (directory, row) = met(folder.path(), c"f");
    let mut log = File::options().append(true).open(folder.path().join("f")).unwrap();
    let mut file = LargeFileReader::open(&directory, c"f", &row, &CALM).unwrap();
    let (mut buffer, mut length) = (vec![0; 4096], 0);
    while let Piece::Data { length: more, .. } = file.next(&mut buffer).unwrap() {
        log.write_all(&[b'y'; 8192]).unwrap();
        length += more;
    }
    assert_eq!(length, 100_000);
    let outcome = file.finish().unwrap();
    assert!(outcome.changed());
    assert_eq!(outcome.row.size, 100_000);
}

#[test]
fn a_file_that_is_cut_while_it_is_read_has_its_real_length() {
    let folder = folder_with("f", &[b'x'; 100_000]);
    let (directory, row) = met(folder.path(), c"f");
    let mut file = LargeFileReader::open(&directory, c"f", &row, &CALM).unwrap();
    let mut buffer = vec![0; 4096];
    assert_eq!(file.next(&mut buffer).unwrap(), Piece::Data { offset: 0, length: 4096 });
    File::options().write(true).open(folder.path().join("f")).unwrap().set_len(5000).unwrap();
    assert_eq!(file.next(&mut buffer).unwrap(), Piece::Data { offset: 4096, length: 904 });
    assert_eq!(file.next(&mut buffer).unwrap(), Piece::End);
    let outcome = file.finish().unwrap();
    assert!(outcome.changed());
    assert_eq!(outcome.row.size, 5000);
}

#[test]
fn another_file_in_its_place_is_taken_and_another_kind_is_not() {
    let folder = folder_with("f", b"before");
    let path = folder.path().join("f");
    let (result, bytes) = small(folder.path(), CALM, || {
        fs::write(folder.path().join("new"), b"after!").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
    });
    assert_eq!(bytes, b"after!");
    assert_eq!(result.unwrap().outcome.status, 0);
    let replace: [&dyn Fn(); 3] = [
        &|| std::os::unix::fs::symlink("/etc/passwd", &path).unwrap(),
        &|| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR,
                0,
            )
            .unwrap()
        },
        &|| fs::create_dir(&path).unwrap(),
    ];
    for replace in replace {
        // Of an empty file nothing is read: only its kind can tell.
        for before in [&b"before"[..], b""] {
            let folder_now = || {
                let _ = fs::remove_file(&path);
                replace();
            };
            fs::write(&path, before).unwrap();
            let (result, _) = small(folder.path(), CALM, folder_now);
            let problem = result.unwrap_err();
            assert!(!problem.vanished(), "what is there now is not in the snapshot: {problem}");
            assert!(problem.to_string().ends_with("took its place during the backup"), "{problem}");
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
    }
}

/// Seen: it was "Resource temporarily unavailable", and not in the snapshot.
#[test]
fn a_file_on_which_another_has_a_lease_is_read_when_it_is_given_back() {
    let folder = folder_with("f", b"hello");
    let file = File::options().read(true).write(true).open(folder.path().join("f")).unwrap();
    let Some(lease) = crate::syscalls::lease(file) else {
        return testkit::skip("the file system of /tmp has no leases");
    };
    let giver = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(lease);
    });
    let (result, bytes) = small(folder.path(), CALM, || ());
    giver.join().unwrap();
    assert_eq!(result.unwrap().outcome.status, 0);
    assert_eq!(bytes, b"hello");
}

/// Its size is told as 0.
#[test]
fn a_file_of_a_pseudo_file_system_is_read_to_its_end() {
    let folder = Path::new("/proc/sys/kernel");
    let (directory, row) = met(folder, c"ostype");
    assert_eq!((row.kind, row.size), (Kind::File, 0));
    let run = |bytes_max, buffer: &mut Vec<u8>| {
        let reader = SmallFileReader { options: CALM, bytes_max };
        reader.run(&directory, c"ostype", &row, buffer)
    };
    let mut buffer = Vec::new();
    let outcome = run(6, &mut buffer).unwrap().unwrap().outcome;
    assert_eq!((outcome.row.size, outcome.status), (6, 0));
    assert_eq!(&buffer[..6], b"Linux\n");
    // What goes on beyond the limit is no file without content.
    assert_eq!(run(5, &mut buffer).unwrap_err().error, Errno::FBIG);
}

#[test]
fn a_vanished_file_is_a_problem_that_says_so() {
    let folder = folder_with("f", b"x");
    let path = folder.path().join("f");
    let (result, _) = small(folder.path(), CALM, || fs::remove_file(&path).unwrap());
    let problem = result.unwrap_err();
    assert!(problem.vanished());
    assert_eq!(problem.path, bytes(&path));
}

#[test]
fn a_link_that_became_something_else_is_told() {
    let folder = folder_with("f", b"x");
    let (directory, _) = met(folder.path(), c"f");
    let problem = super::link_target(&directory, c"f").unwrap_err();
    assert!(!problem.vanished() && problem.to_string().contains("of another kind"), "{problem}");
}

/// A file system that compresses shows fewer blocks than bytes for all files: they are read at once.
#[test]
fn a_small_file_is_read_in_pieces_only_if_it_has_holes() {
    let folder = folder_with("f", &[7; 100_000]);
    let (directory, mut row) = met(folder.path(), c"f");
    row.allocated = 512;
    let reader = SmallFileReader { options: CALM, ..SmallFileReader::default() };
    let run = |row: &Row| reader.run(&directory, c"f", row, &mut Vec::new()).unwrap().is_some();
    assert!(row.is_sparse() && run(&row));
    let file = File::options().write(true).open(folder.path().join("f")).unwrap();
    file.set_len(300_000).unwrap();
    let (_, row) = met(folder.path(), c"f");
    assert!(row.is_sparse() && !run(&row));
}

#[test]
fn a_sparse_terabyte_takes_no_time() {
    let folder = folder_with("f", b"");
    let file = File::options().write(true).open(folder.path().join("f")).unwrap();
    file.set_len(1 << 40).unwrap();
    let middle = 1 << 39;
    rustix::io::pwrite(&file, b"middle", middle).unwrap();
    let (directory, row) = met(folder.path(), c"f");
    assert!(row.is_sparse());
    let start = Instant::now();
    let mut file = LargeFileReader::open(&directory, c"f", &row, &CALM).unwrap();
    let (mut buffer, mut end, mut read) = (vec![1; 1 << 20], 0, 0);
    loop {
        match file.next(&mut buffer).unwrap() {
            Piece::End => break,
            Piece::Hole { offset, length } => {
                assert_eq!(offset, end);
                end += length;
            }
            Piece::Data { offset, length } => {
                assert_eq!(offset, end);
                assert_eq!(&buffer[..6], b"middle");
                (end, read) = (end + length as u64, read + length);
            }
            Piece::Lost { .. } => unreachable!(),
        }
    }
    assert_eq!((end, file.finish().unwrap().status), (1 << 40, 0));
    assert!(read <= 1 << 16);
    // Reading all of its zeros would take many minutes.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn reading_can_go_on_where_it_was_interrupted() {
    let folder = folder_with("f", b"0123456789");
    let (directory, row) = met(folder.path(), c"f");
    let mut file = LargeFileReader::open(&directory, c"f", &row, &CALM).unwrap();
    file.skip_to(4);
    let mut buffer = [0; 64];
    assert_eq!(file.next(&mut buffer).unwrap(), Piece::Data { offset: 4, length: 6 });
    assert_eq!(&buffer[..6], b"456789");
    assert_eq!(file.finish().unwrap().status, 0);
}

#[test]
fn the_page_cache_is_left_as_it_was_found() {
    let folder = folder_with("f", &vec![b'x'; 1 << 20]);
    let file = File::open(folder.path().join("f")).unwrap();
    let (directory, row) = met(folder.path(), c"f");
    let cached = || cached_pages(file.as_fd(), 0, 1 << 20);
    let drop_pages = || {
        file.sync_all().unwrap();
        fadvise_dont_need(&file);
        cached()
    };
    let Ok(0) = drop_pages() else {
        return testkit::skip("no cachestat, or a file system in memory under /tmp");
    };
    let mut buffer = vec![0; 1 << 20];
    SmallFileReader { options: CALM, ..SmallFileReader::default() }
        .run(&directory, c"f", &row, &mut buffer)
        .unwrap();
    assert_eq!(cached(), Ok(0));
    let mut large = LargeFileReader::open(&directory, c"f", &row, &CALM).unwrap();
    while large.next(&mut buffer[..100_000]).unwrap() != Piece::End {}
    assert_eq!(cached(), Ok(0));
    fs::read(folder.path().join("f")).unwrap();
    assert_eq!(cached(), Ok(256));
    SmallFileReader { options: CALM, ..SmallFileReader::default() }
        .run(&directory, c"f", &row, &mut buffer)
        .unwrap();
    assert_eq!(cached(), Ok(256));
}

fn fadvise_dont_need(file: &File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// A store through a mapping after our read moves no time: only the mark tells (scale.md 4.2).
#[test]
fn a_store_through_a_mapping_after_the_read_is_caught_by_the_mark() {
    let folder = folder_with("f", &[1; 4096]);
    let file = File::options().read(true).write(true).open(folder.path().join("f")).unwrap();
    let mapping = SharedByte::of(&file);
    mapping.store(2);
    let (result, bytes) = small(folder.path(), ReadOptions::default(), || ());
    let outcome = result.unwrap().outcome;
    assert_eq!(bytes[0], 2);
    mapping.store(3);
    write_back(file.as_fd()).unwrap();
    let (_, row) = met(folder.path(), c"f");
    // On most file systems the times are the same now though the content is not.
    assert!(outcome.status & STATUS_RACY != 0 || !row.is_same_content(&outcome.row));
}

fn has_write_back(file: &File) -> bool {
    let descriptor = file.try_clone().unwrap().into();
    FileSystemKinds::default().has_write_back(&descriptor, device_of(file))
}

fn device_of(file: &File) -> u64 {
    std::os::unix::fs::MetadataExt::dev(&file.metadata().unwrap())
}

/// However old the file is: its page was dirty when it was read, and stays so.
#[test]
fn a_file_in_memory_is_racy_for_ever() {
    let folder = crate::testing::fast_folder();
    fs::write(folder.path().join("f"), [1; 4096]).unwrap();
    let file = File::options().read(true).write(true).open(folder.path().join("f")).unwrap();
    if has_write_back(&file) {
        return testkit::skip("/dev/shm is no tmpfs");
    }
    let mapping = SharedByte::of(&file);
    mapping.store(2);
    std::thread::sleep(Duration::from_millis(1100));
    let window = RacyWindow(Duration::from_secs(1));
    let (result, bytes) = small(folder.path(), ReadOptions { window, ..CALM }, || ());
    let outcome = result.unwrap().outcome;
    mapping.store(3);
    let (_, row) = met(folder.path(), c"f");
    assert!(bytes[0] == 2 && row.is_same_content(&outcome.row), "the store is in no time");
    assert_eq!(outcome.status, STATUS_RACY, "though it is older than the window");
}

/// An overlay, until it is dropped.
struct Overlay(std::path::PathBuf);

impl Overlay {
    /// Whose changes lie in `upper`; `None` where nobody may mount.
    fn over(upper: &std::path::Path, at: &std::path::Path) -> Option<Self> {
        for name in ["lower", "upper", "work"] {
            fs::create_dir(upper.join(name)).unwrap();
        }
        let folder = |name: &str| upper.join(name).display().to_string();
        let (lower, changes, work) = (folder("lower"), folder("upper"), folder("work"));
        Self::of(&format!("lowerdir={lower},upperdir={changes},workdir={work}"), at)
    }

    fn of(options: &str, at: &std::path::Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let overlay = Self(at.to_path_buf());
        let mount = ["-t", "overlay", "overlay", "-o", options];
        match std::process::Command::new("mount").args(mount).arg(at).output() {
            Ok(done) if done.status.success() => Some(overlay),
            _ => {
                std::mem::forget(overlay); // nothing is mounted there
                testkit::skip("no overlay can be mounted: not root");
                None
            }
        }
    }

    fn file(&self) -> File {
        fs::write(self.0.join("f"), [1; 8192]).unwrap();
        File::open(self.0.join("f")).unwrap()
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Nothing but the file itself tells: the overlay says that it is one.
#[test]
fn a_file_of_an_overlay_in_memory_is_racy_for_ever_and_one_on_a_disk_is_not() {
    let (disk, memory) = (tempfile::tempdir().unwrap(), crate::testing::fast_folder());
    let place = tempfile::tempdir().unwrap();
    let Some(on_disk) = Overlay::over(disk.path(), &place.path().join("disk")) else { return };
    if !has_write_back(&tempfile::tempfile_in(disk.path()).unwrap()) {
        return testkit::skip("/tmp has nothing to write back");
    }
    assert!(has_write_back(&on_disk.file()));
    let Some(in_memory) = Overlay::over(memory.path(), &place.path().join("memory")) else {
        return;
    };
    if has_write_back(&tempfile::tempfile_in(memory.path()).unwrap()) {
        return testkit::skip("/dev/shm is no tmpfs");
    }
    assert!(!has_write_back(&in_memory.file()));
}

/// What has no extents need not lie in memory (FUSE, squashfs; here sysfs).
#[test]
fn a_file_of_an_overlay_without_extents_is_known_by_the_layers() {
    let (disk, memory) = (tempfile::tempdir().unwrap(), crate::testing::fast_folder());
    if has_write_back(&tempfile::tempfile_in(memory.path()).unwrap()) {
        return testkit::skip("/dev/shm is no tmpfs");
    }
    let place = tempfile::tempdir().unwrap();
    for (more, is_on_disk) in [(disk.path(), true), (memory.path(), false)] {
        let at = place.path().join(is_on_disk.to_string());
        let Some(overlay) = Overlay::of(&format!("lowerdir={}:/sys/kernel", more.display()), &at)
        else {
            return;
        };
        let file = File::open(overlay.0.join("uevent_seqnum")).unwrap();
        assert_eq!(has_write_back(&file), is_on_disk);
    }
}

#[test]
fn a_young_file_that_is_written_back_first_shows_later_stores_in_its_times() {
    let folder = folder_with("f", &[1; 4096]);
    let file = File::options().read(true).write(true).open(folder.path().join("f")).unwrap();
    if !has_write_back(&file) {
        return testkit::skip("the file system of /tmp has nothing to write back");
    }
    let mapping = SharedByte::of(&file);
    mapping.store(2);
    let options = ReadOptions { sync_young: true, ..ReadOptions::default() };
    let (result, _) = small(folder.path(), options, || ());
    let outcome = result.unwrap().outcome;
    std::thread::sleep(Duration::from_millis(20)); // a tick of the clock
    mapping.store(3);
    let (_, row) = met(folder.path(), c"f");
    assert!(!row.is_same_content(&outcome.row));
}

#[test]
fn where_a_link_points_is_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let target = [b"/\xff\n".as_slice(), &[b'x'; 2000]].concat();
    std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(&target), folder.path().join("l"))
        .unwrap();
    let (directory, _) = met(folder.path(), c"l");
    assert_eq!(link_target(&directory, c"l").unwrap(), target);
}
