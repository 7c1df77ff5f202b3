//! How many bytes domains store, and whether more fits into their quotas.
//!
//! What counts is the length of all container files of a domain, whether anything in them still lives or not. It is
//! measured, and what sessions store is added until the next measurement. A domain of which it is not known is not
//! taken for empty: nothing is stored in it.

use crate::access_control::Refusal;
use crate::pool;
use parking_lot::{Condvar, Mutex};
use repository::container;
use rustc_hash::FxHashMap;
use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A domain to which somebody backs up is measured as often: parity and ends of containers are not counted before.
pub const USE_AGE: Duration = Duration::from_secs(60);
/// Before somebody is refused, the domains of the quota are measured again, if that was not done so lately.
pub const REFUSED_AGE: Duration = Duration::from_secs(2);

/// So long somebody waits for a measurement: the file system of a pool may hang.
const MEASURED_WITHIN: Duration = Duration::from_secs(3);

/// What domains store, by their names.
#[derive(Default)]
pub struct Uses(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    /// Told when a measurement has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Known {
    uses: FxHashMap<String, Use>,
    /// Which domains are measured now, and since when.
    measuring: FxHashMap<String, Instant>,
    /// Why domains could not be measured the last time.
    faults: FxHashMap<String, String>,
}

#[derive(Clone, Copy)]
struct Use {
    bytes: u64,
    /// What was added since the program started: what came while somebody measured counts on top.
    added: u64,
    measured: Instant,
}

/// How much some domains may store together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The quota, for people.
    pub quota: String,
    /// The most bytes.
    pub bytes: u64,
    /// Each domain once.
    pub domains: Vec<String>,
}

/// Why nothing more may be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// It would be more than a quota allows.
    #[error("{}", full(quota, *used, *bytes))]
    Full {
        /// The quota.
        quota: String,
        /// What its domains store.
        used: u64,
        /// What they may store.
        bytes: u64,
    },
    /// Nobody knows what a domain stores.
    #[error(
        "the quota '{quota}' counts the domain '{domain}', and nobody knows how much it stores"
    )]
    Unknown {
        /// The quota.
        quota: String,
        /// The domain.
        domain: String,
    },
}

impl Exceeded {
    /// What a node is told.
    pub fn refusal(&self) -> Refusal {
        let hint = "What counts, on the server: icecore server quota status".to_owned();
        let is_transient = matches!(self, Self::Unknown { .. });
        Refusal { message: self.to_string(), hint, is_transient }
    }
}

impl Uses {
    /// What a domain stores; `None` if that is not known.
    pub fn of(&self, domain: &str) -> Option<u64> {
        self.0.known.lock().uses.get(domain).map(|known| known.bytes)
    }

    /// Measures what `domain` stores in `folder`, unless that was done within `age`. Who asks while somebody measures
    /// waits for the same measurement; nobody waits for more than some seconds, and what was known before holds until
    /// it ends.
    ///
    /// # Errors
    /// Those of the system, and when it takes too long and nothing was known before. Then it is not known.
    pub fn measure(&self, domain: &str, folder: &Path, age: Duration) -> io::Result<()> {
        let folder = folder.to_owned();
        self.measure_by(domain, age, move || stored_bytes(&folder))
    }

    fn measure_by(
        &self,
        domain: &str,
        age: Duration,
        work: impl FnOnce() -> io::Result<u64> + Send + 'static,
    ) -> io::Result<()> {
        let mut known = self.0.known.lock();
        if known.uses.get(domain).is_some_and(|known| known.measured.elapsed() < age) {
            return Ok(());
        }
        let since = match known.measuring.get(domain) {
            Some(since) => *since,
            None => {
                self.begin(&mut known, domain, work)?;
                known.measuring[domain]
            }
        };
        while known.measuring.get(domain) == Some(&since) {
            if self.0.ended.wait_until(&mut known, since + MEASURED_WITHIN).timed_out() {
                break;
            }
        }
        if known.uses.contains_key(domain) {
            return Ok(());
        }
        let fault = known.faults.get(domain).map_or("the file system takes long", |fault| fault);
        Err(io::Error::other(fault.to_owned()))
    }

    /// Lets a thread of its own measure.
    fn begin(
        &self,
        known: &mut Known,
        domain: &str,
        work: impl FnOnce() -> io::Result<u64> + Send + 'static,
    ) -> io::Result<()> {
        let (shared, domain) = (self.0.clone(), domain.to_owned());
        let added = known.uses.get(&domain).map_or(0, |known| known.added);
        known.measuring.insert(domain.clone(), Instant::now());
        let name = domain.clone();
        let begun = std::thread::Builder::new().name("measure".into()).spawn(move || {
            let found = work();
            shared.known.lock().note(&domain, added, found);
            shared.ended.notify_all();
        });
        if begun.is_err() {
            known.measuring.remove(&name);
        }
        begun.map(drop)
    }

    /// Nobody knows any more what a domain stores.
    pub fn forget(&self, domain: &str) {
        self.0.known.lock().uses.remove(domain);
    }

    /// Somebody else says what a domain stores; `None` when he does not any more.
    pub fn told(&self, domain: &str, bytes: Option<u64>) {
        let Some(bytes) = bytes else { return self.forget(domain) };
        let told = Use { bytes, added: 0, measured: Instant::now() };
        self.0.known.lock().uses.insert(domain.to_owned(), told);
    }

    /// Adds `more` bytes to what `domain` stores, if all `allowances`, each of which counts it, have room for them. No
    /// bytes find room as long as some is left.
    ///
    /// # Errors
    /// [`Exceeded`]; then nothing is added.
    pub fn take<'a>(
        &self,
        domain: &str,
        more: u64,
        allowances: impl IntoIterator<Item = &'a Allowance>,
    ) -> Result<(), Exceeded> {
        let all = &mut self.0.known.lock().uses;
        for allowance in allowances {
            let used = sum(all, allowance)?;
            if used.saturating_add(more.max(1)) > allowance.bytes {
                let Allowance { quota, bytes, .. } = allowance.clone();
                return Err(Exceeded::Full { quota, used, bytes });
            }
        }
        if let Some(known) = all.get_mut(domain) {
            known.bytes = known.bytes.saturating_add(more);
            known.added = known.added.saturating_add(more);
        }
        Ok(())
    }
}

impl Known {
    /// A measurement has `found` so many bytes; before it, `added` bytes had been added since the program started.
    fn note(&mut self, domain: &str, added: u64, found: io::Result<u64>) {
        self.measuring.remove(domain);
        match found {
            Ok(bytes) => {
                self.faults.remove(domain);
                let now = self.uses.get(domain).map_or(added, |known| known.added);
                let bytes = bytes.saturating_add(now.saturating_sub(added));
                let measured = Use { bytes, added: now, measured: Instant::now() };
                self.uses.insert(domain.to_owned(), measured);
            }
            Err(error) => {
                self.faults.insert(domain.to_owned(), error.to_string());
                self.uses.remove(domain);
            }
        }
    }
}

fn full(quota: &str, used: u64, bytes: u64) -> String {
    let what = if used < bytes { "has no room for this" } else { "is used up" };
    format!("the quota '{quota}' {what}: {used} of {bytes} bytes are used")
}

/// What all of these are together; unknown when one is.
pub fn total(all: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    all.into_iter().try_fold(0, |sum: u64, one| Some(sum.saturating_add(one?)))
}

fn sum(all: &FxHashMap<String, Use>, allowance: &Allowance) -> Result<u64, Exceeded> {
    allowance.domains.iter().try_fold(0u64, |sum, domain| match all.get(domain) {
        Some(known) => Ok(sum.saturating_add(known.bytes)),
        None => Err(Exceeded::Unknown { quota: allowance.quota.clone(), domain: domain.clone() }),
    })
}

/// The length of all container files in `folder`, finished or not; 0 where no repository is yet.
///
/// # Errors
/// Those of the system, also when the pool is not mounted.
pub fn stored_bytes(folder: &Path) -> io::Result<u64> {
    pool::verify(folder).map_err(|error| error.source)?;
    if let Some(bytes) = pool::stored_in_bucket(folder).map_err(|error| error.source)? {
        return Ok(bytes);
    }
    let mut bytes = 0u64;
    for shard in entries(&folder.join(container::DIRECTORY))? {
        if shard.file_type()?.is_dir() {
            for file in entries(&shard.path())? {
                bytes = bytes.saturating_add(length(&file)?);
            }
        }
    }
    Ok(bytes)
}

/// What was removed meanwhile is no error.
fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        found => found?.collect(),
    }
}

fn length(file: &DirEntry) -> io::Result<u64> {
    match file.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        found => Ok(found?.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn allowance(quota: &str, bytes: u64, domains: &[&str]) -> Allowance {
        let domains = domains.iter().map(|name| (*name).to_owned()).collect();
        Allowance { quota: quota.to_owned(), bytes, domains }
    }

    fn store(folder: &Path, name: &str, bytes: usize) {
        let shard = folder.join("containers/00000000");
        fs::create_dir_all(&shard).unwrap();
        fs::write(shard.join(name), vec![0; bytes]).unwrap();
    }

    #[test]
    fn what_is_measured_and_what_is_added_count_together() {
        let place = tempfile::tempdir().unwrap();
        store(place.path(), "0000000001.ice", 60);
        store(place.path(), "0000000002.part", 10);
        let (uses, quota) = (Uses::default(), allowance("q", 100, &["web"]));
        uses.measure("web", place.path(), NOW).unwrap();
        uses.take("web", 20, [&quota]).unwrap();
        let full = Exceeded::Full { quota: "q".into(), used: 90, bytes: 100 };
        assert!(full.to_string().contains("no room for this: 90 of 100"), "10 are left: {full}");
        assert_eq!(uses.take("web", 11, [&quota]), Err(full));
        assert_eq!(uses.of("web"), Some(90), "what was refused is not added");
        uses.take("web", 10, [&quota]).unwrap();
        let nothing = uses.take("web", 0, [&quota]).unwrap_err();
        assert!(nothing.to_string().contains("used up: 100 of 100"), "nothing begins: {nothing}");
        uses.measure("web", place.path(), Duration::from_secs(60)).unwrap();
        assert_eq!(uses.of("web"), Some(100), "it was measured just now");
        uses.measure("web", place.path(), NOW).unwrap();
        assert_eq!(uses.of("web"), Some(70), "what was added and freed since is measured");
    }

    #[test]
    fn an_unknown_use_is_not_zero() {
        let place = tempfile::tempdir().unwrap();
        let (uses, both) = (Uses::default(), allowance("q", 100, &["web", "far"]));
        uses.measure("web", place.path(), NOW).unwrap();
        let unknown = Exceeded::Unknown { quota: "q".into(), domain: "far".into() };
        assert_eq!(uses.take("web", 1, [&both]), Err(unknown.clone()));
        uses.told("far", Some(99));
        uses.take("web", 1, [&both]).unwrap();
        uses.told("far", None);
        assert_eq!(uses.take("web", 0, [&both]), Err(unknown));
        store(place.path(), "x", 1);
        fs::write(place.path().join("blocked"), "").unwrap();
        assert!(uses.measure("web", &place.path().join("blocked"), NOW).is_err());
        assert_eq!(uses.of("web"), None, "what cannot be measured is not known any more");
    }

    /// A pool may lie on a file system that hangs.
    #[test]
    fn one_domain_is_measured_once_at_a_time_and_nobody_waits_for_long() {
        let uses = Uses::default();
        uses.measure_by("web", NOW, || Ok(10)).unwrap();
        let (go_on, hangs) = std::sync::mpsc::channel::<u64>();
        let begun = Instant::now();
        uses.measure_by("web", NOW, move || Ok(hangs.recv().unwrap())).unwrap();
        let quota = allowance("q", 100, &["web"]);
        uses.take("web", 20, [&quota]).unwrap();
        let second = || -> io::Result<u64> { unreachable!("it is measured already") };
        uses.measure_by("web", NOW, second).unwrap();
        // It would wait for ever. The machine may be busy.
        assert!(begun.elapsed() < MEASURED_WITHIN + Duration::from_secs(30));
        assert_eq!(uses.of("web"), Some(30), "what was known holds");
        go_on.send(40).unwrap();
        while uses.of("web") == Some(30) {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(uses.of("web"), Some(60), "what came meanwhile counts on top");
        let (_never, hangs) = std::sync::mpsc::channel::<u64>();
        let of_it = move || hangs.recv().map_err(io::Error::other);
        let late = uses.measure_by("new", NOW, of_it).unwrap_err();
        assert!(late.to_string().contains("takes long"), "{late}");
        assert_eq!(uses.of("new"), None);
    }

    #[test]
    fn sums_of_what_others_say_end_at_the_highest_number() {
        assert_eq!(total([Some(u64::MAX), Some(1)]), Some(u64::MAX));
        assert_eq!((total([Some(1), None]), total([])), (None, Some(0)));
    }

    #[test]
    fn each_of_several_quotas_must_have_room() {
        let place = tempfile::tempdir().unwrap();
        let uses = Uses::default();
        ["a", "b"].iter().for_each(|name| uses.measure(name, place.path(), NOW).unwrap());
        let quotas = [allowance("own", 50, &["a"]), allowance("both", 60, &["a", "b"])];
        uses.take("b", 20, [&quotas[1]]).unwrap();
        uses.take("a", 40, &quotas).unwrap();
        let full = Exceeded::Full { quota: "both".into(), used: 60, bytes: 60 };
        assert_eq!(uses.take("a", 1, &quotas), Err(full));
    }

    #[test]
    fn two_at_once_take_no_more_than_there_is() {
        let place = tempfile::tempdir().unwrap();
        let (uses, quota) = (Uses::default(), allowance("q", 1000, &["web"]));
        uses.measure("web", place.path(), NOW).unwrap();
        let taken: u64 = std::thread::scope(|scope| {
            let one = || (0..1000).filter(|_| uses.take("web", 1, [&quota]).is_ok()).count() as u64;
            let both = [scope.spawn(one), scope.spawn(one)];
            both.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((taken, uses.of("web")), (1000, Some(1000)));
    }
}
