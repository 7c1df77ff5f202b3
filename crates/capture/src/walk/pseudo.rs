//! Pseudo file systems, which hold no data: the kernel generates their content.

use super::directory::Directory;
use rustix::fs::fstatfs;
use std::sync::Arc;

/// Magic numbers of `statfs` from `linux/magic.h`. `tmpfs` and `devtmpfs` are not here: they
/// hold what somebody put there.
const PSEUDO: [(u32, &str); 21] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0xcafe_4a11, "bpf"),
    (0x1cd1, "devpts"),
    (0x1980_0202, "mqueue"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x0187, "autofs"),
    (0x6265_6570, "configfs"),
    (0x6573_5543, "fusectl"),
    (0x6e73_6673, "nsfs"),
    (0x6759_6969, "rpc_pipefs"),
];

/// Whether a directory is on a pseudo file system. No automount is triggered: one that is idle is on autofs, and one
/// that is mounted on what is mounted there. If that fails, listing the directory will report the error.
pub(super) fn is_pseudo(directory: &Arc<Directory>) -> bool {
    let kind = directory.open_place().and_then(fstatfs).map(|answer| answer.f_type as u32);
    kind.is_ok_and(is_pseudo_kind)
}

/// Whether this number of `statfs` is that of a pseudo file system.
pub(crate) fn is_pseudo_kind(kind: u32) -> bool {
    PSEUDO.iter().any(|(magic, _)| *magic == kind)
}

#[cfg(test)]
mod tests {
    use super::super::directory::DirectoryHandles;
    use super::*;

    #[test]
    fn proc_is_made_up_and_the_root_is_not() {
        let handles = DirectoryHandles::new();
        let at = |path: &[u8]| Directory::starting_at(path, &handles);
        assert!(is_pseudo(&at(b"/proc")));
        assert!(is_pseudo(&at(b"/sys")));
        assert!(!is_pseudo(&at(b"/")));
        assert!(!is_pseudo(&at(b"/nonexistent")));
    }
}
