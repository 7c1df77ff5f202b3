//! Data: reads every record of a container, verifies its checksum and its seal, and compares every
//! object with its id. Manifests and tombstones are always read: they say which snapshots should
//! exist.

use super::{CheckOptions, CheckReport};
use crate::blocks::{Scratch, misnamed};
use crate::progress::Progress;
use crate::{Error, Result, UnlockedRepository};
use format::container::Row;
use format::record::{self, RecordKind};
use ids::{ContainerNo, RecordLocation};
use parking_lot::Mutex;
use repository::check::{
    ContainerDamage, IdPrefix, OpenContainer, check_parity, containers_in_index, is_of_its_name,
    open_container,
};
use repository::container::read::ContainerReader;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::f64::consts::SQRT_2;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the containers hold besides objects, and their damage.
#[derive(Default)]
pub(super) struct ContainerFindings {
    pub(super) damages: Vec<ContainerDamage>,
    /// The locations of damaged records.
    pub(super) bad: Vec<RecordLocation>,
    /// Objects that do not match their ids, in good records.
    pub(super) wrong: FxHashSet<(RecordLocation, IdPrefix)>,
    /// Damaged containers: the objects that can be read, with the offsets of their records; empty
    /// if none can.
    pub(super) partly: FxHashMap<ContainerNo, FxHashSet<(u32, IdPrefix)>>,
    /// Containers with objects that are not in the index.
    pub(super) unnamed: Vec<ContainerNo>,
    /// The clear parts of the manifests, each with its container.
    pub(super) manifests: Vec<(ContainerNo, Vec<u8>)>,
    /// The clear parts of the tombstones.
    pub(super) tombstones: Vec<Vec<u8>>,
    /// The clear parts of the expiries.
    pub(super) expiries: Vec<Vec<u8>>,
    /// Containers in archives, which nobody can read now.
    pub(super) archived: u64,
    /// Those of them that may hold more than content of files.
    pub(super) archived_others: u64,
    /// Cold containers that could be read, of which only the name was looked for.
    pub(super) cold: u64,
}

impl ContainerFindings {
    fn append(&mut self, mut other: Self) {
        self.damages.append(&mut other.damages);
        self.bad.append(&mut other.bad);
        self.wrong.extend(other.wrong);
        self.partly.extend(other.partly);
        self.unnamed.append(&mut other.unnamed);
        self.manifests.append(&mut other.manifests);
        self.tombstones.append(&mut other.tombstones);
        self.expiries.append(&mut other.expiries);
        self.archived += other.archived;
        self.archived_others += other.archived_others;
        self.cold += other.cold;
    }

    /// Whether `id` cannot be read from `location`, its location in the index.
    pub(super) fn is_lost(&self, location: RecordLocation, id: IdPrefix) -> bool {
        let there = self.partly.get(&location.container);
        there.is_some_and(|there| !there.contains(&(location.offset, id)))
            || self.bad.contains(&location)
            || self.wrong.contains(&(location, id))
    }

    /// Whether any object may be lost.
    pub(super) fn has_losses(&self) -> bool {
        !(self.bad.is_empty() && self.wrong.is_empty() && self.partly.is_empty())
    }
}

#[derive(Default)]
struct Total {
    seen: ContainerFindings,
    containers_read: u64,
    bytes_read: u64,
}

pub(super) fn check(
    repository: &UnlockedRepository,
    options: &CheckOptions,
    progress: &Progress,
    report: &mut CheckReport,
) -> Result<ContainerFindings> {
    let containers = containers(repository)?;
    let numbers: Vec<_> = containers.keys().copied().collect();
    report.containers = numbers.len() as u64;
    let without = repository.local()?.cold_content(&numbers)?;
    let chosen = choose(&numbers, options.read_data_percent, repository.now_secs());
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Total::default()));
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        threads => threads,
    };
    std::thread::scope(|scope| {
        let work = || work(repository, (&containers, &without), &chosen, progress, &next, &total);
        let threads = crate::threads::start(scope, threads, work)?;
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Err(Error::WorkerPanicked)))
    })?;
    let total = total.into_inner();
    report.containers_archived = total.seen.archived;
    report.containers_cold = total.seen.cold;
    (report.containers_read, report.bytes_read) = (total.containers_read, total.bytes_read);
    Ok(total.seen)
}

/// All containers in the index or in the storage, and whether the index has them. Some hold no
/// objects, only records of snapshots that were created and forgotten.
fn containers(repository: &UnlockedRepository) -> Result<BTreeMap<ContainerNo, bool>> {
    let files = repository.local()?.containers()?;
    let there = files.iter().filter(|file| file.finished).map(|file| (file.number, false));
    let mut all: BTreeMap<_, _> = there.collect();
    all.extend(containers_in_index(repository.local()?)?.into_iter().map(|number| (number, true)));
    Ok(all)
}

/// Chooses the containers to read completely: all, or an even sample that moves with the day, so
/// that the ten daily checks of a tenth cover everything. Each round begins elsewhere, by
/// a number that is no fraction: else a check of half of them every second day would always read the same half.
pub(super) fn choose(numbers: &[ContainerNo], percent: Option<f64>, now_secs: i64) -> Vec<bool> {
    let Some(percent) = percent else { return vec![false; numbers.len()] };
    let share = (percent / 100.0).clamp(0.0, 1.0);
    let day = (now_secs / 86_400) as f64;
    // A whole number of rounds may come out as a little less.
    let rounds = day * share + 1e-9;
    let offset = (rounds + rounds.floor() * SQRT_2).fract();
    let at = |index: usize| {
        ((index as f64 + 1.0) * share + offset).floor() - (index as f64 * share + offset).floor()
    };
    (0..numbers.len()).map(|index| share >= 1.0 || at(index) > 0.0).collect()
}

fn work(
    repository: &UnlockedRepository,
    (containers, without): (&BTreeMap<ContainerNo, bool>, &FxHashSet<ContainerNo>),
    chosen: &[bool],
    progress: &Progress,
    next: &AtomicUsize,
    total: &Mutex<Total>,
) -> Result<()> {
    let mut look = ContainerChecker { repository, scratch: Scratch::new()?, buffer: Vec::new() };
    let containers: Vec<_> = containers.iter().map(|(number, named)| (*number, *named)).collect();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some((number, is_named)) = containers.get(at) else { return Ok(()) };
        progress.check()?;
        let (seen, bytes) = match without.contains(number) && !chosen[at] {
            // It is there, holds no manifest, and a look into it costs.
            true => (ContainerFindings { cold: 1, ..ContainerFindings::default() }, 0),
            false => look.unless_archived(*number, *is_named, chosen[at], progress)?,
        };
        let mut total = total.lock();
        total.containers_read += u64::from(bytes > 0);
        total.bytes_read += bytes;
        total.seen.append(seen);
    }
}

/// What a thread needs to check containers.
struct ContainerChecker<'a> {
    repository: &'a UnlockedRepository,
    scratch: Scratch,
    buffer: Vec<u8>,
}

impl ContainerChecker<'_> {
    /// The same; one that is archived is not read, and nothing is said of what it holds.
    fn unless_archived(
        &mut self,
        number: ContainerNo,
        is_named: bool,
        chosen: bool,
        progress: &Progress,
    ) -> Result<(ContainerFindings, u64)> {
        match self.container(number, is_named, chosen, progress) {
            Err(error) if error.is_archived() => {
                let is_content = self.repository.local()?.is_archived_content(number)?;
                let archived_others = u64::from(!is_content);
                Ok((ContainerFindings { archived: 1, archived_others, ..Default::default() }, 0))
            }
            checked => checked,
        }
    }

    /// Checks one container, completely if it was `chosen`; returns the bytes read then.
    fn container(
        &mut self,
        number: ContainerNo,
        is_named: bool,
        chosen: bool,
        progress: &Progress,
    ) -> Result<(ContainerFindings, u64)> {
        let mut seen = ContainerFindings::default();
        let opened = open_container(self.repository.local()?, number, &mut seen.damages)?;
        let Some(OpenContainer { reader, rows }) = opened else {
            // One that is not in the index may be removed at this moment.
            if !is_named {
                seen.damages.clear();
            }
            seen.partly.insert(number, FxHashSet::default());
            return Ok((seen, 0));
        };
        let is_doubtful = !seen.damages.is_empty();
        if is_doubtful {
            seen.partly.insert(number, FxHashSet::default());
        }
        let holds = |row: &Row| row.has_kind(RecordKind::Data) || row.has_kind(RecordKind::Pages);
        seen.unnamed.extend((!is_named && rows.iter().any(holds)).then_some(number));
        let telling = [RecordKind::Manifest, RecordKind::Tombstone, RecordKind::Expiry];
        let tells = |row: &Row| telling.iter().any(|kind| row.has_kind(*kind));
        for row in rows.iter().filter(|row| chosen || is_doubtful || tells(row)) {
            progress.check()?;
            self.row(&reader, row, &mut seen)?;
            progress.bytes_read.fetch_add(row.length.into(), Ordering::Relaxed);
        }
        // Damage is reported once.
        if chosen && seen.damages.is_empty() {
            seen.damages.extend(check_parity(self.repository.local()?, &reader)?);
        }
        let bytes = rows.iter().map(|row| u64::from(row.length)).sum();
        Ok((seen, if chosen { bytes } else { 0 }))
    }

    fn row(
        &mut self,
        reader: &ContainerReader,
        row: &Row,
        seen: &mut ContainerFindings,
    ) -> Result<()> {
        let location =
            RecordLocation { container: reader.number(), offset: row.offset, length: row.length };
        let read = reader.read(location, &mut self.buffer).map_err(Error::from);
        let reason = match read.and_then(|()| self.record(location, seen)) {
            Ok(()) => return Ok(()),
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => error.to_string(),
        };
        let is_healed = reader.heal(location, &mut self.buffer);
        let is_healable = is_healed && is_of_its_name(self.repository.local()?, reader);
        let range = Some((row.offset.into(), row.length.into()));
        let damage = ContainerDamage::of_container(location.container, reason);
        seen.damages.push(ContainerDamage { range, is_healable, ..damage });
        if !is_healed || self.record(location, seen).is_err() {
            seen.bad.push(location);
        }
        Ok(())
    }

    /// Checks the record that was read from `location`.
    fn record(&mut self, location: RecordLocation, seen: &mut ContainerFindings) -> Result<()> {
        let record = record::verify(&self.buffer)?;
        match record.header.kind {
            RecordKind::Session | RecordKind::Receipt => return Ok(()),
            RecordKind::Manifest => {
                seen.manifests.push((location.container, record.clear.to_vec()));
                return Ok(());
            }
            RecordKind::Tombstone => {
                seen.tombstones.push(record.clear.to_vec());
                return Ok(());
            }
            RecordKind::Expiry => {
                seen.expiries.push(record.clear.to_vec());
                return Ok(());
            }
            RecordKind::Data | RecordKind::Pages => {}
        }
        if let Some(there) = seen.partly.get_mut(&location.container) {
            let ids = record::object_ids(&record).unwrap_or_default();
            there.extend(ids.iter().map(|id| (location.offset, IdPrefix::new(id))));
        }
        let Ok(blocks) = self.repository.blocks() else { return Ok(()) };
        let opened = blocks.open_bytes(location.container, &mut self.buffer, &mut self.scratch)?;
        for id in misnamed(&self.repository.keys.writer.ids, &opened) {
            let range = Some((location.offset.into(), location.length.into()));
            let reason = format!("the content of object {id} does not match its id");
            let damage = ContainerDamage::of_container(location.container, reason);
            seen.damages.push(ContainerDamage { range, ..damage });
            seen.wrong.insert((location, IdPrefix::new(&id)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many checks at this distance read every one of 997 containers.
    fn checks_of_all(percent: f64, days: i64) -> usize {
        let numbers: Vec<_> = (1..=997).map(ContainerNo).collect();
        let mut is_left = vec![true; numbers.len()];
        let checks = 1..1000;
        checks
            .zip((0..).map(|number| (20_000 + number * days) * 86_400))
            .find(|(_, now_secs)| {
                let chosen = choose(&numbers, Some(percent), *now_secs);
                let read = chosen.iter().filter(|is| **is).count() as f64 / 997.0;
                assert!((read - percent / 100.0).abs() < 0.01, "{percent} %: {read}");
                is_left.iter_mut().zip(chosen).for_each(|(left, is)| *left &= !is);
                !is_left.contains(&true)
            })
            .map_or(usize::MAX, |(checks, _)| checks)
    }

    #[test]
    fn shares_of_the_containers_come_to_all_at_every_distance() {
        for percent in [50.0, 25.0, 20.0, 10.0, 5.0] {
            let least = (100.0 / percent) as usize;
            assert_eq!(checks_of_all(percent, 1), least, "{percent} % daily");
            for days in [2, 4, 5, 7, 10, 14, 28, 30] {
                let checks = checks_of_all(percent, days);
                assert!(checks <= 5 * least, "{percent} % every {days} days: {checks} checks");
            }
        }
    }
}
