//! One object of the map, as CSV, text and JSON show it.

use crate::commands::ls::{kind_name, long};
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::Result;
use crate::time;
use format::entry::{Entry, STATUS_CHANGED, STATUS_NOT_ENTERED, STATUS_PARTIAL};
use pipeline::browse::diff::DifferenceKind;
use pipeline::browse::map::StoredSize;
use serde::Serialize;

/// How people get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Csv,
    Text,
}

/// An object.
#[derive(Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    path: JsonPath,
    r#type: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    pub(super) size: u64,
    mtime: String,
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    status: &'static str,
    /// Since the snapshot before, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
}

const HEADING: &str = "path,type,mode,owner,size,mtime,chunks,bytes,status";

/// The names of the columns; text has none.
pub(super) fn heading(context: &Context, format: Format, changed: bool) -> Result<()> {
    match (format, changed) {
        (Format::Text, _) => Ok(()),
        (Format::Csv, false) => context.out.print(HEADING),
        (Format::Csv, true) => context.out.print(&format!("{HEADING},change")),
    }
}

/// What changed, for what is in the later snapshot.
pub(super) fn change(kind: DifferenceKind) -> Option<&'static str> {
    match kind {
        DifferenceKind::Added => Some("added"),
        DifferenceKind::Content => Some("content"),
        DifferenceKind::Attributes => Some("attributes"),
        DifferenceKind::Type => Some("type"),
        DifferenceKind::Removed => None,
    }
}

impl Row {
    pub(super) fn new(entry: &Entry, extent: StoredSize, change: Option<&'static str>) -> Self {
        let attributes = &entry.attributes;
        Self {
            path: JsonPath::new(&entry.path),
            r#type: kind_name(entry.kind()),
            mode: format!("{:04o}", attributes.mode),
            uid: attributes.uid,
            gid: attributes.gid,
            size: entry.size,
            mtime: time::json(entry.mtime),
            chunks: extent.chunks,
            bytes: extent.data_bytes,
            status: status(entry.status),
            change,
        }
    }

    pub(super) fn text(&self, entry: &Entry, format: Format) -> String {
        match format {
            Format::Csv => self.csv(entry),
            Format::Text => long(entry),
        }
    }

    fn csv(&self, entry: &Entry) -> String {
        let path = quoted(&escape::path(&entry.path));
        let Self { r#type, mode, uid, gid, size, mtime, chunks, bytes, status, .. } = self;
        let change = self.change.map_or_else(String::new, |change| format!(",{change}"));
        format!("{path},{type},{mode},{uid}:{gid},{size},{mtime},{chunks},{bytes},{status}{change}")
    }
}

/// How sure the content is.
pub(super) fn status(bits: u8) -> &'static str {
    match bits {
        bits if bits & STATUS_PARTIAL != 0 => "partial",
        bits if bits & STATUS_CHANGED != 0 => "changed",
        bits if bits & STATUS_NOT_ENTERED != 0 => "not-entered",
        _ => "",
    }
}

/// RFC 4180. What a spreadsheet would take for a formula begins with `=`, `+`, `-` or `@`; ours
/// begins with a slash.
pub(super) fn quoted(field: &str) -> String {
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        assert_eq!(quoted("/plain name"), "/plain name");
        assert_eq!(quoted("/a,\"b\""), "\"/a,\"\"b\"\"\"");
    }
}
