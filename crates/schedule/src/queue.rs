//! The queue of a storage unit: which waiting jobs start now, and why the others wait.
//!
//! Greater priorities go first. Among equals, the nodes take turns: whose last start is longest ago goes first, so a
//! node with a hundred jobs does not hold up one with a single job. A node runs one job at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A job that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<'a> {
    /// Its number; lower ones were queued earlier.
    pub job: u64,
    /// Its storage unit.
    pub unit: &'a str,
    /// Greater ones start first.
    pub priority: i64,
    /// Its node.
    pub node: &'a str,
}

/// What is known of units and nodes.
#[derive(Clone, Debug, Default)]
pub struct Site<'a> {
    /// How many jobs each unit runs at once, and how many it runs now. A unit that is missing runs none.
    pub units: BTreeMap<&'a str, Slots>,
    /// Nodes that run a job.
    pub busy: BTreeSet<&'a str>,
    /// Nodes that can be asked for a job now.
    pub connected: BTreeSet<&'a str>,
    /// When each node's last job was started: a number that rises with every start.
    pub last_start: BTreeMap<&'a str, u64>,
}

/// The slots of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// How many jobs it runs at once.
    pub max: usize,
    /// How many it runs.
    pub used: usize,
}

/// What becomes of a waiting job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It starts now.
    Start,
    /// Its node is not connected.
    Away,
    /// Its node runs another job.
    Busy,
    /// Its unit has no free slot; so many jobs go before it.
    Slot {
        /// Jobs that could start as well and go first.
        before: usize,
    },
}

/// The turn of each job, in the order of `queue`.
pub fn turns<'a>(queue: &[Queued<'a>], site: &Site<'a>) -> Vec<Turn> {
    let mut order: Vec<usize> = (0..queue.len()).collect();
    order.sort_by_cached_key(|&at| {
        let one = &queue[at];
        (Reverse(one.priority), site.last_start.get(one.node).copied().unwrap_or(0), one.job)
    });
    let mut pass =
        Pass { units: site.units.clone(), busy: site.busy.clone(), ahead: BTreeMap::new() };
    let mut turns = vec![Turn::Away; queue.len()];
    for at in order {
        turns[at] = pass.turn(&queue[at], site);
    }
    turns
}

/// One look at the whole queue, in its order.
struct Pass<'a> {
    units: BTreeMap<&'a str, Slots>,
    busy: BTreeSet<&'a str>,
    /// Jobs of each unit that wait for a slot.
    ahead: BTreeMap<&'a str, usize>,
}

impl<'a> Pass<'a> {
    fn turn(&mut self, one: &Queued<'a>, site: &Site<'a>) -> Turn {
        if !site.connected.contains(one.node) {
            return Turn::Away;
        }
        if self.busy.contains(one.node) {
            return Turn::Busy;
        }
        match self.units.get_mut(one.unit) {
            Some(slots) if slots.used < slots.max => {
                slots.used += 1;
                self.busy.insert(one.node);
                Turn::Start
            }
            _ => {
                let ahead = self.ahead.entry(one.unit).or_default();
                *ahead += 1;
                Turn::Slot { before: *ahead - 1 }
            }
        }
    }
}
