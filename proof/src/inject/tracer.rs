//! Runs a command under `ptrace`, and does something to its N-th call that touches the repository.
#![allow(unsafe_code, reason = "what a child does between fork and exec is unsafe to say")]

use super::calls::{self, Effect};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// No command of the rig takes this long, not even traced.
const HANGS_AFTER: Duration = Duration::from_secs(300);

/// What happens to the call that is picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The process is killed before the call.
    Kill,
    /// The call is not made, and fails with this.
    Fails(Errno),
    /// The call is made, and said to have failed with this: a late error.
    SaidToFail(Errno),
    /// Half of the bytes are written or read.
    Short,
}

impl Fault {
    /// Whether it makes a difference to a call of this effect.
    fn concerns(self, effect: Effect) -> bool {
        match self {
            // Before a call that only looks it is as before the next one that changes.
            Self::Kill | Self::SaidToFail(_) | Self::Fails(Errno::ENOSPC) => {
                matches!(effect, Effect::Writes | Effect::Changes)
            }
            Self::Short => matches!(effect, Effect::Writes | Effect::Reads),
            Self::Fails(_) => true,
        }
    }
}

/// How a traced command ended.
pub(super) struct Ended {
    /// Its exit status, or `None` when a signal ended it.
    pub(super) code: Option<i32>,
    /// Calls that the fault concerns, up to the end.
    pub(super) calls: u64,
}

struct Tracer<'a> {
    root: &'a Path,
    fault: Fault,
    /// The call that is picked, from 1.
    picked: u64,
    calls: u64,
    main: Pid,
    /// What the call of a thread gets at its end.
    pending: HashMap<Pid, Pending>,
}

struct Pending {
    result: Option<Errno>,
    /// Arguments as they were: a program may rely on them.
    arguments: libc::user_regs_struct,
}

/// Runs `command`; its `picked`-th call that touches a file below `root` meets `fault`.
pub(super) fn run(
    mut command: Command,
    root: &Path,
    fault: Fault,
    picked: u64,
) -> Result<Ended, String> {
    // SAFETY: `traceme` is a single system call and takes no lock.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().map_err(|error| format!("cannot start icecore: {error}"))?;
    let main = Pid::from_raw(child.id() as i32);
    let pending = HashMap::new();
    let mut tracer = Tracer { root, fault, picked, calls: 0, main, pending };
    let begun = Instant::now();
    let (ended, watch) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if watch.recv_timeout(HANGS_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = kill(main, Signal::SIGKILL);
        }
    });
    let followed = tracer.follow();
    drop(ended);
    let _ = watchdog.join();
    let code = followed.map_err(|error| {
        let _ = kill(main, Signal::SIGKILL);
        format!("cannot trace icecore: {error}")
    })?;
    if begun.elapsed() >= HANGS_AFTER {
        return Err(format!("it hangs, {} calls in", tracer.calls));
    }
    Ok(Ended { code, calls: tracer.calls })
}

impl Tracer<'_> {
    fn follow(&mut self) -> Result<Option<i32>, String> {
        let told = |error: Errno| error.to_string();
        waitpid(self.main, None).map_err(told)?;
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(self.main, options).map_err(told)?;
        resume(self.main, None)?;
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL)).map_err(told)? {
                WaitStatus::Exited(process, code) if process == self.main => return Ok(Some(code)),
                WaitStatus::Signaled(process, _, _) if process == self.main => return Ok(None),
                WaitStatus::PtraceSyscall(process) => self.call(process)?,
                WaitStatus::PtraceEvent(process, _, _) => resume(process, None)?,
                // A new thread stops once; that is for us and not for it.
                WaitStatus::Stopped(process, Signal::SIGSTOP) => resume(process, None)?,
                WaitStatus::Stopped(process, signal) => resume(process, Some(signal))?,
                _ => {}
            }
        }
    }

    /// At the beginning or end of a call.
    fn call(&mut self, thread: Pid) -> Result<(), String> {
        let Ok(info) = ptrace::syscall_info(thread) else {
            return resume(thread, None);
        };
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                // SAFETY: at an entry the kernel has filled this member.
                let entry = unsafe { info.u.entry };
                self.begins(thread, entry.nr as i64, &entry.args)?;
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => self.ends(thread)?,
            _ => {}
        }
        resume(thread, None)
    }

    fn begins(&mut self, thread: Pid, number: i64, arguments: &[u64]) -> Result<(), String> {
        let Some(effect) = calls::effect(thread, self.root, number, arguments) else {
            return Ok(());
        };
        if !self.fault.concerns(effect) {
            return Ok(());
        }
        self.calls += 1;
        if self.calls != self.picked {
            return Ok(());
        }
        match self.fault {
            Fault::Kill => kill(self.main, Signal::SIGKILL).map_err(|error| error.to_string()),
            Fault::Fails(error) => self.change(thread, Some(error), |registers| {
                registers.orig_rax = u64::MAX;
            }),
            Fault::SaidToFail(error) => self.change(thread, Some(error), |_| {}),
            Fault::Short => self.change(thread, None, |registers| halve(thread, registers)),
        }
    }

    fn change(
        &mut self,
        thread: Pid,
        result: Option<Errno>,
        change: impl FnOnce(&mut libc::user_regs_struct),
    ) -> Result<(), String> {
        let mut registers = ptrace::getregs(thread).map_err(|error| error.to_string())?;
        self.pending.insert(thread, Pending { result, arguments: registers });
        change(&mut registers);
        ptrace::setregs(thread, registers).map_err(|error| error.to_string())
    }

    fn ends(&mut self, thread: Pid) -> Result<(), String> {
        let Some(pending) = self.pending.remove(&thread) else {
            return Ok(());
        };
        let mut registers = ptrace::getregs(thread).map_err(|error| error.to_string())?;
        if let Some(error) = pending.result {
            registers.rax = -(error as i64) as u64;
        }
        let was = pending.arguments;
        (registers.rsi, registers.rdx, registers.r10) = (was.rsi, was.rdx, was.r10);
        ptrace::setregs(thread, registers).map_err(|error| error.to_string())
    }
}

/// Half of the bytes, at least one. A vector of buffers becomes half of its first one.
fn halve(thread: Pid, registers: &mut libc::user_regs_struct) {
    if registers.orig_rax != libc::SYS_pwritev as u64 {
        registers.rdx = (registers.rdx / 2).max(1);
        return;
    }
    if let Some((base, length)) = calls::first_buffer(thread, registers.rsi) {
        registers.orig_rax = libc::SYS_pwrite64 as u64;
        (registers.rsi, registers.rdx) = (base, (length / 2).max(1));
    }
}

/// A process that was killed meanwhile is no error.
fn resume(process: Pid, signal: Option<Signal>) -> Result<(), String> {
    match ptrace::syscall(process, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
