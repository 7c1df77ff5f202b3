//! File systems for a while: images on loop devices, tmpfs, overlays.
//!
//! A rig that mounts does so in a mount namespace of its own, with loop devices that free
//! themselves: whatever ends the rig, kill -9 too, nothing stays behind.
#![allow(unsafe_code, reason = "a mount namespace of its own is a system call without a wrapper")]

use crate::failed;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Leaves the mounts of the machine alone from now on. The error says why that cannot be.
pub(crate) fn be_alone() -> Result<(), String> {
    // SAFETY: no thread was started yet that could be surprised; the call takes no pointer.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(format!("needs root to mount: {}", std::io::Error::last_os_error()));
    }
    run("mount", ["--make-rprivate", "/"]).map(|_| ())
}

/// Whether the tools are here that make this kind of file system.
pub(crate) fn can_make(kind: &str) -> bool {
    matches!(kind, "tmpfs" | "overlay") || has_program(&format!("mkfs.{kind}"))
}

/// Whether a program of the system is installed.
pub(crate) fn has_program(name: &str) -> bool {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    folders.iter().any(|folder| Path::new(folder).join(name).exists())
}

/// A mounted file system, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// A new file system of `kind` in an image of this size, mounted at `at`.
    pub(crate) fn image(kind: &str, at: &Path, bytes: u64, more: &[&str]) -> Result<Self, String> {
        let image = at.with_extension("img");
        std::fs::create_dir_all(at).map_err(failed("make a mount point"))?;
        let file = std::fs::File::create(&image).map_err(failed("make an image"))?;
        file.set_len(bytes).map_err(failed("make an image"))?;
        let mut words: Vec<&OsStr> = vec!["-q".as_ref()];
        words.extend(more.iter().map(OsStr::new));
        words.push(image.as_ref());
        run(&format!("mkfs.{kind}"), words)?;
        run("mount", ["-o".as_ref(), "loop".as_ref(), image.as_os_str(), at.as_os_str()])?;
        Ok(Self(at.to_owned()))
    }

    /// A tmpfs with these options.
    pub(crate) fn tmpfs(at: &Path, options: &str) -> Result<Self, String> {
        std::fs::create_dir_all(at).map_err(failed("make a mount point"))?;
        let words: [&OsStr; 6] = [
            "-t".as_ref(),
            "tmpfs".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
            "tmpfs".as_ref(),
            at.as_ref(),
        ];
        run("mount", words)?;
        Ok(Self(at.to_owned()))
    }

    /// An overlay whose layers lie in `layers`.
    pub(crate) fn overlay(at: &Path, layers: &Path) -> Result<Self, String> {
        for folder in ["lower", "upper", "work"] {
            std::fs::create_dir_all(layers.join(folder)).map_err(failed("make a layer"))?;
        }
        std::fs::create_dir_all(at).map_err(failed("make a mount point"))?;
        let layers = layers.display();
        let options =
            format!("lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work");
        let words: [&OsStr; 6] = [
            "-t".as_ref(),
            "overlay".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
            "overlay".as_ref(),
            at.as_ref(),
        ];
        run("mount", words)?;
        Ok(Self(at.to_owned()))
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The name of the loop device under it.
    pub(crate) fn device(&self) -> Result<String, String> {
        let device = run("findmnt", ["-no".as_ref(), "SOURCE".as_ref(), self.0.as_os_str()])?;
        Ok(device.trim().trim_start_matches("/dev/").to_owned())
    }

    /// Unmounted, checked as at the start of a machine, and mounted again.
    pub(crate) fn repaired(self) -> Result<Self, String> {
        let (at, image) = (self.0.clone(), self.0.with_extension("img"));
        run("umount", [at.as_os_str()])?;
        std::mem::forget(self);
        // Repairs end with codes that are no failure.
        let _ = run("fsck.ext4", ["-fy".as_ref(), image.as_os_str()]);
        run("mount", ["-o".as_ref(), "loop".as_ref(), image.as_os_str(), at.as_os_str()])?;
        Ok(Self(at))
    }

    /// Nothing is written to it until the answer is dropped: writers wait.
    pub(crate) fn freeze(&self) -> Result<Frozen, String> {
        run("fsfreeze", ["--freeze".as_ref(), self.0.as_os_str()])?;
        Ok(Frozen(self.0.clone()))
    }

    /// Mounts it again with other options (`ro`, `rw`, `size=...`), whatever is open on it.
    pub(crate) fn remount(&self, options: &str) -> Result<(), String> {
        let options = format!("remount,{options}");
        run("mount", ["-o".as_ref(), options.as_ref(), self.0.as_os_str()]).map(|_| ())
    }
}

/// A file system that does not answer.
pub(crate) struct Frozen(PathBuf);

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = run("fsfreeze", ["--unfreeze".as_ref(), self.0.as_os_str()]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The end of the namespace is the second net.
        let _ = run("umount", ["--lazy".as_ref(), self.0.as_os_str()]);
    }
}

/// Runs a program of the system to its end; its output.
pub(crate) fn run<W: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = W>,
) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot start {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
