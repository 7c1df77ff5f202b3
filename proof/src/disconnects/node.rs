//! A node that backs up again and again, and restores now and then, whatever happens on the way.

use super::proxy::Proxy;
use crate::client::{Client, Ran, Started};
use crate::server::NewNode;
use crate::{failed, tree};
use rustix::process::Signal;
use simulation::Random;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const UNREACHABLE: i32 = 16;
const KILLED: i32 = 9;
/// Snapshots whose trees are remembered; of all others only the name.
const COPIES_MAX: usize = 16;
/// The large file, or the part of it that changes.
const LARGE_BYTES: u64 = 12 << 20;
/// Bytes per second of the way during a job, of which one is picked.
const RATES: [u64; 4] = [0, 3 << 20, 8 << 20, 25 << 20];

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) backups: u64,
    pub(crate) partial: u64,
    pub(crate) restores: u64,
    pub(crate) killed: u64,
    /// The server could not be reached when they were started.
    pub(crate) not_begun: u64,
    /// Backups that lost their connection and went on.
    pub(crate) went_on: u64,
    /// Sessions that the server lost, and that were begun again.
    pub(crate) sessions_lost: u64,
    pub(crate) cuts: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) resent_bytes: u64,
}

/// What the one who breaks things sees of a node.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) is_running: AtomicBool,
    pub(crate) is_to_be_killed: AtomicBool,
    /// Times that the server which holds its domain was about to be killed.
    pub(crate) server_kills: AtomicU64,
    /// Times that it was killed: fewer while somebody is at it.
    pub(crate) server_deaths: AtomicU64,
}

/// A snapshot that was acknowledged.
struct Known {
    id: String,
    copy: Option<tree::Copy>,
}

/// A node.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) domain: String,
    /// Its domain lies on the storage server.
    pub(crate) is_elsewhere: bool,
    pub(crate) client: Client,
    /// To the server that governs, and to the one that holds its domain where that is another.
    pub(crate) ways: Vec<Arc<Proxy>>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) counts: Counts,
    source: PathBuf,
    target: PathBuf,
    random: Random,
    known: Vec<Known>,
    /// The last backup was killed: it is begun again with the same source.
    is_owed: bool,
}

impl Node {
    pub(crate) fn new(
        new: &NewNode,
        client: Client,
        ways: Vec<Arc<Proxy>>,
        work: &Path,
        mut random: Random,
    ) -> Result<Self, String> {
        let NewNode { name, domain, is_elsewhere } = *new;
        let (source, target) = (work.join("source").join(name), work.join("restored").join(name));
        tree::create(&source, &mut random).map_err(failed("make a tree"))?;
        Ok(Self {
            name: name.to_owned(),
            domain: domain.to_owned(),
            is_elsewhere,
            client,
            ways,
            seen: Arc::default(),
            counts: Counts::default(),
            source,
            target,
            random,
            known: Vec::new(),
            is_owed: false,
        })
    }

    /// Job after job, until `is_over`.
    pub(crate) fn work(&mut self, is_over: &AtomicBool) -> Result<(), String> {
        while !is_over.load(Relaxed) {
            let rate = *self.random.pick(&RATES);
            self.ways.iter().for_each(|way| way.set_rate(rate));
            let done = match self.random.below(6) {
                0 if !self.known.is_empty() => self.restore(),
                _ => self.back_up(),
            };
            done.map_err(|error| format!("{}: {error}", self.name))?;
        }
        Ok(())
    }

    fn change(&mut self) -> Result<(), String> {
        tree::mutate(&self.source, &mut self.random).map_err(failed("change a source"))?;
        if self.random.one_in(4) {
            let large = self.random.bytes(LARGE_BYTES);
            std::fs::write(self.source.join("large"), large).map_err(failed("change a source"))?;
        }
        Ok(())
    }

    fn back_up(&mut self) -> Result<(), String> {
        if !self.is_owed {
            self.change()?;
        }
        let mut copy = tree::copy(&self.source).map_err(failed("read a source"))?;
        if let Some(before) = self.known.iter().rev().find_map(|known| known.copy.as_ref()) {
            tree::share(before, &mut copy);
        }
        let source = self.source.to_string_lossy().into_owned();
        let streams = *self.random.pick(&["1", "1", "3"]);
        let deaths = self.seen.server_deaths.load(Relaxed);
        let Some(ran) = self.job(&["backup", &source, "--json", "--streams", streams])? else {
            self.is_owed = true;
            return Ok(());
        };
        self.is_owed = false;
        let id = ran.acknowledged().ok_or_else(|| format!("needs a hand: {}", ran.told()))?;
        self.count(&ran, self.seen.server_kills.load(Relaxed) - deaths)?;
        let copy = (ran.code == Some(0)).then_some(copy);
        self.known.push(Known { id, copy });
        self.forget_some();
        Ok(())
    }

    fn restore(&mut self) -> Result<(), String> {
        let with_copy = |known: &&Known| known.copy.is_some();
        let known: Vec<_> = self.known.iter().filter(with_copy).map(|it| it.id.clone()).collect();
        if known.is_empty() {
            return Ok(());
        }
        let id = self.random.pick(&known).clone();
        let target = self.target.to_string_lossy().into_owned();
        let ran = self.job(&["restore", &id, "--target", &target])?;
        let outcome = match ran {
            Some(ran) if ran.code == Some(0) => self.compare(&id),
            Some(ran) => Err(format!("needs a hand: {}", ran.told())),
            None => Ok(()),
        };
        let _ = std::fs::remove_dir_all(&self.target); // it need not be there
        outcome
    }

    fn compare(&mut self, id: &str) -> Result<(), String> {
        let was = self.known.iter().find(|known| known.id == id);
        let was = was.and_then(|known| known.copy.as_ref()).ok_or("not remembered")?;
        let root = tree::find_root(&self.target).ok_or("restored without its top folder")?;
        let found = tree::copy(&root).map_err(failed("read what was restored"))?;
        let differences = tree::differences(was, &found);
        if !differences.is_empty() {
            return Err(format!(
                "snapshot {id} is not restored as it was:\n{}",
                differences.join("\n")
            ));
        }
        self.counts.restores += 1;
        Ok(())
    }

    /// Runs to the end, which nobody forces but a kill or a server that cannot be reached at the
    /// start: then there is nothing.
    fn job(&mut self, words: &[&str]) -> Result<Option<Ran>, String> {
        let way = self.ways.last().ok_or("a node without a way")?.clone();
        let before = way.accepted();
        self.seen.is_to_be_killed.store(false, Relaxed);
        let started = self.client.start(words)?;
        self.seen.is_running.store(true, Relaxed);
        self.wait(&started);
        self.seen.is_running.store(false, Relaxed);
        let ran = started.end()?;
        if ran.signal == Some(KILLED) {
            self.counts.killed += 1;
            return Ok(None);
        }
        // Who was connected once would have tried again.
        if ran.code == Some(UNREACHABLE) && way.accepted() <= before + 1 {
            self.counts.not_begun += 1;
            std::thread::sleep(Duration::from_millis(200));
            return Ok(None);
        }
        Ok(Some(ran))
    }

    fn wait(&self, started: &Started) {
        while !started.has_ended() {
            if self.seen.is_to_be_killed.swap(false, Relaxed) {
                started.signal(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn count(&mut self, ran: &Ran, kills: u64) -> Result<(), String> {
        let summary = ran.lines().pop().unwrap_or_default();
        let figure = |name: &str| summary["network"][name].as_u64().unwrap_or(0);
        let counts = &mut self.counts;
        counts.backups += 1;
        counts.partial += u64::from(ran.code != Some(0));
        counts.went_on += u64::from(figure("cuts") > 0);
        counts.cuts += figure("cuts");
        counts.sent_bytes += figure("sent_bytes");
        counts.resent_bytes += figure("resent_bytes");
        let lost = ran.times_said("the server lost the session");
        counts.sessions_lost += lost;
        if lost > kills {
            return Err(format!(
                "{lost} sessions lost while the server was killed {kills} times: {}",
                ran.told()
            ));
        }
        Ok(())
    }

    /// Drops the tree of one snapshot when there are too many, but not of the newest.
    fn forget_some(&mut self) {
        let with_copy = |known: &(usize, &Known)| known.1.copy.is_some();
        let all: Vec<_> = self.known.iter().enumerate().filter(with_copy).map(|it| it.0).collect();
        if all.len() > COPIES_MAX {
            let at = all[self.random.index(all.len() - 1)];
            self.known[at].copy = None;
        }
    }

    /// Every snapshot that was acknowledged is there, and the newest and `more` restore as they were.
    pub(crate) fn holds(&mut self, client: &Client, more: usize) -> Result<u64, String> {
        let listed = client.snapshots()?;
        for Known { id, .. } in &self.known {
            if !listed.contains(id) {
                return Err(format!("{}: {id} was acknowledged and is not there", self.name));
            }
        }
        let mut chosen: Vec<_> = self.known.iter().filter(|known| known.copy.is_some()).collect();
        while chosen.len() > more + 1 {
            chosen.remove(self.random.index(chosen.len() - 1));
        }
        for Known { id, copy } in &chosen {
            let copy = copy.as_ref().ok_or("not remembered")?;
            client.restores(id, copy, &self.target)?;
        }
        Ok(chosen.len() as u64)
    }
}
