//! What the server does to its domain, started by hand and awaited.

use super::DOMAIN;
use crate::client::{Client, Ran};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A job that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(300);

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
        self.run(&["forget", DOMAIN, "--keep-last", "1"])?;
        let tasks = ["reclaim", "check"];
        for task in tasks {
            self.upkeep(task)?;
        }
        Ok(tasks.len())
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
        let begun = Instant::now();
        while begun.elapsed() < LONGEST {
            let lines = self.run(&["jobs", &id.to_string(), "--json"])?.lines();
            let job = lines.into_iter().next().ok_or("no such job")?;
            if !["queued", "running"].contains(&job["state"].as_str().unwrap_or_default()) {
                return Ok(job);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Err(format!("job {id} of upkeep hangs"))
    }
}
