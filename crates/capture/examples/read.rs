//! How fast walking and reading into nothing is: `read THREADS PATH...`.

use capture::bench::bench_read;
use capture::walk::SourceRoot;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(2);
    let roots: Vec<_> = arguments.map(|path| SourceRoot::at(path.as_bytes())).collect();
    println!("{:#?}", bench_read(&roots, threads));
}
