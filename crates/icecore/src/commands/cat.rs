//! `icecore cat`.

use super::ls::{kind_name, link_target};
use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use format::entry::{Entry, Kind};
use pipeline::browse::{self, content::ContentReader};
use pipeline::pages::PageReader;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;

/// Print a file from a snapshot.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore cat latest:/etc/hosts\n  icecore cat '2026-11-20 14:00:/var/backups/shop.sql' | mysql shop\n\nWith --json, the summary goes to the error stream, because the output is the file."
)]
pub(crate) struct Cat {
    /// Snapshot and file: SNAP:FILE.
    #[arg(value_name = "SNAP:FILE")]
    file: OsString,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Serialize)]
struct Printed {
    #[serde(flatten)]
    path: JsonPath,
    bytes: u64,
}

impl Cat {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open_to_read()?;
        let (snapshot, path) = context.snapshot_and_path(&repository, &self.file, &self.filter)?;
        if path.is_empty() {
            return Err(Failure::usage("no file given")
                .hint("Write SNAP:FILE, for example latest:/etc/hosts"));
        }
        let failed = |error| context.failure(error).of_bytes();
        let pages = PageReader::new(&repository).map_err(failed)?;
        let entry = browse::entry(&pages, &snapshot, &path).map_err(failed)?;
        if entry.kind() != Kind::File {
            return Err(no_file(&entry));
        }
        let mut reader = ContentReader::new(&repository, &pages).map_err(failed)?;
        let mut stdout = context.out.stdout();
        reader.copy(&entry, &mut *stdout).map_err(|error| failed(error).of(&path))?;
        stdout.flush().map_err(|error| Failure::from(error).of_bytes())?;
        drop(stdout);
        let code = match entry.may_lack_content() {
            false => Code::Complete,
            true => {
                let path = escape::path(&path);
                context.out.note(&format!("{path} could not be read completely during the backup: zeros are in place of what is missing"));
                Code::Partial
            }
        };
        let code = context.code_of_choice(code);
        context.out.summary_beside(code, &Printed { path: JsonPath::new(&path), bytes: entry.size })
    }
}

fn no_file(entry: &Entry) -> Failure {
    let path = escape::path(&entry.path);
    let (kind, target) = (kind_name(entry.kind()), link_target(entry));
    let target = target.map_or_else(String::new, |to| format!(" to {}", escape::escape(to)));
    Failure::new(Code::Failed, format!("{path} is not a regular file but a {kind}{target}"))
        .hint("For directories: icecore dump SNAP:DIR | tar x; for anything: icecore restore")
}
