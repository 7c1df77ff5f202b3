//! A disk that damages what it holds: flipped bits, sectors that are zeros, writes that went
//! elsewhere or nowhere, files that are gone or have another one's content.
//!
//! What must hold: nobody is given a wrong byte, what the damage does not cover is there, nothing
//! that is done on a damaged repository makes it worse, and after a rebuild and new backups of
//! everything it is whole.

use super::model::{LostObjects, Violation};
use super::task::{Shared, Task, WriterProcess, bring_back_before, rebuild};
use super::tree::Tree;
use super::{Failure, Outcome, free_bytes, init, whole};
use crate::disk::{AMPLE_BYTES, Corruption, Disk, Fault, Faults};
use crate::random::Random;
use ids::ObjectId;
use repository::{Error, Repository};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Backups and so on before the damage.
const TASKS_BEFORE: u64 = 8;
/// What is done on the damaged repository before somebody rebuilds it.
const TASKS_AFTER: u64 = 4;
const SECTOR: usize = 512;

/// What is damaged.
#[derive(Debug)]
struct Damage {
    name: String,
    range: Range<usize>,
}

/// Runs all that follows from `seed`.
pub fn run(seed: u64, logged: bool) -> Result<Outcome, Failure> {
    let mut random = Random::new(seed ^ 0x0720_0720_0720);
    let disk = Disk::new(Random::new(random.next()), logged);
    let shared = Shared::with_random_sizes(disk.clone(), &mut random);
    let mut world = Rotten { shared, random, backups: 0 };
    let failure = |what| Failure { what, log: disk.log() };
    world.run_episodes().map_err(failure)?;
    let (operations, trace) = (disk.operations(), disk.trace());
    Ok(Outcome { operations, faults: 1, backups: world.backups, trace })
}

struct Rotten {
    shared: Shared,
    random: Random,
    backups: u64,
}

impl Rotten {
    fn run_episodes(&mut self) -> Result<(), Violation> {
        init(&self.shared.disk)?;
        for _ in 0..2 + self.random.below(TASKS_BEFORE) {
            self.unharmed()?;
        }
        let damage = if self.random.one_in(4) { self.lie() } else { self.corrupt() };
        let mut lost = self.costs(damage.as_ref())?;
        for _ in 0..self.random.below(TASKS_AFTER) {
            // It may fail: it must only not make things worse.
            let _ = self.task();
            lost = self.no_worse(lost)?;
        }
        self.heals(damage.as_ref())
    }

    /// Something that is done while nothing is wrong but that there may be little room.
    fn unharmed(&mut self) -> Result<(), Violation> {
        match self.task() {
            Err(error) if error.is_full() && self.shared.disk.is_short() => Ok(()),
            result => result.map_err(|error| format!("without any fault: {error}")),
        }
    }

    /// Something that is done, by a process of its own.
    fn task(&mut self) -> repository::Result<()> {
        self.shared.disk.set_free_bytes(free_bytes(&mut self.random));
        let running = self.shared.start()?;
        let task = match self.random.below(8) {
            0 => Task::forget(&self.shared, &mut self.random),
            1 => Task::reclaim(&mut self.random),
            _ => Task::backup(&running, &self.shared, &mut self.random),
        };
        let ready = match &task {
            Task::Reclaim(_) => bring_back_before(&running),
            _ => Ok(()),
        };
        let result = ready.and_then(|()| self.finish(&running, task));
        self.shared.disk.kill(running.storage.process());
        result
    }

    fn finish(&mut self, running: &WriterProcess, mut task: Task) -> repository::Result<()> {
        self.shared.disk.note(format!("--- {}", task.name()));
        while !task.advance(running, &self.shared)? {}
        self.backups += u64::from(task.name() == "backup");
        Ok(())
    }

    /// A write of a backup is reported done, and went elsewhere or nowhere.
    fn lie(&mut self) -> Option<Damage> {
        let fault = *self.random.pick(&[Fault::LostWrite, Fault::MisdirectedWrite]);
        let left = self.random.below(12);
        self.shared.disk.arm(Faults::after(left, fault));
        let _ = self.task();
        self.shared.disk.disarm();
        None
    }

    /// Something that was well is not.
    fn corrupt(&mut self) -> Option<Damage> {
        let name = self.victim()?;
        let length = self.shared.disk.length(&name);
        let at = self.random.index(length.max(1));
        let sector = at / SECTOR * SECTOR..length.min((at / SECTOR + 1) * SECTOR);
        let others: Vec<_> = self.files(kind(&name)).into_iter().filter(|it| *it != name).collect();
        let (rot, range) = match self.random.below(6) {
            0 => (Corruption::Gone, 0..length),
            1 if !others.is_empty() => {
                (Corruption::ContentOf(self.random.pick(&others).clone()), 0..length)
            }
            2 => (Corruption::Zeros(sector.clone()), sector),
            3 => (Corruption::CutAt(at), at..length),
            _ => (Corruption::Flip(at, self.random.index(8) as u32), at..at + 1),
        };
        self.shared.disk.note(format!("*** {rot:?} {name}"));
        self.shared.disk.corrupt(&name, &rot);
        Some(Damage { name, range })
    }

    /// A file of a kind that is picked first: there are few of some and many of others.
    fn victim(&mut self) -> Option<String> {
        let kinds = ["containers", "containers", "index", "snapshots", "lease"];
        let kind = *self.random.pick(&kinds);
        let files = self.files(kind);
        (!files.is_empty()).then(|| self.random.pick(&files).clone())
    }

    fn files(&self, of: &str) -> Vec<String> {
        self.shared.disk.files().into_iter().filter(|name| kind(name) == of).collect()
    }

    /// What the damage costs: never more than what it lies in.
    fn costs(&mut self, damage: Option<&Damage>) -> Result<Option<LostObjects>, Violation> {
        let Some(lost) = self.lost()? else { return Ok(None) };
        let Some(damage) = damage else { return Ok(Some(lost)) };
        self.covered(damage, &lost.objects)?;
        Ok(Some(lost))
    }

    /// What cannot be had now, or `None` when the index does not open.
    fn lost(&mut self) -> Result<Option<LostObjects>, Violation> {
        let storage = Arc::new(self.shared.disk.process());
        let Ok(repository) = Repository::open(storage) else { return Ok(None) };
        self.shared.model.lock().lost(&repository).map(Some)
    }

    /// Every lost object lies in a record that the damage touches.
    fn covered(&self, damage: &Damage, lost: &BTreeSet<ObjectId>) -> Result<(), Violation> {
        if kind(&damage.name) != "containers" {
            // Anything in the index may be unreadable until a rebuild.
            return Ok(());
        }
        let opened = Repository::open(Arc::new(self.shared.disk.process()));
        let repository = opened.map_err(|error| format!("the index does not open: {error}"))?;
        for id in lost {
            let places = repository.index().find_many(&[*id]).map_err(|error| error.to_string())?;
            let [Some(place)] = places[..] else { return Err(format!("{id} is not in the index")) };
            let start = place.offset as usize;
            let touched = start < damage.range.end
                && damage.range.start < start + place.length as usize
                && damage.name.ends_with(&format!("{}.ice", place.container));
            if !touched {
                return Err(format!("{id} is lost, and {damage:?} is not where it lies"));
            }
        }
        Ok(())
    }

    fn no_worse(&mut self, before: Option<LostObjects>) -> Result<Option<LostObjects>, Violation> {
        let now = self.lost()?;
        let (Some(before), Some(now)) = (before, &now) else { return Ok(now) };
        if let Some(id) = now.objects.intersection(&before.readable).next() {
            return Err(format!("it was made worse: {id} is lost now"));
        }
        match now.snapshots.difference(&before.snapshots).next() {
            Some(number) => Err(format!("it was made worse: snapshot {number} is gone now")),
            None => Ok(Some(now.clone())),
        }
    }

    /// A rebuild, and backups of everything that the source still has: all is whole.
    fn heals(&mut self, damage: Option<&Damage>) -> Result<(), Violation> {
        let failed = |error: repository::Error| format!("it does not heal: {error}");
        self.shared.disk.note("--- rebuild");
        self.shared.disk.set_free_bytes(AMPLE_BYTES);
        rebuild(&self.shared.disk).map_err(failed)?;
        // It may not have been able to read what says that they were forgotten.
        self.shared.model.lock().allow_forgotten();
        if let Some(damage) = damage {
            let lost = self.lost()?.ok_or("the index does not open after a rebuild")?;
            let is_container = kind(&damage.name) == "containers";
            if !is_container && !lost.objects.is_empty() {
                return Err(format!("{} costs data", damage.name));
            }
            if let Some(number) = lost.snapshots.first() {
                return Err(format!("snapshot {number} is not listed after a rebuild"));
            }
        }
        let running = self.shared.start().map_err(failed)?;
        let trees: Vec<Tree> = self.shared.model.lock().trees();
        for tree in trees {
            let task = self.shared.backup_of(&running, tree, None);
            self.finish(&running, task).map_err(failed)?;
        }
        self.is_whole()?;
        // Nothing is lost any more, so nothing is given up but damaged records.
        match self.finish(&running, Task::ReclaimAcceptingDamage) {
            Err(Error::UncertainData(_)) => {}
            given_up => {
                given_up.map_err(failed)?;
                whole(&running.repository)?;
            }
        }
        self.is_whole()
    }

    fn is_whole(&mut self) -> Result<(), Violation> {
        let lost = self.lost()?.ok_or("the index does not open at the end")?;
        if lost.objects.is_empty() { Ok(()) } else { Err("it is not whole at the end".into()) }
    }
}

/// The folder of a file, or the file itself.
fn kind(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}
