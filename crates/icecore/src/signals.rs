//! Stopping when asked to: the first signal asks the command to end, and one that does not hear
//! it is ended. Being killed at any moment is safe: every commit publishes last.

use crate::child;
use crate::codes::Code;
use crate::failure::Failure;
use crate::out::Out;
use pipeline::backup::Progress;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

/// A command that does not end by itself is ended after this time.
const GRACE: Duration = Duration::from_secs(10);

/// How a command takes a signal.
#[derive(Clone, Default)]
pub(crate) struct Signalled {
    /// The command looks at `progress.cancel`.
    listens: Arc<AtomicBool>,
}

impl Signalled {
    /// From now on the command looks at `progress.cancel`.
    pub(crate) fn listen(&self) {
        self.listens.store(true, Ordering::Relaxed);
    }

    /// Watches for signals in a thread of its own. Where none can start, a signal ends the command as it ends any
    /// program.
    pub(crate) fn watch(&self, progress: Arc<Progress>, out: Arc<Out>) {
        let (registers, registered) = channel::<()>();
        let listens = self.listens.clone();
        let watcher = Builder::new().spawn(move || {
            let signals = Signals::new(heeded());
            drop(registers);
            let Ok(mut signals) = signals else { return };
            let mut pending = signals.forever();
            pending.next();
            progress.cancel.store(true, Ordering::Relaxed);
            if listens.load(Ordering::Relaxed) {
                let _ = Builder::new().spawn(move || end(&out)); // without it, it ends when it is asked twice
                pending.next(); // asked twice: at once
                child::end_now();
                std::process::exit(Code::Cancelled.number().into());
            }
            let code = out.fail(&Failure::from(pipeline::Error::Cancelled));
            std::process::exit(code.number().into());
        });
        if watcher.is_ok() {
            let _ = registered.recv(); // nothing comes: it ends when the signals are heeded
        }
    }
}

/// A write beyond the limit of file sizes (`ulimit -f`) fails with an error, instead of ending the process without a
/// word. Programs that are started have the signal as usual.
pub(crate) fn survive_limit_of_file_size() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default()); // without it, it ends as before
}

/// The signals that whoever started us did not tell us to ignore: `nohup` means what it says.
/// SIGPIPE is not among them: a backup goes on when nobody reads what it prints.
fn heeded() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored_in(&status);
    let is_heeded = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heeded).collect()
}

/// The mask of ignored signals in `/proc/PID/status`: bit 0 is signal 1.
fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Ends a command that did not end by itself.
fn end(out: &Out) {
    std::thread::sleep(GRACE);
    child::end_now();
    let code = out.fail(&Failure::from(pipeline::Error::Cancelled));
    std::process::exit(code.number().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored_in("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0f\n"), 0x1001);
        assert_eq!(ignored_in(""), 0);
        assert!(heeded().contains(&SIGTERM));
    }
}
