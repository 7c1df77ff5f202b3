//! Sources that change while they are read. Whatever happens to one costs no other.

use crate::testkit::build::{noise, write};
use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{Heard, NAME, PASSWORD, TestFolder, restore_to, restore_with};
use pipeline::UnlockedRepository;
use pipeline::backup::Progress;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `disturb` again and again while `body` runs.
fn while_disturbed<T>(disturb: impl Fn(u64) + Sync, body: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..).take_while(|_| !stop.load(Ordering::Relaxed)).for_each(&disturb));
        let _stop = Stop(&stop);
        body()
    })
}

/// Stops who disturbs, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn calm_files(root: &Path) {
    for number in 0..40 {
        write(root, format!("calm/{number:02}"), &noise(number, 2_000 + 40 * number as usize));
    }
}

/// Backs up while files are disturbed: the calm ones are exact. Returns what was complained about.
fn assert_neighbors_are_exact(folder: &TestFolder, disturb: impl Fn(u64) + Sync) -> Vec<String> {
    let repository = folder.init();
    calm_files(&folder.source());
    let mut complaints = Vec::new();
    while_disturbed(disturb, || {
        for _ in 0..8 {
            let heard = Heard::default();
            let done =
                pipeline::backup::run(&repository, &folder.options(), &Progress::default(), &heard)
                    .unwrap();
            assert!(done.report.adds_up(), "{:#?}", done.report);
            assert!(!heard.all().iter().any(|line| line.contains("calm")), "{:?}", heard.all());
            complaints.extend(heard.all());
            let target = tempfile::tempdir_in(folder.temp.path()).unwrap();
            let report = restore_to(&repository, done.snapshot, target.path()).unwrap();
            assert_eq!(report.failed, 0, "what a snapshot has can be restored");
            for number in 0..40 {
                let path = target.path().join(NAME).join(format!("calm/{number:02}"));
                assert_eq!(
                    std::fs::read(path).unwrap(),
                    noise(number, 2_000 + 40 * number as usize)
                );
            }
        }
    });
    complaints
}

#[test]
fn growing_logs_are_stored_and_cost_nobody() {
    let folder = TestFolder::new();
    let root = folder.source();
    write(&root, "logs/small", b"begin\n");
    write(&root, "logs/large", &noise(1, 1_500_000));
    let complaints = assert_neighbors_are_exact(&folder, |_| {
        for name in ["small", "large"] {
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .open(root.join("logs").join(name))
                .unwrap();
            file.write_all(b"one more line\n").unwrap();
        }
    });
    assert_eq!(complaints, Vec::<String>::new());
}

#[test]
fn truncated_and_rewritten_files_cost_nobody() {
    let folder = TestFolder::new();
    let root = folder.source();
    let (short, long) = (noise(1, 10_000), noise(2, 2_000_000));
    let complaints = assert_neighbors_are_exact(&folder, |turn| {
        for name in ["a", "b"] {
            write(&root, format!("rewritten/{name}"), if turn % 2 == 0 { &short } else { &long });
        }
    });
    assert_eq!(complaints, Vec::<String>::new());
}

#[test]
fn replaced_and_vanishing_files_cost_nobody() {
    let folder = TestFolder::new();
    let root = folder.source();
    write(&root, "moving/start", b"x");
    let complaints = assert_neighbors_are_exact(&folder, |turn| {
        let at = |name: u64| root.join(format!("moving/{}", name % 30));
        let _ = std::fs::write(at(turn), noise(turn, 500));
        let _ = std::fs::rename(at(turn), at(turn * 7 + 3));
        let _ = std::fs::remove_file(at(turn * 3));
        let _ = std::fs::remove_file(at(turn * 5));
        let _ = std::fs::create_dir(at(turn * 5)).and_then(|()| std::fs::remove_dir(at(turn * 5)));
        let _ = std::os::unix::fs::symlink("x", at(turn * 11));
    });
    // What became another kind of object may be told as such; what is gone is no fault.
    assert!(!complaints.iter().any(|line| line.contains("No such file")), "{complaints:?}");
}

#[test]
fn appearing_and_vanishing_directories_cost_nobody() {
    let folder = TestFolder::new();
    let root = folder.source();
    let complaints = assert_neighbors_are_exact(&folder, |turn| {
        let at = root.join(format!("dirs/{}/deep/er", turn % 5));
        let _ = std::fs::create_dir_all(&at);
        let _ = std::fs::write(at.join("file"), noise(turn, 300));
        let _ = std::fs::remove_dir_all(root.join(format!("dirs/{}", (turn + 2) % 5)));
    });
    assert_eq!(complaints, Vec::<String>::new(), "what is gone is no fault");
}

#[test]
fn a_file_that_changed_while_it_was_read_is_marked_and_read_again() {
    let folder = TestFolder::new();
    let root = folder.source();
    write(&root, "busy", &noise(1, 6_000_000));
    let repository = folder.init();
    let grow = |_| {
        let mut file = std::fs::OpenOptions::new().append(true).open(root.join("busy")).unwrap();
        file.write_all(b"more\n").unwrap();
    };
    // On a busy machine whoever disturbs may get no turn while the file is read.
    let mut tries = (0..50).map(|_| while_disturbed(grow, || folder.backup(&repository)));
    let done = tries.find(|done| done.report.objects_changed_during_read == 1);
    let done = done.expect("a backup that met a change");
    assert!(done.report.retries > 0);
    // Whatever its times say: what was torn is read again.
    let calm = folder.backup(&repository);
    assert_eq!(calm.report.objects_unchanged, calm.report.objects_inspected - 1);
    folder.assert_restores(&repository, calm.snapshot, &folder.state());
}

/// Calls `then` once, at the first container of a backup: the walk is over by then, the reading
/// is not.
fn backup_with_an_event(
    folder: &TestFolder,
    then: impl Fn() + Send + 'static,
) -> pipeline::backup::BackupOutcome {
    backup_of_with_an_event(folder, folder.options(), then, &Heard::default())
}

fn backup_of_with_an_event(
    folder: &TestFolder,
    options: pipeline::backup::BackupOptions,
    then: impl Fn() + Send + 'static,
    heard: &Heard,
) -> pipeline::backup::BackupOutcome {
    drop(folder.init());
    let mut waiting = true;
    let plan = Plan::watched(Box::new(move |call| {
        if call.verb == "create"
            && call.name.starts_with("containers/")
            && std::mem::take(&mut waiting)
        {
            std::thread::sleep(std::time::Duration::from_millis(150));
            then();
        }
    }));
    let repository =
        UnlockedRepository::open(FaultyStorage::new(&folder.repository(), &plan), PASSWORD)
            .unwrap();
    let options = pipeline::backup::BackupOptions { threads: 1, ..options };
    pipeline::backup::run(&repository, &options, &Progress::default(), heard).unwrap()
}

fn many_megabytes_first(folder: &TestFolder) {
    for number in 0..6 {
        folder.write(&format!("a/{number}"), &noise(number, 1_000_000));
    }
}

#[test]
fn a_file_whose_first_name_vanishes_is_stored_under_its_second() {
    let folder = TestFolder::new();
    many_megabytes_first(&folder);
    folder.write("z/first", &noise(77, 5_000));
    std::fs::hard_link(folder.source().join("z/first"), folder.source().join("z/second")).unwrap();
    let gone = folder.source().join("z/first");
    let done = backup_with_an_event(&folder, move || std::fs::remove_file(&gone).unwrap());
    assert_eq!(
        (done.report.objects_failed, done.report.objects_vanished),
        (0, 1),
        "{:#?}",
        done.report
    );
    let target = folder.at("target");
    restore_to(&folder.open(), done.snapshot, &target).unwrap();
    assert_eq!(std::fs::read(target.join(NAME).join("z/second")).unwrap(), noise(77, 5_000));
}

/// Seen: it counted as deleted during the backup, which was complete without it.
#[test]
fn a_named_file_that_is_deleted_meanwhile_is_told() {
    for name in ["zapart/named", "tree/named"] {
        let folder = TestFolder::new();
        many_megabytes_first(&folder);
        let named = folder.at(&name.replace("tree", "source"));
        std::fs::create_dir_all(named.parent().unwrap()).unwrap();
        std::fs::write(&named, noise(77, 5_000)).unwrap();
        let mut options = folder.options();
        let shown_as = Some(format!("/{name}").into_bytes());
        let source = named.as_os_str().as_encoded_bytes().to_vec();
        options.roots.push(capture::walk::SourceRoot { source, shown_as });
        let heard = Heard::default();
        let gone = named.clone();
        let event = move || std::fs::remove_file(&gone).unwrap();
        let done = backup_of_with_an_event(&folder, options, event, &heard);
        assert_eq!((done.report.objects_failed, done.report.objects_vanished), (1, 0), "{name}");
        let told = heard.all().join("\n");
        assert!(told.contains("it was deleted during the backup"), "{told}");
    }
}

/// Seen: they came back as separate files, and each was read anew.
#[test]
fn names_of_what_is_written_to_meanwhile_are_one_object_again() {
    let folder = TestFolder::new();
    many_megabytes_first(&folder);
    let at = {
        let source = folder.source();
        move |name: &str| source.join(name)
    };
    folder.write("y/log", &noise(77, 3_000_000));
    std::fs::create_dir(at("z")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("y/fifo")).status().unwrap();
    assert!(made.success());
    for name in ["log", "fifo"] {
        for further in ["1", "2"] {
            std::fs::hard_link(at(&format!("y/{name}")), at(&format!("z/{name}{further}")))
                .unwrap();
        }
    }
    let done = backup_with_an_event(&folder, {
        let at = at.clone();
        move || {
            let mut log = std::fs::OpenOptions::new().append(true).open(at("y/log")).unwrap();
            log.write_all(b"one more line").unwrap();
            crate::testkit::build::set_mtime(&at("y/fifo"), 1_234_567_890, 1);
        }
    });
    let read = done.report.bytes_processed;
    assert!(read < 6_000_000 + 2 * 3_000_100, "read once, or once more: {read}");
    let target = folder.at("target");
    restore_to(&folder.open(), done.snapshot, &target).unwrap();
    for name in ["log", "fifo"] {
        let found = |path: String| {
            let path = target.join(NAME).join(path);
            let found = std::fs::symlink_metadata(&path).unwrap();
            (found.ino(), found.nlink(), found.len())
        };
        let first = found(format!("y/{name}"));
        assert_eq!(first.1, 3, "{name}");
        for further in ["1", "2"] {
            assert_eq!(found(format!("z/{name}{further}")), first, "{name}");
        }
    }
}

#[test]
fn a_file_that_becomes_a_fifo_does_not_hang_the_backup() {
    let folder = TestFolder::new();
    many_megabytes_first(&folder);
    folder.write("z/file", &noise(1, 5_000));
    folder.write("z/large", &noise(1, 2_000_000));
    folder.write("z/next", b"next");
    let root = folder.source();
    let done = backup_with_an_event(&folder, move || {
        for name in ["z/file", "z/large"] {
            std::fs::remove_file(root.join(name)).unwrap();
            crate::testkit::build::node(&root.join(name), rustix::fs::FileType::Fifo, 0);
        }
    });
    assert!(done.report.adds_up(), "{:#?}", done.report);
    let (target, repository) = (folder.at("target"), folder.open());
    let (report, heard) =
        restore_with(&repository, done.snapshot, b"", &target, &Default::default()).unwrap();
    assert_eq!((report.failed, heard), (0, vec![]));
    assert_eq!(std::fs::read(target.join(NAME).join("z/next")).unwrap(), b"next");
}
