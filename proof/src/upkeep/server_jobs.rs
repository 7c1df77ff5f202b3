//! What the server does to its domain, started by hand and awaited.

use super::DOMAIN;
use crate::client::{Client, Ran};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A job that tells no progress for longer hangs. How long a whole one takes says nothing: it yields to backups.
const STILL_MAX: Duration = Duration::from_secs(300);

/// The commands of an administrator.
pub(super) struct ServerJobs {
    client: Client,
    data: PathBuf,
}

impl ServerJobs {
    pub(super) fn new(binary: &Path, data: &Path) -> Self {
        let client = Client::new(binary, Path::new("/nonexistent"));
        Self { client, data: data.to_owned() }
    }

    /// Leaves each source its newest snapshot, then reclaims and checks. How many tasks that were.
    pub(super) fn forget_reclaim_check(&self) -> Result<usize, String> {
        self.forget_all_but_newest()?;
        let tasks = ["reclaim", "check"];
        for task in tasks {
            self.upkeep(task)?;
        }
        Ok(tasks.len())
    }

    /// Those that a backup has added since the list was made stay, too.
    fn forget_all_but_newest(&self) -> Result<(), String> {
        let list = ["snapshot", "list", "--domain", DOMAIN, "--limit", "100000", "--json"];
        let mut seen = BTreeSet::new();
        // The newest of all come first.
        let mut is_old = |line: &Value| !seen.insert(line["node"].to_string());
        let listed = self.run(&list)?.lines();
        let old: Vec<_> = listed.into_iter().filter(|line| is_old(line)).collect();
        let ids: Vec<_> = old.iter().filter_map(|line| line["id"].as_str()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.run(&[&["snapshot", "delete", "--now", "--yes"], &ids[..]].concat()).map(drop)
    }

    fn run(&self, words: &[&str]) -> Result<Ran, String> {
        let data = self.data.to_string_lossy();
        self.client.ends(&[&["server", "--data", &data], words].concat(), &[0])
    }

    /// Runs `task` to its end; it completes, and finds no damage.
    fn upkeep(&self, task: &str) -> Result<(), String> {
        let words = ["upkeep", "start", "default", "--domain", DOMAIN, "--task", task, "--json"];
        let started = self.run(&words)?.lines();
        let id = started.first().and_then(|line| line["job"].as_u64()).ok_or("no job")?;
        let job = self.ended(id)?;
        let report = job["report"].as_str().unwrap_or_default();
        let report: Value = serde_json::from_str(report).unwrap_or_default();
        if job["state"] != "complete" || report["damaged"].as_u64().unwrap_or(0) > 0 {
            return Err(format!("{task} did not end well: {job}"));
        }
        Ok(())
    }

    fn ended(&self, id: u64) -> Result<Value, String> {
        let (mut told, mut since) = (Value::Null, Instant::now());
        while since.elapsed() < STILL_MAX {
            let lines = self.run(&["jobs", &id.to_string(), "--json"])?.lines();
            let job = lines.into_iter().next().ok_or("no such job")?;
            if !["queued", "running"].contains(&job["state"].as_str().unwrap_or_default()) {
                return Ok(job);
            }
            if job["progress"] != told {
                (told, since) = (job["progress"].clone(), Instant::now());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Err(format!("job {id} of upkeep hangs: for {} s it said {told}", STILL_MAX.as_secs()))
    }
}
