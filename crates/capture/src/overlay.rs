//! On which file systems the files of an overlay lie, from what the kernel tells of its mount.

use crate::file_system_kinds::MEMORY;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, StatxFlags, statfs, statx};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An overlay: its own layers may be anywhere.
pub(crate) const OVERLAY: u32 = 0x794c_7630;

/// What is known of the overlay that was asked about last: its mount, and whether all of it lies on disks.
#[derive(Debug, Default)]
pub(crate) struct Overlays(Mutex<Option<(u64, bool)>>);

impl Overlays {
    /// Whether all layers of the overlay that `file` is in are known, and none lies in memory.
    pub(crate) fn lie_on_disks(&self, file: &OwnedFd) -> bool {
        let Ok(found) = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) else {
            return false;
        };
        let mount = found.stx_mnt_id;
        let mut last = self.0.lock();
        match *last {
            Some((known, answer)) if known == mount => answer,
            _ => {
                let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
                let layers = layers(&mounts, mount);
                let answer = !layers.is_empty() && layers.iter().all(|layer| is_on_disk(layer));
                *last = Some((mount, answer));
                answer
            }
        }
    }
}

/// Not if it cannot be reached: an overlay of a container may name layers that only its host sees.
fn is_on_disk(layer: &Path) -> bool {
    let kind = statfs(layer).map(|answer| answer.f_type as u32);
    layer.is_absolute() && kind.is_ok_and(|kind| kind != OVERLAY && !MEMORY.contains(&kind))
}

/// The directories that the mount of this number is made of; none if it is no overlay, or is not known.
fn layers(mounts: &[u8], mount: u64) -> Vec<PathBuf> {
    let number = mount.to_string();
    let is_it = |line: &&[u8]| line.split(|byte| *byte == b' ').next() == Some(number.as_bytes());
    let line = mounts.split(|byte| *byte == b'\n').find(is_it).unwrap_or_default();
    // Type, source and options stand behind a lone dash.
    let mut fields = line.split(|byte| *byte == b' ').skip_while(|field| *field != b"-").skip(1);
    let (Some(b"overlay"), Some(options)) = (fields.next(), fields.nth(1)) else {
        return Vec::new();
    };
    let options = options.split(|byte| *byte == b',');
    options.flat_map(|option| layers_of(&unescaped(option))).collect()
}

fn layers_of(option: &[u8]) -> Vec<PathBuf> {
    let equals = option.iter().position(|byte| *byte == b'=').unwrap_or(option.len());
    let (key, value) = option.split_at(equals);
    let value = value.get(1..).unwrap_or_default();
    match key {
        b"lowerdir" => split(value),
        b"upperdir" => split(value).into_iter().take(1).collect(),
        b"lowerdir+" | b"datadir+" => vec![path(value)],
        _ => Vec::new(),
    }
}

/// At colons, but for those behind a backslash. Two in a row begin layers that hold only data.
fn split(value: &[u8]) -> Vec<PathBuf> {
    let (mut paths, mut last, mut is_escaped) = (Vec::new(), Vec::new(), false);
    for byte in value.iter().chain(b":") {
        match byte {
            b'\\' if !is_escaped => is_escaped = true,
            b':' if !is_escaped => {
                if !last.is_empty() {
                    paths.push(path(&last));
                }
                last.clear();
            }
            _ => {
                is_escaped = false;
                last.push(*byte);
            }
        }
    }
    paths
}

fn path(bytes: &[u8]) -> PathBuf {
    Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned()
}

/// The kernel writes what would look like the end of an option as a backslash and three octal digits.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((first, more)) = rest.split_first() {
        let digits =
            more.get(..3).filter(|_| *first == b'\\').and_then(|it| std::str::from_utf8(it).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[3..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_as_the_kernel_tells_them() {
        let mounts = [
            r"22 1 0:5 / /proc rw - proc proc rw",
            concat!(
                r"36 22 0:31 / /m\040n rw,relatime shared:1 master:2 - overlay over\040lay rw,",
                r"lowerdir=/a:/b\134:c::/d,upperdir=/u\054\040p,workdir=/w",
            ),
            r"37 22 0:32 / /n ro - overlay overlay ro,lowerdir+=/e:f,datadir+=/g,xino=off",
        ];
        let mounts = mounts.join("\n").into_bytes();
        let told = |mount| {
            let layers = layers(&mounts, mount).into_iter();
            layers.map(|layer| layer.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(told(36), ["/a", "/b:c", "/d", "/u, p"]);
        assert_eq!(told(37), ["/e:f", "/g"]);
        assert_eq!(told(22), [""; 0]);
        assert_eq!(told(3), [""; 0]);
    }

    #[test]
    fn what_cannot_be_reached_is_not_known_to_be_on_a_disk() {
        for layer in ["/nonexistent", ".", ""] {
            assert!(!is_on_disk(Path::new(layer)), "{layer}");
        }
        assert!(is_on_disk(Path::new("/proc")));
    }
}
