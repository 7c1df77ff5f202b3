//! `icecore dump`.

use super::ls::lost::{self, Lost};
use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::tarball::{Gap, Tarball, Written};
use crate::units;
use format::entry::STATUS_PARTIAL;
use pipeline::browse;
use pipeline::browse::content::ContentReader;
use pipeline::pages::PageReader;
use serde::Serialize;
use std::ffi::OsString;

/// Write a snapshot or a directory of it as a tar archive to the standard output.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore dump latest:/etc | tar tv\n  icecore dump latest | ssh host tar x -C /srv\n\nHoles of files are written as zeros, so an archive may be much larger than the files are on their disk.\n\nWith --json, the summary goes to the error stream, because the output is the archive."
)]
pub(crate) struct Dump {
    /// Snapshot, and the path in it.
    #[arg(value_name = "SNAP[:PATH]")]
    snapshot: OsString,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Serialize)]
struct Dumped<'a> {
    entries: u64,
    bytes: u64,
    skipped: u64,
    incomplete: u64,
    /// What is missing in the archive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<Lost<'a>>,
    /// Objects of the archive that are damaged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Damaged>,
    /// How many more there are.
    #[serde(skip_serializing_if = "is_zero")]
    more_damaged: u64,
}

/// An object with zeros in place of its content, or without its extended attributes.
#[derive(Serialize)]
struct Damaged {
    #[serde(flatten)]
    path: JsonPath,
    reason: String,
}

impl Damaged {
    /// Named at once, beside the archive.
    fn told(context: &Context, gap: Gap) -> Self {
        let reason = gap.error.to_string();
        context.out.remark(&format!("{}: {reason}", escape::path(&gap.path)));
        Self { path: JsonPath::new(&gap.path), reason }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

const HAS_GAPS: &str = "Zeros are in place of what is damaged, or attributes are missing. What else is damaged, and what to do: icecore check --read-data";

impl Dump {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        use std::io::IsTerminal;
        if std::io::stdout().is_terminal() {
            let failure = Failure::usage("the output is a terminal");
            return Err(
                failure.hint("Pipe it: icecore dump SNAP | tar tv; or write it to a file: > FILE")
            );
        }
        let repository = context.open_to_read()?;
        let (snapshot, path) =
            context.snapshot_and_path(&repository, &self.snapshot, &self.filter)?;
        let failed = |error| context.failure(error).of_bytes();
        let pages = PageReader::new(&repository).map_err(failed)?;
        let content = ContentReader::new(&repository, &pages).map_err(failed)?;
        let mut stdout = context.out.stdout();
        let mut tarball = Tarball::new(&mut *stdout, content);
        let (mut last, mut incomplete, mut lost) = (Vec::new(), 0, Vec::new());
        let result = browse::below(&pages, &snapshot, &path, &mut lost, |entry| {
            last.clone_from(&entry.path);
            incomplete += u64::from(entry.status & STATUS_PARTIAL != 0);
            tarball.add(&entry)
        });
        // The output is the archive, so what is lost is told beside it.
        lost.iter().for_each(|page| context.out.remark(&lost::text(snapshot.id(), page)));
        result.map_err(|error| failed(error).of(&last))?;
        let Written { entries, bytes, skipped, gaps, more_gaps } =
            tarball.finish().map_err(failed)?;
        drop(stdout);
        if skipped > 0 {
            let sockets = units::many(skipped, "socket");
            context.out.note(&format!("left out {sockets}: a tar archive cannot contain them"));
        }
        let code = if incomplete == 0 { Code::Complete } else { Code::Partial };
        if incomplete > 0 {
            let objects = units::many(incomplete, "object");
            context.out.note(&format!("{objects} could not be read completely during the backup: zeros are in place of missing content, or attributes are missing. To name them: icecore map {} --failed", snapshot.id()));
        }
        let damaged: Vec<_> = gaps.into_iter().map(|gap| Damaged::told(context, gap)).collect();
        if more_gaps > 0 {
            context.out.remark(&format!("{} more damaged", units::many(more_gaps, "object")));
        }
        if !damaged.is_empty() {
            context.out.remark(HAS_GAPS);
        }
        if !lost.is_empty() {
            context.out.remark(lost::IS_INCOMPLETE);
        }
        let code = if lost.is_empty() && damaged.is_empty() { code } else { Code::Damage };
        let lost = lost.iter().map(|page| Lost::new(snapshot.id(), page)).collect();
        let more_damaged = more_gaps;
        let dumped = Dumped { entries, bytes, skipped, incomplete, lost, damaged, more_damaged };
        context.out.summary_beside(context.code_of_choice(code), &dumped)
    }
}
