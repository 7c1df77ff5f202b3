//! Everything that can lie on a file system, from each kind of file system to each, as root and
//! as a plain user: what comes back is what was there, or it was reported by path.

mod compare;
mod look;
mod objects;

use crate::client::Client;
use crate::failed;
use crate::mounted::{self, Mounted};
use crate::options::{Asked, report, skipped_part};
use compare::{Reported, Seen, Tally};
use objects::Amounts;
use simulation::Random;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const KINDS: [&str; 5] = ["ext4", "xfs", "btrfs", "tmpfs", "overlay"];
/// The plain user: some user that is not root.
const USER: u32 = 1000;
/// Names are bytes whatever a locale says of them.
const LOCALES: [&str; 2] = ["C", "C.UTF-8"];
const OPTIONS: [&str; 4] = ["--many", "--depth", "--links", "--only"];

struct Rig {
    work: PathBuf,
    binary: PathBuf,
    /// This program, where a plain user may run it.
    own: PathBuf,
    amounts: Amounts,
    /// Overlay first: its layers lie on another, which is unmounted after it.
    mounted: Vec<(&'static str, Mounted)>,
}

/// A source tree as one user sees it, and what came of its backup.
struct Source {
    path: PathBuf,
    seen: Seen,
    snapshot: String,
    reported: Reported,
}

/// From here to there as this user.
#[derive(Clone, Copy)]
struct Cell {
    from: &'static str,
    to: &'static str,
    user: u32,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    if let [word, root] = arguments
        && word == "--look"
    {
        return match look::print(root.as_ref(), &mut std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let asked = match Asked::parse(arguments, &OPTIONS) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("fidelity: {error}");
            return ExitCode::from(2);
        }
    };
    report("fidelity", |work| run(&asked, work), mounted::be_alone())
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let (deadline, seed) = (asked.deadline()?, asked.seed()?);
    let mut rig = Rig::start(asked, work)?;
    // Part of the name of a cell, like "ext4 > xfs as root".
    let only = asked.text("--only").unwrap_or_default();
    let mut cells = cells(&rig, seed);
    cells.retain(|cell| cell.name().contains(only));
    println!("seed {seed}");
    let (mut total, mut done, mut exact, mut lost) = (Tally::default(), 0, 0, Vec::new());
    let mut sources: Vec<(&str, u32, Source)> = Vec::new();
    for cell in &cells {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
        let known =
            sources.iter().position(|(from, user, _)| (*from, *user) == (cell.from, cell.user));
        let at = match known {
            Some(at) => at,
            None => {
                sources.push((cell.from, cell.user, rig.back_up(cell)?));
                sources.len() - 1
            }
        };
        let (tally, losses) = rig.restore(cell, &sources[at].2)?;
        done += 1;
        exact += u32::from(tally.reported == 0 && tally.lost == 0);
        total.add(tally);
        println!("{}", cell.line(tally));
        lost.extend(losses.into_iter().map(|loss| format!("{}: {loss}", cell.name())));
    }
    if !lost.is_empty() {
        return Err(format!("{} differences not reported:\n{}", total.lost, lost.join("\n")));
    }
    Ok(format!(
        "{done} of {} cells, {exact} exact; {} objects compared, {} differences reported by path, {} attributes not kept by design, none lost, {} s",
        cells.len(),
        total.objects,
        total.reported,
        total.not_kept,
        begun.elapsed().as_secs()
    ))
}

/// All cells in an order in which the first few meet every source and every target.
fn cells(rig: &Rig, seed: u64) -> Vec<Cell> {
    let kinds: Vec<_> = rig.mounted.iter().map(|(kind, _)| *kind).collect();
    let start = Random::new(seed).below(kinds.len() as u64) as usize;
    let mut cells = Vec::new();
    for shift in 0..kinds.len() {
        for (at, from) in kinds.iter().enumerate() {
            let to = kinds[(at + shift + start) % kinds.len()];
            // Turn about, so that a short run has both.
            let users = if at % 2 == 0 { [0, USER] } else { [USER, 0] };
            cells.extend(users.map(|user| (shift, Cell { from, to, user })));
        }
    }
    let user_later = |(at, (shift, cell)): (usize, (usize, Cell))| (shift, at % 2, at, cell);
    let mut ordered: Vec<_> = cells.into_iter().enumerate().map(user_later).collect();
    ordered.sort_by_key(|(shift, half, at, _)| (*shift, *half, *at));
    ordered.into_iter().map(|(_, _, _, cell)| cell).collect()
}

impl Cell {
    fn name(&self) -> String {
        let user = if self.user == 0 { "root" } else { "user" };
        format!("{} > {} as {user}", self.from, self.to)
    }

    fn line(&self, tally: Tally) -> String {
        let outcome = match tally {
            Tally { lost: 0, reported: 0, .. } => "exact".to_owned(),
            Tally { lost: 0, reported, .. } => format!("reported {reported}"),
            Tally { lost, reported, .. } => format!("LOST {lost}, reported {reported}"),
        };
        format!("{:<28} {outcome} ({} objects)", self.name(), tally.objects)
    }
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.objects += other.objects;
        self.reported += other.reported;
        self.not_kept += other.not_kept;
        self.lost += other.lost;
    }
}

impl Rig {
    fn start(asked: &Asked, work: &Path) -> Result<Self, String> {
        let number =
            |name: &str, usual: u32| asked.number(name).map(|n| n.map_or(usual, |n| n as u32));
        let amounts = Amounts {
            many: number("--many", 2_000)?,
            depth: number("--depth", 1_200)?,
            links: number("--links", 0)?,
        };
        let (binary, own) = (work.join("icecore"), work.join("proof"));
        std::fs::copy(asked.binary(), &binary).map_err(failed("copy the binary"))?;
        std::fs::copy(crate::options::THIS, &own).map_err(failed("copy this program"))?;
        let mut rig = Self { work: work.to_owned(), binary, own, amounts, mounted: Vec::new() };
        for kind in KINDS {
            if mounted::can_make(kind) {
                let made = rig.mount(kind)?;
                rig.mounted.insert(0, (kind, made));
            } else {
                skipped_part("fidelity", &format!("no mkfs.{kind}"));
            }
        }
        Ok(rig)
    }

    fn mount(&self, kind: &str) -> Result<Mounted, String> {
        let at = self.work.join(kind);
        // A source and a target, on ext4 those of the overlay too. Images are sparse: room costs
        // nothing.
        let objects = u64::from(self.amounts.many) * 5;
        let bytes = (2_u64 << 30) + objects * 4096;
        let inodes = format!("{}", 200_000 + objects);
        match kind {
            "ext4" => Mounted::image(kind, &at, bytes, &["-N", &inodes]),
            "tmpfs" => Mounted::tmpfs(&at, &format!("size={bytes},nr_inodes={inodes}")),
            "overlay" => Mounted::overlay(&at, &self.work.join("ext4/layers")),
            _ => Mounted::image(kind, &at, bytes, &[]),
        }
    }

    fn client(&self, user: u32) -> Client {
        let repository = self.work.join(format!("repository of {user}"));
        let mut client = Client::new(&self.binary, &repository);
        client.user = (user != 0).then_some(user);
        client
    }

    /// Makes the tree unless it is there, and backs it up as this user.
    fn back_up(&mut self, cell: &Cell) -> Result<Source, String> {
        let path = self.work.join(cell.from).join("source");
        if !path.exists() {
            std::fs::create_dir(&path).map_err(failed("make the source"))?;
            objects::make(&path, self.amounts).map_err(failed("make the objects"))?;
        }
        let mut client = self.client(cell.user);
        if !client.repository.exists() {
            std::fs::create_dir(&client.repository).map_err(failed("make a repository"))?;
            own(&client.repository, cell.user)?;
            client.ends(&["init"], &[0])?;
        }
        client.locale = locale(cell.from, LOCALES);
        let seen = self.look(&path, cell.user)?;
        let shown = path.to_string_lossy().into_owned();
        let ran = client.ends(&["backup", &shown, "--json"], &[0, 3])?;
        let snapshot = ran.acknowledged().ok_or_else(|| ran.told())?;
        let mut reported = Reported::default();
        reported.add(&ran, &[&shown]);
        Ok(Source { path, seen, snapshot, reported })
    }

    fn restore(&self, cell: &Cell, source: &Source) -> Result<(Tally, Vec<String>), String> {
        let target = self.work.join(cell.to).join("target");
        std::fs::create_dir(&target).map_err(failed("make a target"))?;
        own(&target, cell.user)?;
        let mut client = self.client(cell.user);
        client.locale = locale(cell.to, [LOCALES[1], LOCALES[0]]);
        let what = format!("{}:{}", source.snapshot, source.path.display());
        let shown = target.to_string_lossy();
        let ran = client.ends(&["restore", &what, "--target", &shown, "--json"], &[0, 3])?;
        let mut reported = Reported::default();
        reported.add(&ran, &[&shown, &source.path.to_string_lossy()]);
        reported.merge(&source.reported);
        let found = self.look(&target, cell.user)?;
        let outcome = compare::compare(&source.seen, &found, &reported, cell.user);
        // What is immutable would stay.
        let _ = mounted::run("chattr", ["-R", "-f", "-ia", &shown]);
        mounted::run("rm", ["-rf", &shown])?;
        Ok(outcome)
    }

    fn look(&self, root: &Path, user: u32) -> Result<Seen, String> {
        let mut command = Command::new(&self.own);
        command.args(["fidelity", "--look"]).arg(root);
        if user != 0 {
            command.uid(user).gid(user);
        }
        let output = command.output().map_err(failed("start a look"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(compare::parse(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// Both locales take part, and a tree goes from one to the other.
fn locale(kind: &str, locales: [&'static str; 2]) -> &'static str {
    let number = KINDS.iter().position(|other| *other == kind).unwrap_or_default();
    locales[number % locales.len()]
}

fn own(path: &Path, user: u32) -> Result<(), String> {
    std::os::unix::fs::chown(path, Some(user), Some(user)).map_err(failed("give a folder away"))
}
