//! `155Mbit`, `28ms`, `256KiB`, `1%`: what people write.

use std::time::Duration;

/// Bits per second.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
    let rate = scaled(text, &units, "a rate like 155Mbit")?;
    if rate >= 1.0 { Ok(rate as u64) } else { Err("a rate of less than 1 bit/s".to_owned()) }
}

/// A span of time.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let seconds = scaled(text, &units, "a time like 28ms")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// A share between 0 and 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = scaled(text, &[("%", 0.01), ("", 1.0)], "a share like 1% or 0.01")?;
    if share <= 1.0 { Ok(share) } else { Err(format!("{text} is more than everything")) }
}

/// Length of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Queue {
    /// Bytes.
    Bytes(u64),
    /// What the link sends in this time.
    Time(Duration),
}

/// `256KiB` or `100ms`.
pub(crate) fn queue(text: &str) -> Result<Queue, String> {
    if text.ends_with('s') {
        return span(text).map(Queue::Time);
    }
    let units = [("kib", 1024.0), ("mib", 1024.0 * 1024.0), ("b", 1.0), ("", 1.0)];
    scaled(text, &units, "a queue like 256KiB or 100ms").map(|bytes| Queue::Bytes(bytes as u64))
}

/// The number before the first unit that fits.
fn scaled(text: &str, units: &[(&str, f64)], wanted: &str) -> Result<f64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let number = units.iter().find_map(|(unit, factor)| {
        let number: f64 = lower.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * factor)
    });
    number.filter(|n| n.is_finite() && *n >= 0.0).ok_or(format!("{text}: not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(rate("155Mbit"), Ok(155_000_000));
        assert_eq!(rate("1Gbit"), Ok(1_000_000_000));
        assert_eq!(rate("512 kbit"), Ok(512_000));
        assert_eq!(span("28ms"), Ok(Duration::from_millis(28)));
        assert_eq!(span("0.3s"), Ok(Duration::from_millis(300)));
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(queue("256KiB"), Ok(Queue::Bytes(262_144)));
        assert_eq!(queue("1500"), Ok(Queue::Bytes(1500)));
        assert_eq!(queue("100ms"), Ok(Queue::Time(Duration::from_millis(100))));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "fast", "-1Mbit", "0Mbit", "10MB"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(span("28").is_err() && share("2").is_err() && queue("-5").is_err());
    }
}
