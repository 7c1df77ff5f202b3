//! Faults, and when they happen.

use super::State;
use std::io;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A power cut: every process ends, and unsynced data may be lost.
    PowerCut,
    /// The process is killed; the cache stays.
    Kill,
    /// One operation fails.
    IoError,
    /// One operation and all later ones fail.
    DiskFailure,
    /// The disk is full from now on.
    DiskFull,
    /// One write is short: it takes a part of its data, or is interrupted, or fails after a part for lack of space or
    /// with an error.
    ShortWrite,
    /// One sync fails, and its data is never written.
    FailedSync,
    /// One write is reported done, but the disk holds zeros.
    LostWrite,
    /// One write is reported done, but goes to another file.
    MisdirectedWrite,
    /// Many sectors of containers become zeros.
    BitRot,
}

/// A fault at a certain operation.
#[derive(Clone, Debug)]
pub struct Faults {
    fault: Option<Fault>,
    /// Operations until then, of those that it concerns.
    left: u64,
    /// Only operations of this verb on names that begin so.
    only: Option<(&'static str, &'static str)>,
    pub(super) has_fired: bool,
}

const WRITING: [&str; 4] = ["create", "append", "sync", "create directory"];

impl Faults {
    /// No fault.
    pub fn none() -> Self {
        Self { fault: None, left: 0, only: None, has_fired: false }
    }

    /// `fault` happens after `left` operations that it concerns.
    pub fn after(left: u64, fault: Fault) -> Self {
        Self { fault: Some(fault), left, only: None, has_fired: false }
    }

    /// `fault` happens at `verb` on the first name that begins with `start`, after `left` others.
    pub fn at(verb: &'static str, start: &'static str, left: u64, fault: Fault) -> Self {
        Self { only: Some((verb, start)), ..Self::after(left, fault) }
    }

    /// What happens to the next operation.
    pub(super) fn next(&mut self, verb: &str, name: &str) -> Option<Fault> {
        let fault = self.fault?;
        let concerned = match fault {
            Fault::DiskFull => WRITING.contains(&verb),
            Fault::FailedSync => verb == "sync" || verb == "sync directory",
            Fault::LostWrite | Fault::MisdirectedWrite | Fault::ShortWrite => verb == "append",
            _ => true,
        };
        let is_other = |only: (&str, &str)| verb != only.0 || !name.starts_with(only.1);
        if !concerned || !self.has_fired && self.only.is_some_and(is_other) {
            return None;
        }
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.has_fired = true;
        if !matches!(fault, Fault::DiskFailure | Fault::DiskFull) {
            self.fault = None;
        }
        Some(fault)
    }
}

/// What one write takes, and how it ends.
pub(super) struct Accepted {
    pub(super) bytes: usize,
    pub(super) then: io::Result<()>,
}

impl State {
    /// What a write of `bytes` takes: all of it, unless it is short.
    pub(super) fn accept_write(&mut self, bytes: usize) -> Accepted {
        if !std::mem::take(&mut self.is_short) || bytes == 0 {
            return Accepted { bytes, then: Ok(()) };
        }
        let part = self.random.index(bytes + 1);
        match self.random.below(4) {
            // Nothing may be an error, and is no progress.
            0 => Accepted { bytes: part.max(1), then: Ok(()) },
            1 => Accepted { bytes: 0, then: Err(io::ErrorKind::Interrupted.into()) },
            2 => Accepted { bytes: part, then: Err(io::ErrorKind::StorageFull.into()) },
            _ => Accepted { bytes: part, then: Err(io::Error::other("input/output error")) },
        }
    }
}
