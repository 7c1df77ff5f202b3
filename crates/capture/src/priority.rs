//! Priority and limits of the process, so that other programs on the machine are not slowed down.

use crate::syscalls;
use rustix::io::Result;
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

/// Lowers the priority by `by` steps of nice, and sets the idle I/O class if requested. Call it
/// before any thread is started: threads inherit it from their parent.
pub fn lower_priority(by: i32, idle_io: bool) -> Result<()> {
    if by != 0 {
        nice(by)?;
    }
    if idle_io { syscalls::set_io_idle() } else { Ok(()) }
}

/// Raises the soft limit of open files to the hard limit: the walk keeps directories open.
pub fn raise_open_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_nice() {
        // nice and ioprio are per thread on Linux: the other tests do not notice.
        let gentle = || {
            let before = nice(0).unwrap();
            lower_priority(1, true).unwrap();
            (before, nice(0).unwrap(), syscalls::io_class().unwrap())
        };
        let (before, after, class) = std::thread::spawn(gentle).join().unwrap();
        assert_eq!(after, (before + 1).min(19));
        assert_eq!(class, syscalls::IOPRIO_CLASS_IDLE.into());
        assert_eq!(nice(0).unwrap(), before, "this thread is what it was");
    }

    #[test]
    fn the_limit_of_open_files_can_be_raised() {
        raise_open_file_limit().unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
