//! Two machines on a real shared file system (GlusterFS, MooseFS), whose servers run here in namespaces of their own
//! and are frozen and killed while commands run, and whose mounts go away. What was acknowledged is there, and nothing
//! of it is called damage.

mod cluster;
mod glusterfs;
mod moosefs;

use crate::alone::{self, INSIDE};
use crate::machines::{Counts, Machines, Troubles};
use crate::options::{Asked, report_in, skipped};
use crate::{failed, mounted};
use cluster::Cluster;
use rustix::process::Signal;
use simulation::Random;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Attributes and names are believed for a second by both.
const LIST_AGE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// All servers stand still for a while.
    Frozen,
    /// One of the servers is killed, and started again.
    Killed(usize),
    /// What a machine has mounted goes away, and is mounted again after the commands.
    Unmounted(usize),
}

struct Shared<C>(C);

impl<C: Cluster> Troubles for Shared<C> {
    type Trouble = Trouble;

    fn pick(&mut self, random: &mut Random) -> Trouble {
        match random.below(6) {
            0 => Trouble::Frozen,
            1 | 2 => Trouble::Killed(random.below(self.0.servers() as u64) as usize),
            3 => Trouble::Unmounted(random.below(2) as usize),
            _ => Trouble::None,
        }
    }

    fn is_harmless(&self, trouble: Trouble) -> bool {
        matches!(trouble, Trouble::None | Trouble::Frozen)
    }

    fn hides(&self, trouble: Trouble) -> bool {
        matches!(trouble, Trouble::Unmounted(_))
    }

    fn strike(&mut self, trouble: Trouble, random: &mut Random) -> Result<(), String> {
        std::thread::sleep(Duration::from_millis(random.below(300)));
        let all = 0..self.0.servers();
        let pause = |random: &mut Random| {
            std::thread::sleep(Duration::from_millis(300 + random.below(1500)));
        };
        match trouble {
            Trouble::None => Ok(()),
            Trouble::Frozen => {
                all.clone().try_for_each(|one| self.0.signal(one, Signal::STOP))?;
                pause(random);
                all.clone().try_for_each(|one| self.0.signal(one, Signal::CONT))
            }
            Trouble::Killed(one) => {
                self.0.signal(one, Signal::KILL)?;
                pause(random);
                self.0.restart(one)
            }
            Trouble::Unmounted(machine) => self.0.lose_mount(machine),
        }
    }

    fn clear(&mut self, trouble: Trouble) -> Result<(), String> {
        if let Trouble::Unmounted(machine) = trouble {
            self.0.mount(machine)?;
        }
        self.0.answers()
    }

    fn list_age(&self) -> Duration {
        LIST_AGE
    }
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let asked =
        match Asked::parse(arguments, &["--file-system", "--rig", "--kind", "--run", INSIDE]) {
            Ok(asked) => asked,
            Err(error) => return wrong(&error),
        };
    let kind = asked.text("--file-system").unwrap_or(glusterfs::NAME);
    let Some(missing) = missing(kind) else {
        return wrong(&format!("--file-system {kind}: glusterfs or moosefs"));
    };
    if let Some(program) = missing {
        return skipped("shared", &format!("{program} is not installed"));
    }
    match asked.text(INSIDE) {
        Some(name) => {
            report_in(name, "shared", |work| run(&asked, kind, work), mounted::be_alone())
        }
        None => alone::again("shared", arguments),
    }
}

fn wrong(error: &str) -> ExitCode {
    eprintln!("shared: {error}");
    ExitCode::from(2)
}

/// The first program of this kind of file system that is not here; `None` if the kind is unknown.
fn missing(kind: &str) -> Option<Option<&'static str>> {
    let programs = match kind {
        glusterfs::NAME => glusterfs::PROGRAMS,
        moosefs::NAME => moosefs::PROGRAMS,
        _ => return None,
    };
    Some(programs.iter().copied().find(|program| !mounted::has_program(program)))
}

fn run(asked: &Asked, kind: &str, work: &Path) -> Result<String, String> {
    cluster::prepare(work)?;
    match kind {
        moosefs::NAME => runs(asked, moosefs::MooseFs::start(work)?, work),
        _ => runs(asked, glusterfs::GlusterFs::start(work)?, work),
    }
}

/// Runs another rig with all its files on the shared file system, whose servers are left alone.
fn other_rig(asked: &Asked, rig: &str, at: &Path) -> Result<String, String> {
    let this = std::env::current_exe().map_err(failed("find this program"))?;
    let mut command = Command::new(this);
    command.arg(rig).env("TMPDIR", at).args(["--binary".as_ref(), asked.binary().as_os_str()]);
    for option in ["--seconds", "--kind"] {
        if let Some(value) = asked.text(option) {
            command.args([option, value]);
        }
    }
    let output = command.output().map_err(failed("start a rig"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() {
        true => Ok(said.lines().last().unwrap_or_default().to_owned()),
        false => Err(format!("{said}\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs a line of the shell on the shared file system.
fn run_line(line: &str, at: &Path) -> Result<String, String> {
    let status = Command::new("sh").args(["-c", line]).current_dir(at).status();
    match status.map_err(failed("start a shell"))?.success() {
        true => Ok(format!("{line}: done")),
        false => Err(format!("{line}: failed")),
    }
}

fn runs(asked: &Asked, mut cluster: impl Cluster, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let (deadline, seed) = (asked.deadline()?, asked.seed()?);
    println!("seed {seed}");
    let with_seed = |error: String| format!("{error}\nseed {seed}");
    [0, 1].into_iter().try_for_each(|machine| cluster.mount(machine))?;
    if let Some(line) = asked.text("--run") {
        return run_line(line, &cluster::mount_point(work, 0));
    }
    if let Some(rig) = asked.text("--rig") {
        return other_rig(asked, rig, &cluster::mount_point(work, 0));
    }
    let at = [0, 1].map(|machine| cluster::mount_point(work, machine).join("repository"));
    let mut rig = Machines::start(&asked.binary(), work, at, Shared(cluster), seed);
    rig.as_mut().map_err(|error| with_seed(error.clone()))?.run(deadline).map_err(with_seed)?;
    let Counts { rounds, done, refused, killed, checked, restored } = rig?.counts;
    Ok(format!(
        "{rounds} rounds, {done} commands completed, {refused} reported an error, {killed} were killed; {checked} checks clean, {restored} snapshots restored as they were, {} s",
        begun.elapsed().as_secs()
    ))
}
