//! Planning: which containers are worth rewriting.

use super::live::LiveSet;
use super::scan::{self, Scans};
use super::unknown::{Known, has_objects};
use super::{ReclaimOptions, ReclaimOutcome};
use crate::check::IdPrefix;
use crate::container;
use crate::guard::{Guard, guarded};
use crate::settled::Settled;
use crate::sorted_ids::Beside;
use crate::{Error, Repository, Result};
use ids::ContainerNo;
use rustc_hash::{FxHashMap, FxHashSet};

/// Containers of less than this part of a full one are put together once there are several.
const SMALL_PART: u64 = 8;
/// So many of them are "several".
const SMALL_MIN: usize = 8;

/// What is known of one container.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    bytes: u64,
    objects: u64,
    live: u64,
    /// Bytes of records that the index does not know, as far as they were looked for.
    unknown: u64,
    /// Holds objects, of which the index knows none: a reclaim was killed before it could remove
    /// the file.
    is_orphan: bool,
    /// Records in it are damaged, and given up.
    is_damaged: bool,
    /// An interrupted session stored what is in it: it stays for now.
    is_kept: bool,
    /// A lock helper keeps it under a name of its own.
    is_secured: bool,
    /// Whether it lies where reading costs more than usual; `None` while nobody has asked.
    cold: Option<Coldness>,
}

/// What is known of the storage class of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coldness {
    /// Reading it costs no more than usual.
    Warm,
    /// It is cold, and holds nothing but content of files.
    Content,
    /// It is cold, and only who reads it knows what it holds.
    Other,
}

impl Usage {
    /// Bytes that are dead, taking all objects that the index knows for equally large.
    fn dead_bytes(&self) -> u64 {
        let known = self.bytes.saturating_sub(self.unknown) as f64;
        match self.objects {
            0 if self.is_orphan => self.bytes,
            0 => 0,
            objects => {
                let dead = (known * (objects - self.live) as f64 / objects as f64) as u64;
                dead + self.unknown.min(self.bytes)
            }
        }
    }

    /// Whether it stays in any case, for now. What is damaged has to be rewritten.
    fn stays(&self) -> bool {
        self.is_kept || self.is_secured && !self.is_damaged || self.is_left_cold()
    }

    /// Whether nothing in it is needed.
    fn is_all_dead(&self) -> bool {
        self.is_orphan || self.objects > 0 && self.live == 0
    }

    /// Whether it is cold, and would have to be read. What is damaged was read already.
    fn is_left_cold(&self) -> bool {
        let is_unread = match self.cold {
            None | Some(Coldness::Warm) => false,
            Some(Coldness::Content) => !self.is_all_dead(),
            Some(Coldness::Other) => true,
        };
        is_unread && !self.is_damaged
    }
}

/// A plan.
pub(super) struct Plan {
    usage: FxHashMap<ContainerNo, Usage>,
    candidates: Vec<ContainerNo>,
    /// Below this a container is small.
    small_bytes: u64,
    outcome: ReclaimOutcome,
}

impl Plan {
    /// Plans so that at most `max_waste_percent` of the bytes are dead afterwards.
    pub(super) fn new(
        repository: &Repository,
        live: &LiveSet,
        options: ReclaimOptions,
        scans: &Scans,
    ) -> Result<Self> {
        // Before the listing: what is settled by now is in it, and in the index.
        let settled = repository.settled();
        let mut usage = containers(repository, &settled)?;
        usage.iter_mut().for_each(|(number, usage)| usage.is_damaged = scans.has(*number));
        let counted = count(repository, live, &mut usage, &settled, scans)?;
        find_orphans(repository, &mut usage)?;
        if !options.free_interrupted && guarded(Guard::InterruptedContainers) {
            find_kept(repository, &mut usage);
        }
        if options.free_interrupted {
            find_unknown(repository, &mut usage)?;
        }
        let outcome = ReclaimOutcome {
            lost_objects: counted.lost,
            damaged_containers: scans.count(),
            ..ReclaimOutcome::default()
        };
        let small_bytes = repository.container_bytes() / SMALL_PART;
        let mut plan = Self { usage, candidates: Vec::new(), small_bytes, outcome };
        plan.choose(options.max_waste_percent);
        // Only of what would be read or removed: each question is a request.
        while plan.ask_for_cold(repository)? {
            plan.choose(options.max_waste_percent);
        }
        plan.summarize(counted.live, counted.dead);
        Ok(plan)
    }

    /// Asks which of the candidates are cold; whether one of them stays because of that.
    fn ask_for_cold(&mut self, repository: &Repository) -> Result<bool> {
        let is_new =
            |number: &ContainerNo| self.usage.get(number).is_some_and(|it| it.cold.is_none());
        let asked: Vec<_> = self.candidates.iter().copied().filter(is_new).collect();
        let mut has_left = false;
        for (number, coldness) in asked.iter().zip(coldness(repository, &asked)?) {
            if let Some(usage) = self.usage.get_mut(number) {
                usage.cold = Some(coldness);
                has_left |= usage.is_left_cold();
            }
        }
        Ok(has_left)
    }

    /// The candidates that go without being read.
    pub(super) fn cold(&self) -> FxHashSet<ContainerNo> {
        let is_unread = |number: &&ContainerNo| {
            let usage = self.usage.get(number);
            usage.is_some_and(|it| {
                it.cold == Some(Coldness::Content) && it.is_all_dead() && !it.is_damaged
            })
        };
        self.candidates.iter().filter(is_unread).copied().collect()
    }

    /// Containers to be rewritten or removed.
    pub(super) fn candidates(&self) -> Vec<ContainerNo> {
        self.candidates.clone()
    }

    /// What would come of it.
    pub(super) fn outcome(&self) -> ReclaimOutcome {
        self.outcome
    }

    /// These containers with the bytes that live in each by estimate, the fewest first.
    pub(super) fn by_life(&self, numbers: &[ContainerNo]) -> Vec<(ContainerNo, u64)> {
        let live = |number: &ContainerNo| {
            let usage = self.usage.get(number).copied().unwrap_or_default();
            (*number, usage.bytes - usage.dead_bytes())
        };
        let mut found: Vec<_> = numbers.iter().map(live).collect();
        found.sort_unstable_by_key(|(number, bytes)| (*bytes, *number));
        found
    }

    /// What came of it: `done` was rewritten, and so much copied.
    pub(super) fn outcome_of(&self, done: &[ContainerNo], bytes_copied: u64) -> ReclaimOutcome {
        let of = |numbers: &[ContainerNo], bytes: fn(&Usage) -> u64| -> u64 {
            numbers.iter().filter_map(|number| self.usage.get(number)).map(bytes).sum()
        };
        let is_done: FxHashSet<_> = done.iter().collect();
        let left = self.candidates.iter().copied().filter(|number| !is_done.contains(number));
        let left: Vec<_> = left.collect();
        ReclaimOutcome {
            bytes_copied,
            bytes_freed: of(done, |usage| usage.bytes).saturating_sub(bytes_copied),
            bytes_wasted: self.outcome.bytes_wasted + of(&left, Usage::dead_bytes),
            ..self.outcome_for(done)
        }
    }

    fn choose(&mut self, max_waste_percent: f64) {
        self.candidates.clear();
        let all = self.usage.iter().map(|(number, usage)| (*number, *usage));
        let (kept, mut order): (Vec<_>, Vec<_>) = all.partition(|(_, usage)| usage.stays());
        // What stays in any case is no reason to rewrite more of the rest.
        let total: u64 = order.iter().map(|(_, usage)| usage.bytes).sum();
        let mut waste = dead_bytes(&order);
        let allowed = (total as f64 * max_waste_percent.clamp(0.0, 100.0) / 100.0) as u64;
        let share = |usage: &Usage| usage.dead_bytes() as f64 / usage.bytes.max(1) as f64;
        order.sort_by(|(a, of_a), (b, of_b)| share(of_b).total_cmp(&share(of_a)).then(a.cmp(b)));
        for (number, usage) in &order {
            if usage.is_all_dead() || usage.is_damaged || waste > allowed && usage.dead_bytes() > 0
            {
                waste -= usage.dead_bytes();
                self.candidates.push(*number);
            }
        }
        self.add_small(&order);
        self.candidates.sort_unstable();
        self.outcome.bytes_wasted = waste + dead_bytes(&kept);
    }

    fn add_small(&mut self, order: &[(ContainerNo, Usage)]) {
        let small = order.iter().filter(|(number, usage)| {
            usage.bytes < self.small_bytes && !self.candidates.contains(number)
        });
        let small: Vec<_> = small.map(|(number, _)| *number).collect();
        if small.len() >= SMALL_MIN {
            self.candidates.extend(small);
        }
    }

    fn summarize(&mut self, live_objects: u64, dead_objects: u64) {
        let (mut interrupted, mut secured, mut cold, mut cold_left) = (0, 0, 0, 0);
        for usage in self.usage.values().filter(|usage| usage.stays()) {
            let of = match usage {
                usage if usage.is_kept => &mut interrupted,
                usage if usage.is_secured => &mut secured,
                _ => {
                    cold_left += 1;
                    &mut cold
                }
            };
            *of += usage.dead_bytes();
        }
        self.outcome = ReclaimOutcome {
            containers: self.usage.len() as u64,
            bytes: self.usage.values().map(|usage| usage.bytes).sum(),
            bytes_interrupted: interrupted,
            bytes_secured: secured,
            bytes_cold: cold,
            containers_cold: cold_left,
            live_objects,
            dead_objects,
            ..self.outcome
        };
        self.outcome = self.outcome_for(&self.candidates);
    }

    /// What comes of rewriting `numbers`.
    fn outcome_for(&self, numbers: &[ContainerNo]) -> ReclaimOutcome {
        let usages = numbers.iter().filter_map(|number| self.usage.get(number));
        let (removed, rewritten): (Vec<&Usage>, Vec<&Usage>) =
            usages.partition(|usage| usage.live == 0);
        ReclaimOutcome {
            containers_removed: removed.len() as u64,
            containers_rewritten: rewritten.len() as u64,
            bytes_freed: removed
                .iter()
                .chain(&rewritten)
                .map(|usage| usage.dead_bytes())
                .sum::<u64>(),
            ..self.outcome
        }
    }
}

fn dead_bytes(containers: &[(ContainerNo, Usage)]) -> u64 {
    containers.iter().map(|(_, usage)| usage.dead_bytes()).sum()
}

/// The containers that are settled.
fn containers(repository: &Repository, settled: &Settled) -> Result<FxHashMap<ContainerNo, Usage>> {
    let mut usage = FxHashMap::default();
    for file in repository.current_containers()? {
        if file.finished && settled.has(file.number) {
            let there = repository.storage.open(&container::name(file.number))?;
            let (bytes, is_secured) = (there.length()?, there.is_secured()?);
            usage.insert(file.number, Usage { bytes, is_secured, ..Usage::default() });
        }
    }
    Ok(usage)
}

/// Looks into the containers of which the index knows nothing.
fn find_orphans(repository: &Repository, usage: &mut FxHashMap<ContainerNo, Usage>) -> Result<()> {
    let unknown = |usage: &Usage| usage.objects == 0 && !usage.is_damaged;
    let numbers = usage.iter().filter(|(_, usage)| unknown(usage)).map(|(number, _)| *number);
    let numbers: Vec<_> = numbers.collect();
    for (number, cold) in numbers.iter().zip(coldness(repository, &numbers)?) {
        let Some(usage) = usage.get_mut(number) else { continue };
        usage.cold = Some(cold);
        usage.is_orphan = match cold {
            Coldness::Content => true,
            Coldness::Other => false,
            Coldness::Warm => repository.container(*number)?.rows()?.iter().any(has_objects),
        };
    }
    Ok(())
}

/// What is known of the storage classes of `numbers`, in their order.
fn coldness(repository: &Repository, numbers: &[ContainerNo]) -> Result<Vec<Coldness>> {
    let names: Vec<_> = numbers.iter().map(|number| container::name(*number)).collect();
    let cold = repository.storage.cold(&names)?.into_iter();
    Ok(cold
        .map(|cold| match cold {
            None => Coldness::Warm,
            Some(cold) if cold.is_content => Coldness::Content,
            Some(_) => Coldness::Other,
        })
        .collect())
}

/// Looks for records that nobody needs in the containers that are in use, which no count of the index shows. Reads all
/// their footers, so it is done only where all space is asked for.
fn find_unknown(repository: &Repository, usage: &mut FxHashMap<ContainerNo, Usage>) -> Result<()> {
    let in_use = |usage: &Usage| usage.objects > 0 && !usage.is_damaged;
    let numbers = usage.iter().filter(|(_, usage)| in_use(usage)).map(|(number, _)| *number);
    let numbers: Vec<_> = numbers.collect();
    let known = Known::of(repository, &numbers)?;
    let cold = repository.cold_content(&numbers)?;
    for number in numbers.into_iter().filter(|number| !cold.contains(number)) {
        if let Some(usage) = usage.get_mut(&number) {
            // In an archive nobody can look.
            usage.unknown = match known.lacks(repository, number) {
                Err(error) if error.is_archived() => 0,
                lacks => lacks?,
            };
        }
    }
    Ok(())
}

/// Finds the containers that stay for the sessions that were interrupted. What the index does not know is of no use to
/// them, and what is damaged has to be rewritten.
fn find_kept(repository: &Repository, usage: &mut FxHashMap<ContainerNo, Usage>) {
    let index = repository.index();
    for (number, usage) in usage.iter_mut() {
        let is_of_use = !usage.is_orphan && !usage.is_damaged;
        usage.is_kept = is_of_use && index.state.interrupted.has(*number);
    }
}

/// Objects of the index, and those that it lacks.
#[derive(Default)]
struct Counted {
    live: u64,
    dead: u64,
    lost: u64,
}

/// Counts objects by container: the index and the marks are both sorted, so one pass over both
/// does. An object that lives and is nowhere is a doubt, unless it is given up.
fn count(
    repository: &Repository,
    live: &LiveSet,
    usage: &mut FxHashMap<ContainerNo, Usage>,
    settled: &Settled,
    scans: &Scans,
) -> Result<Counted> {
    let pages = live.sorted_pages();
    let mut marks = Beside::new(live.in_order(&pages))?;
    let mut counted = Counted::default();
    repository.index().visit(|row| {
        let lives = marks.has(&IdPrefix(row.prefix), |_| counted.lose(live))?;
        counted.live += u64::from(lives);
        // What sessions store that are not done is not dead.
        counted.dead += u64::from(!lives && settled.has(row.location.container));
        if lives && scans.is_damaged(row.location) {
            return Err(scan::doubt(row.location.container));
        }
        if let Some(usage) = usage.get_mut(&row.location.container) {
            usage.objects += 1;
            usage.live += u64::from(lives);
        } else if lives && settled.has(row.location.container) {
            return Err(Error::ContainerMissing(row.location.container));
        }
        Ok(())
    })?;
    marks.rest(|_| counted.lose(live))?;
    Ok(counted)
}

impl Counted {
    /// An object of a snapshot is in no container.
    fn lose(&mut self, live: &LiveSet) -> Result<()> {
        self.lost += 1;
        if live.accepts_loss || !guarded(Guard::UncertainData) {
            return Ok(());
        }
        Err(Error::UncertainData(
            "an object of a snapshot is in no container; run icecore check. To give up what is lost and keep the rest: icecore reclaim --accept-damage".into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(live: u64, is_kept: bool) -> Usage {
        Usage { bytes: 1000, objects: 100, live, is_kept, ..Usage::default() }
    }

    fn plan(usages: &[Usage]) -> Plan {
        let numbers = (1..).map(ContainerNo);
        let usage = numbers.zip(usages.iter().copied()).collect();
        let outcome = ReclaimOutcome::default();
        let mut plan = Plan { usage, candidates: Vec::new(), small_bytes: 0, outcome };
        plan.choose(10.0);
        plan
    }

    #[test]
    fn what_interrupted_sessions_left_makes_nobody_rewrite_the_rest() {
        let alone = plan(&[usage(95, false), usage(80, false), usage(95, false)]);
        assert_eq!((&alone.candidates[..], alone.outcome.bytes_wasted), (&[][..], 300));
        let kept = [usage(95, false), usage(80, false), usage(95, false), usage(0, true)];
        let beside = plan(&kept);
        assert_eq!((&beside.candidates[..], beside.outcome.bytes_wasted), (&[][..], 1300));
    }

    /// To remove its name would free nothing; to copy what lives in it would take more.
    #[test]
    fn what_a_lock_helper_keeps_stays_unless_it_is_damaged() {
        let secured =
            |live, is_damaged| Usage { is_secured: true, is_damaged, ..usage(live, false) };
        let mut kept = plan(&[secured(0, false), secured(30, false), usage(30, false)]);
        assert_eq!(
            (&kept.candidates[..], kept.outcome.bytes_wasted),
            (&[ContainerNo(3)][..], 1700)
        );
        kept.summarize(0, 0);
        assert_eq!((kept.outcome.bytes_secured, kept.outcome.bytes_interrupted), (1700, 0));
        assert_eq!(plan(&[secured(30, true)]).candidates, [ContainerNo(1)]);
    }

    /// To read it would cost money, or has to wait for hours.
    #[test]
    fn what_is_cold_stays_unless_nothing_in_it_lives_and_its_writer_says_what_it_holds() {
        let cold = |live, cold| Usage { cold: Some(cold), ..usage(live, false) };
        let all = [
            cold(30, Coldness::Content),
            cold(0, Coldness::Content),
            cold(0, Coldness::Other),
            cold(30, Coldness::Warm),
        ];
        let mut left = plan(&all);
        assert_eq!(left.candidates, [ContainerNo(2), ContainerNo(4)]);
        assert_eq!(left.cold().into_iter().collect::<Vec<_>>(), [ContainerNo(2)]);
        left.summarize(0, 0);
        let outcome = left.outcome;
        assert_eq!((outcome.containers_cold, outcome.bytes_cold), (2, 1700));
    }
}
