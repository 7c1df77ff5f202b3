//! The clock by which files are let go, in the file `clock` of the helper's directory. It counts while the machine runs
//! (`crates/clock/src/lock_clock.rs`): nobody can set it, and without its file it knows only when the last file came.

use crate::{Error, Result, tree};
use clock::{LockClock, Tick};
use format::wire::checksum;
use rustix::fd::OwnedFd;
use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

pub(crate) const NAME: &str = "clock";
/// No directory of a pool is kept under a name with a dot before it, so none takes this place.
const PART: &str = ".clock.new";
const MAGIC: &[u8; 8] = b"ICEHELP1";
const SUM_BYTES: usize = 16;
const BYTES: usize = MAGIC.len() + LockClock::BYTES + SUM_BYTES;
/// What may be lost of the time that was counted, when the machine stops: ten minutes.
const STORED_EVERY_SECS: i64 = 600;

/// A clock, and what of it is stored.
pub(crate) struct ClockFile {
    clock: LockClock,
    stored: Option<LockClock>,
}

impl ClockFile {
    /// The clock in `directory`. Without its file it is the wall clock where nothing is kept, and else not before
    /// `proven_secs`: the time at which the last file came. Unless that is in the future of the wall clock: one of the
    /// two was wrong, and what is kept too long does less harm than what goes early.
    pub(crate) fn open(
        (directory, path): (&OwnedFd, &Path),
        tick: Tick,
        proven_secs: Option<i64>,
    ) -> Result<Self> {
        let stored = read(directory, path)?;
        let clock = stored.unwrap_or_else(|| match proven_secs {
            None => LockClock::start(tick),
            Some(secs) => LockClock::not_before(secs.min(tick.wall_secs), tick),
        });
        Ok(Self { clock, stored })
    }

    /// What it shows at `tick`, in seconds since 1970. Stored from time to time.
    pub(crate) fn read(&mut self, place: (&OwnedFd, &Path), tick: Tick) -> Result<i64> {
        let now_secs = self.now_secs(tick);
        self.store(place)?;
        Ok(now_secs)
    }

    /// The same, of which nothing is stored.
    pub(crate) fn now_secs(&mut self, tick: Tick) -> i64 {
        self.clock.read(tick)
    }

    /// Stores it, if much was counted since the last time.
    pub(crate) fn store(&mut self, (directory, path): (&OwnedFd, &Path)) -> Result<()> {
        let is_due = |stored: &LockClock| self.clock.differs_from(stored, STORED_EVERY_SECS);
        if self.stored.as_ref().is_none_or(is_due) {
            write(directory, &encode(&self.clock))
                .map_err(Error::file("write", path.join(NAME)))?;
            self.stored = Some(self.clock);
        }
        Ok(())
    }
}

/// `None` without the file, if it is damaged, or if somebody else may have written it.
fn read(directory: &OwnedFd, path: &Path) -> Result<Option<LockClock>> {
    let file = match tree::open(directory, NAME, OFlags::RDONLY) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        file => file.map_err(Error::file("open", path.join(NAME)))?,
    };
    let status = fs::fstat(&file).map_err(Error::file("look at", path.join(NAME)))?;
    if !is_ours(&status) {
        tracing::error!(file = %path.join(NAME).display(), "ALARM: the clock of the lock helper was somebody else's; it is not believed");
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let limited = File::from(file).take(BYTES as u64 + 1).read_to_end(&mut bytes);
    limited.map_err(Error::file("read", path.join(NAME)))?;
    Ok(decode(&bytes))
}

/// The checksum in it says nothing of who wrote it.
fn is_ours(status: &Stat) -> bool {
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    let is_alone = status.st_nlink == 1 && status.st_mode & 0o022 == 0;
    is_file && is_alone && status.st_uid == rustix::process::geteuid().as_raw()
}

fn write(directory: &OwnedFd, bytes: &[u8]) -> std::io::Result<()> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(fs::openat(directory, PART, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::renameat(directory, PART, directory, NAME)?;
    Ok(fs::fsync(directory)?)
}

fn encode(clock: &LockClock) -> Vec<u8> {
    let body = [&MAGIC[..], &clock.encode()].concat();
    let sum = checksum(&[&body]);
    [&body[..], &sum].concat()
}

fn decode(bytes: &[u8]) -> Option<LockClock> {
    let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
    let clock = body.strip_prefix(MAGIC)?.try_into().ok()?;
    (*sum == checksum(&[body])).then(|| LockClock::decode(clock)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(wall_secs: i64, up_secs: i64) -> Tick {
        Tick { wall_secs, boot: 1, up_secs }
    }

    #[test]
    fn it_goes_on_after_a_restart_and_without_its_file_nothing_is_early() {
        let folder = tempfile::tempdir().unwrap();
        let handle: OwnedFd = File::open(folder.path()).unwrap().into();
        let place = (&handle, folder.path());
        let mut clock = ClockFile::open(place, tick(1000, 0), None).unwrap();
        assert_eq!(clock.read(place, tick(9_999_999, 50)).unwrap(), 1050, "it counts");
        let mut again = ClockFile::open(place, tick(9_999_999, 60), Some(5)).unwrap();
        assert_eq!(again.read(place, tick(9_999_999, 60)).unwrap(), 1060);
        let path = folder.path().join(NAME);
        for at in 0..BYTES {
            let mut bytes = encode(&again.clock);
            bytes[at] ^= 1;
            assert_eq!(decode(&bytes), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "length {at}");
        }
        std::fs::write(&path, "damaged").unwrap();
        let mut proven = ClockFile::open(place, tick(9_999_999, 60), Some(700)).unwrap();
        assert_eq!(proven.read(place, tick(9_999_999, 70)).unwrap(), 710);
    }
}
