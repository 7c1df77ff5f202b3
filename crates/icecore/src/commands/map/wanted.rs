//! Which objects of a map are wanted. Each is judged by its entry alone, so that the map is never held in memory.

use super::rows::status;
use crate::commands::ls::kind_name;
use crate::{time, units};
use format::entry::{Entry, Time};
use pipeline::browse::glob::Glob;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Filters; an object must pass each kind of them that is given.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(super) struct Wanted {
    /// Only objects whose name matches, or whose whole path does if the pattern has a slash. Can be given several
    /// times.
    #[arg(long, value_name = "PATTERN")]
    name: Vec<OsString>,
    /// Only objects of this type; `dev` is a block device. Can be given several times.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["file", "dir", "symlink", "fifo", "socket", "chardev", "dev"])]
    types: Vec<String>,
    /// Only objects larger than this: 500M, 10G.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    larger_than: Option<u64>,
    /// Only objects smaller than this.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    smaller_than: Option<u64>,
    /// Only objects last modified after this: an age (30d, 1y) or a time.
    #[arg(long, value_name = "AGE|TIME", value_parser = time::parse_until)]
    newer_than: Option<Time>,
    /// Only objects last modified before this.
    #[arg(long, value_name = "AGE|TIME", value_parser = time::parse_since)]
    older_than: Option<Time>,
    /// Only objects with this status: `partial` if a part could not be read, `changed` if it changed while it was read,
    /// `not-entered` if it is a directory that the backup did not enter.
    #[arg(long, value_name = "STATUS", value_parser = ["partial", "changed", "not-entered"])]
    status: Option<String>,
}

/// The filters, ready to match.
pub(super) struct Matcher<'a> {
    wanted: &'a Wanted,
    globs: Vec<Glob>,
}

impl Wanted {
    pub(super) fn matcher(&self) -> Matcher<'_> {
        let globs = self.name.iter().map(|pattern| Glob::new(pattern.as_bytes(), false)).collect();
        Matcher { wanted: self, globs }
    }
}

impl Matcher<'_> {
    pub(super) fn takes(&self, entry: &Entry) -> bool {
        let Wanted { types, larger_than, smaller_than, newer_than, older_than, .. } = self.wanted;
        let is_of_type = || types.iter().any(|kind| kind == kind_name(entry.kind()));
        let is_named = || self.globs.iter().any(|glob| glob.matches(&entry.path));
        let has_status = |wanted: &String| wanted == status(entry.status);
        (types.is_empty() || is_of_type())
            && (self.globs.is_empty() || is_named())
            && larger_than.is_none_or(|limit| entry.size > limit)
            && smaller_than.is_none_or(|limit| entry.size < limit)
            && newer_than.is_none_or(|limit| entry.mtime > limit)
            && older_than.is_none_or(|limit| entry.mtime < limit)
            && self.wanted.status.as_ref().is_none_or(has_status)
    }
}
