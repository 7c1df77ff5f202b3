//! What a command could not read of a snapshot: named, and it ends as after damage.

use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use ids::SnapshotId;
use pipeline::pages::LostPage;
use serde::Serialize;

/// A lost page as JSON shows it.
#[derive(Serialize)]
pub(crate) struct Lost<'a> {
    snapshot: String,
    #[serde(flatten)]
    path: JsonPath,
    reason: &'a str,
}

impl<'a> Lost<'a> {
    pub(crate) fn new(snapshot: SnapshotId, page: &'a LostPage) -> Self {
        let path = JsonPath::new(&page.first);
        Self { snapshot: snapshot.to_string(), path, reason: &page.text }
    }
}

/// A lost page as people read it.
pub(crate) fn text(snapshot: SnapshotId, page: &LostPage) -> String {
    let id = snapshot.to_string();
    format!("{}: {} (snapshot {id:.8})", escape::path(&page.first), page.text)
}

/// Names the pages that could not be read; the code to end with instead of `code`.
pub(crate) fn tell<'a>(
    context: &Context,
    lost: impl Iterator<Item = (SnapshotId, &'a LostPage)>,
    code: Code,
) -> Code {
    let mut count = 0;
    for (snapshot, page) in lost {
        context.out.beside("problem", &Lost::new(snapshot, page), &text(snapshot, page));
        count += 1;
    }
    if count == 0 {
        return code;
    }
    context.out.note(IS_INCOMPLETE);
    Code::Damage
}

/// What is said last.
pub(crate) const IS_INCOMPLETE: &str = "The result is not complete: pages of snapshots are damaged. What that affects, and what to do: icecore check --read-data";
