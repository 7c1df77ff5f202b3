//! A bare backup for profiling: `quick REPO PATH`.
use client::backup::{Monitor, Options, Progress, run};
use client::archive::{Archive, InitOptions};
use crypto::SlotSecret;
use repository::local::LocalStorage;
use std::sync::Arc;

struct Print;
impl Monitor for Print {
    fn problem(&self, problem: &capture::Problem) { eprintln!("{problem}"); }
    fn note(&self, text: &str) { eprintln!("{text}"); }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let path = std::path::Path::new(&args[1]);
    let storage = Arc::new(LocalStorage::create(path).unwrap());
    let secret = SlotSecret::Password(b"x");
    let archive = match Archive::open(storage.clone(), secret) {
        Ok(archive) => archive,
        Err(_) => Archive::init(storage, secret, InitOptions::default()).unwrap(),
    };
    let level = std::env::var("LEVEL").map_or(1, |level| level.parse().unwrap());
    let threads = std::env::var("THREADS").map_or(2, |level| level.parse().unwrap());
    let options = Options {
        roots: vec![capture::walk::Root::at(args[2].as_bytes())],
        node: "test".into(),
        paths: vec![args[2].clone()],
        tags: Vec::new(),
        walk: capture::walk::Options { threads, ..Default::default() },
        read: Default::default(),
        threads,
        level,
        full: false,
        ignore_inode: false,
        verify_blocks: false,
    };
    let done = run(&archive, &options, &Progress::default(), &Print).unwrap();
    println!("{:#?}\n{}\n{}", done.report, done.report.bottleneck(), done.report.adds_up());
}
