//! Five years of a declared site in which everything happens together: schedules in three zones, runs that fail,
//! locks, holds, names, trash, changed retentions with their plan, expiry that is interrupted, machines that are off
//! and clocks that are wrong. What rules and schedules decide is compared with what their words say, written down a
//! second time. `ICECORE_MODEL_RUNS` sets how many runs there are, `ICECORE_MODEL_FIRST` the first one.
//!
//! In some runs a real repository on a simulated disk gets the backups, loses what expires and reclaims the space,
//! while power and processes fail: what is kept stays whole, and nothing stays that nobody needs.

#[path = "years/declared.rs"]
mod declared;
#[path = "years/expiring.rs"]
mod expiring;
#[path = "years/running.rs"]
mod running;

use clock::{Clock, Reading, Tick};
use declared::Declared;
use retention::Facts;
use running::Runs;
use simulation::world::kept::{KeptRepository, SnapshotRef};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use testkit::Random;
use testkit::calendar::{self, DAY};

const YEARS: i64 = 5;
const NODES: [&str; 2] = ["db", "web"];
/// So many are run for every change, and show something of each kind.
const RUNS: u64 = 12;
/// In one of so many runs the repository is real: it takes ten times as long.
const REPOSITORY_ONE_IN: u64 = 20;

#[test]
fn five_years_expire_nothing_early_keep_nothing_late_and_miss_nothing_silently() {
    let seeds = testkit::seeds(RUNS);
    let is_replay = seeds.end - seeds.start < RUNS;
    let seeds = Mutex::new(seeds);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let seen = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| lives(&seeds))).collect();
        running.into_iter().map(|one| one.join().unwrap()).fold(Seen::default(), Seen::plus)
    });
    if !is_replay {
        seen.is_enough();
    }
}

/// Takes one seed after the other. What was begun in hours is told, so that `ICECORE_MODEL_FIRST` can go on there.
fn lives(seeds: &Mutex<Range<u64>>) -> Seen {
    let mut seen = Seen::default();
    loop {
        let Some(seed) = seeds.lock().unwrap().next() else { return seen };
        if seed % 100 == 0 {
            eprintln!("five years: seed {seed}");
        }
        seen = seen.plus(life(seed));
    }
}

fn life(seed: u64) -> Seen {
    let mut world = World::new(seed);
    world.live();
    world.the_repository_has_the_same();
    world.runs.values().for_each(|runs| runs.settle(seed));
    world.seen()
}

/// What happened in all runs: a test that sees nothing of a kind proves nothing about it.
#[derive(Debug, Default)]
struct Seen {
    expired: usize,
    came_back: usize,
    predicted: usize,
    doubts: usize,
    locked: usize,
    missed: usize,
    retried: usize,
    reclaimed: usize,
}

impl Seen {
    fn plus(self, other: Self) -> Self {
        Self {
            expired: self.expired + other.expired,
            came_back: self.came_back + other.came_back,
            predicted: self.predicted + other.predicted,
            doubts: self.doubts + other.doubts,
            locked: self.locked + other.locked,
            missed: self.missed + other.missed,
            retried: self.retried + other.retried,
            reclaimed: self.reclaimed + other.reclaimed,
        }
    }

    fn is_enough(&self) {
        let Self { expired, came_back, predicted, doubts, locked, missed, retried, reclaimed } =
            *self;
        let all = [expired, came_back, predicted, doubts, locked, missed, retried, reclaimed];
        assert!(all.iter().all(|count| *count > 0), "the test sees nothing of a kind: {self:?}");
    }
}

/// A snapshot, with what its makers know about it and the server need not.
#[derive(Clone)]
struct Stored {
    facts: Facts,
    /// In the repository, if there is one.
    name: Option<SnapshotRef>,
    /// Until when it was promised to stay, in the time of the world.
    promised_secs: i64,
    /// Since when it lies in the trash, in the time of the world.
    trashed_secs: Option<i64>,
}

/// A server with its nodes. Times of the world are those of no clock.
struct World {
    random: Random,
    seed: u64,
    declared: Declared,
    clock: Clock,
    /// Whether wall clocks may be wrong by more than a second clock corrects.
    is_hostile: bool,
    world_secs: i64,
    wrong_secs: i64,
    boot: u128,
    up_since: i64,
    /// How many snapshots there had been at each start of the machine.
    starts: Vec<u64>,
    runs: BTreeMap<&'static str, Runs>,
    stored: Vec<Stored>,
    repository: Option<KeptRepository>,
    number: u64,
    next_expiry_secs: i64,
    next_event_secs: i64,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let begin = calendar::days(2026, 1 + random.signed(12), 1) * DAY;
        let declared = Declared::any(&mut random);
        let runs = NODES.map(|node| (node, Runs::new(&declared, begin)));
        let is_hostile = random.one_in(3);
        Self {
            random,
            seed,
            declared,
            clock: Clock::start(Tick { wall_secs: begin, boot: 0, up_secs: 0 }),
            is_hostile,
            world_secs: begin,
            wrong_secs: 0,
            boot: 0,
            up_since: begin,
            starts: Vec::new(),
            runs: runs.into(),
            stored: Vec::new(),
            repository: seed
                .is_multiple_of(REPOSITORY_ONE_IN)
                .then(|| KeptRepository::new(seed).unwrap()),
            number: 0,
            next_expiry_secs: begin + DAY,
            next_event_secs: begin + DAY,
            seen: Seen::default(),
        }
    }

    fn live(&mut self) {
        let end = self.world_secs + YEARS * 365 * DAY;
        while self.world_secs < end {
            let next = self.runs.values().map(|runs| runs.next_secs(self.world_secs)).min();
            let next = next.unwrap_or(end).min(self.next_expiry_secs).min(self.next_event_secs);
            self.world_secs = next.max(self.world_secs + 1);
            if self.next_event_secs <= self.world_secs {
                self.event();
            }
            self.end_runs();
            self.start_runs();
            if self.next_expiry_secs <= self.world_secs {
                self.expire();
                self.next_expiry_secs = self.world_secs + (1 + self.random.signed(4)) * DAY;
            }
        }
    }

    fn seen(self) -> Seen {
        let missed = self.runs.values().map(|runs| runs.missed.len()).sum();
        let retried = self.runs.values().map(|runs| runs.retried).sum();
        Seen { missed, retried, ..self.seen }
    }

    fn event(&mut self) {
        self.next_event_secs = self.world_secs + self.random.signed(25 * DAY);
        match self.random.below(10) {
            0 => self.restart(),
            1 | 2 => self.set_clock(),
            3 => self.name(),
            4 => self.change_holds(),
            5 => self.delete_source(),
            _ => self.change_retention(),
        }
    }

    /// Off for a while; what ran has failed.
    fn restart(&mut self) {
        self.world_secs += self.random.signed(6 * DAY);
        (self.boot, self.up_since) = (self.boot + 1, self.world_secs);
        self.starts.push(self.number);
        let now = self.now().secs;
        self.runs.values_mut().for_each(|runs| runs.fail_all(now));
    }

    /// A time server corrects a clock by minutes; only a hostile one by days.
    fn set_clock(&mut self) {
        let most = if self.is_hostile { 400 * DAY } else { 240 };
        self.wrong_secs = self.random.signed(2 * most) - most;
        if self.random.one_in(2) {
            self.wrong_secs = 0;
        }
    }

    fn now(&mut self) -> Reading {
        let wall_secs = self.world_secs + self.wrong_secs;
        let up_secs = self.world_secs - self.up_since;
        self.clock.read(Tick { wall_secs, boot: self.boot, up_secs })
    }

    fn start_runs(&mut self) {
        let now = self.now();
        for (node, runs) in &mut self.runs {
            runs.tick(node, now, self.world_secs, &mut self.random);
        }
    }

    fn end_runs(&mut self) {
        for node in NODES {
            let Some(runs) = self.runs.get_mut(node) else { continue };
            if !runs.is_over(self.world_secs) {
                continue;
            }
            let now = self.now();
            let Some(runs) = self.runs.get_mut(node) else { continue };
            match self.random.below(8) {
                0 => runs.fail_all(now.secs),
                other => {
                    runs.succeed(now.secs);
                    self.receive(node, other == 1, now);
                }
            }
        }
    }

    /// As the server does when a backup ends: the lock of the class is given now and never again.
    fn receive(&mut self, node: &str, is_partial: bool, now: Reading) {
        self.number += 1;
        let backed_up = self.repository.as_mut().map(KeptRepository::back_up).transpose();
        let name = backed_up.unwrap_or_else(|why| panic!("seed {}: {why}", self.seed));
        let mut id = ids::SnapshotId([0; 16]);
        id.0[..8].copy_from_slice(&self.number.to_be_bytes());
        let lock = self.declared.class().immutable.map_or(0, clock::Span::signed_secs);
        let facts = Facts {
            id: name.map_or(id, |name| name.id),
            number: self.number,
            node: node.to_owned(),
            source: "main".to_owned(),
            policy: declared::POLICY.to_owned(),
            class: declared::CLASS.to_owned(),
            received_secs: now.secs,
            is_partial,
            suspect: now.doubt.map(|doubt| doubt.to_string()),
            tags: Some(Vec::new()),
            locked_until_secs: (lock > 0).then(|| now.secs + lock),
            paths: None,
            has_deleted_objects: *self.random.pick(&[None, Some(true), Some(false)]),
            source_deleted_secs: None,
            trashed: None,
        };
        let promised_secs = self.world_secs + lock;
        self.stored.push(Stored { facts, name, promised_secs, trashed_secs: None });
    }
}
