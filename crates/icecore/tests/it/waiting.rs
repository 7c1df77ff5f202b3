//! Waiting for what a server does by itself.

use crate::administration::govern;
use crate::machine::Machine;
use serde_json::Value;
use std::time::{Duration, Instant};

/// The longest wait, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(150);
const LOOKED_EVERY: Duration = Duration::from_millis(200);

/// What `look` finds, as soon as it finds something. Until then it says what it sees instead.
pub(crate) fn found<T>(what: &str, look: impl Fn() -> Result<T, Value>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(begun.elapsed() < PATIENCE, "no {what}: {seen}"),
        }
        std::thread::sleep(LOOKED_EVERY);
    }
}

/// A job, when it has ended.
pub(crate) fn ended_job(machine: &Machine, id: u64) -> Value {
    found("end of a job", || {
        let words = ["jobs", &id.to_string(), "--json"];
        let job = govern(machine, &words).ends(0).lines()[0].clone();
        let is_open = ["queued", "running"].contains(&job["state"].as_str().unwrap());
        if is_open { Err(job) } else { Ok(job) }
    })
}
