//! Backup of a stream: the standard input, or what a command prints.

use super::Reporter;
use crate::child::{Interruptible, Running};
use crate::escape;
use crate::failure::{self, Failure};
use format::entry::is_clean_path;
use pipeline::backup::{BackupOptions, BackupOutcome, Progress, run_stream};
use pipeline::select::clean_path;
use pipeline::{Error, Result, UnlockedRepository};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::ChildStdout;
use std::sync::atomic::Ordering;

/// What disk file systems take.
const NAME_BYTES_MAX: usize = 255;

/// What a stream named `name` is called among the sources: two ways to write one name are one source. The slash at its
/// beginning stays, as somebody began with it or without.
pub(super) fn called(name: &OsStr) -> Vec<u8> {
    let root: &[u8] = if name.as_bytes().starts_with(b"/") { b"/" } else { b"" };
    [root, &clean_path(name.as_bytes())].concat()
}

/// A name that leads nowhere, or out of the snapshot, is told before anything is opened.
pub(super) fn refuse_bad_name(name: &OsStr, flag: &str) -> failure::Result<()> {
    let path = clean_path(name.as_bytes());
    let is_too_long = path.split(|byte| *byte == b'/').any(|name| name.len() > NAME_BYTES_MAX);
    let why = match is_clean_path(&path) {
        true if !is_too_long => return Ok(()),
        true => "no file system takes a name of more than 255 bytes",
        false => "the name is empty, or has '..' in it",
    };
    let shown = escape::escape(name.as_bytes());
    let message = format!("{flag} '{shown}': {why}");
    Err(Failure::usage(message)
        .hint(format!("Write the path that the file has in the snapshot: {flag} dumps/shop.sql")))
}

/// Stores the standard input as `name`.
pub(super) fn from_stdin(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    name: &OsStr,
    progress: &Progress,
    monitor: &Reporter<'_>,
) -> Result<BackupOutcome> {
    let name = clean_path(name.as_bytes());
    // The descriptor itself: what `Stdin` has buffered no poll would tell of.
    let input = io::stdin().as_fd().try_clone_to_owned();
    let input = input.map_err(|source| Error::File { path: "the input".into(), source })?;
    let mut input = Interruptible { input: File::from(input), progress };
    let mut confirm = || not_cancelled(progress);
    run_stream(repository, options, &name, &mut input, &mut confirm, progress, monitor)
}

/// Runs `command` and stores what it prints as `name`; nothing when it fails.
pub(super) fn from_command(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    name: &OsStr,
    command: &[OsString],
    progress: &Progress,
    monitor: &Reporter<'_>,
) -> Result<BackupOutcome> {
    let failed = |source: io::Error| Error::File { path: shown(command), source };
    let running = RefCell::new(None);
    // Dropped before `running`: a command that ignores signals notices that nobody reads.
    let mut input = Printed { command, running: &running, output: None, progress };
    let mut confirm = || {
        let mut running = running.borrow_mut();
        let running = running.as_mut().ok_or_else(|| failed(io::Error::other("never started")))?;
        let status = running.wait(progress).map_err(failed)?;
        // A signal meant for us may reach the command first: then it did not fail by itself.
        not_cancelled(progress)?;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(failed(io::Error::other(format!("it failed with {status}")))),
            None => Err(Error::Cancelled),
        }
    };
    let name = clean_path(name.as_bytes());
    run_stream(repository, options, &name, &mut input, &mut confirm, progress, monitor)
}

fn shown(command: &[OsString]) -> String {
    let program = command.first().map_or_else(String::new, |name| name.display().to_string());
    format!("command {program}")
}

/// An input that was interrupted looks as if it had ended.
fn not_cancelled(progress: &Progress) -> Result<()> {
    if progress.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
}

/// What a command prints. It is started by the first read: by then the repository is ours to
/// write to, and no dump is begun in vain.
struct Printed<'a> {
    command: &'a [OsString],
    running: &'a RefCell<Option<Running>>,
    output: Option<Interruptible<'a, ChildStdout>>,
    progress: &'a Progress,
}

impl Read for Printed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.output.is_none() {
            self.start().map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", shown(self.command)))
            })?;
        }
        self.output.as_mut().map_or(Ok(0), |output| output.read(buffer))
    }
}

impl Printed<'_> {
    fn start(&mut self) -> io::Result<()> {
        let mut running = Running::start(self.command)?;
        let input = running.output()?;
        self.output = Some(Interruptible { input, progress: self.progress });
        *self.running.borrow_mut() = Some(running);
        Ok(())
    }
}
