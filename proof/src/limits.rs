//! Little memory, few descriptors, a slow disk, a clock that jumps: each command works, or it ends
//! and says why or is killed; in no case is anything acknowledged lost.

use crate::client::{Client, Ran};
use crate::group::{Control, Group};
use crate::mounted::{self, Mounted};
use crate::options::{Asked, report, skipped_part};
use crate::{failed, tree};
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Memory of a control group, from plenty downward, until the first that is too little.
const MEMORY_MIB: [u64; 9] = [256, 192, 128, 96, 64, 48, 32, 24, 16];
/// Address space (`ulimit -v`), in MiB.
const ADDRESSES_MIB: [u64; 6] = [2048, 1024, 512, 256, 128, 64];
/// Open files (`ulimit -n`).
const DESCRIPTORS: [u64; 4] = [256, 128, 64, 16];
/// Bytes of the source unless `--mib` says more.
const SOURCE_MIB: u64 = 48;
/// How long the slow disk does not answer.
const HANGS: Duration = Duration::from_secs(3);
/// What the backup onto it reads a second: slow enough that it cannot end before the disk hangs.
const SLOW: &str = "16M";

/// Commands that are put under a limit.
const COMMANDS: [&str; 5] = ["backup", "restore", "check", "reclaim", "forget"];

/// Signals of a kernel that takes memory back, and of a program that gets none.
const KILLED: [i32; 2] = [9, 6];

struct Rig {
    client: Client,
    work: PathBuf,
    source: PathBuf,
    known: Vec<(String, tree::Copy)>,
    random: Random,
    deadline: Option<Instant>,
    worked: u32,
    refused: u32,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Asked::parse(arguments, &["--mib"]) {
        Ok(asked) => report("limits", |work| run(&asked, work), mounted::be_alone()),
        Err(error) => {
            eprintln!("limits: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let (begun, seed) = (Instant::now(), asked.seed()?);
    println!("seed {seed}");
    let mut rig = Rig::start(asked, work, seed)?;
    rig.slow_disk(work)?;
    rig.clock_jumps()?;
    rig.memory()?;
    rig.ulimits("n", "open files", &DESCRIPTORS, 1)?;
    rig.ulimits("v", "MiB of addresses", &ADDRESSES_MIB, 1024)?;
    rig.holds_all()?;
    Ok(format!(
        "{} commands worked within their limits, {} reported an error or were killed; nothing acknowledged was lost, {} s",
        rig.worked,
        rig.refused,
        begun.elapsed().as_secs()
    ))
}

impl Rig {
    fn start(asked: &Asked, work: &Path, seed: u64) -> Result<Self, String> {
        let client = Client::new(&asked.binary(), &work.join("repository"));
        let source = work.join("source");
        let mut random = Random::new(seed);
        tree::create(&source, &mut random).map_err(failed("make a tree"))?;
        let mib = asked.number("--mib")?.unwrap_or(SOURCE_MIB);
        // Half of it in one file, half in small ones.
        let write = |name: &str, bytes: Vec<u8>| {
            std::fs::write(source.join(name), bytes).map_err(failed("make a file"))
        };
        write("large", random.bytes(mib / 2 * MIB))?;
        for number in 0..mib / 2 * 16 {
            write(&format!("small {number}"), random.bytes(MIB / 16))?;
        }
        client.ends(&["init"], &[0])?;
        let deadline = asked.deadline()?;
        let (work, known) = (work.to_owned(), Vec::new());
        let mut rig = Self { client, work, source, known, random, deadline, worked: 0, refused: 0 };
        rig.back_up()?;
        rig.back_up()?;
        Ok(rig)
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }

    /// Something new, so that there is something to store and, later, to reclaim.
    fn change(&mut self) -> Result<tree::Copy, String> {
        let bytes = self.random.bytes(8 * MIB);
        std::fs::write(self.source.join("new"), bytes).map_err(failed("change the source"))?;
        tree::copy(&self.source).map_err(failed("read the source"))
    }

    fn back_up(&mut self) -> Result<(), String> {
        let copy = self.change()?;
        self.known.push((self.client.back_up(&self.source)?, copy));
        Ok(())
    }

    /// Runs a command under a limit; whether it worked.
    fn tries(&mut self, command: &str, under: Vec<String>) -> Result<bool, String> {
        let mut client = self.client.clone();
        client.under = under;
        let target = self.work.join("restored").to_string_lossy().into_owned();
        let source = self.source.to_string_lossy().into_owned();
        let newest = self.known.last().map(|(id, _)| format!("{id}:{source}")).unwrap_or_default();
        let oldest = self.known[0].0.clone();
        let copy = self.change()?;
        if matches!(command, "reclaim" | "forget") {
            self.back_up()?;
        }
        let words: Vec<&str> = match command {
            "backup" => vec!["backup", &source, "--json"],
            "restore" => vec!["restore", &newest, "--target", &target],
            "check" => vec!["check", "--read-data"],
            "reclaim" => {
                self.client.ends(&["forget", &oldest], &[0])?;
                self.known.remove(0);
                vec!["reclaim", "--max-waste", "0"]
            }
            _ => {
                self.known.remove(0);
                vec!["forget", &oldest]
            }
        };
        let ran = client.run(&words)?;
        self.judge(command, &ran, copy)
    }

    fn judge(&mut self, command: &str, ran: &Ran, copy: tree::Copy) -> Result<bool, String> {
        let works = ran.code == Some(0);
        if command == "backup"
            && let Some(id) = ran.acknowledged()
        {
            // With too few descriptors, parts: a snapshot, but not one to compare with.
            if works {
                self.known.push((id, copy));
            }
        }
        if command == "restore" {
            let target = self.work.join("restored");
            if works {
                let found = tree::copy(&target).map_err(failed("read what was restored"))?;
                let was = self.known.last().map(|(_, was)| was).ok_or("nothing known")?;
                let differences = tree::differences(was, &found);
                if !differences.is_empty() {
                    return Err(format!("restored otherwise: {}", differences.join("\n")));
                }
            }
            let _ = std::fs::remove_dir_all(target);
        }
        let says_why = matches!(ran.code, Some(1 | 3 | 13 | 15 | 127)) && !ran.stderr.is_empty()
            || !ran.message().is_empty() && !matches!(ran.code, Some(14 | 101));
        let is_killed = ran.signal.is_some_and(|signal| KILLED.contains(&signal));
        if !works && !says_why && !is_killed {
            return Err(format!("neither worked nor reported an error: {}", ran.told()));
        }
        *(if works { &mut self.worked } else { &mut self.refused }) += 1;
        if !works {
            self.client.ends(&["check"], &[0])?;
        }
        while self.known.len() > 3 {
            let (oldest, _) = self.known.remove(0);
            self.client.ends(&["forget", &oldest], &[0])?;
        }
        Ok(works)
    }

    /// The least of these limits under which each command works.
    fn least(
        &mut self,
        what: &str,
        limits: &[u64],
        under: impl Fn(u64) -> Result<Vec<String>, String>,
    ) -> Result<(), String> {
        for command in COMMANDS {
            let mut least = None;
            for limit in limits {
                if self.is_over() {
                    break;
                }
                let tried = self.tries(command, under(*limit)?);
                let told = |error| format!("{command} with {limit} {what}: {error}");
                if !tried.map_err(told)? {
                    break;
                }
                least = Some(*limit);
            }
            match least {
                Some(least) => println!("{command:<8} works with {least:>5} {what}"),
                None if self.is_over() => {}
                None => println!("{command:<8} does not work with {} {what}", limits[0]),
            }
        }
        Ok(())
    }

    fn memory(&mut self) -> Result<(), String> {
        let group = match Group::make(Control::Memory) {
            Ok(group) => group,
            Err(error) => {
                skipped_part("limits", &format!("memory: {error}"));
                return Ok(());
            }
        };
        self.least("MiB of memory", &MEMORY_MIB, |mib| {
            group.limit_memory(mib * MIB).map(|()| group.under())
        })
    }

    fn ulimits(
        &mut self,
        letter: &str,
        what: &str,
        limits: &[u64],
        factor: u64,
    ) -> Result<(), String> {
        self.least(what, limits, |limit| {
            let script = format!("ulimit -{letter} {} && exec \"$@\"", limit * factor);
            Ok(["sh", "-c", &script, "sh"].map(str::to_owned).to_vec())
        })
    }

    /// A disk that does not answer for a while: a backup waits for it, and is whole.
    fn slow_disk(&mut self, work: &Path) -> Result<(), String> {
        let disk = Mounted::image("ext4", &work.join("slow"), 512 * MIB, &[])?;
        let client = Client::new(&self.client.binary, &disk.path().join("repository"));
        client.ends(&["init"], &[0])?;
        let source = self.source.to_string_lossy().into_owned();
        let started = client.start(&["backup", &source, "--json", "--limit-read", SLOW])?;
        std::thread::sleep(Duration::from_millis(120));
        let frozen = disk.freeze()?;
        let was_running = !started.has_ended();
        std::thread::sleep(HANGS);
        let waited = was_running && !started.has_ended();
        drop(frozen);
        let ran = started.end()?;
        let id = ran.acknowledged().filter(|_| ran.code == Some(0));
        let id = id.ok_or_else(|| format!("on a disk that hung: {}", ran.told()))?;
        if !waited {
            return Err("the backup ended although the disk hung: nothing was tested".into());
        }
        println!("a disk that hung for {} s: the backup waited for it", HANGS.as_secs());
        client.ends(&["check", "--read-data"], &[0])?;
        if client.snapshots()?.contains(&id) { Ok(()) } else { Err("the snapshot is lost".into()) }
    }

    /// A clock ten years back, then forward: labels are wrong, and nothing else.
    fn clock_jumps(&mut self) -> Result<(), String> {
        let Some(library) = testkit::faketime() else {
            skipped_part("limits", "clock: no libfaketime");
            return Ok(());
        };
        for jump in ["-3650d", "+3650d", "-50000d"] {
            let words = [
                "env".to_owned(),
                format!("LD_PRELOAD={library}"),
                format!("FAKETIME={jump}"),
                "NO_FAKE_STAT=1".to_owned(),
            ];
            let usual = std::mem::replace(&mut self.client.under, words.to_vec());
            let done = self.back_up().and_then(|()| {
                self.client.ends(&["reclaim", "--max-waste", "0"], &[0])?;
                self.client.ends(&["check"], &[0])
            });
            self.client.under = usual;
            done.map_err(|error| format!("with the clock at {jump}: {error}"))?;
            self.worked += 1;
        }
        self.holds_all()
    }

    fn holds_all(&mut self) -> Result<(), String> {
        self.client.ends(&["check", "--read-data"], &[0])?;
        for (id, was) in &self.known {
            let target = self.work.join("restored");
            let what = format!("{id}:{}", self.source.display());
            self.client.ends(&["restore", &what, "--target", &target.to_string_lossy()], &[0])?;
            let found = tree::copy(&target).map_err(failed("read what was restored"))?;
            let differences = tree::differences(was, &found);
            std::fs::remove_dir_all(&target).map_err(failed("remove what was restored"))?;
            if !differences.is_empty() {
                return Err(format!("snapshot {id}: {}", differences.join("\n")));
            }
        }
        Ok(())
    }
}
