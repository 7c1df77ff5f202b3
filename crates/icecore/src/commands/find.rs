//! `icecore find`.

use super::ls::{self, kind_name, lost};
use crate::codes::Code;
use crate::context::{Context, Unread};
use crate::escape;
use crate::failure::Result;
use crate::filter::Filter;
use crate::{time, units};
use pipeline::browse::find::{self, Version};
use pipeline::browse::glob::Glob;
use pipeline::manifest::Snapshot;
use pipeline::pages::PageReader;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Find files in all snapshots, and list each version once.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore find 'invoice*.pdf'\n  icecore find -i readme.md\n  icecore find '/etc/**/*.conf' --node web-1\n\nA pattern without a slash matches names, one with a slash matches whole paths.\n\nExit code 1: nothing found."
)]
pub(crate) struct Find {
    /// Name or path, with *, ?, [a-z] and ** (across directories).
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<OsString>,
    /// Ignore case.
    #[arg(short, long)]
    ignore_case: bool,
    /// Also show the mode and owner of each version.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    entry: ls::Shown,
    snapshots: Vec<String>,
    first_seen: String,
    last_seen: String,
}

#[derive(Serialize)]
struct Count {
    files: usize,
    versions: usize,
    snapshots: usize,
}

impl Find {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open_to_read()?;
        let failed = |error| context.failure(error);
        let (mut snapshots, unread_snapshots) = context.snapshots(&repository)?;
        snapshots.retain(|snapshot| self.filter.takes(snapshot));
        let globs: Vec<_> = self
            .patterns
            .iter()
            .map(|pattern| Glob::new(pattern.as_bytes(), self.ignore_case))
            .collect();
        let pages = PageReader::new(&repository).map_err(failed)?;
        let wanted =
            |entry: &format::entry::Entry| globs.iter().any(|glob| glob.matches(&entry.path));
        let mut unread = Vec::new();
        let versions = find::versions(&pages, &snapshots, &wanted, &mut unread);
        let pages = unread.iter().map(|unread| (unread.snapshot.id(), &unread.page));
        let whole = if is_any_damaged(&unread_snapshots) { Code::Damage } else { Code::Complete };
        let lost = lost::tell(context, pages, whole);
        let versions = versions.map_err(failed)?;
        let files = self.show(context, &versions)?;
        let count = Count { files, versions: versions.len(), snapshots: snapshots.len() };
        // What could not be read may match.
        if count.files > 0 || lost == Code::Damage {
            return context.out.summary(lost, &count);
        }
        context.out.note(&format!(
            "nothing in {} matches. A pattern without * is a whole name; for a part of one: icecore find '*NAME*'",
            units::many(count.snapshots as u64, "snapshot")
        ));
        context.out.summary(Code::Failed, &count)
    }

    /// The path once, then its versions. Returns the number of paths.
    fn show(&self, context: &Context, versions: &[Version<'_>]) -> Result<usize> {
        let mut last: Option<&[u8]> = None;
        let mut files = 0;
        for version in versions {
            if last != Some(&version.entry.path) {
                files += 1;
                context.out.print(&escape::path(&version.entry.path))?;
            }
            last = Some(&version.entry.path);
            context.out.item("version", &shown(version), || self.row(version))?;
        }
        Ok(files)
    }

    fn row(&self, version: &Version<'_>) -> String {
        let entry = &version.entry;
        let what = if self.long {
            format!("{} {:04o} {}", kind_name(entry.kind()), entry.attributes.mode, owner(entry))
        } else {
            kind_name(entry.kind()).to_owned()
        };
        let (first, last) = (version.snapshots.first(), version.snapshots.last());
        let seen = |snapshot: Option<&&Snapshot>| {
            snapshot.map_or_else(String::new, |found| time::show(found.time()))
        };
        format!(
            "    {}  {:>11}  {what}  in {}, {} to {} ({})",
            time::show(entry.mtime),
            units::bytes(entry.size),
            units::many(version.snapshots.len() as u64, "snapshot"),
            seen(first),
            seen(last),
            last.map_or_else(String::new, |found| super::snapshots::short_id(found)),
        )
    }
}

/// What nobody known signed counts for nothing, whatever may match in it.
fn is_any_damaged(unread: &[Unread]) -> bool {
    unread.iter().any(|(_, error)| !matches!(error, pipeline::Error::Untrusted { .. }))
}

fn owner(entry: &format::entry::Entry) -> String {
    format!("{}:{}", entry.attributes.uid, entry.attributes.gid)
}

fn shown(version: &Version<'_>) -> Shown {
    let seen = |snapshot: Option<&&Snapshot>| {
        snapshot.map_or_else(String::new, |found| time::json(found.time()))
    };
    Shown {
        entry: ls::Shown::new(&version.entry),
        snapshots: version.snapshots.iter().map(|snapshot| snapshot.id().to_string()).collect(),
        first_seen: seen(version.snapshots.first()),
        last_seen: seen(version.snapshots.last()),
    }
}
