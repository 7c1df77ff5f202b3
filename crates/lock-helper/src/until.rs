//! Until when a file is kept that somebody asks for, by the clock of the helper.

use crate::LONGEST_SECS;
use jiff::Timestamp;
use std::path::Path;

/// The clock of a repository may be so far behind that of the helper: a lock that ends meanwhile is no reason for an
/// alarm. The file is kept for so long again, in which the server asks once more if it still needs it.
const BEHIND_SECS_MAX: i64 = 3600;

/// Until when a file is kept of which somebody `asked` for this time; `None` if that is over.
pub(crate) fn bounded(asked_secs: i64, now_secs: i64) -> Option<i64> {
    let behind_secs = now_secs.saturating_sub(asked_secs);
    if behind_secs >= BEHIND_SECS_MAX {
        return None;
    }
    let least = if behind_secs >= 0 { BEHIND_SECS_MAX } else { 0 };
    let (first, last) = (now_secs.saturating_add(least), now_secs.saturating_add(LONGEST_SECS));
    Some(asked_secs.clamp(first, last))
}

/// Why a file is not kept, and how the clock in the file `clock` comes right: without it the helper believes the clock
/// of the machine, as long as no file that is kept proves that it is later.
pub(crate) fn why_over(asked_secs: i64, now_secs: i64, clock: &Path) -> String {
    format!(
        "its lock ends at {}, and the clock of the lock helper is at {} already. If that is wrong: put the clock of this \
         machine right, stop the lock helper, as root rm '{}', and start it again",
        shown(asked_secs),
        shown(now_secs),
        clock.display()
    )
}

fn shown(secs: i64) -> String {
    let time = Timestamp::from_second(secs);
    time.map_or_else(|_| format!("second {secs}"), |it| it.strftime("%F %H:%M UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_not_over_and_at_most_a_year_away() {
        let now = 1_000_000;
        for (asked, until) in [
            (now + 1, Some(now + 1)),
            (i64::MAX, Some(now + LONGEST_SECS)),
            (now, Some(now + BEHIND_SECS_MAX)),
            (now - BEHIND_SECS_MAX + 1, Some(now + BEHIND_SECS_MAX)),
            (now - BEHIND_SECS_MAX, None),
            (i64::MIN, None),
        ] {
            assert_eq!(bounded(asked, now), until, "{asked}");
        }
        assert_eq!(shown(0), "1970-01-01 00:00 UTC");
        assert_eq!(shown(i64::MIN), format!("second {}", i64::MIN));
    }
}
