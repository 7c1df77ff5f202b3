//! How containers are written: buffered by the system, or directly from memory to the disk.
//!
//! The small file `io` of a pool says which. It changes nothing of what is stored, so it may change at any time; a
//! file that cannot be read means buffered.
//!
//! ```text
//! icecore io 1
//! mode auto
//! measured 1795456543 direct 1048576
//! row direct 1048576 4 812345678 1.25 901234567 0
//! ```

use std::fmt;
use std::str::FromStr;

/// Name of the file.
pub const FILE: &str = "io";
/// Larger files than this are not ours.
pub(super) const FILE_BYTES_MAX: usize = 64 << 10;
const MAGIC: &str = "icecore io 1";
/// Sizes of direct writes, in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(8 << 20);
/// Size of direct writes that nobody measured: 1 MiB.
const DIRECT_BYTES: u64 = 1 << 20;
/// Size of writes through the cache: 256 KiB. For larger ones Linux looks for larger pieces of free memory: where that
/// is in small pieces, a write of 1 MiB took six times the processor time.
pub(super) const BUFFERED_BYTES: u64 = 256 << 10;

/// What somebody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// Past the cache of the system, where the file system can do that.
    Direct,
    /// Through the cache of the system.
    Buffered,
    /// What was faster when it was measured; buffered as long as nothing was measured.
    #[default]
    Auto,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Past the cache of the system.
    pub is_direct: bool,
    /// Bytes of a write.
    pub block_bytes: u64,
}

/// One measurement of a method with a number of streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// How it was written.
    pub method: Method,
    /// Files that were written at the same time.
    pub streams: u32,
    /// Bytes each second, until the last one was durable.
    pub durable_bytes_per_sec: f64,
    /// Processor seconds for a GiB that was written, of this process. What the kernel does by itself is not in it.
    pub cpu_secs_per_gib: f64,
    /// Bytes each second of reading it back, in order.
    pub read_bytes_per_sec: f64,
    /// Whether a direct method was none: it was refused, or its pages were in the cache.
    pub was_buffered: bool,
}

/// What a measurement found.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// When, in seconds since 1970.
    pub time_secs: u64,
    /// What is best.
    pub chosen: Method,
    /// What it was chosen from.
    pub rows: Vec<Measured>,
}

/// What the file `io` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoSettings {
    /// What somebody wants.
    pub mode: IoMode,
    /// The last measurement.
    pub tuning: Option<Tuning>,
}

impl Method {
    /// Through the cache of the system.
    pub const BUFFERED: Self = Self { is_direct: false, block_bytes: BUFFERED_BYTES };
    /// Past the cache of the system.
    pub const DIRECT: Self = Self { is_direct: true, block_bytes: DIRECT_BYTES };
}

impl IoSettings {
    /// How containers are written.
    pub fn method(&self) -> Method {
        let tuned = self.tuning.as_ref().map(|tuning| tuning.chosen);
        match (self.mode, tuned) {
            (IoMode::Buffered, _) | (IoMode::Auto, None) => Method::BUFFERED,
            (IoMode::Auto, Some(chosen)) => chosen,
            (IoMode::Direct, Some(chosen)) if chosen.is_direct => chosen,
            (IoMode::Direct, _) => Method::DIRECT,
        }
    }

    /// The settings in the bytes of the file; the usual ones where they make no sense.
    pub fn decode(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines();
        let mut settings = Self::default();
        if lines.next() != Some(MAGIC) {
            return settings;
        }
        // Words of later versions are passed over.
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["mode", mode] => settings.mode = mode.parse().unwrap_or_default(),
                ["measured", rest @ ..] => settings.tuning = Tuning::decode(rest),
                ["row", rest @ ..] => {
                    let rows = settings.tuning.as_mut().map(|tuning| &mut tuning.rows);
                    rows.into_iter().for_each(|rows| rows.extend(Measured::decode(rest)));
                }
                _ => {}
            }
        }
        settings
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("{MAGIC}\nmode {}\n", self.mode);
        if let Some(tuning) = &self.tuning {
            text.push_str(&format!("measured {} {}\n", tuning.time_secs, tuning.chosen));
            text.extend(tuning.rows.iter().map(|row| format!("row {row}\n")));
        }
        text.into_bytes()
    }
}

impl Tuning {
    fn decode(words: &[&str]) -> Option<Self> {
        let [time, kind, block] = words else { return None };
        let chosen = Method::decode(kind, block)?;
        Some(Self { time_secs: time.parse().ok()?, chosen, rows: Vec::new() })
    }
}

impl Method {
    fn decode(kind: &str, block: &str) -> Option<Self> {
        let block_bytes = block.parse().ok()?;
        let is_direct = match kind {
            "direct" => true,
            "buffered" => false,
            _ => return None,
        };
        let is_good = BLOCK_BYTES.contains(&block_bytes) && block_bytes % 4096 == 0;
        is_good.then_some(Self { is_direct, block_bytes })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        if self.is_direct { "direct" } else { "buffered" }
    }
}

impl Measured {
    fn decode(words: &[&str]) -> Option<Self> {
        let [kind, block, streams, durable, cpu, read, cached] = words else { return None };
        Some(Self {
            method: Method::decode(kind, block)?,
            streams: streams.parse().ok()?,
            durable_bytes_per_sec: durable.parse().ok()?,
            cpu_secs_per_gib: cpu.parse().ok()?,
            read_bytes_per_sec: read.parse().ok()?,
            was_buffered: *cached == "1",
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.block_bytes)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, streams, .. } = self;
        let (durable, read) = (self.durable_bytes_per_sec, self.read_bytes_per_sec);
        let (cpu, cached) = (self.cpu_secs_per_gib, u8::from(self.was_buffered));
        write!(f, "{method} {streams} {durable:.0} {cpu:.3} {read:.0} {cached}")
    }
}

impl fmt::Display for IoMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Auto => "auto",
        })
    }
}

impl FromStr for IoMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all = [Self::Direct, Self::Buffered, Self::Auto];
        all.into_iter().find(|mode| mode.to_string() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuned() -> IoSettings {
        let chosen = Method { is_direct: true, block_bytes: 4 << 20 };
        let row = Measured {
            method: chosen,
            streams: 16,
            durable_bytes_per_sec: 1e9,
            cpu_secs_per_gib: 0.125,
            read_bytes_per_sec: 2e9,
            was_buffered: true,
        };
        let tuning = Tuning { time_secs: 1_795_456_543, chosen, rows: vec![row, row] };
        IoSettings { mode: IoMode::Auto, tuning: Some(tuning) }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for mode in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
            for settings in [tuned(), IoSettings::default()] {
                let settings = IoSettings { mode, ..settings };
                assert_eq!(IoSettings::decode(&settings.encode()), settings);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_means_buffered() {
        let damaged = [
            "",
            "x",
            "icecore io 2\nmode direct\n",
            "icecore io 1\nmode fast\n",
            "icecore io 1\nmeasured 1 direct 1\n",
            "icecore io 1\nmeasured 1 direct 262145\n",
            "icecore io 1\nmeasured 1 direct 99999999999999999999\nrow direct 1 2 3\n",
        ];
        for text in damaged {
            assert_eq!(IoSettings::decode(text.as_bytes()).method(), Method::BUFFERED, "{text}");
        }
        let mut bytes = tuned().encode();
        for at in 0..bytes.len() {
            bytes[at] ^= 0x11;
            let _ = IoSettings::decode(&bytes);
            bytes[at] ^= 0x11;
        }
    }

    #[test]
    fn auto_is_what_was_measured_and_else_buffered() {
        assert_eq!(IoSettings::default().method(), Method::BUFFERED);
        assert_eq!(tuned().method(), Method { is_direct: true, block_bytes: 4 << 20 });
        let with = |mode| IoSettings { mode, ..tuned() }.method();
        assert_eq!(with(IoMode::Buffered), Method::BUFFERED);
        assert_eq!(with(IoMode::Direct).block_bytes, 4 << 20);
        let untuned = IoSettings { mode: IoMode::Direct, tuning: None };
        assert_eq!(untuned.method(), Method::DIRECT);
    }
}
