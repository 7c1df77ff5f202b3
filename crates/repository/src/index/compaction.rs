//! Which runs become one: so that there are few, and each row is seldom written again.

/// Runs are of like size if the larger has less than about this many times the rows.
const SIZE_RATIO: u64 = 4;
/// So many runs of like size become one.
const LIKE_SIZE_MAX: usize = 4;
/// All runs of fewer rows than four times this are of like size: 400 KB.
const SMALL_RUN_ROWS: u64 = 1 << 12;

/// The first of the newest runs that are to be one, by their numbers of rows, oldest first. A run counts as large as
/// any that is newer, and so many of like size become one: each row is written again once for each size that there is.
pub(super) fn first_to_merge(rows: &[u64]) -> usize {
    let (mut first, mut size, mut count, mut sum) = (rows.len(), 0, 0, 0);
    for (at, rows) in rows.iter().enumerate().rev() {
        sum += rows;
        if size_class(*rows) > size {
            (size, count) = (size_class(*rows), 0);
        }
        count += 1;
        if count == LIKE_SIZE_MAX {
            (first, size, count) = (at, size.max(size_class(sum)), 1);
        }
    }
    first
}

/// Runs are of like size if this number is the same.
fn size_class(rows: u64) -> u32 {
    (rows / SMALL_RUN_ROWS).max(1).ilog(SIZE_RATIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds runs of so many rows one after the other and merges as the engine does. Returns the rows of the runs that
    /// are left, and how many rows were written in all.
    fn added(runs: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
        let (mut there, mut written) = (Vec::new(), 0);
        for rows in runs {
            there.push(rows);
            written += rows;
            let first = first_to_merge(&there);
            if first < there.len() {
                let merged = there.drain(first..).sum();
                written += merged;
                there.push(merged);
            }
        }
        (there, written)
    }

    #[test]
    fn equal_runs_stay_few_and_each_row_is_written_a_few_times() {
        const RUNS: u64 = 4096;
        let rows = 1 << 18;
        let (there, written) = added((0..RUNS).map(|_| rows));
        assert!(there.len() <= 7 * 3, "{} runs", there.len());
        // Once, and once more for each size: 4^6 runs.
        assert!(written <= RUNS * rows * 7, "{} times", written / RUNS / rows);
    }

    #[test]
    fn small_runs_between_large_ones_stay_few() {
        let small_and_large = (0..3000u64).map(|n| if n % 7 == 0 { 1 << 20 } else { 1 + n % 5 });
        let (there, written) = added(small_and_large);
        assert!(there.len() <= 20, "{there:?}");
        assert!(written < 16 * 430 * (1 << 20), "{written}");
    }

    #[test]
    fn tiny_runs_become_one_now_and_then_and_a_large_one_is_left_alone() {
        let (there, written) = added(std::iter::once(1 << 24).chain((0..300).map(|_| 2)));
        assert!(there.len() <= LIKE_SIZE_MAX && there[0] == 1 << 24, "{there:?}");
        assert!(written < (1 << 24) + 300 * 300, "{written}");
    }
}
