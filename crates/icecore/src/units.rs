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

/// `1 snapshot`, `2 snapshots`.
pub(crate) fn many(value: u64, what: &str) -> String {
    let end = if value == 1 { "" } else { "s" };
    format!("{} {what}{end}", count(value))
}

const STEPS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Bytes in the largest unit that leaves at least 1.
pub(crate) fn bytes(value: u64) -> String {
    let (mut amount, mut step) = (value as f64, 0);
    while amount >= 1024.0 && step + 1 < STEPS.len() {
        (amount, step) = (amount / 1024.0, step + 1);
    }
    if step == 0 { format!("{value} B") } else { format!("{amount:.2} {}", STEPS[step]) }
}

/// Bytes per second.
pub(crate) fn rate(bytes_per_sec: f64) -> String {
    format!("{}/s", bytes(bytes_per_sec.max(0.0) as u64))
}

/// `1:02:03`, as the report of the first seed has it.
pub(crate) fn clock(secs: f64) -> String {
    let secs = secs.max(0.0).round() as u64;
    format!("{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
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

/// A part of 1 as per cent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

/// Reads `10M`, `1.5GiB`, `300`: units are powers of 1,024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; write 500K, 10M or 1.5G");
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

/// Reads an amount a second: `20M`, `20M/s`; nothing at all would never end.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_bytes(text.strip_suffix("/s").unwrap_or(text))? {
        0 => Err("a limit of nothing would never end; leave the flag out for no limit".into()),
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
            [bytes(1023), bytes(1024), bytes(u64::MAX)],
            ["1023 B", "1.00 KiB", "16.00 EiB"]
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
            [many(0, "key"), many(1, "key"), many(2_000, "key")],
            ["0 keys", "1 key", "2,000 keys"]
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
