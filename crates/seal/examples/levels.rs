//! What Zstandard's parameters give on real files, in processor time: `levels DIR [MEGABYTES]`.
use std::io::Read;
use zstd::zstd_safe::{CParameter, Strategy};

fn gather(path: &std::path::Path, out: &mut Vec<u8>, most: usize, skip: &mut u64) {
    let mut names: Vec<_> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for name in names {
        if out.len() >= most {
            return;
        }
        let kind = std::fs::symlink_metadata(&name).unwrap().file_type();
        if kind.is_dir() {
            gather(&name, out, most, skip);
        } else if kind.is_file() {
            *skip += 1;
            if (*skip).is_multiple_of(7) || std::fs::metadata(&name).unwrap().len() > 65_536 {
                let file = std::fs::File::open(&name).unwrap();
                file.take((most - out.len()).min(64 << 20) as u64).read_to_end(out).unwrap();
            }
        }
    }
}

fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let most = args.get(2).map_or(192, |value| value.parse().unwrap()) << 20;
    let mut data = Vec::new();
    gather(std::path::Path::new(&args[1]), &mut data, most, &mut 0);
    let block: usize = args.get(3).map_or(1 << 20, |value| value.parse().unwrap());
    let run = |label: &str, level: i32, parameters: &[CParameter]| {
        let mut compressor = zstd::bulk::Compressor::new(level).unwrap();
        parameters.iter().for_each(|parameter| compressor.set_parameter(*parameter).unwrap());
        let mut out = Vec::with_capacity(zstd::zstd_safe::compress_bound(block));
        let (start, mut bytes) = (cpu(), 0);
        for piece in data.chunks(block) {
            out.clear();
            bytes += compressor.compress_to_buffer(piece, &mut out).unwrap();
        }
        let secs = cpu() - start;
        println!(
            "{label:40} {:7.1} MB/s  ratio {:.3}",
            data.len() as f64 / 1e6 / secs,
            data.len() as f64 / bytes as f64
        );
    };
    use CParameter::{ChainLog, HashLog, MinMatch, WindowLog};
    for level in 1..=3 {
        run(&level.to_string(), level, &[]);
    }
    for (h, c) in [(16, 14), (17, 14), (17, 15), (18, 15), (18, 16), (19, 16)] {
        for mm in [6, 7] {
            run(
                &format!("dfast h{h} c{c} mm{mm}"),
                3,
                &[
                    CParameter::Strategy(Strategy::ZSTD_dfast),
                    WindowLog(22),
                    HashLog(h),
                    ChainLog(c),
                    MinMatch(mm),
                ],
            );
        }
    }
}
