//! What people type to name snapshots and files: selectors and patterns of names.

use arbitrary::Arbitrary;
use pipeline::browse::glob::Glob;
use pipeline::select::SnapshotSelector;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    selector: &'a [u8],
    pattern: &'a [u8],
    path: &'a [u8],
    ignore_case: bool,
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some(input) = crate::arbitrary::<Input<'_>>(bytes) else { return };
    let _ = SnapshotSelector::parse_with_path(input.selector, &|_| None);
    let glob = Glob::new(input.pattern, input.ignore_case);
    let _ = glob.matches(input.path);
}
