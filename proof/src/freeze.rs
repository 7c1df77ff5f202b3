//! Two clients of one repository, of which one sleeps: stopped by a signal or frozen by a control
//! group at random moments, with its lock or robbed of it, while the other goes on.

use crate::client::{Client, Ran, Started};
use crate::group::{Control, Group};
use crate::options::{Asked, report, skipped_part};
use crate::{failed, tree};
use rustix::process::Signal;
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const IN_USE: i32 = 11;
/// Sleeps when no time is given.
const SLEEPS: u64 = 60;
/// Snapshots beyond these are forgotten, the oldest first.
const KEEP: usize = 3;
/// Sleeps between two looks at everything.
const VERIFY_EVERY: u64 = 8;
/// Longer than anything in the code waits for: no lock ages out.
const LONG: Duration = Duration::from_secs(5);

/// What a client does when it falls asleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Backup,
    Forget,
    Reclaim,
}

#[derive(Default)]
struct Counts {
    slept: u64,
    /// Ended before they could be stopped.
    too_late: u64,
    /// The other was refused meanwhile.
    refused: u64,
    robbed: u64,
    fenced: u64,
    restored: u64,
    checked: u64,
}

struct Two {
    client: Client,
    /// Of the sleeper and of the other: neither changes under the feet of its backup.
    sources: [PathBuf; 2],
    work: PathBuf,
    random: Random,
    freezer: Option<Group>,
    /// What a backup takes; the other commands take less.
    usual: Duration,
    known: Vec<(String, tree::Copy)>,
    counts: Counts,
}

/// A process that sleeps.
struct Sleeper<'a> {
    started: Started,
    freezer: Option<&'a Group>,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Asked::parse(arguments, &[]) {
        Ok(asked) => report("freeze", |work| run(&asked, work), Ok(())),
        Err(error) => {
            eprintln!("freeze: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let (deadline, seed) = (asked.deadline()?, asked.seed()?);
    println!("seed {seed}");
    let mut two = Two::start(asked, work, seed)?;
    let with_seed = |error: String| format!("{error}\nseed {seed}");
    for number in 1.. {
        let is_over = match deadline {
            Some(deadline) => Instant::now() > deadline,
            None => number > SLEEPS,
        };
        if is_over {
            break;
        }
        let long = number == 2;
        two.night(long).map_err(|error| with_seed(format!("sleep {number}: {error}")))?;
        if number % VERIFY_EVERY == 0 {
            two.verify().map_err(|error| with_seed(format!("after freeze {number}: {error}")))?;
        }
    }
    two.verify().map_err(with_seed)?;
    let Counts { slept, too_late, refused, robbed, fenced, restored, checked } = two.counts;
    Ok(format!(
        "{slept} commands were frozen ({too_late} had ended before), {refused} times the other was denied, {robbed} lost their lock and {fenced} of them fenced; {checked} checks clean, {restored} snapshots restored as they were, {} s",
        begun.elapsed().as_secs()
    ))
}

impl Two {
    fn start(asked: &Asked, work: &Path, seed: u64) -> Result<Self, String> {
        let client = Client::new(&asked.binary(), &work.join("repository"));
        let sources = ["one", "other"].map(|name| work.join(name));
        let mut random = Random::new(seed);
        for source in &sources {
            tree::create(source, &mut random).map_err(failed("make a tree"))?;
        }
        client.ends(&["init"], &[0])?;
        let freezer = Group::make(Control::Freezer);
        if let Err(error) = &freezer {
            skipped_part("freeze", &format!("freezer: {error}"));
        }
        let mut two = Self {
            client,
            sources,
            work: work.to_owned(),
            random,
            freezer: freezer.ok(),
            usual: Duration::ZERO,
            known: Vec::new(),
            counts: Counts::default(),
        };
        let begun = Instant::now();
        two.back_up_other()?;
        two.usual = begun.elapsed();
        two.back_up_other()?;
        Ok(two)
    }

    fn change(&mut self, which: usize) -> Result<tree::Copy, String> {
        let source = &self.sources[which];
        tree::mutate(source, &mut self.random).map_err(failed("change a tree"))?;
        let bytes = self.random.bytes(4 << 20);
        std::fs::write(source.join("new"), bytes).map_err(failed("change a tree"))?;
        tree::copy(source).map_err(failed("read a tree"))
    }

    fn back_up_other(&mut self) -> Result<(), String> {
        let copy = self.change(1)?;
        let id = self.client.back_up(&self.sources[1])?;
        self.known.push((id, copy));
        Ok(())
    }

    /// One client falls asleep in the middle of something, the other works, the first wakes up.
    fn night(&mut self, long: bool) -> Result<(), String> {
        let acts = [Act::Backup, Act::Backup, Act::Reclaim, Act::Forget];
        // The last one is not forgotten: something must be there to be lost.
        let some = if self.known.len() > 1 { acts.len() } else { acts.len() - 1 };
        let act = acts[self.random.below(some as u64) as usize];
        let copy = self.change(0)?;
        let spread = self.usual.as_micros() as u64 * if act == Act::Backup { 3 } else { 2 } / 4;
        let moment = Duration::from_micros(self.random.below(spread.max(1)));
        // The freezer and the signal take turns.
        let freezer = if self.random.one_in(2) { self.freezer.take() } else { None };
        let outcome = self.sleep(act, moment, freezer.as_ref(), long);
        if freezer.is_some() {
            self.freezer = freezer;
        }
        let (ran, robbed) = outcome?;
        self.wakes(act, &ran, robbed, copy)
    }

    fn sleep(
        &mut self,
        act: Act,
        moment: Duration,
        freezer: Option<&Group>,
        long: bool,
    ) -> Result<(Ran, bool), String> {
        let mut client = self.client.clone();
        client.under = freezer.map(Group::under).unwrap_or_default();
        let source = self.sources[0].to_string_lossy().into_owned();
        let words: Vec<&str> = match act {
            Act::Backup => vec!["backup", &source, "--json"],
            Act::Forget => {
                // From now on it may be gone.
                let (oldest, _) = self.known.remove(0);
                return self.sleep_in(&client, &["forget", &oldest], moment, freezer, long);
            }
            Act::Reclaim => vec!["reclaim", "--max-waste", "0"],
        };
        self.sleep_in(&client, &words, moment, freezer, long)
    }

    fn sleep_in(
        &mut self,
        client: &Client,
        words: &[&str],
        moment: Duration,
        freezer: Option<&Group>,
        long: bool,
    ) -> Result<(Ran, bool), String> {
        let sleeper = Sleeper { started: client.start(words)?, freezer };
        // Mostly behind the moment in which it took the lease: before, it has nothing to lose.
        if !self.random.one_in(4) {
            self.wait_for_lease(&sleeper.started);
        }
        std::thread::sleep(moment);
        sleeper.stop()?;
        if sleeper.started.has_ended() {
            self.counts.too_late += 1;
            return Ok((sleeper.wake()?, false));
        }
        self.counts.slept += 1;
        let robbed = self.random.one_in(2);
        let meanwhile = if robbed { self.rob() } else { self.knock() };
        if long {
            std::thread::sleep(LONG);
        }
        let ran = sleeper.wake();
        meanwhile?;
        Ok((ran?, robbed))
    }

    /// Until the lease names this process, or it has ended.
    fn wait_for_lease(&self, started: &Started) {
        let name = format!("process {}", started.id);
        let lease = self.client.repository.join("lease");
        let is_named = || {
            let bytes = std::fs::read(&lease).unwrap_or_default();
            bytes.windows(name.len()).any(|part| part == name.as_bytes())
        };
        while !started.has_ended() && !is_named() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// The other cannot write as long as the sleeper has the lock, and can read.
    fn knock(&mut self) -> Result<(), String> {
        let copy = self.change(1)?;
        let source = self.sources[1].to_string_lossy().into_owned();
        // The sleeper may not have come to its lock yet.
        let ran = self.client.ends(&["backup", &source, "--json"], &[0, IN_USE])?;
        match ran.acknowledged() {
            Some(id) => self.known.push((id, copy)),
            None if ran.message().contains("in use") => self.counts.refused += 1,
            None => return Err(format!("denied with an unexpected message: {}", ran.told())),
        }
        self.client.ends(&["check"], &[0])?;
        let newest = self.known.len() - 1;
        self.restores(newest)
    }

    /// The lock goes away while its holder sleeps, as a network file system may lose it; the other
    /// takes over, and does everything.
    fn rob(&mut self) -> Result<(), String> {
        let lock = self.client.repository.join("lock");
        if lock.exists() {
            std::fs::remove_file(&lock).map_err(failed("take the lock away"))?;
        }
        self.counts.robbed += 1;
        self.back_up_other()?;
        while self.known.len() > KEEP {
            let (oldest, _) = self.known.remove(0);
            self.client.ends(&["forget", &oldest], &[0])?;
        }
        self.client.ends(&["reclaim", "--max-waste", "0"], &[0])?;
        self.back_up_other()
    }

    /// What the sleeper says when it wakes up.
    fn wakes(&mut self, act: Act, ran: &Ran, robbed: bool, copy: tree::Copy) -> Result<(), String> {
        match ran.code {
            Some(0) => {
                if act == Act::Backup {
                    let id = ran.acknowledged().ok_or_else(|| ran.told())?;
                    self.known.push((id, copy));
                }
                Ok(())
            }
            Some(IN_USE) if robbed && ran.message().contains("took over the lease") => {
                self.counts.fenced += 1;
                Ok(())
            }
            // It began, and found that the other had done the work.
            Some(1) if robbed && act == Act::Forget => Ok(()),
            _ => Err(format!("{act:?}, lost its lock: {robbed}: {}", ran.told())),
        }
    }

    fn verify(&mut self) -> Result<(), String> {
        self.client.ends(&["check", "--read-data"], &[0])?;
        self.counts.checked += 1;
        (0..self.known.len()).try_for_each(|number| self.restores(number))?;
        while self.known.len() > KEEP {
            let (oldest, _) = self.known.remove(0);
            self.client.ends(&["forget", &oldest], &[0])?;
        }
        self.client.ends(&["reclaim"], &[0]).map(|_| ())
    }

    fn restores(&mut self, number: usize) -> Result<(), String> {
        let (id, was) = &self.known[number];
        self.client.restores(id, was, &self.work.join("restored"))?;
        self.counts.restored += 1;
        Ok(())
    }
}

impl Sleeper<'_> {
    fn stop(&self) -> Result<(), String> {
        match self.freezer {
            Some(group) => group.freeze()?,
            None => self.started.signal(Signal::STOP),
        }
        // Until the last thread stands, and an end is seen.
        std::thread::sleep(Duration::from_millis(3));
        Ok(())
    }

    fn wake(self) -> Result<Ran, String> {
        match self.freezer {
            Some(group) => group.thaw()?,
            None => self.started.signal(Signal::CONT),
        }
        self.started.end()
    }
}
