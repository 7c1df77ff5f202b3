//! What the file system of the target can keep of modes and times, tried on the marker.
//!
//! Some keep no modes at all (FAT, exFAT, NTFS without its options), and times in steps: FAT 2 s, exFAT 1 s or 10 ms,
//! NTFS 100 ns, others whole seconds. What cannot be kept is no difference between an existing object and its entry,
//! or each restore would begin again. The usual file systems keep all; there nothing is tried.

use crate::flags;
use crate::handle::AttributeHandle;
use crate::system;
use crate::target::Target;
use format::entry::Time;
use rustix::fd::BorrowedFd;
use rustix::fs::Statx;
use rustix::io::Errno;
use std::sync::OnceLock;

/// A mode that no mount option gives to all files, and that lets nobody else read.
const TRIED_MODE: u32 = 0o610;
/// An odd second, and a fraction that no step of a usual length divides.
const TRIED_TIME: Time = Time { secs: 1_000_000_001, nanos: 987_654_321 };
/// The steps that are known, in nanoseconds.
const STEPS: [i128; 7] = [1, 100, 1_000, 1_000_000, 10_000_000, NANOS_PER_SEC, 2 * NANOS_PER_SEC];
const NANOS_PER_SEC: i128 = 1_000_000_000;

/// What a file system keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) keeps_modes: bool,
    /// Times are multiples of so many nanoseconds.
    pub(crate) step: i128,
}

/// How an existing time is that of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeMatch {
    Equal,
    /// As far as the file system can keep it.
    Rough,
    Different,
}

impl Abilities {
    const ALL: Self = Self { keeps_modes: true, step: 1 };

    /// Tries what the file system of an own file keeps. The file looks afterwards as before.
    fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let handle = AttributeHandle::open(file);
        let before = handle.stat()?;
        let is_moded = handle.set_mode(TRIED_MODE).is_ok();
        let is_timed = handle.set_mtime(TRIED_TIME).is_ok();
        let tried = handle.stat();
        let _ = handle.set_mode(system::mode(&before));
        let _ = handle.set_mtime(system::mtime(&before));
        let tried = tried?;
        Ok(Self {
            keeps_modes: is_moded && system::mode(&tried) == TRIED_MODE,
            step: if is_timed { step(TRIED_TIME, system::mtime(&tried)) } else { 1 },
        })
    }

    fn matches(self, found: Time, wanted: Time) -> TimeMatch {
        if found == wanted {
            return TimeMatch::Equal;
        }
        let (found, wanted) = (nanos(found), nanos(wanted));
        let is_rough = found % self.step == 0 && (found - wanted).abs() < self.step;
        if is_rough { TimeMatch::Rough } else { TimeMatch::Different }
    }
}

/// The shortest step of a file system that keeps `kept` for `wanted`; one nanosecond if it is none that is known.
fn step(wanted: Time, kept: Time) -> i128 {
    let (wanted, kept) = (nanos(wanted), nanos(kept));
    let fits = |step: &&i128| kept % **step == 0 && (kept - wanted).abs() < **step;
    STEPS.iter().find(fits).copied().unwrap_or(1)
}

fn nanos(time: Time) -> i128 {
    i128::from(time.secs) * NANOS_PER_SEC + i128::from(time.nanos)
}

impl Target {
    /// Tries on the marker what the file system keeps, unless it is one that keeps all.
    pub(crate) fn try_abilities(&self, marker: BorrowedFd<'_>) {
        if !flags::is_usual(marker) {
            let _ = self.0.abilities.set(Abilities::of(marker).unwrap_or(Abilities::ALL));
        }
    }

    /// Whether the file system of an object keeps modes. Of other file systems than that of the root nothing is known.
    pub(crate) fn keeps_modes(&self, stat: &Statx) -> bool {
        self.abilities_of(stat).keeps_modes
    }

    /// How the time of an existing object is the one that is wanted.
    pub(crate) fn match_time(&self, stat: &Statx, wanted: Time) -> TimeMatch {
        self.abilities_of(stat).matches(system::mtime(stat), wanted)
    }

    fn abilities_of(&self, stat: &Statx) -> Abilities {
        let known: &OnceLock<Abilities> = &self.0.abilities;
        let known = known.get().filter(|_| system::device(stat) == self.0.root.device);
        known.copied().unwrap_or(Abilities::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_from_what_was_kept() {
        let kept = |secs, nanos| step(TRIED_TIME, Time { secs, nanos });
        assert_eq!(kept(1_000_000_001, 987_654_321), 1);
        assert_eq!(kept(1_000_000_001, 987_654_300), 100, "NTFS");
        assert_eq!(kept(1_000_000_001, 987_654_000), 1_000);
        assert_eq!(kept(1_000_000_001, 980_000_000), 10_000_000, "exFAT");
        assert_eq!(kept(1_000_000_001, 990_000_000), 10_000_000, "rounded up");
        assert_eq!(kept(1_000_000_001, 0), NANOS_PER_SEC);
        assert_eq!(kept(1_000_000_002, 0), NANOS_PER_SEC, "rounded up");
        assert_eq!(kept(1_000_000_000, 0), 2 * NANOS_PER_SEC, "FAT");
        assert_eq!(kept(1_795_880_539, 0), 1, "the time of now, for each file");
    }

    #[test]
    fn a_time_matches_roughly_only_as_the_file_system_would_have_kept_it() {
        let at = |nanos| Time { secs: 1_000_000_001, nanos };
        let tenths = Abilities { keeps_modes: false, step: 100_000_000 };
        let wanted = at(987_654_321);
        assert_eq!(tenths.matches(wanted, wanted), TimeMatch::Equal);
        assert_eq!(tenths.matches(at(900_000_000), wanted), TimeMatch::Rough);
        assert_eq!(tenths.matches(at(900_000_001), wanted), TimeMatch::Different);
        assert_eq!(tenths.matches(at(800_000_000), wanted), TimeMatch::Different);
        assert_eq!(Abilities::ALL.matches(at(987_654_322), wanted), TimeMatch::Different);
    }
}
