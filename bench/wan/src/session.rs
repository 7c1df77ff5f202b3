//! How long it lasts: until a signal, until stdin ends, or as long as a command runs.

use crate::namespaces::End;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitCode};

/// Signals are read from a descriptor, so that namespaces are taken away before the end.
pub(crate) fn hold_signals() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

/// Lasts as long as it shall. Without a command `report` is called for each line of stdin.
pub(crate) fn last(
    signals: &SignalFd,
    command: &[String],
    ends: &[End; 2],
    report: &dyn Fn(),
) -> io::Result<ExitCode> {
    match command.split_first() {
        None => until_stdin_ends(signals, report),
        Some((program, words)) => {
            let child = Command::new(program)
                .args(words)
                .envs(ends.iter().map(|end| (variable(end, ""), end.name.as_str())))
                .envs(ends.iter().map(|end| (variable(end, "_IP"), end.address)))
                .spawn()?;
            while_it_runs(signals, child)
        }
    }
}

fn variable(end: &End, what: &str) -> String {
    format!("WAN_{}{what}", end.role.to_uppercase())
}

fn until_stdin_ends(signals: &SignalFd, report: &dyn Fn()) -> io::Result<ExitCode> {
    let stdin = io::stdin();
    let mut line = [0; 256];
    loop {
        let mut waiting = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut waiting, None))?;
        let has_input = !waiting[0].revents().is_empty();
        if has_ended(signals)? {
            return Ok(ExitCode::SUCCESS);
        }
        if has_input {
            match rustix::io::read(&stdin, &mut line)? {
                0 => return Ok(ExitCode::SUCCESS),
                len => line[..len].iter().filter(|byte| **byte == b'\n').for_each(|_| report()),
            }
        }
    }
}

/// Whether one of the signals that end this program has come.
fn has_ended(signals: &SignalFd) -> io::Result<bool> {
    let mut ended = false;
    while let Some(signal) = signals.read_signal()? {
        ended |= signal.ssi_signo != Signal::SIGCHLD as u32;
    }
    Ok(ended)
}

fn while_it_runs(signals: &SignalFd, mut child: Child) -> io::Result<ExitCode> {
    loop {
        if let Some(status) = child.try_wait()? {
            // Killed by a signal: there is no code.
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            return Ok(ExitCode::from(code));
        }
        let mut waiting = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        retry_on_intr(|| poll(&mut waiting, None))?;
        if has_ended(signals)? {
            child.kill()?;
        }
    }
}
