//! Backup of a stream: the standard input, or what a command prints.

use super::Told;
use client::backup::{Done, Options, Progress, run_stream};
use client::select::clean_path;
use client::{Archive, Error, Result};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

/// Stores the standard input as `name`.
pub(super) fn from_stdin(
    archive: &Archive,
    options: &Options,
    name: &OsStr,
    progress: &Progress,
    monitor: &Told<'_>,
) -> Result<Done> {
    let name = clean_path(name.as_bytes());
    run_stream(archive, options, &name, &mut io::stdin().lock(), &mut || Ok(()), progress, monitor)
}

/// Runs `command` and stores what it prints as `name`; nothing when it fails.
pub(super) fn from_command(
    archive: &Archive,
    options: &Options,
    name: &OsStr,
    command: &[OsString],
    progress: &Progress,
    monitor: &Told<'_>,
) -> Result<Done> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Error::Usage("no command was given after --".into()))?;
    let failed =
        |source: io::Error| Error::File { path: format!("command {}", program.display()), source };
    let child =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut running = Running(child.map_err(failed)?);
    let mut output =
        running.0.stdout.take().ok_or_else(|| failed(io::Error::other("it has no output")))?;
    let mut confirm = || {
        let status = running.0.wait().map_err(failed)?;
        // A signal meant for us often reaches the command first.
        if progress.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if status.success() {
            Ok(())
        } else {
            Err(failed(io::Error::other(format!("it failed with {status}"))))
        }
    };
    run_stream(
        archive,
        options,
        &clean_path(name.as_bytes()),
        &mut output,
        &mut confirm,
        progress,
        monitor,
    )
}

/// A command that does not outlive us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
