//! `icecore map`.

use super::ls::{finished, kind_name, stop};
use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::{time, units};
use format::entry::{Entry, STATUS_CHANGED, STATUS_PARTIAL};
use pipeline::browse::{
    self,
    map::{self, StoredSize},
};
use pipeline::manifest::Snapshot;
use pipeline::pages::PageReader;
use serde::Serialize;
use std::ffi::OsString;

/// List every object of a snapshot as CSV, or as JSON lines with --json.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore map latest > snapshot.csv\n  icecore map latest:/srv --json | jq 'select(.size > 1000000)'\n  icecore map latest --failed"
)]
pub(crate) struct Map {
    /// Snapshot, and the path in it.
    #[arg(value_name = "SNAP[:PATH]")]
    snapshot: OsString,
    /// List instead the objects that the backup could not read, or not completely, with the reasons.
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    path: JsonPath,
    r#type: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    size: u64,
    mtime: String,
    chunks: u64,
    bytes: u64,
    status: &'static str,
}

#[derive(Default, Serialize)]
struct Count {
    entries: u64,
    size: u64,
    chunks: u64,
    bytes: u64,
}

impl Map {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open()?;
        let (snapshot, path) =
            context.snapshot_and_path(&repository, &self.snapshot, &self.filter)?;
        if self.failed {
            return failed(context, &snapshot, &path);
        }
        let pages = PageReader::new(&repository).map_err(|error| context.failure(error))?;
        context.out.print("path,type,mode,owner,size,mtime,chunks,bytes,status")?;
        let (mut count, mut unwritten) = (Count::default(), None);
        let result = browse::below(&pages, &snapshot, &path, |entry| {
            let extent = map::stored_size(&pages, &entry)?;
            count.entries += 1;
            count.size = count.size.saturating_add(entry.size);
            count.chunks += extent.chunks;
            count.bytes = count.bytes.saturating_add(extent.data_bytes);
            let row = shown(&entry, extent);
            let shown = context.out.item("object", &row, || csv(&entry, &row));
            shown.map_err(|failure| stop(&mut unwritten, failure))
        });
        finished(context, result, unwritten)?;
        context.out.summary(Code::Complete, &count)
    }
}

#[derive(Serialize)]
struct FailedCount {
    /// Objects that are listed.
    listed: usize,
    /// Objects that failed and that the snapshot does not name.
    not_listed: u64,
}

/// What the backup could not read: it is not in the tree, or not all of it.
fn failed(context: &Context, snapshot: &Snapshot, path: &[u8]) -> Result<Code> {
    if !path.is_empty() {
        return Err(Failure::usage("--failed lists what failed in the whole snapshot")
            .hint("Leave out the path behind the snapshot."));
    }
    let (failed, report) = (&snapshot.body.failed, &snapshot.body.report);
    if !failed.is_empty() {
        context.out.print("path,reason")?;
    }
    for object in failed {
        let row = || format!("{},{}", quoted(&object.path), quoted(&escape::text(&object.reason)));
        context.out.item("failed", object, row)?;
    }
    let all = report.objects_failed + report.objects_incomplete;
    let not_listed = all.saturating_sub(failed.len() as u64);
    if failed.is_empty() && not_listed == 0 {
        context.out.line("Nothing failed in this backup.")?;
    }
    if not_listed > 0 {
        let objects = units::many(not_listed, "object");
        context.out.note(&format!(
            "{objects} failed that the snapshot does not name: see what the backup printed"
        ));
    }
    let count = FailedCount { listed: failed.len(), not_listed };
    context.out.summary(Code::Complete, &count)
}

fn shown(entry: &Entry, extent: StoredSize) -> Shown {
    let attributes = &entry.attributes;
    Shown {
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
    }
}

/// How sure the content is.
fn status(bits: u8) -> &'static str {
    match bits {
        bits if bits & STATUS_PARTIAL != 0 => "partial",
        bits if bits & STATUS_CHANGED != 0 => "changed",
        _ => "",
    }
}

fn csv(entry: &Entry, row: &Shown) -> String {
    let path = quoted(&escape::path(&entry.path));
    let Shown { r#type, mode, uid, gid, size, mtime, chunks, bytes, status, .. } = row;
    format!("{path},{type},{mode},{uid}:{gid},{size},{mtime},{chunks},{bytes},{status}")
}

/// RFC 4180. What a spreadsheet would take for a formula begins with `=`, `+`, `-` or `@`; ours
/// begins with a slash.
fn quoted(field: &str) -> String {
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
