//! Exclude rules: any pattern against any path; a rule alone says what it says as a file too.

use capture::excludes::{Excludes, GitignoreStack, PatternVerdict};
use arbitrary::Arbitrary;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    pattern: &'a str,
    text: &'a [u8],
    path: &'a [u8],
    is_directory: bool,
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some(input) = crate::arbitrary::<Input<'_>>(bytes) else { return };
    let path = [b"/", input.path].concat();
    let layer = GitignoreStack::new(b"/".to_vec(), input.text, None);
    let _ = layer.decide(&path, input.is_directory);
    let mut builder = Excludes::builder();
    if builder.pattern(input.pattern).is_err() {
        return;
    }
    let Ok(rules) = builder.build() else { return };
    let said = rules.decide(&path, input.is_directory).map(|(verdict, _)| verdict);
    // Without a `!` nothing is ever brought back.
    assert!(said != Some(PatternVerdict::Include) || input.pattern.trim_start().starts_with('!'));
}
