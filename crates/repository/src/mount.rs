//! How a network file system is mounted: whether its locks reach the server.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, StatxFlags, statx};

/// Options of NFS and SMB by which locks stay on this machine: another one gets the same lock.
const LOCAL_LOCKS: [&str; 4] = ["local_lock=flock", "local_lock=all", "nolock", "nobrl"];

/// Whether the mount of `directory` says that it keeps locks to itself. One that cannot be asked
/// says nothing.
pub(crate) fn keeps_locks(directory: &OwnedFd) -> bool {
    let Ok(stat) = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS) else {
        return false;
    };
    let device = format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor);
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    says_local(&String::from_utf8_lossy(&mounts), &device)
}

/// Lines of proc(5): number, parent, major:minor, …, `-`, kind, source, options of the file system.
fn says_local(mounts: &str, device: &str) -> bool {
    let lines = mounts.lines().filter(|line| line.split(' ').nth(2) == Some(device));
    lines
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(2))
        .any(|options| options.split(',').any(|option| LOCAL_LOCKS.contains(&option)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_keeps_locks_to_itself_is_known_by_its_options() {
        let line = |options: &str| {
            format!(
                "22 1 8:1 / / rw,nolock - ext4 /dev/sda1 rw\n\
                 95 22 0:51 / /mnt/b rw,relatime shared:9 - nfs4 server:/b rw,vers=4.2,{options},addr=1"
            )
        };
        for options in ["local_lock=flock", "local_lock=all", "nolock,x", "nobrl"] {
            assert!(says_local(&line(options), "0:51"), "{options}");
            assert!(!says_local(&line(options), "8:1"), "{options}: of another mount");
        }
        for options in ["local_lock=none", "local_lock=posix", "hard"] {
            assert!(!says_local(&line(options), "0:51"), "{options}");
        }
    }

    #[test]
    fn the_file_system_of_a_test_keeps_no_locks_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!keeps_locks(&std::fs::File::open(folder.path()).unwrap().into()));
        assert!(!says_local("", "0:51"));
    }
}
