//! File systems of their own on loop devices.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An image with a file system, mounted; gone when dropped.
pub(crate) struct Volume {
    image: PathBuf,
    mount: PathBuf,
}

impl Volume {
    /// Makes a file system of `kind` in `folder`, mounted at `mount`. `None`, and told loudly, where
    /// that cannot be had.
    pub(crate) fn make(kind: &str, folder: &Path, mount: &Path) -> Option<Self> {
        let name = mount.file_name().unwrap_or_default().to_string_lossy();
        let image = folder.join(format!("{kind}-{name}.img"));
        let made = std::fs::File::create(&image).and_then(|file| file.set_len(400 << 20));
        let quiet = match kind {
            "ext4" => "-qF",
            "ntfs" => "-qFf",
            _ => "-qf",
        };
        let is_made = made.is_ok() && runs(&format!("mkfs.{kind}"), &[quiet.as_ref(), &image]);
        std::fs::create_dir_all(mount).unwrap();
        let volume = Self { image, mount: mount.to_owned() };
        if is_made && volume.mount() {
            return Some(volume);
        }
        testkit::skip(&format!("needs root, mkfs.{kind} and loop devices"));
        None
    }

    pub(crate) fn mount(&self) -> bool {
        runs("mount", &["-o".as_ref(), "loop".as_ref(), &self.image, &self.mount])
    }

    pub(crate) fn unmount(&self) {
        assert!(runs("umount", &[&self.mount]), "umount {}", self.mount.display());
    }

    /// Gives it another UUID while it is not mounted: an ext4. That is refused for one that was mounted later than it
    /// was checked, by the second.
    pub(crate) fn renew_uuid(&self) {
        assert!(runs("e2fsck", &["-f".as_ref(), "-y".as_ref(), &self.image]));
        let words = ["-f", "-U", "random"].map(Path::new);
        assert!(runs("tune2fs", &[&words[..], &[&self.image]].concat()));
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = runs("umount", &["--quiet".as_ref(), &self.mount]);
        let _ = std::fs::remove_file(&self.image);
    }
}

fn runs(program: &str, words: &[&Path]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
