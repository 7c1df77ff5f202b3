//! Whether a full or read-only file system is that of the target, so that nothing more can be
//! restored, or one that is mounted inside it, so that only what lies there fails.

use crate::directory::Directory;
use crate::problem::RestoreProblem;
use crate::system;
use crate::target::Target;
use rustix::fs::Statx;
use rustix::io::Errno;

impl Target {
    /// The problem of what was written into the directory `parent`, with the place that it concerns.
    /// Only a full or read-only file system is looked at.
    pub(crate) fn place(&self, parent: &Directory, problem: RestoreProblem) -> RestoreProblem {
        let look = || parent.fd().and_then(|fd| system::stat_open(fd).ok());
        self.place_at(look, problem)
    }

    /// The same where the place is not the directory that contains the object.
    pub(crate) fn place_at(
        &self,
        look: impl FnOnce() -> Option<Statx>,
        problem: RestoreProblem,
    ) -> RestoreProblem {
        let Some(error) = problem.of_file_system() else { return problem };
        let root = self.0.root.fd().and_then(|fd| system::stat_open(fd).ok());
        // Of what is unknown the target is assumed to take nothing.
        let is_other = root.zip(look()).is_some_and(|(root, place)| is_other(&root, &place, error));
        if is_other { problem.elsewhere() } else { problem }
    }
}

/// Whether `error` at `place` says nothing about `root`. A directory of the same file system can be
/// mounted read-only by itself. Subvolumes have other numbers, limits of their own and perhaps no
/// writers, but they share their space.
fn is_other(root: &Statx, place: &Statx, error: Errno) -> bool {
    let other_system = system::device(root) != system::device(place);
    let mounts = system::mount(root).zip(system::mount(place));
    match error {
        Errno::ROFS => other_system || mounts.is_some_and(|(root, place)| root != place),
        Errno::NOSPC => other_system && mounts.is_none_or(|(root, place)| root != place),
        _ => other_system,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::StatxFlags;

    /// A directory with these numbers; without a mount on kernels that do not tell.
    fn place(device: u32, mount: Option<u64>) -> Statx {
        let open = std::fs::File::open("/").unwrap();
        let mut stat = system::stat_open(open.as_fd()).unwrap();
        (stat.stx_dev_major, stat.stx_dev_minor) = (0, device);
        stat.stx_mnt_id = mount.unwrap_or(0);
        stat.stx_mask &= !StatxFlags::MNT_ID.bits();
        if mount.is_some() {
            stat.stx_mask |= StatxFlags::MNT_ID.bits();
        }
        stat
    }

    #[test]
    fn a_place_is_judged_by_its_number_and_its_mount() {
        let root = place(1, Some(1));
        let judged = |place: &Statx| {
            [Errno::ROFS, Errno::NOSPC, Errno::DQUOT].map(|error| is_other(&root, place, error))
        };
        assert_eq!(judged(&place(1, Some(1))), [false; 3], "the target");
        assert_eq!(judged(&place(1, None)), [false; 3], "the target, on an old kernel");
        assert_eq!(judged(&place(1, Some(2))), [true, false, false], "a part of it, mounted again");
        assert_eq!(judged(&place(2, Some(1))), [true, false, true], "a subvolume");
        assert_eq!(judged(&place(2, Some(2))), [true; 3], "another file system");
        assert_eq!(judged(&place(2, None)), [true; 3], "another one, on an old kernel");
    }
}
