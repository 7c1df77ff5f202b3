//! Waiting for a repository that somebody else writes to.

use crate::codes::Code;
use crate::context::Context;
use std::time::{Duration, Instant};

/// How often it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often a signal is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(100);

/// How long to wait for who writes.
#[derive(clap::Args, Debug, Default, Clone, Copy)]
pub(crate) struct Wait {
    /// If another process is writing to the repository, wait up to this long: 30s, 10m, 2h [default: do not wait].
    #[arg(long, alias = "retry-lock", value_name = "DURATION", value_parser = parse)]
    wait: Option<Duration>,
}

impl Wait {
    /// Does `work`, and does it again while it says that the repository is in use. What lost its right to write in
    /// the middle is not begun again.
    pub(crate) fn patiently<T>(
        self,
        context: &Context,
        mut work: impl FnMut() -> pipeline::Result<T>,
    ) -> pipeline::Result<T> {
        let end = self.wait.map(|wait| Instant::now() + wait);
        let mut is_told = false;
        loop {
            let done = work();
            let (Some(end), Some(holder)) = (end, done.as_ref().err().and_then(holder)) else {
                return done;
            };
            if Instant::now() >= end {
                return done;
            }
            if !is_told {
                context.out.note(&format!("in use by {holder}: waiting for it"));
                is_told = true;
            }
            pause(context, end)?;
        }
    }
}

impl Wait {
    /// Takes a lock, and tries again while somebody else holds it.
    pub(crate) fn for_source<T>(
        self,
        context: &Context,
        mut take: impl FnMut() -> crate::failure::Result<T>,
    ) -> crate::failure::Result<T> {
        let end = self.wait.map(|wait| Instant::now() + wait);
        let mut is_told = false;
        loop {
            let taken = take();
            let busy = taken.as_ref().err().filter(|failure| failure.code == Code::InUse);
            let (Some(end), Some(busy)) = (end.filter(|end| Instant::now() < *end), busy) else {
                return taken;
            };
            if !is_told {
                context.out.note(&format!("{}: waiting for it", busy.message));
                is_told = true;
            }
            pause(context, end)?;
        }
    }
}

/// The process that holds the repository, if that is why the work failed.
fn holder(error: &pipeline::Error) -> Option<&str> {
    match error {
        pipeline::Error::Repository(store::Error::InUse { holder }) => Some(holder),
        _ => None,
    }
}

fn pause(context: &Context, end: Instant) -> pipeline::Result<()> {
    let until = end.min(Instant::now() + AGAIN);
    while Instant::now() < until {
        if context.is_cancelled() {
            return Err(pipeline::Error::Cancelled);
        }
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// Reads `90s`, `10m` (minutes here: nobody waits for months), `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write 30s, 10m or 2h");
    let (mut rest, mut secs) = (text, 0_u64);
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..end].parse().map_err(|_| wrong())?;
        let unit_end =
            rest[end..].find(|char: char| char.is_ascii_digit()).map_or(rest.len(), |at| at + end);
        let unit = match &rest[end..unit_end] {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        secs =
            number.checked_mul(unit).and_then(|more| secs.checked_add(more)).ok_or_else(wrong)?;
        rest = &rest[unit_end..];
    }
    // A year is longer than any backup; more would only overflow somewhere.
    if text.is_empty() || secs > 365 * 86_400 {
        Err(wrong())
    } else {
        Ok(Duration::from_secs(secs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_wait_are_read() {
        let table =
            [("0s", 0), ("90s", 90), ("10m", 600), ("15min", 900), ("1h30m", 5400), ("1d", 86_400)];
        table.iter().for_each(|(text, secs)| {
            assert_eq!(parse(text), Ok(Duration::from_secs(*secs)), "{text}")
        });
        for text in ["", "5", "m", "5x", "-5s", "1h5", "9999d", "99999999999999999999s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
