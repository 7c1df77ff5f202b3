//! Who may write. The lease number N belongs to whoever created the object `lease/N`, which is made only if it is absent.
//! Its holder refreshes `lease/N.beat` every few seconds, and creates `lease/N.end` when it has written its last.
//!
//! The beat is for the others' patience alone: who waits sees whether it changes, by a clock of its own. That a writer
//! which was overtaken can do no harm follows from the numbers ([`crate::takeover`]).

use crate::client::Client;
use crate::names::{LEASE, Names, number, numbered};
use crate::roots::{NONCE_BYTES, nonce};
use bytes::Bytes;
use object_store::ObjectStoreExt;
use parking_lot::Mutex;
use repository::storage::StorageResult;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const MAGIC: &[u8; 8] = b"ICEBEAT1";
const END: &str = ".end";
const BEAT: &str = ".beat";
/// How often a holder refreshes its beat.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// How often who waits looks at it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So long is a look at the lease believed.
pub(crate) const CHECKED_FOR: Duration = Duration::from_secs(5);
/// So long a beat has to stand still before its lease is taken.
pub(crate) const QUIET: Duration = Duration::from_secs(60);
/// So many leases are kept once their objects are tidied up, and so many are let grow before.
const KEPT: u64 = 16;
const TIDY_AT: usize = 64;

/// What the leases begin with that this process holds or is about to take.
static OURS: Mutex<BTreeSet<[u8; NONCE_BYTES]>> = Mutex::new(BTreeSet::new());

/// While this exists, a lease is in use by this process.
pub(crate) struct InUse([u8; NONCE_BYTES]);

impl InUse {
    pub(crate) fn new() -> Self {
        let nonce = nonce();
        OURS.lock().insert(nonce);
        Self(nonce)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        OURS.lock().remove(&self.0);
    }
}

/// What the objects of leases say.
pub(crate) struct Leases {
    /// The highest number.
    pub(crate) last: u64,
    /// Those that did not end.
    pub(crate) open: Vec<u64>,
    /// Those with a beat, the highest last.
    pub(crate) beats: Vec<u64>,
}

impl Leases {
    /// As `names` has them.
    pub(crate) fn of(names: &Names) -> Self {
        let (mut leases, mut ended) = (Vec::new(), Vec::new());
        let mut beats = Vec::new();
        for name in names.below(LEASE) {
            if let Some(lease) = number(name) {
                leases.push(lease);
            } else if let Some(lease) = name.strip_suffix(END).and_then(number) {
                ended.push(lease);
            } else if let Some(lease) = name.strip_suffix(BEAT).and_then(number) {
                beats.push(lease);
            }
        }
        let last = leases.iter().copied().max().unwrap_or(0);
        leases.retain(|lease| !ended.contains(lease));
        Self { last, open: leases, beats }
    }

    /// Whether the last one has ended.
    pub(crate) fn is_free(&self) -> bool {
        !self.open.contains(&self.last)
    }
}

/// The name behind all objects of the lease `lease`.
pub(crate) fn behind(lease: u64) -> String {
    format!("{}~", numbered(LEASE, lease))
}

fn beat_name(lease: u64) -> String {
    format!("{}{BEAT}", numbered(LEASE, lease))
}

fn end_name(lease: u64) -> String {
    format!("{}{END}", numbered(LEASE, lease))
}

/// Tries to be the first with the lease `lease`.
pub(crate) fn create(client: &Client, lease: u64, in_use: &InUse) -> StorageResult<bool> {
    let process = Process::here();
    let object = [&in_use.0[..], process.0.as_bytes()].concat().into();
    Ok(client.create(&numbered(LEASE, lease), &object)?.is_some())
}

/// Takes `lease` and ends it: nobody has a lower one any more.
pub(crate) fn pass(client: &Client, lease: u64) -> StorageResult<()> {
    if create(client, lease, &InUse::new())? {
        end(client, lease)?;
    }
    Ok(())
}

/// Says that the holder of `lease` writes no more.
fn end(client: &Client, lease: u64) -> StorageResult<()> {
    client.put(&end_name(lease), Bytes::new())
}

fn has_ended(client: &Client, lease: u64) -> StorageResult<bool> {
    Ok(client.length(&end_name(lease)).map_or_else(absent, |_| Ok(Some(())))?.is_some())
}

/// What the engine says of the holder of `lease`; `None` when it did not come to that.
pub(crate) fn read(client: &Client, lease: u64) -> StorageResult<Option<Bytes>> {
    match client.get(&beat_name(lease)) {
        Ok(bytes) => Ok(Beat::decode(&bytes).map(|beat| beat.content)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the holder of `lease` is gone, as far as can be seen: it ran on this machine and does not run any more, it was
/// this process, which has let it go without being able to end it, or it has done nothing for `quiet`. Waits for as long as
/// it takes to know, and says so with `waits` before. The time that answers take does not count: while the storage is away,
/// nobody can show that he works.
pub(crate) fn is_gone(
    client: &Client,
    lease: u64,
    quiet: Duration,
    waits: &dyn Fn(Duration),
) -> StorageResult<bool> {
    let look = || client.get(&beat_name(lease)).map_or_else(absent, |bytes| Ok(Some(bytes)));
    let first = look()?;
    let process = match first.as_ref().and_then(Beat::decode) {
        Some(beat) => Some(beat.process),
        None => creator(client, lease)?.map(|(_, process)| process),
    };
    if let Some(process) = process
        && (process.is_dead() || process == Process::here() && is_let_go(client, lease)?)
    {
        return Ok(true);
    }
    waits(quiet);
    let (mut watched, pause) = (Duration::ZERO, LOOK_EVERY.min(quiet));
    while watched < quiet {
        std::thread::sleep(pause);
        watched += pause;
        if has_ended(client, lease)? {
            return Ok(true);
        }
        if look()? != first {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether this process, which took `lease`, does not use it any more.
fn is_let_go(client: &Client, lease: u64) -> StorageResult<bool> {
    let created = creator(client, lease)?;
    Ok(created.is_some_and(|(nonce, _)| !OURS.lock().contains(&nonce)))
}

/// Who created `lease`, and with which random bytes, if that is said.
fn creator(client: &Client, lease: u64) -> StorageResult<Option<([u8; NONCE_BYTES], Process)>> {
    let object =
        client.get(&numbered(LEASE, lease)).map_or_else(absent, |bytes| Ok(Some(bytes)))?;
    Ok(object.as_deref().and_then(|object| {
        let (nonce, text) = object.split_first_chunk::<NONCE_BYTES>()?;
        Some((*nonce, Process(String::from_utf8(text.to_vec()).ok()?)))
    }))
}

fn absent<T>(error: repository::storage::StorageError) -> StorageResult<Option<T>> {
    if error.is_not_found() { Ok(None) } else { Err(error) }
}

/// Whether these are the bytes of a beat.
pub(crate) fn is_beat(bytes: &Bytes) -> bool {
    Beat::decode(bytes).is_some()
}

/// A moment by a clock that goes on while the machine is suspended: others do, too.
#[derive(Clone, Copy)]
pub(crate) struct Moment(Timespec);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(clock_gettime(ClockId::Boottime))
    }

    pub(crate) fn age(self) -> Duration {
        let age = Self::now().0 - self.0;
        let seconds = u64::try_from(age.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(age.tv_nsec).unwrap_or(0))
    }
}

/// What a holder shows.
struct Beat {
    process: Process,
    count: u64,
    /// What the engine says.
    content: Bytes,
}

impl Beat {
    fn encode(&self) -> Bytes {
        let process = self.process.0.as_bytes();
        let length = (process.len() as u64).to_le_bytes();
        let count = self.count.to_le_bytes();
        [&MAGIC[..], &count, &length, process, &self.content].concat().into()
    }

    fn decode(bytes: &Bytes) -> Option<Self> {
        let (count, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (process, content) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        let process = Process(String::from_utf8(process.to_vec()).ok()?);
        let content = Bytes::copy_from_slice(content);
        Some(Self { process, count: u64::from_le_bytes(*count), content })
    }
}

/// A process, as others of the same machine can find it: start of the machine, namespace, number, start.
#[derive(PartialEq, Eq)]
struct Process(String);

impl Process {
    fn here() -> Self {
        let id = std::process::id();
        Self(format!("{} {id} {}", machine(), started(id).unwrap_or_default()))
    }

    /// Whether it ran here and does not run any more. Of other machines nobody knows.
    fn is_dead(&self) -> bool {
        let Some((rest, start)) = self.0.rsplit_once(' ') else { return false };
        let Some((there, id)) = rest.rsplit_once(' ') else { return false };
        let Ok(id) = id.parse::<u32>() else { return false };
        if start.is_empty() || there != machine() {
            return false;
        }
        match started(id) {
            Some(now) => now != start,
            // One of another user may be hidden.
            None => !exists(id),
        }
    }
}

/// This start of this machine, and its view of processes.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// Whether there is a process `id`, perhaps one that has ended and that nobody has asked for its end.
fn exists(id: u32) -> bool {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let is_ended = |id: Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
        stat.is_ok_and(|stat| matches!(state_of(&stat), Some("Z" | "X")))
    };
    id.is_some_and(|id| test_kill_process(id) != Err(Errno::SRCH) && !is_ended(id))
}

/// Running, sleeping or ended: field 3 of proc(5), behind the name.
fn state_of(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().next()
}

/// When the process `id` started: field 22 of proc(5), 20 behind the name. One that has ended and that nobody has asked
/// for its end (Z) runs no more.
fn started(id: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let is_alive = !matches!(state_of(&stat), Some("Z" | "X"));
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19);
    start.filter(|_| is_alive).map(str::to_owned)
}

/// A lease that this process holds.
pub(crate) struct Held {
    client: Arc<Client>,
    pub(crate) number: u64,
    /// What the engine says of the holder, once it did.
    content: Arc<Mutex<Option<Bytes>>>,
    /// When there was no later lease.
    checked: Mutex<Option<Moment>>,
    beats: JoinHandle<()>,
    _in_use: InUse,
}

impl Held {
    /// Begins to refresh the beat of `lease` once in `every`.
    pub(crate) fn new(client: &Arc<Client>, lease: u64, in_use: InUse, every: Duration) -> Self {
        let content = Arc::new(Mutex::new(None));
        let (said, store) = (content.clone(), client.store().clone());
        let path = client.path(&beat_name(lease));
        let beats = client.spawn(async move {
            let mut count = 0;
            loop {
                tokio::time::sleep(every).await;
                count += 1;
                let content = said.lock().clone().unwrap_or_default();
                let beat = Beat { process: Process::here(), count, content };
                // One that fails is followed by others.
                let _ = store.put(&path, beat.encode().into()).await;
            }
        });
        let checked = Mutex::new(Some(Moment::now()));
        let _in_use = in_use;
        Self { client: client.clone(), number: lease, content, checked, beats, _in_use }
    }

    /// Whether there was no later lease a moment ago. Looking again would not be worth a request: whatever is done next
    /// comes later than any look.
    pub(crate) fn is_checked(&self, within: Duration) -> bool {
        self.checked.lock().is_some_and(|checked| checked.age() < within)
    }

    /// There was no later lease at `when`.
    pub(crate) fn note_checked(&self, when: Moment) {
        *self.checked.lock() = Some(when);
    }

    /// The next look has to be a real one.
    pub(crate) fn forget_check(&self) {
        *self.checked.lock() = None;
    }

    /// What the engine says of the holder.
    pub(crate) fn content(&self) -> Option<Bytes> {
        self.content.lock().clone()
    }

    /// Shows `content` to others.
    pub(crate) fn show(&self, content: &[u8]) -> StorageResult<()> {
        let content = Bytes::copy_from_slice(content);
        let beat = Beat { process: Process::here(), count: 0, content: content.clone() };
        self.client.put(&beat_name(self.number), beat.encode())?;
        *self.content.lock() = Some(content);
        Ok(())
    }

    /// Ends the lease, so that the next writer need not wait: unless a write of it may still be under way.
    pub(crate) fn end(&self) {
        self.beats.abort();
        if !self.client.is_uncertain() {
            let _ = end(&self.client, self.number); // else the next one waits
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

/// Objects of leases that nobody needs: old ones that ended, or whose snapshots are settled.
pub(crate) fn to_tidy(names: &Names, last: u64, is_settled: impl Fn(u64) -> bool) -> Vec<String> {
    let all: Vec<_> = names.below(LEASE).collect();
    if all.len() < TIDY_AT {
        return Vec::new();
    }
    let open = Leases::of(names).open;
    let is_old = |name: &&str| {
        let lease = name.get(..16).and_then(number);
        lease.is_some_and(|lease| {
            lease + KEPT < last && (!open.contains(&lease) || is_settled(lease))
        })
    };
    all.into_iter().filter(is_old).map(|name| format!("{LEASE}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_is_read_back_and_half_of_one_is_none() {
        let process = Process("a b 7 8".into());
        let beat = Beat { process, count: 9, content: Bytes::from_static(b"who") };
        let bytes = beat.encode();
        let read = Beat::decode(&bytes).unwrap();
        assert!(read.process == beat.process && read.count == 9 && read.content == beat.content);
        assert!(Beat::decode(&bytes.slice(..30)).is_none());
        assert!(Beat::decode(&Bytes::from_static(b"ICEBEAT1\xff\xff")).is_none());
    }

    #[test]
    fn only_a_process_of_this_machine_that_is_gone_is_dead() {
        assert!(!Process::here().is_dead());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let start = started(child.id()).unwrap_or_else(|| "1".into());
        let process = Process(format!("{} {} {start}", machine(), child.id()));
        child.wait().unwrap();
        assert!(process.is_dead());
        let elsewhere = Process(format!("another {} {start}", child.id()));
        assert!(!elsewhere.is_dead() && !Process(String::new()).is_dead());
    }

    #[test]
    fn the_last_lease_is_free_when_it_has_ended() {
        let mut names = Names::default();
        assert!(Leases::of(&names).is_free());
        for lease in [1, 2] {
            names.insert(&numbered(LEASE, lease), 16);
        }
        names.insert(&end_name(2), 0);
        names.insert(&beat_name(1), 9);
        let leases = Leases::of(&names);
        assert!(leases.is_free());
        assert_eq!((leases.last, leases.open, leases.beats), (2, vec![1], vec![1]));
        names.insert(&numbered(LEASE, 3), 16);
        assert!(!Leases::of(&names).is_free());
    }
}
