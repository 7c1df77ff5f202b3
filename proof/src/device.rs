//! A disk that logs every write and every flush, and the power cut at each flush: the log is replayed
//! to it, with none, all, or torn parts of what was written since. The file system's own journal brings itself back.
//!
//! On the disk lies a repository ([`repository`]), or with `--target` what is restored ([`target`]).

mod fuse;
mod log;
mod repository;
mod script;
mod target;

use crate::failed;
use crate::made::Kind;
use crate::mounted::{be_alone, can_make};
use crate::options::Asked;
use crate::volume::Volume;
use log::{Cache, Replay};
use script::Recorded;
use simulation::Random;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Commands that are logged: of a repository, and restores.
const COMMANDS: [u64; 2] = [16, 6];
/// Holes of an image are found in steps of this.
const BLOCK_BYTES: usize = 64 << 10;

pub(super) struct Options {
    binary: PathBuf,
    file_system: String,
    limit: Option<Duration>,
    seed: u64,
    /// Commands that are logged.
    commands: u64,
    /// The target of restores lies on the disk, and no repository.
    is_target: bool,
    /// How containers are written, if it is said.
    io: Option<String>,
    kind: Kind,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let options = match options(arguments) {
        Ok(options) => options,
        Err(error) => return crate::options::said("device", Err(error)),
    };
    let kind = &options.file_system;
    let possible = if can_make(kind) { be_alone() } else { Err(format!("no mkfs.{kind} here")) };
    match possible {
        Ok(()) => crate::options::said("device", run(&options)),
        Err(reason) => crate::options::skipped("device", &reason),
    }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let asked =
        Asked::parse(arguments, &["--file-system", "--commands", "--target", "--io", "--kind"])?;
    let (is_target, kind) = (asked.has("--target"), Kind::named(asked.text("--kind"))?);
    if kind == Kind::Bucket {
        return Err("--kind bucket: a bucket lies on no disk of ours".to_owned());
    }
    Ok(Options {
        binary: asked.binary(),
        file_system: asked.text("--file-system").unwrap_or("ext4").to_owned(),
        limit: asked.limit()?,
        seed: asked.seed()?,
        commands: asked.number("--commands")?.unwrap_or(COMMANDS[usize::from(is_target)]).max(1),
        is_target,
        io: asked.text("--io").map(str::to_owned),
        kind,
    })
}

fn run(options: &Options) -> Result<String, String> {
    let begun = Instant::now();
    let work = std::env::temp_dir().join(format!("icecore-device-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(failed("make the working directory"))?;
    println!("seed {}, {}", options.seed, options.file_system);
    let told = |error| format!("{error}\nseed {}; kept: {}", options.seed, work.display());
    let until = options.limit.map(|limit| begun + limit);
    let line = match options.is_target {
        true => target::prove(options, &work, until),
        false => repository::prove(options, &work, until),
    };
    let line = line.map_err(told)?;
    std::fs::remove_dir_all(&work).map_err(failed("remove the working directory"))?;
    Ok(format!("{line}, {} s", begun.elapsed().as_secs()))
}

/// What must hold after a power cut.
trait Judge {
    /// Looks at what is mounted, after a power cut at that request; `number` cuts were before.
    fn verify(&mut self, moment: usize, number: u64) -> Result<(), String>;
}

/// The power cuts, one after the other.
struct Cuts<J> {
    work: PathBuf,
    flushes: Vec<usize>,
    end: usize,
    replay: Replay,
    random: Random,
    made: u64,
    judge: J,
}

impl<J: Judge> Cuts<J> {
    fn new<T>(options: &Options, work: &Path, recorded: Recorded<T>, judge: J) -> Self {
        let Recorded { requests, bytes, flushes, end, .. } = recorded;
        Self {
            work: work.to_owned(),
            flushes,
            end,
            replay: Replay::new(requests, bytes),
            random: Random::new(options.seed),
            made: 0,
            judge,
        }
    }

    /// At every flush, or at some of them when there is no time for all.
    fn all(&mut self, until: Option<Instant>) -> Result<(), String> {
        let flushes = self.flushes.clone();
        let begun = Instant::now();
        let mut at = 0;
        while let Some(flush) = flushes.get(at) {
            // Without a single cut nothing was tested, however busy the machine is.
            if self.made > 0 && until.is_some_and(|until| Instant::now() > until) {
                break;
            }
            let next = flushes.get(at + 1).copied().unwrap_or(self.end);
            self.replay.advance(flush + 1);
            for cache in [Cache::Lost, Cache::Written, Cache::Torn, Cache::Torn] {
                let cut = flush + 1 + self.random.index(next - flush);
                self.cut(*flush + 1..cut, cache).map_err(|error| {
                    format!(
                        "power cut at request {cut}, flush {at} of {}, {cache:?}: {error}",
                        flushes.len()
                    )
                })?;
            }
            at += 1 + until.map_or(0, |until| self.skipped(begun, until, flushes.len() - at));
        }
        Ok(())
    }

    /// Flushes to pass over, so that the time reaches to the last.
    fn skipped(&mut self, begun: Instant, until: Instant, left: usize) -> usize {
        let each = begun.elapsed().as_secs_f64() / self.made as f64 * 4.0;
        let time = until.saturating_duration_since(Instant::now()).as_secs_f64();
        let affordable = (time / each).max(1.0);
        let average = left as f64 / affordable;
        if average <= 1.0 { 0 } else { self.random.index((2.0 * average) as usize) }
    }

    fn cut(&mut self, since: std::ops::Range<usize>, cache: Cache) -> Result<(), String> {
        let moment = since.end;
        let image = self.work.join("cut.img");
        let bytes = self.replay.image(since, cache, &mut self.random);
        write_sparse(&image, &bytes).map_err(failed("write an image"))?;
        let volume = Volume::open(&image, &self.work.join("mount"))?;
        let result = self.judge.verify(moment, self.made);
        drop(volume);
        self.made += 1;
        result
    }
}

fn write_sparse(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    for (at, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, (at * BLOCK_BYTES) as u64)?;
        }
    }
    Ok(())
}
