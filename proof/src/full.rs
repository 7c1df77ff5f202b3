//! File systems that really are full: every command meets the end of the space at many points, a
//! disk turns read-only under a command, a target fills up. Nothing acknowledged is lost, the
//! message speaks of the repository, and with room again everything goes on by itself.

mod home;
mod others;

use crate::client::{Client, Ran};
use crate::options::{Asked, report};
use crate::{failed, mounted, tree};
use home::{Home, KINDS, Lack};
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const NO_SPACE: i32 = 15;
/// What a repository may be larger after a command that met a full disk than after the same
/// command that did not.
const LEFTOVER_BYTES: u64 = 2 << 20;
/// Rounds over all commands and homes when no time is given.
const ROUNDS: u32 = 4;

/// A command that needs room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Backup,
    Forget,
    Reclaim,
    Rebuild,
    Tag,
    KeyAdd,
    Recovery,
}

const ACTS: [Act; 7] =
    [Act::Backup, Act::Forget, Act::Reclaim, Act::Rebuild, Act::Tag, Act::KeyAdd, Act::Recovery];

/// A repository with something in it, and what it must hold.
struct Known {
    client: Client,
    work: PathBuf,
    source: PathBuf,
    pristine: PathBuf,
    /// Acknowledged: oldest first.
    snapshots: Vec<(String, tree::Copy)>,
    /// The source as it is now, not backed up yet.
    now: tree::Copy,
}

/// What one act needed in one home.
#[derive(Clone, Copy, Default)]
struct Needs {
    refused: u32,
    done: u32,
    /// The most that was free when it was refused.
    refused_at: Option<u64>,
    /// The least that was free when it was done.
    done_at: Option<u64>,
    /// Bytes that it adds when there is room, and bytes of the repository afterwards.
    usual: (u64, u64),
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let asked = match Asked::parse(arguments, &[]) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("full: {error}");
            return ExitCode::from(2);
        }
    };
    report("full", |work| run(&asked, work), mounted::be_alone())
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let (deadline, seed) = (asked.deadline()?, asked.seed()?);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let with_seed = |error: String| format!("{error}\nseed {seed}");
    let others = others::all(&asked.binary(), work, &mut random).map_err(with_seed)?;
    let mut homes = Vec::new();
    for kind in KINDS.into_iter().filter(|(_, kind, _)| mounted::can_make(kind)) {
        let home = Home::make(kind, work)?;
        let known = Known::make(&asked.binary(), &home, work, &mut random)?;
        homes.push((home, known, [Needs::default(); ACTS.len()]));
    }
    let is_over = |round: u32| match deadline {
        // Without a single round nothing was tested, however busy the machine is.
        Some(deadline) => round > 0 && Instant::now() > deadline,
        None => round >= ROUNDS * ACTS.len() as u32,
    };
    let (mut round, first) = (0, random.below(ACTS.len() as u64) as usize);
    while !is_over(round) {
        for (at, (home, known, needs)) in homes.iter_mut().enumerate() {
            // Another act in each home: a short run has all of them.
            let act = (round as usize + at + first) % ACTS.len();
            let told = |error| format!("{:?} on {}: {error}", ACTS[act], home.name);
            known
                .case(home, ACTS[act], &mut needs[act], &mut random)
                .map_err(told)
                .map_err(with_seed)?;
        }
        round += 1;
    }
    homes.iter().for_each(|(home, _, needs)| print_needs(home, needs));
    let sum = |count: fn(&Needs) -> u32| -> u32 {
        homes.iter().flat_map(|(_, _, needs)| needs).map(count).sum()
    };
    Ok(format!(
        "{} commands refused for lack of space, {} done; {others}; nothing acknowledged was lost, all resumed with space, {} s",
        sum(|needs| needs.refused),
        sum(|needs| needs.done),
        begun.elapsed().as_secs()
    ))
}

fn print_needs(home: &Home, needs: &[Needs]) {
    let unit = if home.lack == Lack::Inodes { "inodes" } else { "blocks of 4 KiB" };
    for (act, needs) in ACTS.iter().zip(needs).filter(|(_, needs)| needs.refused + needs.done > 0) {
        let show = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        println!(
            "{:<12} {:<9} refused {:>3} (at most {:>5} {unit} free), done {:>3} (at least {:>5} free)",
            home.name,
            format!("{act:?}"),
            needs.refused,
            show(needs.refused_at),
            needs.done,
            show(needs.done_at)
        );
    }
}

impl Known {
    /// Four snapshots, the first forgotten and not reclaimed, and a source that changed since.
    fn make(binary: &Path, home: &Home, work: &Path, random: &mut Random) -> Result<Self, String> {
        let client = Client::new(binary, &home.repository());
        let work = work.join(format!("of {}", home.name));
        let (source, pristine) = (work.join("source"), work.join("pristine"));
        std::fs::create_dir_all(&work).map_err(failed("make a folder"))?;
        std::fs::write(work.join("password"), "another").map_err(failed("write a password"))?;
        client.ends(&["init"], &[0])?;
        let changed = |random: &mut Random| {
            tree::mutate(&source, random)?;
            std::fs::write(source.join("new"), random.bytes(3 << 20))?;
            tree::copy(&source)
        };
        tree::create(&source, random).map_err(failed("make a tree"))?;
        let mut snapshots = Vec::new();
        for _ in 0..4 {
            let copy = changed(random).map_err(failed("change the tree"))?;
            snapshots.push((client.back_up(&source)?, copy));
        }
        let (forgotten, _) = snapshots.remove(0);
        client.ends(&["forget", &forgotten], &[0])?;
        let now = changed(random).map_err(failed("change the tree"))?;
        let repository = home.repository();
        mounted::run("cp", ["-a".as_ref(), repository.as_os_str(), pristine.as_os_str()])?;
        Ok(Self { client, work, source, pristine, snapshots, now })
    }

    fn act(&self, act: Act) -> Result<Ran, String> {
        let source = self.source.to_string_lossy();
        let password = self.work.join("password").to_string_lossy().into_owned();
        let oldest = &self.snapshots[0].0;
        let words: &[&str] = match act {
            Act::Backup => &["backup", &source, "--json"],
            Act::Forget => &["forget", oldest],
            Act::Reclaim => &["reclaim", "--max-waste", "0"],
            Act::Rebuild => &["rebuild"],
            Act::Tag => &["tag", "add", oldest, "some"],
            Act::KeyAdd => &["key", "add", "--label", "another", "--new-password-file", &password],
            Act::Recovery => &["key", "recovery"],
        };
        self.client.run(words)
    }

    /// One act with little room; then with room.
    fn case(
        &self,
        home: &Home,
        act: Act,
        needs: &mut Needs,
        random: &mut Random,
    ) -> Result<(), String> {
        if needs.usual == (0, 0) {
            needs.usual = self.usual(home, act)?;
        }
        home.reset(&self.pristine)?;
        let gives_back = matches!(act, Act::Forget | Act::Reclaim);
        let free =
            if gives_back && random.one_in(2) { 0 } else { some_room(home, needs.usual.0, random) };
        home.fill(free)?;
        let told = |error: String| format!("with {free} free: {error}");
        let first = self.act(act)?;
        self.look_at(&first).map_err(told)?;
        if first.code == Some(0) {
            needs.done += 1;
            needs.done_at = Some(needs.done_at.map_or(free, |least| least.min(free)));
        } else if act == Act::Forget {
            return Err(format!("with {free} free, forget had no space: {}", first.told()));
        } else {
            needs.refused += 1;
            needs.refused_at = needs.refused_at.max(Some(free));
            // Again and again, as a timer does: what stays of each must not add up.
            self.look_at(&self.act(act)?).map_err(told)?;
        }
        self.client.ends(&["check"], &[0]).map_err(told)?;
        self.client.snapshots().map_err(told)?;
        home.relieve()?;
        let last = self.again(act, first).map_err(told)?;
        self.holds_all(act, &last).map_err(told)?;
        self.has_no_leftovers(home, needs.usual.1).map_err(told)
    }

    /// The act with room enough: how much it adds, and how large the repository is afterwards.
    fn usual(&self, home: &Home, act: Act) -> Result<(u64, u64), String> {
        home.reset(&self.pristine)?;
        let before = home.used()?;
        let ran = self.act(act)?;
        if ran.code != Some(0) {
            return Err(ran.told());
        }
        let added = home.used()?.saturating_sub(before);
        self.client.ends(&["reclaim"], &[0])?;
        Ok((added, home.used()?))
    }

    /// Done, or no space: with words about the repository, and not about any source file.
    fn look_at(&self, ran: &Ran) -> Result<(), String> {
        match ran.code {
            Some(0) => return Ok(()),
            Some(NO_SPACE) => {}
            _ => {
                return Err(format!(
                    "neither completed nor reported a lack of space: {}",
                    ran.told()
                ));
            }
        }
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let problem = ran.lines().iter().any(|line| line["message_type"] == "problem");
        if !said.contains(&*self.client.repository.to_string_lossy()) {
            return Err(format!("the repository is not named: {}", ran.told()));
        }
        if problem || ran.message().contains(&*self.source.to_string_lossy()) {
            return Err(format!("a source file is blamed: {}", ran.told()));
        }
        Ok(())
    }

    /// With room, the same command ends well, unless it was done already.
    fn again(&self, act: Act, first: Ran) -> Result<Ran, String> {
        let is_there = self.client.snapshots()?.contains(&self.snapshots[0].0);
        let was_done = first.code == Some(0);
        if was_done || (!is_there && matches!(act, Act::Forget | Act::Tag)) {
            return Ok(first);
        }
        let ran = self.act(act)?;
        if ran.code == Some(0) { Ok(ran) } else { Err(format!("with room: {}", ran.told())) }
    }

    /// Every acknowledged snapshot restores as it was.
    fn holds_all(&self, act: Act, ran: &Ran) -> Result<(), String> {
        self.client.ends(&["check", "--read-data"], &[0])?;
        let listed = self.client.snapshots()?;
        let new = ran.acknowledged().filter(|_| act == Act::Backup);
        if act == Act::Backup && new.is_none() {
            return Err(format!("no snapshot: {}", ran.told()));
        }
        let new = new.into_iter().map(|id| (id, &self.now));
        let known = self.snapshots.iter().map(|(id, copy)| (id.clone(), copy));
        for (number, (id, copy)) in known.chain(new).enumerate() {
            let is_first = number == 0;
            let id = match listed.contains(&id) {
                true => id,
                false if is_first && act == Act::Forget => continue,
                // With other tags it has another id.
                false if is_first && act == Act::Tag => self.retagged(&listed)?,
                false => return Err(format!("snapshot {id} is lost")),
            };
            self.restores(&id, copy)?;
        }
        Ok(())
    }

    fn retagged(&self, listed: &[String]) -> Result<String, String> {
        let is_known = |id: &&String| self.snapshots.iter().any(|(known, _)| known == *id);
        let new = listed.iter().find(|id| !is_known(id));
        new.cloned().ok_or_else(|| "the snapshot with new tags is lost".to_owned())
    }

    fn restores(&self, id: &str, was: &tree::Copy) -> Result<(), String> {
        let target = self.work.join("restored");
        let what = format!("{id}:{}", self.source.display());
        self.client.ends(&["restore", &what, "--target", &target.to_string_lossy()], &[0])?;
        let found = tree::copy(&target).map_err(failed("read what was restored"))?;
        let differences = tree::differences(was, &found);
        std::fs::remove_dir_all(&target).map_err(failed("remove what was restored"))?;
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    }

    /// What failed commands left is gone after a reclaim.
    fn has_no_leftovers(&self, home: &Home, usual: u64) -> Result<(), String> {
        self.client.ends(&["reclaim"], &[0])?;
        let used = home.used()?;
        if used > usual + LEFTOVER_BYTES {
            return Err(format!("{used} bytes after a full disk, {usual} without"));
        }
        let files = home::files_below(&home.repository())?;
        let is_part = |path: &&PathBuf| {
            path.extension().is_some_and(|extension| extension == "part" || extension == "new")
        };
        match files.iter().map(|(path, _)| path).find(is_part) {
            Some(part) => Err(format!("{} stays for ever", part.display())),
            None => Ok(()),
        }
    }
}

/// Room for none, a little, or nearly all of what an act needs.
fn some_room(home: &Home, usual: u64, random: &mut Random) -> u64 {
    // xfs keeps some thousands of blocks for itself, and refuses long before.
    let few = if home.name == "xfs" { 4096 } else { 24 };
    match home.lack {
        Lack::Inodes => random.below(8),
        // Mostly very few: small commands need one or two.
        Lack::Blocks if random.one_in(2) => {
            let most = random.below(few) + 1;
            random.below(most)
        }
        Lack::Blocks => random.below(usual / 4096 * 5 / 4 + few),
    }
}
