//! `icecore dump`.

use super::snapshots::Filter;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::tarball::Tarball;
use client::browse;
use client::browse::content::ContentReader;
use client::pages::PageReader;
use serde::Serialize;
use std::ffi::OsString;

/// Print a snapshot or a directory of it as a tar archive.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore dump latest:/etc | tar tv\n  icecore dump latest | ssh host tar x -C /srv\n\nWith --json the summary goes to the error stream: the output is the archive."
)]
pub(crate) struct Dump {
    /// Snapshot, with or without a path: SNAP[:PATH].
    #[arg(value_name = "SNAP[:PATH]")]
    snapshot: OsString,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Serialize)]
struct Dumped {
    entries: u64,
    bytes: u64,
    skipped: u64,
}

impl Dump {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        use std::io::IsTerminal;
        if std::io::stdout().is_terminal() {
            let failure = Failure::usage("the output is a terminal");
            return Err(failure.hint("Send it on: icecore dump SNAP | tar tv, or > FILE"));
        }
        let archive = context.open()?;
        let (snapshot, path) = context.snapshot_and_path(&archive, &self.snapshot, &self.filter)?;
        let failed = |error| context.failure(error);
        let pages = PageReader::new(&archive).map_err(failed)?;
        let content = ContentReader::new(&archive, &pages).map_err(failed)?;
        let mut stdout = context.out.stdout();
        let mut tarball = Tarball::new(&mut *stdout, content);
        let mut last = Vec::new();
        let result = browse::below(&pages, &snapshot, &path, |entry| {
            last.clone_from(&entry.path);
            tarball.add(&entry)
        });
        result.map_err(|error| failed(error).of(&last))?;
        let (entries, bytes, skipped) = tarball.finish().map_err(failed)?;
        drop(stdout);
        if skipped > 0 {
            context
                .out
                .note(&format!("{skipped} sockets were left out: a tar archive cannot hold them"));
        }
        context.out.summary_beside(Code::Complete, &Dumped { entries, bytes, skipped })
    }
}
