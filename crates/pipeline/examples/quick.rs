//! The pipelines alone, for profiling: `quick backup|restore|check|reclaim REPO [PATH]`.
use crypto::SlotSecret;
use pipeline::backup::{BackupMonitor, BackupOptions, Progress};
use pipeline::check::CheckOptions;
use pipeline::manifest::ManifestReader;
use pipeline::reclaim::ReclaimOptions;
use pipeline::restore::RestoreOptions;
use pipeline::unlocked::{InitOptions, UnlockedRepository};
use pipeline::{backup, check, reclaim, restore};
use repository::local::LocalStorage;
use std::path::Path;
use std::sync::Arc;

struct Print;
impl BackupMonitor for Print {
    fn problem(&self, problem: &capture::CaptureProblem) {
        eprintln!("{problem}");
    }
    fn note(&self, text: &str) {
        eprintln!("{text}");
    }
}
impl restore::RestoreMonitor for Print {
    fn problem(&self, path: &[u8], text: &str) {
        eprintln!("{}: {text}", String::from_utf8_lossy(path));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let storage = Arc::new(LocalStorage::create(Path::new(&args[2])).unwrap());
    let secret = SlotSecret::Password(b"x");
    let repository = match UnlockedRepository::open(storage.clone(), secret) {
        Ok(repository) => repository,
        Err(_) => UnlockedRepository::init(storage, secret, InitOptions::default()).unwrap(),
    };
    let progress = Progress::default();
    match args[1].as_str() {
        "backup" => back_up(&repository, &args[3], &progress),
        "restore" => restore_newest(&repository, Path::new(&args[3]), &progress),
        "check" => {
            let read_data_percent = Some(100.0);
            let options = CheckOptions { read_data_percent, threads: threads(), repair: false };
            println!("{:#?}", check::run(&repository, &options, &progress).unwrap());
        }
        "reclaim" => {
            println!("{:#?}", reclaim::run(&repository, &ReclaimOptions::default()).unwrap())
        }
        other => panic!("{other}"),
    }
}

/// A number from the environment.
fn number(name: &str, default: i32) -> i32 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn threads() -> usize {
    number("THREADS", 0) as usize
}

fn back_up(repository: &UnlockedRepository, source: &str, progress: &Progress) {
    let options = BackupOptions {
        roots: vec![capture::walk::SourceRoot::at(source.as_bytes())],
        node: "test".into(),
        paths: vec![source.to_owned()],
        tags: Vec::new(),
        walk: capture::walk::WalkOptions::default(),
        read: Default::default(),
        threads: threads(),
        level: match number("LEVEL", 0) {
            0 => seal::Level::Auto,
            level => seal::Level::Fixed(level),
        },
        full: false,
        read_since: None,
        ignore_inode: false,
        verify_blocks: number("VERIFY", 0) == 1,
        limits: Default::default(),
        checkpoint_after: Default::default(),
        cache: None,
        is_partial: false,
        time: None,
        skip_if_unchanged: false,
        mount_points: Vec::new(),
    };
    let done = backup::run(repository, &options, progress, &Print).unwrap();
    let bottleneck = done.report.bottleneck().unwrap_or_default();
    println!("{:#?}\n{bottleneck}\n{}", done.report, done.report.adds_up());
}

fn restore_newest(repository: &UnlockedRepository, target: &Path, progress: &Progress) {
    let mut reader = ManifestReader::new(repository).unwrap();
    let name = *repository.local().unwrap().snapshots().unwrap().last().unwrap();
    let snapshot = reader.read(name).unwrap();
    let options = RestoreOptions {
        threads: threads(),
        verify: number("VERIFY", 0) == 1,
        no_sync: number("NOSYNC", 0) == 1,
        ..Default::default()
    };
    let report = restore::run(repository, &snapshot, b"", target, &options, progress, &Print);
    println!("{:#?}", report.unwrap());
}
