//! Nodes that change their trees and back them up, again and again; and a session that stays open.

use super::DOMAIN;
use crate::client::Client;
use crate::failed;
use crate::server::{NewNode, Server};
use simulation::Random;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A tree: 8 MiB that do not compress.
const FILES: u64 = 32;
const FILE_BYTES: u64 = 256 << 10;
/// Files that become others before each backup.
const CHANGES: u64 = 8;
/// What a session that stays open sends before it waits.
const OPEN_BYTES: u64 = 256 << 10;
/// By then its session has begun.
const BEGINS: Duration = Duration::from_secs(1);

/// What all nodes share.
#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// When each backup began and ended.
    spans: Mutex<Vec<[Instant; 2]>>,
    error: Mutex<Option<String>>,
}

/// Nodes at work.
pub(super) struct Nodes {
    shared: Arc<Shared>,
    sources: Vec<PathBuf>,
    turns: Vec<Arc<Turn>>,
    threads: Vec<JoinHandle<()>>,
}

/// Whether a node is to pause, and whether it works.
#[derive(Default)]
struct Turn {
    is_paused: AtomicBool,
    works: AtomicBool,
}

impl Nodes {
    /// Enrolls so many, lets each back up once, and then all of them work.
    pub(super) fn start(server: &Server, work: &Path, count: u64) -> Result<Self, String> {
        let (shared, mut nodes) = (Arc::<Shared>::default(), Vec::new());
        for number in 0..count {
            let name = format!("node-{number}");
            let new = NewNode { name: &name, domain: DOMAIN, is_elsewhere: false };
            let client = server.enroll(&new, &work.join(&name), server.port())?;
            let source = work.join(format!("source-{number}"));
            let mut node = Node { client, source, random: Random::new(number) };
            node.change(FILES)?;
            node.client.back_up(&node.source)?;
            nodes.push(node);
        }
        let sources = nodes.iter().map(|node| node.source.clone()).collect();
        let turns: Vec<_> = nodes.iter().map(|_| Arc::<Turn>::default()).collect();
        let threads = nodes.into_iter().zip(&turns).map(|(node, turn)| {
            let (shared, turn) = (shared.clone(), turn.clone());
            std::thread::spawn(move || node.work(&shared, &turn))
        });
        let threads = threads.collect();
        Ok(Self { shared, sources, turns, threads })
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().map(PathBuf::as_path)
    }

    /// Waits, unless a backup fails.
    pub(super) fn wait(&self, time: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if let Some(error) = locked(&self.shared.error).clone() {
                return Err(error);
            }
            if begun.elapsed() >= time {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Backups per second between these moments. One that was under way at a moment counts for its part.
    pub(super) fn rate(&self, from: Instant, to: Instant) -> f64 {
        let spans = locked(&self.shared.spans);
        let part = |[begun, ended]: &[Instant; 2]| {
            let inside = (*ended).min(to).saturating_duration_since((*begun).max(from));
            inside.as_secs_f64() / (*ended - *begun).as_secs_f64().max(f64::MIN_POSITIVE)
        };
        spans.iter().map(part).sum::<f64>() / (to - from).as_secs_f64()
    }

    /// Waits until nobody works: each tree is as its newest snapshot has it.
    pub(super) fn pause(&self) {
        self.turns.iter().for_each(|turn| turn.is_paused.store(true, Ordering::SeqCst));
        while self.turns.iter().any(|turn| turn.works.load(Ordering::SeqCst)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn go_on(&self) {
        self.turns.iter().for_each(|turn| turn.is_paused.store(false, Ordering::SeqCst));
    }

    /// Ends all of them; how many backups they made.
    pub(super) fn end(&mut self) -> Result<usize, String> {
        self.shared.ends.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| "a thread panicked")?;
        }
        self.wait(Duration::ZERO)?;
        Ok(locked(&self.shared.spans).len())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let _ = self.end(); // a rig that gave up says why
    }
}

struct Node {
    client: Client,
    source: PathBuf,
    random: Random,
}

impl Node {
    fn work(mut self, shared: &Shared, turn: &Turn) {
        while !shared.ends.load(Ordering::SeqCst) {
            turn.works.store(true, Ordering::SeqCst);
            if turn.is_paused.load(Ordering::SeqCst) {
                turn.works.store(false, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            let done = self.change(CHANGES).and_then(|()| self.back_up());
            turn.works.store(false, Ordering::SeqCst);
            match done {
                Ok(span) => locked(&shared.spans).push(span),
                Err(error) => {
                    locked(&shared.error).get_or_insert(error);
                    return;
                }
            }
        }
    }

    fn back_up(&self) -> Result<[Instant; 2], String> {
        let begun = Instant::now();
        self.client.back_up(&self.source)?;
        Ok([begun, Instant::now()])
    }

    /// Writes so many files anew.
    fn change(&mut self, files: u64) -> Result<(), String> {
        std::fs::create_dir_all(&self.source).map_err(failed("make a source"))?;
        let first = self.random.below(FILES);
        for number in 0..files {
            let name = format!("file-{}", (first + number) % FILES);
            let bytes = noise(&mut self.random, FILE_BYTES);
            std::fs::write(self.source.join(name), bytes).map_err(failed("write a source"))?;
        }
        Ok(())
    }
}

/// Bytes that do not compress.
fn noise(random: &mut Random, bytes: u64) -> Vec<u8> {
    (0..bytes / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A backup that has begun and waits for its input.
pub(super) struct OpenSession {
    client: Client,
    child: Child,
    random: Random,
    number: u64,
}

impl OpenSession {
    pub(super) fn begin(client: Client) -> Result<Self, String> {
        let mut random = Random::new(1);
        let child = stream(&client, &mut random, 0)?;
        Ok(Self { client, child, random, number: 0 })
    }

    /// Begins the next one, and ends this one.
    pub(super) fn renew(&mut self) -> Result<(), String> {
        self.number += 1;
        let next = stream(&self.client, &mut self.random, self.number)?;
        ended(&mut std::mem::replace(&mut self.child, next))
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        ended(&mut self.child)
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

/// Begins to back up a stream, of which no more comes. Two sources take turns: of one there is only one backup.
fn stream(client: &Client, random: &mut Random, number: u64) -> Result<Child, String> {
    let name = format!("stream-{}", number % 2);
    let mut command = client.command(&["backup", "--stdin", &name, "-q"]);
    let child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(failed("start a stream"))?;
    let bytes = noise(random, OPEN_BYTES);
    let sent = child.stdin.as_mut().map(|input| input.write_all(&bytes));
    sent.ok_or("no pipe")?.map_err(failed("write a stream"))?;
    std::thread::sleep(BEGINS);
    Ok(child)
}

fn ended(child: &mut Child) -> Result<(), String> {
    drop(child.stdin.take());
    let status = child.wait().map_err(failed("wait for a stream"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("a session that was open ended with {status}"))
    }
}
