//! The limits of the format, checked before an entry is stored.

use capture::CaptureProblem;
use format::entry::Entry;

/// A problem if `entry` exceeds the limits of the format: it is left out, and the other entries
/// stay.
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
