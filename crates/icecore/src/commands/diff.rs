//! `icecore diff`.

use super::ls::{finished, lost, stop};
use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::terminal::Paint;
use crate::units;
use ids::SnapshotId;
use pipeline::browse::{
    self,
    diff::{self, Difference, DifferenceKind, Unread},
};
use pipeline::manifest::Snapshot;
use pipeline::pages::{LostPage, PageReader};
use serde::Serialize;
use std::ffi::OsString;

/// Show the differences between two snapshots.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore diff 3fa9c1d2 latest\n  icecore diff latest~1 latest --path /etc\n  icecore diff 2026-11-01:/etc latest:/etc\n\nSigns: + added, - removed, M content modified, U only attributes modified, T another kind of object"
)]
pub(crate) struct Diff {
    /// The older snapshot: SNAP[:PATH].
    #[arg(value_name = "A[:PATH]")]
    from: OsString,
    /// The newer snapshot: SNAP[:PATH].
    #[arg(value_name = "B[:PATH]")]
    to: OsString,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    path: JsonPath,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

#[derive(Default, Serialize)]
struct Count {
    added: u64,
    removed: u64,
    content: u64,
    attributes: u64,
    r#type: u64,
    bytes_added: u64,
    bytes_removed: u64,
}

impl Count {
    fn add(&mut self, found: &Difference) {
        let counter = match found.kind {
            DifferenceKind::Added => &mut self.added,
            DifferenceKind::Removed => &mut self.removed,
            DifferenceKind::Content => &mut self.content,
            DifferenceKind::Attributes => &mut self.attributes,
            DifferenceKind::Type => &mut self.r#type,
        };
        *counter += 1;
        if found.kind != DifferenceKind::Attributes {
            let size =
                |entry: &Option<format::entry::Entry>| entry.as_ref().map_or(0, |entry| entry.size);
            self.bytes_added = self.bytes_added.saturating_add(size(&found.now));
            self.bytes_removed = self.bytes_removed.saturating_add(size(&found.before));
        }
    }

    fn any(&self) -> bool {
        [self.added, self.removed, self.content, self.attributes, self.r#type] != [0; 5]
    }

    /// What is zero is not said.
    fn text(&self) -> String {
        let parts = [
            (self.added, "added"),
            (self.removed, "removed"),
            (self.content, "with modified content"),
            (self.attributes, "with modified attributes"),
            (self.r#type, "of another kind"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> =
            parts.map(|(count, what)| format!("{} {what}", units::count(count))).collect();
        if parts.is_empty() {
            return "No difference.".to_owned();
        }
        let (added, removed) = (units::bytes(self.bytes_added), units::bytes(self.bytes_removed));
        format!("{}; {added} added, {removed} removed", parts.join(" · "))
    }
}

impl Diff {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open_to_read()?;
        let (from, path) = context.snapshot_and_path(&repository, &self.from, &self.filter)?;
        let (to, other) = context.snapshot_and_path(&repository, &self.to, &self.filter)?;
        if path != other {
            return Err(Failure::usage("the two paths differ")
                .hint("Give the same path for both snapshots, or none."));
        }
        let pages = PageReader::new(&repository).map_err(|error| context.failure(error))?;
        let lacks = |snapshot| {
            matches!(browse::entry(&pages, snapshot, &path), Err(pipeline::Error::PathNotFound(_)))
        };
        if !path.is_empty() && lacks(&from) && lacks(&to) {
            return Err(context.failure(pipeline::Error::PathNotFound(escape::path(&path))));
        }
        let (mut count, mut unwritten, mut unread) = (Count::default(), None, Unread::default());
        let result = diff::run(&pages, (&from, &to), &path, &mut unread, |found| {
            count.add(&found);
            let shown = context.out.item("change", &shown(&found), || row(context, &found));
            shown.map_err(|failure| stop(&mut unwritten, failure))
        });
        let code = lost::tell(context, unread_of(&unread, &from, &to), Code::Complete);
        finished(context, result, unwritten)?;
        if code == Code::Complete || count.any() {
            context.out.line(&count.text())?;
        }
        context.out.summary(context.code_of_choice(code), &count)
    }
}

/// What could not be read of two snapshots, each page once: unchanged ones are in both.
pub(super) fn unread_of<'a>(
    unread: &'a Unread,
    from: &Snapshot,
    to: &Snapshot,
) -> impl Iterator<Item = (SnapshotId, &'a LostPage)> {
    let (of_from, of_to) = (from.id(), to.id());
    let is_known = |page: &LostPage| unread.from.iter().any(|other| other.id == page.id);
    let of_to = unread.to.iter().filter(move |page| !is_known(page)).map(move |page| (of_to, page));
    unread.from.iter().map(move |page| (of_from, page)).chain(of_to)
}

fn shown(found: &Difference) -> Shown {
    Shown {
        path: JsonPath::new(found.path()),
        change: match found.kind {
            DifferenceKind::Added => "added",
            DifferenceKind::Removed => "removed",
            DifferenceKind::Content => "content",
            DifferenceKind::Attributes => "attributes",
            DifferenceKind::Type => "type",
        },
        size_before: found.before.as_ref().map(|entry| entry.size),
        size: found.now.as_ref().map(|entry| entry.size),
    }
}

fn row(context: &Context, found: &Difference) -> String {
    let (sign, paint) = match found.kind {
        DifferenceKind::Added => ("+", Paint::Green),
        DifferenceKind::Removed => ("-", Paint::Red),
        DifferenceKind::Content => ("M", Paint::Yellow),
        DifferenceKind::Attributes => ("U", Paint::Yellow),
        DifferenceKind::Type => ("T", Paint::Yellow),
    };
    context.out.paint(paint, &format!("{sign}    {}", escape::path(found.path())))
}
