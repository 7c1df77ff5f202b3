//! Stopping when asked to: the first signal asks the command to end, and one that does not hear
//! it is ended. Being killed at any moment is safe by the order of every commit.

use crate::codes::Code;
use crate::failure::Failure;
use crate::out::Out;
use client::backup::Progress;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

    /// Watches for signals in a thread of its own.
    pub(crate) fn watch(&self, progress: Arc<Progress>, out: Arc<Out>) {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
        let listens = self.listens.clone();
        std::thread::spawn(move || {
            let mut pending = signals.forever();
            pending.next();
            progress.cancel.store(true, Ordering::Relaxed);
            if listens.load(Ordering::Relaxed) {
                std::thread::spawn(move || end(&out));
                pending.next(); // asked twice: at once
                std::process::exit(Code::Cancelled.number().into());
            }
            let code = out.fail(&Failure::from(client::Error::Cancelled));
            std::process::exit(code.number().into());
        });
    }
}

/// Ends a command that did not end by itself.
fn end(out: &Out) {
    std::thread::sleep(GRACE);
    let code = out.fail(&Failure::from(client::Error::Cancelled));
    std::process::exit(code.number().into());
}
