//! A program whose output is backed up. It and all it starts end with us, however we end:
//!
//! | we                              | it                                                       |
//! |---------------------------------|----------------------------------------------------------|
//! | are asked to stop, or fail      | SIGTERM to its group, SIGKILL after [`GRACE`]; is reaped |
//! | end at once (asked twice)       | SIGKILL to its group: [`end_now`]                        |
//! | are killed (-9)                 | SIGTERM from the kernel, and SIGPIPE when it prints      |
#![allow(unsafe_code, reason = "pre_exec: only the child can ask to be told of its parent's end")]

use pipeline::backup::Progress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Time to clean up after SIGTERM. Shorter than what we ourselves get: `signals::GRACE`.
const GRACE: Duration = Duration::from_secs(3);
/// After SIGKILL only a process in an uninterruptible wait, or one of another user, goes on.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// How often a wait looks whether we are asked to stop.
const TICK: Duration = Duration::from_millis(50);

/// Of our environment, what opens the repository or governs a server is not the program's to know.
const SECRETS: [&str; 3] = ["ICECORE_PASSWORD", "ICECORE_ADMIN_TOKEN", "ICECORE_TOKEN"];

/// The group of the program that runs; 0 when there is none.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// Ends the program and all it started without waiting. For those who end the process at once.
pub(crate) fn end_now() {
    if let Some(group) = Pid::from_raw(GROUP.swap(0, Ordering::SeqCst)) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL); // it has gone already
    }
}

/// A program that does not outlive us.
pub(crate) struct Running {
    child: Child,
    /// Its status was taken: its number may belong to somebody else.
    is_reaped: bool,
}

impl Running {
    /// Starts it, in a session of its own: a terminal's signals reach only us, who then end its
    /// whole group; and asking a person fails at once instead of stopping for ever in the
    /// background. The thread that starts it has to be the main one: the kernel tells of the end
    /// of the thread that started, not of the process.
    pub(crate) fn start(command: &[OsString]) -> io::Result<Self> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        for name in SECRETS {
            command.env_remove(name);
        }
        Self::spawn(command)
    }

    /// The same for a command with pipes and environment of its own.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        let parent = rustix::process::getpid();
        // SAFETY: only system calls, no allocation and no lock, between fork and exec.
        unsafe { command.pre_exec(move || bind_to(parent)) };
        let child = command.spawn()?;
        GROUP.store(child.id() as i32, Ordering::SeqCst);
        Ok(Self { child, is_reaped: false })
    }

    /// What it prints to all pipes that it was given; once.
    pub(crate) fn pipes(&mut self) -> Vec<Box<dyn Read + Send>> {
        let (output, errors) = (self.child.stdout.take(), self.child.stderr.take());
        let output = output.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        output
            .into_iter()
            .chain(errors.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>))
            .collect()
    }

    /// What it prints; once.
    pub(crate) fn output(&mut self) -> io::Result<ChildStdout> {
        self.child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))
    }

    /// Waits for its end; `None` when `progress` is cancelled before.
    pub(crate) fn wait(&mut self, progress: &Progress) -> io::Result<Option<ExitStatus>> {
        while !progress.cancel.load(Ordering::Relaxed) {
            if self.has_ended() {
                return self.reap().map(Some);
            }
            std::thread::sleep(TICK);
        }
        Ok(None)
    }

    /// Looks without taking the status, so that its number stays its own.
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let found = rustix::process::waitid(WaitId::Pid(Pid::from_child(&self.child)), options);
        !matches!(found, Ok(None))
    }

    fn has_ended_within(&self, time: Duration) -> bool {
        let start = Instant::now();
        while !self.has_ended() {
            if start.elapsed() > time {
                return false;
            }
            std::thread::sleep(TICK);
        }
        true
    }

    /// Takes its status.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        GROUP.store(0, Ordering::SeqCst);
        self.is_reaped = true;
        self.child.wait()
    }

    fn signal(&self, signal: Signal) {
        // Fails when all of the group has gone, or belongs to another user: that one gets SIGPIPE.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        self.signal(Signal::TERM);
        self.has_ended_within(GRACE);
        self.signal(Signal::KILL); // also what it started and left behind
        if self.has_ended_within(KILL_GRACE) {
            let _ = self.reap();
        }
    }
}

/// Runs in the child.
fn bind_to(parent: Pid) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have ended before the kernel was asked to tell of it.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Input that may block forever: it ends when `progress` is cancelled. The reader then checks why.
pub(crate) struct Interruptible<'a, R> {
    pub(crate) input: R,
    pub(crate) progress: &'a Progress,
}

impl<R: Read + AsFd> Read for Interruptible<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        while !self.progress.cancel.load(Ordering::Relaxed) {
            let mut wanted = [PollFd::new(&self.input, PollFlags::IN)];
            match poll(&mut wanted, Some(&tick)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.input.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}
