//! Amounts for people, and as people write them.

/// A count with commas.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 snapshot`, `2 snapshots`, `2 directories`.
pub(crate) fn many(value: u64, what: &str) -> String {
    let is_vowel = |char: char| "aeiou".contains(char);
    match what.strip_suffix('y') {
        _ if value == 1 => format!("1 {what}"),
        Some(stem) if !stem.ends_with(is_vowel) => format!("{} {stem}ies", count(value)),
        _ => format!("{} {what}s", count(value)),
    }
}

const STEPS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// The largest unit that leaves at least 1 of `value`.
fn step_of(value: u64) -> usize {
    (value.max(1).ilog2() / 10) as usize
}

fn in_step(value: u64, step: usize) -> f64 {
    value as f64 / 1024_f64.powi(step as i32)
}

/// Three digits are enough to compare: `1.25`, `12.5`, `125`.
fn three_digits(amount: f64) -> String {
    match amount {
        ..9.995 => format!("{amount:.2}"),
        ..99.95 => format!("{amount:.1}"),
        _ => format!("{amount:.0}"),
    }
}

/// Bytes in the largest unit that leaves at least 1, with three digits: `12.6 GiB`.
pub(crate) fn bytes(value: u64) -> String {
    match step_of(value) {
        0 => format!("{value} B"),
        step => format!("{} {}", three_digits(in_step(value, step)), STEPS[step]),
    }
}

/// Part of an amount, in one unit: `6.10 of 12.6 GiB`.
pub(crate) fn bytes_of(value: u64, total: u64) -> String {
    match step_of(total) {
        0 => format!("{value} of {total} B"),
        step => format!("{} of {}", three_digits(in_step(value, step)), bytes(total)),
    }
}

/// The same with two decimals, and every byte: for a report that others compute with.
pub(crate) fn exact_bytes(value: u64) -> String {
    match step_of(value) {
        0 => format!("{value} B"),
        step => {
            format!("{:.2} {} ({} bytes)", in_step(value, step), STEPS[step], count(value))
        }
    }
}

/// Bytes per second.
pub(crate) fn rate(bytes_per_sec: f64) -> String {
    format!("{}/s", bytes(bytes_per_sec.max(0.0) as u64))
}

/// `01:02:03`, as the full report has it.
pub(crate) fn clock(secs: f64) -> String {
    let secs = secs.max(0.0).round() as u64;
    format!("{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

/// Time that has passed: `01:12`, `1:02:03`.
pub(crate) fn stopwatch(secs: f64) -> String {
    let secs = secs.max(0.0) as u64;
    match secs / 3600 {
        0 => format!("{:02}:{:02}", secs / 60, secs % 60),
        hours => format!("{hours}:{:02}:{:02}", secs / 60 % 60, secs % 60),
    }
}

/// How long ago something was, roughly: `5 h ago`, `3 days ago`.
pub(crate) fn ago(secs: i64) -> String {
    let secs = u64::try_from(secs).unwrap_or(0);
    match secs {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", secs / 60),
        3600..86_400 => format!("{} h ago", secs / 3600),
        _ => format!("{} ago", many(secs / 86_400, "day")),
    }
}

/// A time as long as it needs to be: `0.42 s`, `3 min 5 s`, `2 h 1 min`.
pub(crate) fn duration(secs: f64) -> String {
    let whole = secs.max(0.0).round() as u64;
    match whole {
        0..10 => format!("{secs:.2} s"),
        10..120 => format!("{whole} s"),
        120..7200 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// A part of 1 as a percentage.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

/// Reads `10M`, `1.5GiB`, `300`: units are powers of 1,024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size; write 500K, 10M or 1.5G");
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
    let power = ["", "K", "M", "G", "T", "P"].iter().position(|known| *known == unit);
    let power = power.ok_or_else(wrong)?;
    let bytes = number * 1024_f64.powi(power as i32);
    if bytes.is_finite() && bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Reads a rate: `20M`, `20M/s`. A rate of 0 is refused: the job would never end.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_bytes(text.strip_suffix("/s").unwrap_or(text))? {
        0 => Err("with a limit of 0 nothing would ever be done; leave the option out for no limit"
            .into()),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_as_people_write_them() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(27_843_085)],
            ["0", "999", "1,000", "27,843,085"]
        );
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1024), bytes(13_529_146_982), bytes(u64::MAX)],
            ["0 B", "1023 B", "1.00 KiB", "12.6 GiB", "16.0 EiB"]
        );
        assert_eq!(bytes_of(6_549_825_126, 13_529_146_982), "6.10 of 12.6 GiB");
        assert_eq!(exact_bytes(470_469_000_000), "438.16 GiB (470,469,000,000 bytes)");
        assert_eq!([stopwatch(72.9), stopwatch(3723.0)], ["01:12", "1:02:03"]);
        assert_eq!(
            [ago(-5), ago(59), ago(61), ago(18_500), ago(86_400), ago(260_000)],
            ["just now", "just now", "1 min ago", "5 h ago", "1 day ago", "3 days ago"]
        );
        assert_eq!(clock(89_778.0), "24:56:18");
        assert_eq!(
            [duration(0.421), duration(65.0), duration(185.0), duration(7_290.0)],
            ["0.42 s", "65 s", "3 min 5 s", "2 h 1 min"]
        );
        assert_eq!(percent(0.3747), "37.47 %");
    }

    #[test]
    fn one_thing_is_not_many() {
        assert_eq!(
            [many(0, "key"), many(1, "key"), many(2_000, "key"), many(2, "directory")],
            ["0 keys", "1 key", "2,000 keys", "2 directories"]
        );
    }

    #[test]
    fn sizes_are_read() {
        let table =
            [("300", 300), ("10M", 10 << 20), ("1.5GiB", 3 << 29), ("2 kb", 2048), ("1T", 1 << 40)];
        table.iter().for_each(|(text, bytes)| assert_eq!(parse_bytes(text), Ok(*bytes), "{text}"));
        ["", "M", "-1", "1X", "1e3", "99999999P"]
            .iter()
            .for_each(|text| assert!(parse_bytes(text).is_err(), "{text}"));
    }
}
