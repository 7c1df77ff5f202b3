//! The queue beside what it promises: slots, one job of a node, no idle slot, and turns.

use schedule::queue::{Queued, Site, Slots, Turn, turns};
use std::collections::{BTreeMap, BTreeSet};
use testkit::Random;

const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const UNITS: [(&str, usize); 2] = [("disk", 2), ("tape", 1)];

#[derive(Clone, Debug)]
struct Job {
    number: u64,
    unit: &'static str,
    priority: i64,
    node: &'static str,
}

/// A site in which jobs come, start, end and are cancelled at random.
#[derive(Default)]
struct World {
    waiting: Vec<Job>,
    running: Vec<Job>,
    away: BTreeSet<&'static str>,
    starts: u64,
    last_start: BTreeMap<&'static str, u64>,
    number: u64,
    /// For each waiting job that could start: starts of each other node while it could, with its unit and priority.
    passed: BTreeMap<(u64, &'static str), usize>,
}

impl World {
    fn site(&self) -> Site<'static> {
        let used = |unit: &str| self.running.iter().filter(|job| job.unit == unit).count();
        Site {
            units: UNITS.map(|(unit, max)| (unit, Slots { max, used: used(unit) })).into(),
            busy: self.running.iter().map(|job| job.node).collect(),
            connected: NODES.into_iter().filter(|node| !self.away.contains(node)).collect(),
            last_start: self.last_start.clone(),
        }
    }

    fn step(&mut self, random: &mut Random) {
        match random.index(8) {
            0..=3 => self.add(random),
            4 | 5 if !self.running.is_empty() => {
                let at = random.index(self.running.len());
                self.running.remove(at);
            }
            6 if !self.waiting.is_empty() => {
                let at = random.index(self.waiting.len());
                self.waiting.remove(at);
            }
            _ => {
                let node = NODES[random.index(NODES.len())];
                if !self.away.remove(node) {
                    self.away.insert(node);
                }
            }
        }
        self.start();
    }

    fn add(&mut self, random: &mut Random) {
        self.number += 1;
        // The first node floods the queue.
        let node = if random.index(2) == 0 { NODES[0] } else { NODES[random.index(NODES.len())] };
        let (unit, priority) = (UNITS[random.index(2)].0, random.signed(2));
        self.waiting.push(Job { number: self.number, unit, priority, node });
    }

    fn start(&mut self) {
        let site = self.site();
        let queue: Vec<_> = self.waiting.iter().map(queued).collect();
        let turns = turns(&queue, &site);
        self.check(&turns, &site);
        let jobs = std::mem::take(&mut self.waiting);
        for (job, turn) in jobs.into_iter().zip(&turns) {
            if *turn != Turn::Start {
                self.waiting.push(job);
                continue;
            }
            self.starts += 1;
            self.last_start.insert(job.node, self.starts);
            self.running.push(job);
        }
        self.count_turns(&turns, &queue);
    }

    /// Slots are kept, nodes run one job, and no slot is idle that somebody could use.
    fn check(&self, turns: &[Turn], site: &Site<'_>) {
        let started = || self.waiting.iter().zip(turns).filter(|(_, turn)| **turn == Turn::Start);
        for (unit, slots) in &site.units {
            let new = started().filter(|(job, _)| job.unit == *unit).count();
            assert!(slots.used + new <= slots.max, "{unit} runs too many");
            let waits =
                |(job, turn): (&Job, &Turn)| job.unit == *unit && matches!(turn, Turn::Slot { .. });
            let is_idle = slots.used + new < slots.max;
            assert!(!is_idle || !self.waiting.iter().zip(turns).any(waits), "{unit} is idle");
        }
        let nodes: BTreeSet<_> = started().map(|(job, _)| job.node).collect();
        assert_eq!(nodes.len(), started().count(), "a node runs two");
        assert!(nodes.iter().all(|node| !site.busy.contains(node) && !self.away.contains(node)));
        for (unit, _) in UNITS {
            let place = |(job, turn): (&Job, &Turn)| match turn {
                Turn::Slot { before } if job.unit == unit => Some(*before),
                _ => None,
            };
            let mut places: Vec<_> = self.waiting.iter().zip(turns).filter_map(place).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..places_len(turns, &self.waiting, unit)));
        }
    }

    /// Until its node has a turn, a job that could start sees each other node start at most once before it, with its
    /// unit and priority.
    fn count_turns(&mut self, turns: &[Turn], queue: &[Queued<'static>]) {
        let started: Vec<_> =
            queue.iter().zip(turns).filter(|(_, turn)| **turn == Turn::Start).collect();
        for (job, turn) in queue.iter().zip(turns) {
            let has_had_its_turn = started.iter().any(|(other, _)| other.node == job.node);
            if has_had_its_turn || !matches!(turn, Turn::Slot { .. }) {
                self.passed.retain(|(number, _), _| *number != job.job);
                continue;
            }
            for (other, _) in &started {
                if (other.unit, other.priority) == (job.unit, job.priority) {
                    let passed = self.passed.entry((job.job, other.node)).or_default();
                    *passed += 1;
                    assert!(*passed <= 1, "{} started twice before {}", other.node, job.job);
                }
            }
        }
    }
}

fn places_len(turns: &[Turn], jobs: &[Job], unit: &str) -> usize {
    let waits = |(job, turn): &(&Job, &Turn)| job.unit == unit && matches!(turn, Turn::Slot { .. });
    jobs.iter().zip(turns).filter(waits).count()
}

fn queued(job: &Job) -> Queued<'static> {
    Queued { job: job.number, unit: job.unit, priority: job.priority, node: job.node }
}

#[test]
fn slots_are_kept_and_used_and_nodes_take_turns_whatever_comes() {
    for seed in 0..400 {
        let (mut world, mut random) = (World::default(), Random::new(seed));
        (0..300).for_each(|_| world.step(&mut random));
        assert!(world.starts > 20, "seed {seed}: {} starts", world.starts);
    }
}

#[test]
fn greater_priorities_go_first_and_who_waits_knows_its_place() {
    let job = |job, node, priority| Queued { job, unit: "disk", priority, node };
    let queue = [job(1, "a", 0), job(2, "b", 0), job(3, "c", 9), job(4, "d", 0), job(5, "c", 0)];
    let site = Site {
        units: [("disk", Slots { max: 2, used: 1 })].into(),
        connected: ["a", "b", "c"].into(),
        last_start: [("a", 7)].into(),
        ..Site::default()
    };
    let expected =
        [Turn::Slot { before: 1 }, Turn::Slot { before: 0 }, Turn::Start, Turn::Away, Turn::Busy];
    assert_eq!(turns(&queue, &site), expected);
}

#[test]
fn a_unit_that_nobody_declared_starts_nothing() {
    let queue = [Queued { job: 1, unit: "gone", priority: 0, node: "a" }];
    let site = Site { connected: ["a"].into(), ..Site::default() };
    assert_eq!(turns(&queue, &site), [Turn::Slot { before: 0 }]);
}
