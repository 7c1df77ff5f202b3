//! How long operations on the pools of a server take: since it started, and of each hour. It is noted in the folder of
//! the server, for whoever looks; nothing of it is durable, and nobody misses it.
//!
//! ```text
//! pool-latencies            POOL OPERATION FIGURES, since the server started
//! pool-latencies.history    SECONDS POOL OPERATION FIGURES, of the hour that ended then
//! ```

use super::further;
use super::places::{MAIN, PoolPaths};
use crate::folder::read_up_to;
use api::Name;
use repository::local::{Counters, Histogram, Latencies, Mark, counters};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const NOW: &str = "pool-latencies";
const HISTORY: &str = "pool-latencies.history";
/// Of a longer history the older half goes: 2 MiB, four months of two pools.
const HISTORY_BYTES_MAX: u64 = 2 << 20;
const HOUR_SECS: i64 = 3600;

/// Figures of one kind of operation on one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Of the history: when the hour ended, in seconds since 1970. Else when the server noted it.
    pub secs: i64,
    /// Name of the pool; the first one is `main`.
    pub pool: String,
    /// `write`, `sync` or `read`.
    pub operation: String,
    /// How long they took.
    pub latencies: Latencies,
}

impl Noted {
    fn decode(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, ' ');
        let secs = parts.next()?.parse().ok()?;
        let [pool, operation] = [parts.next()?, parts.next()?].map(str::to_owned);
        Some(Self { secs, pool, operation, latencies: parts.next()?.parse().ok()? })
    }

    fn encode(&self) -> String {
        let Self { secs, pool, operation, latencies } = self;
        format!("{secs} {pool} {operation} {latencies}\n")
    }
}

/// Notes them for the server in one folder.
pub struct LatencyNotes {
    data: PathBuf,
    /// The hour that is under way, and where each kind of operation was when it began.
    hour: Option<i64>,
    marks: BTreeMap<(String, &'static str), Mark>,
}

impl LatencyNotes {
    /// For the server in `data`, which has just started.
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), hour: None, marks: BTreeMap::new() }
    }

    /// Notes what is known now; call it every few seconds.
    ///
    /// # Errors
    /// Those of the system.
    pub fn note(&mut self, now_secs: i64) -> io::Result<()> {
        let pools = self.pools()?;
        let all = pools.iter().flat_map(|(pool, counters)| of(pool, counters));
        let all = all.map(|(pool, operation, histogram)| Noted {
            secs: now_secs,
            pool: pool.to_owned(),
            operation: operation.to_owned(),
            latencies: histogram.latencies(),
        });
        let text: String = all.map(|noted| noted.encode()).collect();
        replace(&self.data.join(NOW), &text)?;
        let hour = now_secs.div_euclid(HOUR_SECS);
        match self.hour.replace(hour) {
            Some(before) if before != hour => self.end_hour(&pools, hour * HOUR_SECS),
            _ => Ok(()),
        }
    }

    fn end_hour(&mut self, pools: &[(String, Counts)], secs: i64) -> io::Result<()> {
        let mut text = String::new();
        for (pool, operation, histogram) in
            pools.iter().flat_map(|(pool, counters)| of(pool, counters))
        {
            let mark = self.marks.entry((pool.to_owned(), operation)).or_default();
            let (pool, latencies) = (pool.to_owned(), histogram.since(mark));
            if latencies.count > 0 {
                let operation = operation.to_owned();
                text.push_str(&Noted { secs, pool, operation, latencies }.encode());
            }
        }
        append(&self.data.join(HISTORY), &text)
    }

    fn pools(&self) -> io::Result<Vec<(String, Counts)>> {
        let names = further(&self.data).map_err(io::Error::other)?.into_iter().map(Some);
        let of = |name: Option<Name>| {
            let counters = counters(&PoolPaths::of(&self.data, name.as_ref()).pool);
            (name.map_or_else(|| MAIN.to_owned(), |name| name.to_string()), counters)
        };
        Ok([None].into_iter().chain(names).map(of).collect())
    }
}

type Counts = std::sync::Arc<Counters>;

fn of<'a>(
    pool: &'a str,
    counters: &'a Counters,
) -> impl Iterator<Item = (&'a str, &'static str, &'a Histogram)> {
    let all = [("write", &counters.write), ("sync", &counters.sync), ("read", &counters.read)];
    all.into_iter().map(move |(operation, histogram)| (pool, operation, histogram))
}

/// What the server in `data` noted last; nothing if it never did.
pub fn latencies(data: &Path) -> Vec<Noted> {
    noted(&data.join(NOW))
}

/// Of each hour in which something was done, the oldest first.
pub fn history(data: &Path) -> Vec<Noted> {
    noted(&data.join(HISTORY))
}

fn noted(path: &Path) -> Vec<Noted> {
    let text = read_up_to(path, 2 * HISTORY_BYTES_MAX).ok().flatten().unwrap_or_default();
    text.lines().filter_map(Noted::decode).collect()
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())?;
    if file.metadata()?.len() <= HISTORY_BYTES_MAX {
        return Ok(());
    }
    let all = fs::read_to_string(path)?;
    let half = all.len().saturating_sub(HISTORY_BYTES_MAX as usize / 2);
    let begins = all[half..].find('\n').map_or(all.len(), |at| half + at + 1);
    replace(path, &all[begins..])
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let part = path.with_extension("new");
    fs::write(&part, text)?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool;

    #[test]
    fn each_pool_has_figures_of_its_own_since_the_start_and_of_each_hour() {
        let place = tempfile::tempdir().unwrap();
        let [data, disk] = ["data", "disk"].map(|name| place.path().join(name));
        [&data, &disk].iter().for_each(|folder| fs::create_dir(folder).unwrap());
        pool::open(&data).unwrap();
        assert!(latencies(&data).is_empty() && history(&data).is_empty());
        let mut notes = LatencyNotes::new(&data);
        notes.note(7_300).unwrap();
        let writes = |pool: &str| {
            let all = latencies(&data);
            let mut found = all.into_iter().filter(|one| one.pool == pool);
            found.find(|one| one.operation == "write").map(|one| one.latencies.count)
        };
        assert!(writes(MAIN) > Some(0), "the superblock was written");
        pool::add(&data, &"fast".parse().unwrap(), &disk, false).unwrap();
        let further = pool::Further::default();
        further.begin(&data, &"fast".parse().unwrap()).unwrap();
        notes.note(7_310).unwrap();
        assert!(history(&data).is_empty(), "the hour has not ended");
        notes.note(10_900).unwrap();
        let hours = history(&data);
        assert!(hours.iter().all(|hour| hour.secs == 10_800 && hour.latencies.count > 0));
        assert!(hours.iter().any(|hour| hour.pool == MAIN), "{hours:?}");
        notes.note(14_500).unwrap();
        assert_eq!(history(&data), hours, "nothing was done since");
    }

    #[test]
    fn a_long_history_loses_its_older_half() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(HISTORY);
        let line = |secs| {
            let (pool, operation) = (MAIN.to_owned(), "read".to_owned());
            Noted { secs, pool, operation, latencies: Latencies::default() }.encode()
        };
        let hours = 0..HISTORY_BYTES_MAX as i64 / line(10_000).len() as i64 + 1_000;
        append(&path, &hours.clone().map(line).collect::<String>()).unwrap();
        let left = history(place.path());
        assert!(left.len() > 10_000 && left.len() < hours.clone().count());
        assert_eq!(left.last().unwrap().secs, hours.end - 1);
        append(&path, "half a li").unwrap();
        assert_eq!(history(place.path()), left);
    }
}
