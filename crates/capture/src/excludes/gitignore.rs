//! The `.gitignore` files of a directory and those above it: a stack, the innermost first.

use super::rules::{Rule, RuleSet, RuleSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The name of the files.
pub(crate) const GITIGNORE: &[u8] = b".gitignore";

/// The verdict of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternVerdict {
    /// The path is excluded.
    Exclude,
    /// The path is included, whatever earlier patterns say.
    Include,
}

/// The patterns of one `.gitignore` file and of those above it.
#[derive(Debug)]
pub struct GitignoreStack {
    rules: RuleSet,
    /// The path of its directory on this machine.
    base: Vec<u8>,
    outer: Option<Arc<GitignoreStack>>,
}

impl GitignoreStack {
    /// Parses `text`, the content of the `.gitignore` in `base`. Invalid lines are ignored, as git
    /// does.
    pub fn new(base: Vec<u8>, text: &[u8], outer: Option<Arc<GitignoreStack>>) -> Self {
        let mut builder = RuleSetBuilder::default();
        builder.add_good_lines(&Path::new(OsStr::from_bytes(&base)).join(".gitignore"), text);
        GitignoreStack { rules: builder.build().unwrap_or_default(), base, outer }
    }

    /// The verdict of these patterns, or of those of outer directories, on `path`.
    pub fn decide(&self, path: &[u8], is_directory: bool) -> Option<(PatternVerdict, &Rule)> {
        let mut layer = Some(self);
        while let Some(here) = layer {
            let relative = path.strip_prefix(here.base.as_slice()).unwrap_or(path);
            let relative = relative.strip_prefix(b"/").unwrap_or(relative);
            if let Some(found) = here.rules.decide(relative, is_directory) {
                return Some(found);
            }
            layer = here.outer.as_deref();
        }
        None
    }
}
