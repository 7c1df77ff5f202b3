//! Creates small files in directories as fast as it can: what the file system lets a restore do.
//!
//! `files TARGET FILES DIRECTORIES THREADS [BYTES]`, e.g. `files /tmp/new 100000 5000 2`. Each file
//! has BYTES bytes (4,000 without), mode 0644, the caller's owner and a time of its own.

use format::entry::{Attributes, Entry, Kind, Time};
use restore::{RestoreProblem, Target, TargetOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

struct Work {
    files: usize,
    directories: usize,
    content: Vec<u8>,
    next: AtomicUsize,
    file: Arc<Attributes>,
    directory: Arc<Attributes>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, numbers @ ..] = &arguments[..] else {
        return Err(USAGE.into());
    };
    let numbers: Vec<usize> = numbers.iter().map(|n| n.parse()).collect::<Result<_, _>>()?;
    let [files, directories, threads, rest @ ..] = &numbers[..] else {
        return Err(USAGE.into());
    };
    let target = Target::open(Path::new(path), TargetOptions::default())?;
    let work = Work {
        files: *files,
        directories: *directories,
        content: b"some text\n".repeat(rest.first().unwrap_or(&4_000) / 10),
        next: AtomicUsize::new(0),
        file: attributes(Kind::File, 0o644),
        directory: attributes(Kind::Directory, 0o755),
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..*threads).map(|_| scope.spawn(|| run(&target, &work))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let objects = (files + directories) as f64;
    println!("{objects} objects, {seconds:.2} s, {:.0} objects/s", objects / seconds);
    Ok(())
}

const USAGE: &str = "files TARGET FILES DIRECTORIES THREADS [BYTES]";

/// Takes one directory after the other, with all that is in it.
fn run(target: &Target, work: &Work) -> Result<(), RestoreProblem> {
    let per_directory = work.files / work.directories;
    loop {
        let number = work.next.fetch_add(1, Ordering::Relaxed);
        if number >= work.directories {
            return Ok(());
        }
        let directory = work.entry(&work.directory, format!("d{number:06}"), 0);
        let handle = target.directory(&directory)?;
        for file in 0..per_directory {
            let path = format!("d{number:06}/file-{file:06}");
            let entry = work.entry(&work.file, path, work.content.len());
            target.small_file(&handle, &entry, &work.content)?;
        }
        target.finish_directory(&directory)?;
    }
}

impl Work {
    fn entry(&self, attributes: &Arc<Attributes>, path: String, size: usize) -> Entry {
        Entry {
            size: size as u64,
            mtime: Time { secs: 1_700_000_000, nanos: 1_234 },
            ..Entry::new(path.as_bytes(), attributes.clone())
        }
    }
}

fn attributes(kind: Kind, mode: u16) -> Arc<Attributes> {
    Arc::new(Attributes {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..Attributes::new(kind, mode)
    })
}
