//! Building trees.

use rustix::fs::{self, AtFlags, FileType, Mode, Timespec, Timestamps};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) use ::testkit::noise;

/// Writes a file and the directories that it needs.
pub(crate) fn write(root: &Path, name: impl AsRef<[u8]>, bytes: &[u8]) {
    let path = root.join(OsStr::from_bytes(name.as_ref()));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

pub(crate) fn set_mtime(path: &Path, secs: i64, nanos: i64) {
    let time = Timespec { tv_sec: secs, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    fs::utimensat(fs::CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

pub(crate) fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    fs::lsetxattr(path, name, value, fs::XattrFlags::empty()).unwrap();
}

pub(crate) fn node(path: &Path, kind: FileType, device: u64) {
    fs::mknodat(fs::CWD, path, kind, Mode::from_raw_mode(0o640), device).unwrap();
}

/// A few files of some KiB in a few directories: enough for several records and pages.
pub(crate) fn small_tree(root: &Path, seed: u64) {
    for number in 0..6u64 {
        write(
            root,
            format!("dir{}/file{number}", number % 3),
            &noise(seed * 100 + number, 3_000 + 2_500 * number as usize),
        );
    }
    write(root, "tiny", format!("tiny {seed}").as_bytes());
    write(root, "empty", b"");
    std::fs::create_dir_all(root.join("nothing")).unwrap();
    let _ = std::os::unix::fs::symlink("dir0/file0", root.join("link"));
    let _ = std::fs::hard_link(root.join("dir1/file1"), root.join("other-name"));
}
