//! Patterns of one base directory, and where each was written.

use super::layer::Verdict;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One pattern and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The pattern as written.
    pub pattern: String,
    /// The file that has it; `None`: the command line.
    pub file: Option<Arc<Path>>,
    /// Its line, from 1; of the command line 0.
    pub line: usize,
}

/// A pattern or a file of patterns that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The pattern has no meaning.
    #[error("pattern '{}'{} cannot be used: {reason}", .rule.pattern, place(.rule))]
    Invalid {
        /// The pattern.
        rule: Rule,
        /// What is wrong with it.
        reason: String,
    },
    /// All are good, but not together (too many, too large).
    #[error("the patterns cannot be used together: {0}")]
    Together(String),
    /// The file cannot be read.
    #[error("cannot read the patterns in {}: {error}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

fn place(rule: &Rule) -> String {
    rule.file
        .as_ref()
        .map_or_else(String::new, |file| format!(" ({}:{})", file.display(), rule.line))
}

/// Patterns that hold below one directory.
#[derive(Debug, Default)]
pub(super) struct RuleSet {
    matcher: Option<Gitignore>,
    rules: Vec<Rule>,
}

impl RuleSet {
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What the last matching pattern says. `path` is relative to the base.
    pub(super) fn decide(&self, path: &[u8], is_directory: bool) -> Option<(Verdict, &Rule)> {
        let path = Path::new(OsStr::from_bytes(path));
        match self.matcher.as_ref()?.matched(path, is_directory) {
            Match::None => None,
            Match::Ignore(glob) => Some((Verdict::LeaveOut, self.rule_of(glob)?)),
            Match::Whitelist(glob) => Some((Verdict::Keep, self.rule_of(glob)?)),
        }
    }

    fn rule_of(&self, glob: &ignore::gitignore::Glob) -> Option<&Rule> {
        let number: usize = glob.from()?.to_str()?.parse().ok()?;
        self.rules.get(number)
    }
}

/// The crate `ignore` knows the file of a pattern, not its line. So it is told our number of
/// the rule in place of a file name.
#[derive(Debug)]
pub(super) struct RuleSetBuilder {
    builder: GitignoreBuilder,
    rules: Vec<Rule>,
}

impl Default for RuleSetBuilder {
    fn default() -> Self {
        // With root "." nothing is stripped from paths, which come relative to the base.
        // (A real root is stripped by bytes: "/home/u" would be cut off "/home/user".)
        RuleSetBuilder { builder: GitignoreBuilder::new("."), rules: Vec::new() }
    }
}

impl RuleSetBuilder {
    pub(super) fn add(
        &mut self,
        file: Option<Arc<Path>>,
        line: usize,
        pattern: &str,
    ) -> Result<(), PatternError> {
        let rule = Rule { pattern: pattern.into(), file, line };
        let number = PathBuf::from(self.rules.len().to_string());
        if let Err(error) = self.builder.add_line(Some(number), pattern) {
            return Err(PatternError::Invalid { rule, reason: error.to_string() });
        }
        self.rules.push(rule);
        Ok(())
    }

    pub(super) fn add_lines(&mut self, file: &Path, text: &[u8]) -> Result<(), PatternError> {
        let file: Arc<Path> = file.into();
        for (line, pattern) in lines(text) {
            self.add(Some(file.clone()), line, &pattern)?;
        }
        Ok(())
    }

    /// As git does: a line without meaning is passed over.
    pub(super) fn add_good_lines(&mut self, file: &Path, text: &[u8]) {
        let file: Arc<Path> = file.into();
        for (line, pattern) in lines(text) {
            let _ = self.add(Some(file.clone()), line, &pattern);
        }
    }

    pub(super) fn build(self) -> Result<RuleSet, PatternError> {
        if self.rules.is_empty() {
            return Ok(RuleSet::default());
        }
        let matcher =
            self.builder.build().map_err(|error| PatternError::Together(error.to_string()))?;
        Ok(RuleSet { matcher: Some(matcher), rules: self.rules })
    }
}

/// Lines that are patterns, numbered from 1.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, String)> + '_ {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(at, line)| (at + 1, line.strip_suffix(b"\r").unwrap_or(line)));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(at, line)| (at, String::from_utf8_lossy(line).into_owned()))
}
