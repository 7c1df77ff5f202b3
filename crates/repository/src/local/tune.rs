//! Which way to write is best for a directory: decided by a measurement.
//!
//! Direct writes must be real (the file system says that it can, and nothing of them is in the cache), and must win:
//! by time, or by processor time while they are as fast.

use super::LocalStorage;
use super::mode::{FILE, FILE_BYTES_MAX, IoSettings, Measured, Method, Tuning};
use super::sweep::{SweepPlan, SweepRow, sweep};
use crate::storage::{Storage, StorageResult, read_small};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Direct writes are chosen if they are so much faster.
const WIN: f64 = 1.10;
/// The same on a file system that forwards them: over a network, to a program, or to another file system.
const WIN_FORWARDED: f64 = 1.25;
/// As fast: what no user notices.
const TIE: f64 = 0.97;
/// And then they must save at least this part of the processor time.
const CPU_SHARE: f64 = 0.7;

/// Measures the directory `path` as `plan` says and decides. `tell` is as for [`sweep`].
///
/// # Errors
/// Those of [`sweep`].
pub fn tune(
    path: &Path,
    plan: &SweepPlan,
    tell: &mut dyn FnMut(&SweepRow) -> bool,
) -> StorageResult<Tuning> {
    let is_local = LocalStorage::open(path)?.writes_to_disk();
    let rows = sweep(path, plan, tell)?;
    let rows: Vec<_> = rows.into_iter().map(|row| row.measured).collect();
    let time_secs = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let rows = medians(&rows, plan);
    Ok(Tuning { time_secs, chosen: choose(&rows, is_local), rows })
}

/// The settings of a directory; the usual ones if it has none.
///
/// # Errors
/// Those of the storage.
pub fn settings(storage: &LocalStorage) -> StorageResult<IoSettings> {
    match read_small(storage, FILE, FILE_BYTES_MAX) {
        Err(error) if error.is_not_found() => Ok(IoSettings::default()),
        bytes => Ok(IoSettings::decode(&bytes?)),
    }
}

/// Durably replaces the settings of a directory. Who opens it from now on follows them.
///
/// # Errors
/// Those of the storage.
pub fn put_settings(storage: &LocalStorage, settings: &IoSettings) -> StorageResult<()> {
    storage.put(FILE, &settings.encode())
}

/// One row for each method and number of streams: the one of the middle rate.
fn medians(rows: &[Measured], plan: &SweepPlan) -> Vec<Measured> {
    let pairs =
        plan.methods.iter().flat_map(|method| plan.streams.iter().map(move |n| (method, n)));
    let median = |(method, streams): (&Method, &u32)| {
        let is_of = |row: &&Measured| row.method == *method && row.streams == *streams;
        let mut found: Vec<_> = rows.iter().filter(is_of).collect();
        found.sort_by(|a, b| a.durable_bytes_per_sec.total_cmp(&b.durable_bytes_per_sec));
        let middle = found.get(found.len() / 2).copied()?;
        Some(Measured { was_buffered: found.iter().any(|row| row.was_buffered), ..*middle })
    };
    pairs.filter_map(median).collect()
}

/// The best method of `rows`; `is_local` tells whether the file system itself writes to a disk of this machine.
pub fn choose(rows: &[Measured], is_local: bool) -> Method {
    let Some(buffered) = Score::of(rows, Method::BUFFERED) else { return Method::BUFFERED };
    let mut direct: Vec<Method> = rows.iter().map(|row| row.method).collect();
    direct.retain(|method| method.is_direct);
    direct.dedup();
    let scores = direct.into_iter().filter_map(|method| Some((method, Score::of(rows, method)?)));
    let win = if is_local { WIN } else { WIN_FORWARDED };
    // First which ones may be chosen: the fastest of all may be slow with some number of streams, and another one not.
    let better = scores.filter(|(_, direct)| direct.beats(&buffered, win, is_local));
    let best = better.max_by(|a, b| a.1.rate.total_cmp(&b.1.rate));
    best.map_or(Method::BUFFERED, |(method, _)| method)
}

/// What a method reached, over all numbers of streams.
struct Score {
    /// Geometric mean of the rates.
    rate: f64,
    /// Each of them: a mean would hide that one is slow.
    rates: Vec<f64>,
    /// Mean processor seconds for a GiB.
    cpu: f64,
}

impl Score {
    /// `None` if it was not measured, or was no direct method although it should have been.
    fn of(rows: &[Measured], method: Method) -> Option<Self> {
        let found: Vec<_> = rows.iter().filter(|row| row.method == method).collect();
        if found.is_empty() || found.iter().any(|row| row.was_buffered) {
            return None;
        }
        let count = found.len() as f64;
        let rates: Vec<_> = found.iter().map(|row| row.durable_bytes_per_sec).collect();
        let rate = (rates.iter().map(|rate| rate.max(1.0).ln()).sum::<f64>() / count).exp();
        let cpu = found.iter().map(|row| row.cpu_secs_per_gib).sum::<f64>() / count;
        Some(Self { rate, rates, cpu })
    }

    fn beats(&self, buffered: &Self, win: f64, is_local: bool) -> bool {
        let pairs = || self.rates.iter().zip(&buffered.rates);
        let never_slower = pairs().all(|(direct, buffered)| *direct >= buffered * TIE);
        let saves = is_local && self.cpu <= buffered.cpu * CPU_SHARE;
        let same_rows = self.rates.len() == buffered.rates.len();
        same_rows && never_slower && (saves || self.rate >= buffered.rate * win)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(is_direct: bool, streams: u32, rate: f64, cpu: f64) -> Measured {
        let method = if is_direct { Method::DIRECT } else { Method::BUFFERED };
        Measured {
            method,
            streams,
            durable_bytes_per_sec: rate,
            cpu_secs_per_gib: cpu,
            read_bytes_per_sec: 1.0,
            was_buffered: false,
        }
    }

    fn pairs(direct: [f64; 2], buffered: [f64; 2], cpu: [f64; 2]) -> Vec<Measured> {
        let of = |is_direct, rates: [f64; 2], cpu| {
            [(1, rates[0]), (4, rates[1])].map(|(n, rate)| row(is_direct, n, rate, cpu))
        };
        [of(false, buffered, cpu[1]), of(true, direct, cpu[0])].concat()
    }

    #[test]
    fn what_is_faster_or_as_fast_and_cheaper_is_chosen() {
        let chosen = |direct, cpu| choose(&pairs(direct, [100.0, 100.0], cpu), true).is_direct;
        assert!(chosen([120.0, 115.0], [1.0, 1.0]), "it wins");
        assert!(chosen([98.0, 100.0], [0.5, 1.0]), "as fast and cheaper");
        assert!(!chosen([98.0, 100.0], [0.9, 1.0]), "as fast and not much cheaper");
        assert!(!chosen([200.0, 90.0], [0.1, 1.0]), "slower with several streams");
    }

    #[test]
    fn a_size_that_is_slow_with_some_streams_hides_no_other() {
        let of = |block_bytes: u64, rates: [f64; 2]| {
            let method = Method { is_direct: true, block_bytes };
            [(1, rates[0]), (4, rates[1])]
                .map(|(n, rate)| Measured { method, ..row(true, n, rate, 0.1) })
        };
        let buffered = [(1, 100.0), (4, 100.0)].map(|(n, rate)| row(false, n, rate, 1.0));
        let rows = [buffered, of(1 << 20, [105.0, 110.0]), of(4 << 20, [90.0, 200.0])].concat();
        assert_eq!(choose(&rows, true), Method { is_direct: true, block_bytes: 1 << 20 });
    }

    #[test]
    fn where_direct_writes_are_forwarded_they_must_win_clearly() {
        let chosen =
            |rate| choose(&pairs([rate, rate], [100.0, 100.0], [0.1, 1.0]), false).is_direct;
        assert!(!chosen(100.0) && !chosen(120.0) && chosen(130.0));
    }

    #[test]
    fn direct_writes_whose_pages_are_in_the_cache_are_none() {
        let mut rows = pairs([500.0, 500.0], [100.0, 100.0], [0.1, 1.0]);
        rows[3].was_buffered = true;
        assert_eq!(choose(&rows, true), Method::BUFFERED);
        assert_eq!(choose(&rows[2..], true), Method::BUFFERED, "nothing to compare with");
        assert_eq!(choose(&[], true), Method::BUFFERED);
    }

    #[test]
    fn the_middle_of_several_rounds_counts() {
        let rows = [1.0, 900.0, 100.0].map(|rate| row(false, 1, rate, 1.0));
        let plan = SweepPlan::short(std::time::Duration::ZERO);
        let found = medians(&rows, &plan);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].durable_bytes_per_sec, 100.0);
    }
}
