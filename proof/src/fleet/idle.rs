//! Agents that are connected and wait for commands.

use super::wire::{Dial, Halves};
use protocol::Packet;
use protocol::packet::Purpose;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many connect at the same time.
const AT_ONCE: usize = 128;
/// How often each says that it is there.
const PING_EVERY: Duration = Duration::from_secs(45);

pub(super) struct Agents {
    pub(super) secs: f64,
    connected: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Agents {
    pub(super) fn still_connected(&self) -> u64 {
        self.connected.load(Relaxed)
    }
}

/// Connects all of them.
pub(super) async fn connect(port: u16, dials: Vec<Dial>) -> Result<Agents, String> {
    let (begun, places) = (Instant::now(), Arc::new(Semaphore::new(AT_ONCE)));
    let connected = Arc::new(AtomicU64::new(0));
    let mut connecting = JoinSet::new();
    for dial in dials {
        let places = places.clone();
        connecting.spawn(async move {
            let _place = places.acquire().await.map_err(|error| error.to_string())?;
            dial.open(port, Purpose::Agent).await
        });
    }
    let mut tasks = JoinSet::new();
    while let Some(done) = connecting.join_next().await {
        let (stream, _) = done.map_err(|error| error.to_string())??;
        connected.fetch_add(1, Relaxed);
        let count = connected.clone();
        tasks.spawn(async move {
            wait(tokio::io::split(stream)).await;
            count.fetch_sub(1, Relaxed);
        });
    }
    Ok(Agents { secs: begun.elapsed().as_secs_f64(), connected, _tasks: tasks })
}

/// Until the connection ends.
async fn wait((mut read, mut write): Halves) {
    let hears = async {
        let mut bytes = [0; 64];
        while matches!(read.read(&mut bytes).await, Ok(1..)) {}
    };
    let says = async {
        loop {
            tokio::time::sleep(PING_EVERY).await;
            let said = write.write_all(&Packet::Ping {}.frame(1)).await;
            if said.is_err() || write.flush().await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = hears => {}
        () = says => {}
    }
}
