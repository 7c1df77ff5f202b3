//! `kill -9` at random moments of backup, forget and reclaim.
//!
//! A model remembers the tree of every backup that was reported done. After every few runs
//! `check` must find nothing, every remembered snapshot that was not forgotten must restore as it
//! was, and no command may ask for a manual unlock.

use crate::icecore::{Ended, Icecore, acknowledged, told};
use crate::made::Kind;
use crate::mounted::{be_alone, can_make};
use crate::options::Asked;
use crate::snapshot::{restores_as_it_was, same};
use crate::volume::{Volume, free_bytes};
use crate::{failed, tree};
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Snapshots that `forget` keeps.
const KEEP: usize = 3;
const FORGET: [&str; 3] = ["forget", "--keep-last", "3"];
const RECLAIM: [&str; 1] = ["reclaim"];
/// With less free on a volume that is shut down, old snapshots go first: several times a tree and its copies.
const ROOM_BYTES: u64 = 192 << 20;
/// Remembered snapshots restored per verification; the newest always.
const RESTORES_MAX: usize = 4;

struct Options {
    runs: u64,
    limit: Option<Duration>,
    seed: u64,
    verify_every: u64,
    binary: PathBuf,
    keep: bool,
    /// The kind of file system that is shut down, instead of killing.
    file_system: Option<String>,
    /// Where the repository lies, if not beside the sources.
    on: Option<PathBuf>,
    io: Io,
    kind: Kind,
}

/// How containers are written.
#[derive(Clone)]
enum Io {
    /// In this mode, if one is named.
    Same(Option<String>),
    /// In another one before each command.
    Changing,
}

impl Io {
    fn named(name: Option<&str>) -> Self {
        match name {
            Some("changing") => Self::Changing,
            name => Self::Same(name.map(str::to_owned)),
        }
    }
}

/// What a command usually takes, so that kills fall all over it.
#[derive(Clone, Copy)]
struct Usual(Duration);

impl Usual {
    /// It took this long when nobody killed it.
    fn took(&mut self, elapsed: Duration) {
        self.0 = (self.0 * 3 + elapsed) / 4;
    }

    /// It was killed after this time, so it takes longer.
    fn takes_more_than(&mut self, delay: Duration) {
        self.0 = self.0.max(delay);
    }

    /// A moment in that time, or a little behind it.
    fn moment(self, random: &mut Random) -> Duration {
        let longest = (self.0 + self.0 / 3).max(Duration::from_millis(5));
        Duration::from_nanos(random.below(longest.as_nanos() as u64))
    }
}

#[derive(Default)]
struct Counts {
    killed: u64,
    done: u64,
    verified: u64,
    restored: u64,
}

impl Options {
    fn of(binary: PathBuf) -> Self {
        Self {
            runs: 200,
            limit: None,
            seed: 0,
            verify_every: 10,
            binary,
            keep: false,
            file_system: None,
            on: None,
            io: Io::Same(None),
            kind: Kind::Directory,
        }
    }
}

struct Model {
    icecore: Icecore,
    source: PathBuf,
    work: PathBuf,
    io: Io,
    random: Random,
    backup: Usual,
    forget: Usual,
    reclaim: Usual,
    counts: Counts,
    /// Acknowledged and not forgotten: id and tree.
    remembered: Vec<(String, tree::Copy)>,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let options = match options(arguments) {
        Ok(options) => options,
        Err(error) => return crate::options::said("crash", Err(error)),
    };
    let possible = match &options.file_system {
        Some(kind) if !can_make(kind) => Err(format!("no mkfs.{kind} here")),
        Some(_) => be_alone(),
        None => Ok(()),
    };
    match possible {
        Ok(()) => crate::options::said("crash", run(&options)),
        Err(reason) => crate::options::skipped("crash", &reason),
    }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let more = ["--keep", "--shut-down", "--runs", "--verify-every", "--io", "--on", "--kind"];
    let asked = Asked::parse(arguments, &more)?;
    let kind = Kind::named(asked.text("--kind"))?;
    let of_disks = ["--io", "--shut-down", "--on"].into_iter().find(|name| asked.has(name));
    if let (Kind::Bucket, Some(name)) = (kind, of_disks) {
        return Err(format!("--kind bucket has no {name}"));
    }
    let usual = Options::of(asked.binary());
    Ok(Options {
        keep: asked.has("--keep"),
        file_system: asked.text("--shut-down").map(str::to_owned),
        on: asked.text("--on").map(PathBuf::from),
        io: Io::named(asked.text("--io")),
        kind,
        runs: asked.number("--runs")?.unwrap_or(usual.runs),
        limit: asked.limit()?,
        seed: asked.seed()?,
        verify_every: asked.number("--verify-every")?.unwrap_or(usual.verify_every).max(1),
        ..usual
    })
}

fn run(options: &Options) -> Result<String, String> {
    let work =
        std::env::temp_dir().join(format!("icecore-crash-{}-{}", std::process::id(), options.seed));
    println!("seed {}, in {}", options.seed, work.display());
    let start = Instant::now();
    let result = rounds(options, &work, start);
    if result.is_ok() && !options.keep {
        std::fs::remove_dir_all(&work).map_err(failed("remove the working directory"))?;
    }
    let counts = result
        .map_err(|error| format!("{error}\nseed {}; kept: {}", options.seed, work.display()))?;
    let Counts { killed, done, verified, restored } = counts;
    let secs = start.elapsed().as_secs();
    Ok(format!(
        "{killed} commands killed, {done} finished, {verified} checks clean, {restored} snapshots restored as they were, {secs} s"
    ))
}

fn rounds(options: &Options, work: &Path, start: Instant) -> Result<Counts, String> {
    let mut model = Model::start(options, work)?;
    for round in 1..=options.runs {
        if options.limit.is_some_and(|limit| start.elapsed() >= limit) {
            break;
        }
        model.round().map_err(|error| format!("round {round}: {error}"))?;
        if round % options.verify_every == 0 {
            model.verify(round).map_err(|error| format!("after round {round}: {error}"))?;
        }
    }
    model.verify(0)?;
    Ok(model.counts)
}

impl Model {
    fn start(options: &Options, work: &Path) -> Result<Self, String> {
        let source = work.join("source");
        let mut random = Random::new(options.seed);
        tree::create(&source, &mut random).map_err(failed("make the tree"))?;
        let volume = options.file_system.as_ref().map(|kind| Volume::make(kind, work));
        let volume = volume.transpose()?;
        let beside = options.on.as_deref().unwrap_or(work);
        let repository = volume.as_ref().map_or(beside, Volume::path).join("repository");
        let icecore = options.kind.make(&options.binary, &repository, volume)?;
        if let Io::Same(Some(mode)) = &options.io {
            icecore.run(&["pool", "set", mode])?;
        }
        let unknown = Usual(Duration::ZERO);
        let mut model = Self {
            icecore,
            source,
            work: work.to_owned(),
            io: options.io.clone(),
            random,
            backup: unknown,
            forget: unknown,
            reclaim: unknown,
            counts: Counts::default(),
            remembered: Vec::new(),
        };
        model.measure()?;
        Ok(model)
    }

    /// One of each, not killed: how long it takes.
    fn measure(&mut self) -> Result<(), String> {
        let start = Instant::now();
        self.back_up(Duration::from_secs(600))?;
        self.backup = Usual(start.elapsed());
        if self.remembered.is_empty() {
            return Err("the first backup did not end in ten minutes".to_owned());
        }
        self.forget = Usual(self.icecore.run(&FORGET)?.1);
        self.reclaim = Usual(self.icecore.run(&RECLAIM)?.1);
        Ok(())
    }

    /// Kills fall on forget and reclaim, too, so that chance alone may fill the disk.
    fn make_room(&mut self) -> Result<(), String> {
        let Some(volume) = &self.icecore.volume else { return Ok(()) };
        if free_bytes(volume.path())? >= ROOM_BYTES {
            return Ok(());
        }
        self.expect_forgotten()?;
        self.icecore.run(&FORGET)?;
        self.icecore.run(&RECLAIM).map(|_| ())
    }

    fn round(&mut self) -> Result<(), String> {
        self.make_room()?;
        tree::mutate(&self.source, &mut self.random).map_err(failed("change the tree"))?;
        if matches!(self.io, Io::Changing) {
            let mode = if self.random.one_in(2) { "direct" } else { "buffered" };
            self.icecore.run(&["pool", "set", mode])?;
        }
        match self.random.below(8) {
            0 => {
                self.expect_forgotten()?;
                let delay = self.forget.moment(&mut self.random);
                let ended = self.icecore.run_and_kill(&FORGET, delay)?;
                count(&mut self.counts, &mut self.forget, &FORGET, delay, ended)
            }
            1 => {
                let delay = self.reclaim.moment(&mut self.random);
                let ended = self.icecore.run_and_kill(&RECLAIM, delay)?;
                count(&mut self.counts, &mut self.reclaim, &RECLAIM, delay, ended)
            }
            _ => {
                let delay = self.backup.moment(&mut self.random);
                self.back_up(delay)
            }
        }
    }

    fn back_up(&mut self, delay: Duration) -> Result<(), String> {
        let before = tree::copy(&self.source).map_err(failed("read the tree"))?;
        let source = self.source.to_string_lossy().into_owned();
        let arguments = ["backup", &source, "--json"];
        let ended = self.icecore.run_and_kill(&arguments, delay)?;
        if let Ended::Done(output, _) = &ended {
            let id = acknowledged(output).ok_or_else(|| told(&arguments, output))?;
            self.remembered.push((id, before));
        }
        count(&mut self.counts, &mut self.backup, &arguments, delay, ended)
    }

    /// What `forget` may remove from now on, killed or not.
    fn expect_forgotten(&mut self) -> Result<(), String> {
        // A backup that was killed after its commit is there too, and counts as one that is kept.
        let listed = self.icecore.snapshots()?;
        let kept = &listed[listed.len().saturating_sub(KEEP)..];
        self.remembered.retain(|(id, _)| kept.iter().any(|other| same(id, other)));
        Ok(())
    }

    /// `check` finds nothing, and what was acknowledged is there.
    fn verify(&mut self, round: u64) -> Result<(), String> {
        let whole = round == 0 || self.random.one_in(4);
        self.icecore.run(if whole { &["check", "--read-data"][..] } else { &["check"] })?;
        let listed = self.icecore.snapshots()?;
        for (id, _) in &self.remembered {
            if !listed.iter().any(|other| same(id, other)) {
                return Err(format!("snapshot {id} was acknowledged and is not there"));
            }
        }
        let skipped =
            if round == 0 { 0 } else { self.remembered.len().saturating_sub(RESTORES_MAX) };
        for (id, was) in self.remembered.iter().skip(skipped) {
            restores_as_it_was(&self.icecore, id, was, &self.work.join("restored"))?;
            self.counts.restored += 1;
        }
        self.counts.verified += 1;
        Ok(())
    }
}

fn count(
    counts: &mut Counts,
    usual: &mut Usual,
    arguments: &[&str],
    delay: Duration,
    ended: Ended,
) -> Result<(), String> {
    match ended {
        Ended::Killed => {
            counts.killed += 1;
            usual.takes_more_than(delay);
        }
        Ended::Done(output, elapsed) if output.status.success() => {
            counts.done += 1;
            usual.took(elapsed);
        }
        Ended::Done(output, _) => return Err(told(arguments, &output)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loop against a stand-in with this fault.
    fn outcome(fault: &str, seed: u64) -> Result<String, String> {
        let folder =
            std::env::temp_dir().join(format!("icecore-fake-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let binary = folder.join(format!("fake-icecore{fault}"));
        let fake = crate::options::root().join("proof/testdata/fake-icecore");
        std::os::unix::fs::symlink(fake, &binary).expect("a link");
        let options = Options { runs: 16, seed, verify_every: 4, ..Options::of(binary) };
        let outcome = run(&options);
        std::fs::remove_dir_all(&folder).expect("remove");
        let work = format!("icecore-crash-{}-{seed}", std::process::id());
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(work));
        outcome
    }

    #[test]
    fn an_honest_program_passes_the_loop() {
        assert_eq!(outcome("", 1).map(|_| ()), Ok(()));
    }

    #[test]
    fn a_program_that_acknowledges_what_it_lost_is_caught() {
        let error = outcome("-lossy", 2).expect_err("it loses files");
        assert!(error.contains("is not restored as it was"), "{error}");
    }

    #[test]
    fn a_program_that_publishes_too_early_is_caught() {
        assert!(outcome("-early", 3).is_err());
    }
}
