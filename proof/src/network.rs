//! A network file system in user space with two machines on it: it cannot sync folders or keep a
//! name from being replaced, lists what was, takes files away that others have open, loses
//! requests and answers, and goes away. What was acknowledged is there, and nothing of it is
//! called damage.

mod conditions;
mod machine;
mod memory;
mod server;

use crate::client::Client;
use crate::machines::{Counts, FAILED, Machines, Troubles};
use crate::options::{Asked, report};
use crate::{failed, mounted};
use conditions::NetworkConditions;
use machine::{LIST_AGE, Locks, Mounted};
use server::Server;
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the network does in one round.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// So many of ten thousand requests are lost.
    Losses(u64),
    /// The server is away for a while.
    Away {
        is_hard: bool,
    },
}

struct Network {
    conditions: Arc<NetworkConditions>,
    _mounts: [Mounted; 2],
}

impl Troubles for Network {
    type Trouble = Trouble;

    fn pick(&mut self, random: &mut Random) -> Trouble {
        let trouble = *random.pick(&[
            Trouble::None,
            Trouble::Losses(20),
            Trouble::Losses(200),
            Trouble::Away { is_hard: true },
            Trouble::Away { is_hard: false },
        ]);
        if let Trouble::Losses(losses) = trouble {
            self.conditions.loses(losses);
        }
        trouble
    }

    fn is_harmless(&self, trouble: Trouble) -> bool {
        matches!(trouble, Trouble::None | Trouble::Away { is_hard: true })
    }

    fn strike(&mut self, trouble: Trouble, random: &mut Random) -> Result<(), String> {
        if let Trouble::Away { is_hard } = trouble {
            std::thread::sleep(Duration::from_millis(random.below(400)));
            self.conditions.goes_away(Duration::from_millis(300), is_hard);
        }
        Ok(())
    }

    fn clear(&mut self, _: Trouble) -> Result<(), String> {
        self.conditions.clears();
        Ok(())
    }

    fn list_age(&self) -> Duration {
        LIST_AGE
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Asked::parse(arguments, &[]) {
        Ok(asked) => report("network", |work| run(&asked, work), mounted::be_alone()),
        Err(error) => {
            eprintln!("network: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let (deadline, seed) = (asked.deadline()?, asked.seed()?);
    println!("seed {seed}");
    without_locks(&asked.binary(), work, Locks::None)?;
    without_locks(&asked.binary(), work, Locks::ForAll)?;
    let with_seed = |error: String| format!("{error}\nseed {seed}");
    let mut rig = start(&asked.binary(), work, seed).map_err(with_seed)?;
    rig.run(deadline).map_err(with_seed)?;
    let Counts { done, refused, killed, checked, restored, .. } = rig.counts;
    Ok(format!(
        "{done} commands completed, {refused} reported an error, {killed} were killed; {} requests lost; {checked} checks clean, {restored} snapshots restored as they were; without locks no repository, {} s",
        rig.troubles.conditions.lost(),
        begun.elapsed().as_secs()
    ))
}

/// Where nobody can lock, there is to be no repository.
fn without_locks(binary: &Path, work: &Path, locks: Locks) -> Result<(), String> {
    let (exported, at) = (work.join("exported without locks"), work.join("without locks"));
    let mounted = mounted_at(0, &exported, &Arc::new(NetworkConditions::calm(1)), locks, &at)?;
    let ran = Client::new(binary, &at.join("repository")).run(&["init"])?;
    drop(mounted);
    if ran.code != Some(FAILED) || !ran.message().contains("lock") {
        return Err(format!("init on a file system without locks: {}", ran.told()));
    }
    Ok(())
}

fn mounted_at(
    number: usize,
    exported: &Path,
    conditions: &Arc<NetworkConditions>,
    locks: Locks,
    at: &Path,
) -> Result<Mounted, String> {
    for folder in [exported, at] {
        std::fs::create_dir_all(folder).map_err(failed("make a folder"))?;
    }
    machine::mount(number, &Arc::new(Server::new(exported)), conditions, locks, at)
}

/// A repository that two machines have mounted.
fn start(binary: &Path, work: &Path, seed: u64) -> Result<Machines<Network>, String> {
    let conditions = Arc::new(NetworkConditions::calm(seed));
    let network = Network { _mounts: mounts(work, &conditions)?, conditions };
    let at = [0, 1].map(|number| machine_at(work, number).join("repository"));
    Machines::start(binary, work, at, network, seed)
}

fn machine_at(work: &Path, number: usize) -> PathBuf {
    work.join(format!("machine {number}"))
}

/// What one server has, mounted on two machines.
fn mounts(work: &Path, conditions: &Arc<NetworkConditions>) -> Result<[Mounted; 2], String> {
    let exported = work.join("exported");
    std::fs::create_dir_all(&exported).map_err(failed("make a folder"))?;
    let server = Arc::new(Server::new(&exported));
    let mount = |number: usize| {
        let at = machine_at(work, number);
        std::fs::create_dir_all(&at).map_err(failed("make a folder"))?;
        machine::mount(number, &server, conditions, Locks::OfTheServer, &at)
    };
    Ok([mount(0)?, mount(1)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use repository::local::LocalStorage;
    use repository::storage::{Storage, read_small};

    /// The rest of the rig would not see at once that this is missing.
    #[test]
    fn what_another_machine_has_replaced_is_read_as_it_is_now() {
        if !rustix::process::geteuid().is_root() {
            return testkit::skip("files that another machine has replaced: needs root to mount");
        }
        let work = std::env::temp_dir().join(format!("icecore-replaced-{}", std::process::id()));
        let mounted = mounts(&work, &Arc::new(NetworkConditions::calm(1))).unwrap();
        let [here, there] = [0, 1].map(|number| LocalStorage::open(&machine_at(&work, number)));
        let (here, there) = (here.unwrap(), there.unwrap());
        for number in 0..5 {
            here.put("lease", &[number]).unwrap();
            assert_eq!(read_small(&there, "lease", 9).unwrap(), [number]);
            here.put("lease", &[number + 100]).unwrap();
            let remembered = std::fs::read(machine_at(&work, 1).join("lease")).unwrap();
            assert_eq!(remembered, [number], "a machine remembers what it has read");
        }
        // Whoever still has a file of it open does not keep it mounted.
        drop(mounted);
        drop((here, there));
        std::fs::remove_dir_all(&work).unwrap();
    }
}
