//! All nodes at once: first they connect and begin, then, from a common start, they send.

use super::member::Member;
use super::node::Cargo;
use super::sorted;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// How often it is noted how far everybody is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How it went.
pub(super) struct Storm {
    nodes: usize,
    bytes: u64,
    /// Until all had begun.
    begun_secs: f64,
    /// Nodes that had to try more than once to connect.
    tried_again: usize,
    times: Vec<f64>,
    /// Longest time by median time, from the common start.
    pub(super) slowest: f64,
    /// Least bytes by median bytes when half of the time was over.
    pub(super) least_part: f64,
}

impl Storm {
    pub(super) fn to_json(&self) -> Value {
        let at = |part: f64| self.times[((self.nodes - 1) as f64 * part) as usize];
        json!({
            "nodes": self.nodes,
            "bytes": self.bytes,
            "all_connected_secs": self.begun_secs,
            "tried_again": self.tried_again,
            "first_secs": at(0.0),
            "median_secs": at(0.5),
            "last_secs": at(1.0),
            "slowest_by_median": self.slowest,
            "least_by_median_at_half_time": self.least_part,
        })
    }
}

pub(super) async fn run(port: u16, members: Vec<Member>) -> Result<Storm, String> {
    let cargos: Result<Vec<_>, String> =
        members.into_iter().map(|member| Cargo::pack(member).map(Arc::new)).collect();
    let cargos = cargos?;
    let (nodes, bytes) = (cargos.len(), cargos.iter().map(|cargo| cargo.bytes).sum());
    let start = Arc::new(Barrier::new(nodes + 1));
    let confirmed: Arc<Vec<AtomicU64>> = Arc::new((0..nodes).map(|_| AtomicU64::new(0)).collect());
    let (connecting, mut running) = (Instant::now(), JoinSet::new());
    for (number, cargo) in cargos.into_iter().enumerate() {
        let (start, confirmed) = (start.clone(), confirmed.clone());
        running.spawn(async move {
            let begun = cargo.begin(port).await;
            // Whoever failed still lets the others go.
            start.wait().await;
            let (stream, tries) = begun?;
            let from = Instant::now();
            cargo.send(stream, &confirmed[number]).await?;
            Ok::<_, String>((from.elapsed().as_secs_f64(), tries))
        });
    }
    start.wait().await;
    let begun_secs = connecting.elapsed().as_secs_f64();
    let watching = tokio::spawn(watch(confirmed));
    let mut ended = Vec::new();
    while let Some(done) = running.join_next().await {
        ended.push(done.map_err(|error| error.to_string())??);
    }
    watching.abort();
    let looks = LOOKS.lock().clone();
    let times = sorted(ended.iter().map(|(secs, _)| *secs));
    let last = times.last().copied().unwrap_or_default();
    Ok(Storm {
        nodes,
        bytes,
        begun_secs,
        tried_again: ended.iter().filter(|(_, tries)| *tries > 1).count(),
        slowest: last / times[nodes / 2],
        least_part: least_part(&looks, last / 2.0),
        times,
    })
}

/// How far everybody was, and when.
type Look = (f64, Vec<u64>);

static LOOKS: parking_lot::Mutex<Vec<Look>> = parking_lot::Mutex::new(Vec::new());

async fn watch(confirmed: Arc<Vec<AtomicU64>>) {
    let from = Instant::now();
    loop {
        let look = confirmed.iter().map(|bytes| bytes.load(Relaxed)).collect();
        LOOKS.lock().push((from.elapsed().as_secs_f64(), look));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Least bytes by median bytes at the first look from `half` on.
fn least_part(looks: &[Look], half: f64) -> f64 {
    let look = looks.iter().find(|(secs, _)| *secs >= half).or(looks.last());
    let bytes = look.map(|(_, bytes)| sorted(bytes.iter().map(|it| *it as f64)));
    bytes.map_or(0.0, |bytes| bytes[0] / bytes[bytes.len() / 2].max(1.0))
}
