//! `.gitignore` files met on the way down: a chain, innermost first.

use super::rules::{Rule, RuleSet, RuleSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Name of the files.
pub(crate) const GITIGNORE: &[u8] = b".gitignore";

/// What a pattern says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternVerdict {
    /// It is no part of the backup.
    Exclude,
    /// It is one, whatever patterns before say.
    Include,
}

/// The patterns of one `.gitignore` and of those above.
#[derive(Debug)]
pub struct GitignoreStack {
    rules: RuleSet,
    /// Path of its directory on this machine.
    base: Vec<u8>,
    outer: Option<Arc<GitignoreStack>>,
}

impl GitignoreStack {
    /// `text` is the content of the `.gitignore` in `base`. Lines without meaning are passed
    /// over, as git does.
    pub fn new(base: Vec<u8>, text: &[u8], outer: Option<Arc<GitignoreStack>>) -> Self {
        let mut builder = RuleSetBuilder::default();
        builder.add_good_lines(&Path::new(OsStr::from_bytes(&base)).join(".gitignore"), text);
        GitignoreStack { rules: builder.build().unwrap_or_default(), base, outer }
    }

    /// What these patterns and those of outer layers say to `path`.
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
