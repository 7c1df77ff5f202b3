//! A file system of its own on a loop device, that can be shut down as a power cut does it: from
//! one moment on nothing reaches the device, not even the journal.
#![allow(unsafe_code, reason = "shutting a file system down is an ioctl of its own")]

use crate::failed;
use crate::mounted::run;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `_IOR('X', 125, u32)`: the same for ext4 (`EXT4_IOC_SHUTDOWN`) and xfs (`XFS_IOC_GOINGDOWN`).
const SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// Without writing the log first.
const NO_LOG_FLUSH: u32 = 2;
const BYTES: u64 = 640 << 20;
/// How `e2fsck` says that it found errors and corrected them.
const REPAIRED: i32 = 1;

/// Bytes that anybody may still write to the file system below which `path` lies.
pub(crate) fn free_bytes(path: &Path) -> Result<u64, String> {
    let now = rustix::fs::statvfs(path);
    let now =
        now.map_err(|error| format!("cannot ask for the space at {}: {error}", path.display()))?;
    Ok(now.f_bavail.saturating_mul(now.f_frsize))
}

/// A mounted file system.
pub(crate) struct Volume {
    device: String,
    mount: PathBuf,
}

impl Volume {
    /// Makes and mounts a file system of `kind` (ext4, xfs) below `work`.
    pub(crate) fn make(kind: &str, work: &Path) -> Result<Self, String> {
        let image = work.join("volume.img");
        let file = File::create(&image).map_err(failed("make the image"))?;
        file.set_len(BYTES).map_err(failed("make the image"))?;
        Self::format(kind, &image, &work.join("volume"))
    }

    /// Makes a file system of `kind` on the file `image`, and mounts it at `mount`.
    pub(crate) fn format(kind: &str, image: &Path, mount: &Path) -> Result<Self, String> {
        let volume = Self::attach(image, mount)?;
        let words: &[&str] = if kind == "ext4" { &["-q", "-E", "nodiscard"] } else { &["-q"] };
        run(&format!("mkfs.{kind}"), words.iter().chain([&&*volume.device]))?;
        volume.mount()?;
        Ok(volume)
    }

    /// Mounts the file system that a power cut left on the file `image`. ext4 writes its superblock in place, two
    /// sectors, and is not mounted if one of them is old: then it is repaired first, as the kernel asks for.
    pub(crate) fn open(image: &Path, mount: &Path) -> Result<Self, String> {
        let volume = Self::attach(image, mount)?;
        volume.mount().or_else(|error| volume.repair(error).and_then(|()| volume.mount()))?;
        Ok(volume)
    }

    /// `error`, if nothing was repaired: the file system is none of ext4, or is beyond that.
    fn repair(&self, error: String) -> Result<(), String> {
        let checked = Command::new("e2fsck").args(["-fy", &self.device]).output();
        let is_repaired = checked.is_ok_and(|done| done.status.code() == Some(REPAIRED));
        if is_repaired { Ok(()) } else { Err(error) }
    }

    fn attach(image: &Path, mount: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(mount).map_err(failed("make the mount point"))?;
        let device = run("losetup", ["--find".as_ref(), "--show".as_ref(), image.as_os_str()])?;
        Ok(Self { device: device.trim().to_owned(), mount: mount.to_owned() })
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    fn mount(&self) -> Result<(), String> {
        run("mount", [self.device.as_ref(), self.mount.as_os_str()]).map(|_| ())
    }

    /// The power goes.
    pub(crate) fn shut_down(&self) -> Result<(), String> {
        let root = File::open(&self.mount).map_err(failed("open the volume"))?;
        // SAFETY: the descriptor is open, and the kernel reads one u32 through the pointer.
        let result = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &NO_LOG_FLUSH) };
        if result == 0 {
            return Ok(());
        }
        Err(format!("cannot shut the volume down: {}", std::io::Error::last_os_error()))
    }

    /// The power is back.
    pub(crate) fn come_back(&self) -> Result<(), String> {
        run("umount", [&self.mount])?;
        self.mount()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // What fails here is said by whoever looks at the machine next: a mount that stays.
        let _ = run("umount", ["--quiet".as_ref(), self.mount.as_os_str()]);
        let _ = run("losetup", ["--detach", &self.device]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounted::can_make;
    use std::os::unix::fs::FileExt;

    /// The second sector of the superblock begins here.
    const SECOND_SECTOR: u64 = 1024 + 512;

    #[test]
    fn a_file_system_whose_superblock_was_torn_is_repaired_and_mounted() {
        if !rustix::process::geteuid().is_root() || !can_make("ext4") {
            return testkit::skip("a torn superblock: needs root and mkfs.ext4");
        }
        let work = std::env::temp_dir().join(format!("icecore-torn-{}", std::process::id()));
        let (image, mount) = (work.join("image"), work.join("mount"));
        std::fs::create_dir_all(&mount).unwrap();
        let file = File::create(&image).unwrap();
        file.set_len(16 << 20).unwrap();
        let volume = Volume::format("ext4", &image, &mount).unwrap();
        std::fs::write(volume.path().join("a"), b"kept").unwrap();
        drop(volume);
        file.write_at(&[0xff; 512], SECOND_SECTOR).unwrap();
        let volume = Volume::open(&image, &mount).unwrap();
        assert_eq!(std::fs::read(volume.path().join("a")).unwrap(), b"kept");
        drop(volume);
        file.write_at(&[0; 8 << 10], 0).unwrap();
        file.set_len(8 << 10).unwrap();
        assert!(Volume::open(&image, &mount).is_err(), "nothing is left of it");
        std::fs::remove_dir_all(&work).unwrap();
    }
}
