//! How fast the walk alone is: `walk [-t THREADS] [-x] [-p] [-e PATTERNS] PATH...` prints entries per second.

use capture::excludes::Excludes;
use capture::walk::{SourceRoot, Walk, WalkEvent, WalkOptions};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let mut options = WalkOptions::default();
    let mut print_paths = false;
    let mut roots = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-t" => options.threads = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(2),
            "-x" => options.one_file_system = true,
            "-e" => options.excludes = patterns_in(&arguments.next().unwrap_or_default()),
            "-p" => print_paths = true,
            path => roots.push(SourceRoot::at(path.as_bytes())),
        }
    }
    if print_paths {
        return print(roots, options);
    }
    let start = Instant::now();
    let mut walk = Walk::start(&roots, options).expect("roots are absolute");
    let (mut entries, mut problems, mut bytes) = (0_u64, 0_u64, 0_u64);
    while let Some(event) = walk.next() {
        match event {
            WalkEvent::Entry(found) => {
                entries += 1;
                bytes += found.row.size;
            }
            WalkEvent::Problem { .. } => problems += 1,
        }
    }
    let secs = start.elapsed().as_secs_f64();
    println!(
        "{entries} entries, {problems} problems, {bytes} bytes, {secs:.3} s, {:.0} entries/s, {} rows ahead at most",
        entries as f64 / secs,
        walk.most_rows_ahead()
    );
}

fn print(roots: Vec<SourceRoot>, options: WalkOptions) {
    let mut walk = Walk::start(&roots, options).expect("roots are absolute");
    while let Some(event) = walk.next() {
        match event {
            WalkEvent::Entry(found) => println!("{}", String::from_utf8_lossy(found.path)),
            WalkEvent::Problem { problem, .. } => eprintln!("{problem}"),
        }
    }
}

fn patterns_in(file: &str) -> Arc<Excludes> {
    let mut builder = Excludes::builder();
    builder.file(file.as_ref()).expect("patterns are good");
    Arc::new(builder.build().expect("patterns are good"))
}
