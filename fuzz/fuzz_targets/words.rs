//! What people type to name snapshots and files: selectors and patterns of names.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use pipeline::browse::glob::Glob;
use pipeline::select::SnapshotSelector;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    selector: &'a [u8],
    pattern: &'a [u8],
    path: &'a [u8],
    ignore_case: bool,
}

libfuzzer_sys::fuzz_target!(|input: Input<'_>| {
    let _ = SnapshotSelector::parse_with_path(input.selector, &|_| None);
    let glob = Glob::new(input.pattern, input.ignore_case);
    let _ = glob.matches(input.path);
});
