//! `icecore bench`: what this machine could do at best.

pub(crate) mod pool;

use super::backup::processors;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::paths::absolute;
use crate::rates::{self, Rate};
use crate::units;
use capture::bench::{BenchResult, bench_read, bench_walk};
use capture::walk::SourceRoot;
use serde::Serialize;
use std::ffi::OsString;

/// Measure the maximum speed of this machine. Nothing is backed up.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore bench walk /home\n  icecore bench read /home --threads 4\n  icecore bench cpu\n  icecore bench storage --repo /mnt/backup\n  icecore bench pool /mnt/backup"
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Walk directory trees and inspect every object.
    Walk(Source),
    /// Walk directory trees and read every file.
    Read(Source),
    /// Hash, chunk, compress and encrypt in memory.
    Cpu,
    Pool(pool::BenchPool),
    /// Write to the repository directory and wait until the data is on the disk.
    Storage {
        /// How much to write.
        #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = units::parse_bytes)]
        size: u64,
    },
}

#[derive(clap::Args, Debug)]
struct Source {
    /// Files and directories.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Threads [default: one per CPU].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

#[derive(Serialize)]
struct Measurement {
    entries: u64,
    directories: u64,
    files: u64,
    bytes: u64,
    problems: u64,
    secs: f64,
    objects_per_sec: f64,
    bytes_per_sec: f64,
}

#[derive(Serialize)]
struct All {
    rates: Vec<Rate>,
}

impl Bench {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        match &self.what {
            What::Walk(source) => source.run(context, bench_walk),
            What::Read(source) => source.run(context, bench_read),
            What::Pool(pool) => pool.run(context),
            What::Cpu => tell(context, rates::cpu()?),
            What::Storage { size } => tell(context, rates::storage(&context.repo()?, *size)?),
        }
    }
}

impl Source {
    fn run(
        &self,
        context: &Context,
        bench: impl Fn(
            &[SourceRoot],
            usize,
        ) -> std::result::Result<BenchResult, capture::walk::WalkError>,
    ) -> Result<Code> {
        let roots = self.paths.iter().map(root).collect::<Result<Vec<_>>>()?;
        let threads = self.threads.map_or_else(processors, usize::from);
        let figures =
            bench(&roots, threads).map_err(|error| Failure::from(pipeline::Error::from(error)))?;
        let secs = figures.secs.max(1e-9);
        let measured = Measurement {
            entries: figures.entries,
            directories: figures.directories,
            files: figures.files,
            bytes: figures.bytes,
            problems: figures.problems,
            secs: figures.secs,
            objects_per_sec: figures.entries as f64 / secs,
            bytes_per_sec: figures.bytes as f64 / secs,
        };
        context.out.print(&text(&measured))?;
        context.out.summary(Code::Complete, &measured)
    }
}

/// What is not there is quickly walked: a mistake, not a figure.
fn root(path: &OsString) -> Result<SourceRoot> {
    let full = absolute(path)?;
    rustix::fs::lstat(full.as_slice())
        .map_err(|error| Failure::file(path.as_ref(), &error.into()))?;
    Ok(SourceRoot::at(&full))
}

fn text(measured: &Measurement) -> String {
    format!(
        "{} ({}, {}, {}), {} in {}: {} objects/s, {}",
        units::many(measured.entries, "object"),
        units::many(measured.directories, "directory"),
        units::many(measured.files, "file"),
        units::many(measured.problems, "problem"),
        units::bytes(measured.bytes),
        units::duration(measured.secs),
        units::count(measured.objects_per_sec as u64),
        units::rate(measured.bytes_per_sec),
    )
}

fn tell(context: &Context, rates: Vec<Rate>) -> Result<Code> {
    for rate in &rates {
        context.out.print(&format!("{:<36}{:>14}", rate.what, units::rate(rate.bytes_per_sec)))?;
    }
    context.out.summary(Code::Complete, &All { rates })
}
