//! Moves of domains, as one types them.

use crate::storage_servers::Site;
use crate::waiting::ended_job;
use serde_json::Value;

impl Site {
    /// Starts a move of `domain`, and returns its job.
    pub(crate) fn start_move(&self, domain: &str, words: &[&str]) -> u64 {
        let words = [&["pool", "move", domain], words, &["--json"]].concat();
        self.govern(&words).ends(0).last()["job"].as_u64().unwrap()
    }

    /// Moves `domain` to `pool`: the job.
    pub(crate) fn moves(&self, domain: &str, pool: &str) -> Value {
        let job = ended_job(&self.machine, self.start_move(domain, &[pool]));
        assert_eq!(job["state"], "complete", "{job}");
        job
    }

    /// Waits until a move waits for what runs in its domain.
    pub(crate) fn move_waits(&self, job: u64) {
        self.wait_for("the wait", |site| {
            let shown = site.govern(&["jobs", &job.to_string(), "--json"]).ends(0).lines();
            let stage = shown[0]["progress"]["stage"].as_str().map(str::to_owned);
            stage.is_some_and(|stage| stage.starts_with("wait for"))
        });
    }
}
