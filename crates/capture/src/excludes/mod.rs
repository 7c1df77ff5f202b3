//! What the user wants left out: patterns with the full semantics of gitignore.
//!
//! Patterns are matched against paths on this machine (not in the snapshot): those of the
//! user are relative to `/`, so `/home/*/.cache` is anchored and `*.o` is not; those of a
//! `.gitignore` are relative to its directory. The last pattern that matches wins, the user's
//! win over `.gitignore` files, inner `.gitignore` files over outer ones. As in git, what lies
//! in a directory that is left out cannot be brought back.
//!
//! Paths are bytes. Patterns are text; a byte that is not UTF-8 in a file of patterns makes
//! that line lossy, so such names are best met by `?` or `*`, which match any byte.

mod explain;
mod layer;
mod rules;

pub(crate) use explain::decide;
pub use explain::{Decision, explain};
pub(crate) use layer::GITIGNORE;
pub use layer::{Layer, Verdict};
use rules::RuleSet;
pub use rules::{PatternError, Rule};
use std::path::Path;

/// The patterns of the user, in the order given.
#[derive(Debug, Default)]
pub struct Excludes {
    rules: RuleSet,
}

impl Excludes {
    /// Nothing is left out.
    pub fn none() -> Self {
        Self::default()
    }

    /// Collects patterns.
    pub fn builder() -> ExcludesBuilder {
        ExcludesBuilder::default()
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What the patterns say to `path`, absolute on this machine.
    pub fn decide(&self, path: &[u8], is_directory: bool) -> Option<(Verdict, &Rule)> {
        self.rules.decide(path.strip_prefix(b"/").unwrap_or(path), is_directory)
    }
}

/// Collects the patterns of `--exclude` and `--exclude-from`.
#[derive(Debug, Default)]
pub struct ExcludesBuilder {
    builder: rules::RuleSetBuilder,
}

impl ExcludesBuilder {
    /// One pattern, as of `--exclude`. Given on a command line it is never a comment.
    pub fn pattern(&mut self, pattern: &str) -> Result<&mut Self, PatternError> {
        let escaped =
            if pattern.starts_with('#') { format!("\\{pattern}") } else { pattern.into() };
        self.builder.add(None, 0, &escaped)?;
        Ok(self)
    }

    /// A file of patterns, one a line, as of `--exclude-from`.
    pub fn file(&mut self, file: &Path) -> Result<&mut Self, PatternError> {
        let text = std::fs::read(file)
            .map_err(|error| PatternError::Unreadable { file: file.into(), error })?;
        self.builder.add_lines(file, &text)?;
        Ok(self)
    }

    /// The patterns, ready for matching.
    pub fn build(self) -> Result<Excludes, PatternError> {
        Ok(Excludes { rules: self.builder.build()? })
    }
}
