//! What a file system cannot hold, in words: the errors for that differ from driver to driver.

use crate::flags;
use crate::problem::{RestoreCause, RestoreOperation, RestoreProblem};
use format::entry::Kind;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Characters of which FAT, exFAT, NTFS and SMB take none.
const REFUSED: &[u8] = b"<>:\"|?*\\";

/// The problem of creating an object in a directory, with the cause if the file system can hold no such object.
pub(crate) fn explain(
    directory: Option<BorrowedFd<'_>>,
    kind: Kind,
    problem: RestoreProblem,
) -> RestoreProblem {
    let is_unusual = || directory.is_some_and(|directory| !flags::is_usual(directory));
    explain_on(is_unusual, kind, problem)
}

fn explain_on(
    is_unusual: impl Fn() -> bool,
    kind: Kind,
    mut problem: RestoreProblem,
) -> RestoreProblem {
    let (RestoreOperation::Create, RestoreCause::System(error)) =
        (problem.operation, problem.error)
    else {
        return problem;
    };
    problem.error = match error {
        Errno::INVAL | Errno::ILSEQ => RestoreCause::NameRefused,
        Errno::NOENT if may_be_refused(&problem.path) && is_unusual() => RestoreCause::NameRefused,
        Errno::NOSYS | Errno::OPNOTSUPP if is_special(kind) => RestoreCause::KindRefused(kind),
        // Of a device it means that only root may create it.
        Errno::PERM if is_special(kind) && !is_device(kind) && is_unusual() => {
            RestoreCause::KindRefused(kind)
        }
        error => error.into(),
    };
    problem
}

/// Whether a file system may say of the last name in a path that it is not there, and mean that it cannot be.
fn may_be_refused(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.iter().any(|byte| REFUSED.contains(byte) || *byte < b' ')
        || name.ends_with(b".")
        || name.ends_with(b" ")
        || std::str::from_utf8(name).is_err()
}

fn is_device(kind: Kind) -> bool {
    matches!(kind, Kind::CharDevice | Kind::BlockDevice)
}

fn is_special(kind: Kind) -> bool {
    !matches!(kind, Kind::File | Kind::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(is_unusual: bool, path: &str, kind: Kind, error: Errno) -> String {
        let problem = RestoreProblem::new(path.as_bytes(), RestoreOperation::Create, error);
        explain_on(|| is_unusual, kind, problem).reason()
    }

    /// Seen: "No such file or directory" for `a:b`, "Invalid argument" for `con`, "Function not implemented" for links.
    #[test]
    fn what_a_file_system_cannot_hold_is_said_in_words() {
        let name = "cannot create it: this file system cannot hold such a name; \
                    restore it to another one with --target DIR";
        assert_eq!(explained(true, "d/a:b", Kind::File, Errno::NOENT), name);
        assert_eq!(explained(true, "con", Kind::Directory, Errno::INVAL), name);
        let link = explained(true, "s", Kind::Symlink, Errno::NOSYS);
        let expected = "cannot create it: this file system has no symbolic links; \
                        restore it to another one with --target DIR";
        assert_eq!(link, expected);
        assert!(explained(true, "p", Kind::Fifo, Errno::PERM).contains("no FIFOs"));
    }

    #[test]
    fn other_errors_stay_what_they_are() {
        let same = [
            (true, "d/gone", Kind::File, Errno::NOENT),
            (false, "a:b", Kind::File, Errno::NOENT),
            (true, "c", Kind::CharDevice, Errno::PERM),
            (false, "s", Kind::Symlink, Errno::PERM),
            (true, "f", Kind::File, Errno::PERM),
            (true, "f", Kind::File, Errno::IO),
        ];
        for (is_unusual, path, kind, error) in same {
            let problem = RestoreProblem::new(path.as_bytes(), RestoreOperation::Create, error);
            assert_eq!(explained(is_unusual, path, kind, error), problem.reason());
        }
    }
}
