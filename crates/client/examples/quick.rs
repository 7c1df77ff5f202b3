//! Bare pipelines for profiling: `quick backup|restore|check|forget|reclaim REPO [PATH]`.
use client::backup::{BackupMonitor, BackupOptions, Progress, run};
use client::unlocked::{InitOptions, UnlockedRepository};
use crypto::SlotSecret;
use repository::local::LocalStorage;
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
impl client::restore::RestoreMonitor for Print {
    fn problem(&self, path: &[u8], text: &str) {
        eprintln!("{}: {text}", String::from_utf8_lossy(path));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let path = std::path::Path::new(&args[2]);
    let storage = Arc::new(LocalStorage::create(path).unwrap());
    let secret = SlotSecret::Password(b"x");
    let repository = match UnlockedRepository::open(storage.clone(), secret) {
        Ok(repository) => repository,
        Err(_) => UnlockedRepository::init(storage, secret, InitOptions::default()).unwrap(),
    };
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let threads = number("THREADS", 0) as usize;
    let progress = Progress::default();
    match args[1].as_str() {
        "backup" => {
            let options = BackupOptions {
                roots: vec![capture::walk::SourceRoot::at(args[3].as_bytes())],
                node: "test".into(),
                paths: vec![args[3].clone()],
                tags: Vec::new(),
                walk: capture::walk::WalkOptions::default(),
                read: Default::default(),
                threads,
                level: match number("LEVEL", 0) {
                    0 => seal::Level::Auto,
                    level => seal::Level::Fixed(level),
                },
                full: false,
                ignore_inode: false,
                verify_blocks: number("VERIFY", 0) == 1,
                limits: Default::default(),
                cache: None,
                is_partial: false,
                time: None,
                skip_if_unchanged: false,
            };
            let done = run(&repository, &options, &progress, &Print).unwrap();
            let bottleneck = done.report.bottleneck().unwrap_or_default();
            println!("{:#?}\n{bottleneck}\n{}", done.report, done.report.adds_up());
        }
        "restore" => {
            let mut reader = client::manifest::ManifestReader::new(&repository).unwrap();
            let name = *repository.local().unwrap().snapshots().unwrap().last().unwrap();
            let snapshot = reader.read(name).unwrap();
            let options = client::restore::RestoreOptions {
                threads,
                verify: number("VERIFY", 0) == 1,
                no_sync: number("NOSYNC", 0) == 1,
                ..Default::default()
            };
            let target = std::path::Path::new(&args[3]);
            println!(
                "{:#?}",
                client::restore::run(
                    &repository,
                    &snapshot,
                    b"",
                    target,
                    &options,
                    &progress,
                    &Print
                )
                .unwrap()
            );
        }
        "check" => {
            let options = client::check::CheckOptions {
                read_data_percent: Some(100.0),
                threads,
                repair: false,
            };
            println!("{:#?}", client::check::run(&repository, &options, &progress).unwrap());
        }
        "reclaim" => println!(
            "{:#?}",
            client::reclaim::run(&repository, &client::reclaim::ReclaimOptions::default()).unwrap()
        ),
        other => panic!("{other}"),
    }
}
