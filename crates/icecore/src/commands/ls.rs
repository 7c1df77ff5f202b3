//! `icecore ls`.

pub(crate) mod lost;

use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::{time, units, width};
use format::entry::{Content, Entry, Kind};
use pipeline::browse;
use pipeline::manifest::Snapshot;
use pipeline::pages::{LostPage, PageReader};
use pipeline::select::clean_path;
use serde::Serialize;
use std::ffi::OsString;

/// List the files in a snapshot.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore ls latest\n  icecore ls -l latest:/etc\n  icecore ls -R '2026-11-20 14:00@web-1:/var/www'\n\nWithout a path, ls lists the content of the directories that were backed up."
)]
pub(crate) struct Ls {
    /// Snapshot, and the path in it.
    #[arg(value_name = "SNAP[:PATH]")]
    snapshot: OsString,
    #[command(flatten)]
    filter: Filter,
    /// Also show mode, owner, size and time.
    #[arg(short, long)]
    long: bool,
    /// List directories recursively.
    #[arg(short = 'R', long)]
    recursive: bool,
}

/// An entry as JSON shows it.
#[derive(Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    path: JsonPath,
    r#type: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    user: String,
    group: String,
    size: u64,
    mtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl Shown {
    pub(crate) fn new(entry: &Entry) -> Self {
        let attributes = &entry.attributes;
        Self {
            path: JsonPath::new(&entry.path),
            r#type: kind_name(entry.kind()),
            mode: format!("{:04o}", attributes.mode),
            uid: attributes.uid,
            gid: attributes.gid,
            user: escape::escape(&attributes.user),
            group: escape::escape(&attributes.group),
            size: entry.size,
            mtime: time::json(entry.mtime),
            target: link_target(entry).map(escape::escape),
        }
    }
}

#[derive(Serialize)]
struct Count {
    entries: u64,
    bytes: u64,
}

impl Ls {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open_to_read()?;
        let (snapshot, path) =
            context.snapshot_and_path(&repository, &self.snapshot, &self.filter)?;
        let pages = PageReader::new(&repository).map_err(|error| context.failure(error))?;
        let mut count = Count { entries: 0, bytes: 0 };
        let (mut unwritten, mut lost) = (None, Vec::new());
        let visit = |entry: Entry| {
            count.entries += 1;
            count.bytes = count.bytes.saturating_add(entry.size);
            let shown = context.out.item("entry", &Shown::new(&entry), || self.text(&entry));
            shown.map_err(|failure| stop(&mut unwritten, failure))
        };
        if self.long {
            context.out.line(LONG_HEADING)?;
        }
        let result = if self.recursive {
            browse::below(&pages, &snapshot, &path, &mut lost, visit)
        } else if path.is_empty() {
            self.sources(context, &pages, &snapshot, &mut lost, visit)
        } else {
            browse::ls::children(&pages, &snapshot, &path, &mut lost, visit)
        };
        // Several sources may need the same page.
        lost.dedup_by(|a, b| (a.id, &a.first) == (b.id, &b.first));
        let pages = lost.iter().map(|page| (snapshot.id(), page));
        let code = lost::tell(context, pages, Code::Complete);
        finished(context, result, unwritten)?;
        if count.entries == 0 && lost.is_empty() {
            context.out.line("There is nothing in it.")?;
        }
        context.out.summary(context.code_of_choice(code), &count)
    }

    /// The content of the directories that were backed up: people want to see these, not the directories above them.
    fn sources(
        &self,
        context: &Context,
        pages: &PageReader<'_>,
        snapshot: &Snapshot,
        lost: &mut Vec<LostPage>,
        mut visit: impl FnMut(Entry) -> pipeline::Result<()>,
    ) -> pipeline::Result<()> {
        let paths = &snapshot.body.paths;
        // A name with a backslash is shown escaped there, and cannot be looked up.
        if paths.iter().any(|path| path.contains('\\')) {
            return browse::ls::children(pages, snapshot, b"", lost, visit);
        }
        for path in paths {
            if paths.len() > 1 {
                let _ = context.out.line(&format!("{}:", escape::text(path))); // the entries tell
            }
            let path = clean_path(path.as_bytes());
            match browse::ls::children(pages, snapshot, &path, lost, &mut visit) {
                Err(pipeline::Error::PathNotFound(_)) => {} // it was missing when the backup ran
                done => done?,
            }
        }
        Ok(())
    }

    fn text(&self, entry: &Entry) -> String {
        if self.long { long(entry) } else { escape::path(&entry.path) }
    }
}

/// Ends a visit since its output cannot be written; what happened is kept in `unwritten`.
pub(crate) fn stop(unwritten: &mut Option<Failure>, failure: Failure) -> pipeline::Error {
    *unwritten = Some(failure);
    pipeline::Error::Cancelled
}

/// The result of a visit that may have been ended by [`stop`].
pub(crate) fn finished(
    context: &Context,
    result: pipeline::Result<()>,
    unwritten: Option<Failure>,
) -> Result<()> {
    match unwritten {
        Some(failure) => Err(failure),
        None => result.map_err(|error| context.failure(error)),
    }
}

/// Columns of an owner and of a group.
const OWNER_WIDTH: usize = 9;
/// Above what [`long`] makes.
const LONG_HEADING: &str = "MODE       OWNER     GROUP            SIZE  MODIFIED             PATH";

/// As `ls -l` has it.
pub(crate) fn long(entry: &Entry) -> String {
    let attributes = &entry.attributes;
    let owner =
        |name: &[u8], id: u32| if name.is_empty() { id.to_string() } else { escape::escape(name) };
    let target = link_target(entry)
        .map_or_else(String::new, |target| format!(" -> {}", escape::escape(target)));
    format!(
        "{} {} {} {:>10}  {}  {}{target}",
        mode_text(entry.kind(), attributes.mode),
        width::pad_right(&owner(&attributes.user, attributes.uid), OWNER_WIDTH),
        width::pad_right(&owner(&attributes.group, attributes.gid), OWNER_WIDTH),
        units::bytes(entry.size),
        time::show(entry.mtime),
        escape::path(&entry.path),
    )
}

/// Where a symbolic link leads.
pub(crate) fn link_target(entry: &Entry) -> Option<&[u8]> {
    match &entry.content {
        Content::Inline(target) if entry.kind() == Kind::Symlink => Some(target),
        _ => None,
    }
}

/// What an object is, for JSON and lists.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "dir",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice => "chardev",
        Kind::BlockDevice => "dev",
    }
}

/// `drwxr-xr-x`.
fn mode_text(kind: Kind, mode: u16) -> String {
    let letter = match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    };
    let mut text = String::from(letter);
    // Each group of three: its bits, and the special bit that shows in its place of execute.
    for (shift, special, with, without) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_in_ls() {
        let table = [
            (Kind::File, 0o644, "-rw-r--r--"),
            (Kind::Directory, 0o1777, "drwxrwxrwt"),
            (Kind::File, 0o4755, "-rwsr-xr-x"),
            (Kind::File, 0o2644, "-rw-r-Sr--"),
            (Kind::Symlink, 0o777, "lrwxrwxrwx"),
        ];
        table.iter().for_each(|(kind, mode, text)| assert_eq!(mode_text(*kind, *mode), *text));
    }
}
