//! Whether a reader takes what a backup made.

use capture::CaptureProblem;
use format::entry::Entry;

/// An error when no reader would take `entry`: it is left out, and its neighbours stay.
pub(super) fn storable(
    entry: &Entry,
    path: impl Fn() -> Vec<u8>,
) -> std::result::Result<(), CaptureProblem> {
    format::check::entry(entry).map_err(|error| {
        let what = match error {
            format::Error::TooLarge { what, .. } | format::Error::Invalid { what } => what,
            _ => "it",
        };
        CaptureProblem::cannot_store(path(), what)
    })
}
