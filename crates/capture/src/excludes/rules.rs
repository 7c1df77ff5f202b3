//! Patterns relative to one base directory, and where each comes from.

use super::git_glob;
use super::gitignore::PatternVerdict;
use super::hits::PatternHits;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of a file of patterns.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

/// A pattern and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The pattern as written.
    pub pattern: String,
    /// The file that contains it; `None` for the command line.
    pub file: Option<Arc<Path>>,
    /// Its line, from 1; 0 for the command line.
    pub line: usize,
}

/// A pattern or a file of patterns that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The pattern is invalid.
    #[error("invalid pattern '{}'{}: {reason}", .rule.pattern, place(.rule))]
    Invalid {
        /// The pattern.
        rule: Rule,
        /// What is wrong with it.
        reason: String,
    },
    /// The pattern is valid, and too large to be used.
    #[error("the pattern '{}'{} cannot be used: {reason}", .rule.pattern, place(.rule))]
    TooLarge {
        /// The pattern.
        rule: Rule,
        /// Why.
        reason: String,
    },
    /// The file has more than anybody writes, or no end.
    #[error("the file of patterns {} is larger than {} MiB; name a file with fewer patterns", .file.display(), FILE_BYTES_MAX >> 20)]
    FileTooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read the patterns in {}: {error}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
}

fn place(rule: &Rule) -> String {
    rule.file
        .as_ref()
        .map_or_else(String::new, |file| format!(" ({}:{})", file.display(), rule.line))
}

/// Patterns that apply below one directory.
#[derive(Debug, Default)]
pub(super) struct RuleSet {
    /// One, if all patterns fit into it; else several, each with those behind the one before.
    matchers: Vec<Gitignore>,
    rules: Vec<Rule>,
    hits: PatternHits,
}

impl RuleSet {
    /// The patterns from number `from` on that have not matched.
    pub(super) fn unused(&self, from: usize) -> impl Iterator<Item = &Rule> {
        let rules = self.rules.iter().enumerate().skip(from);
        rules.filter(|(at, _)| self.hits.is_unused(*at)).map(|(_, rule)| rule)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The verdict of the last matching pattern, and its number.
    pub(super) fn decide_numbered(
        &self,
        path: &[u8],
        is_directory: bool,
    ) -> Option<(PatternVerdict, usize)> {
        let (verdict, rule) = self.decide(path, is_directory)?;
        let number = self.rules.iter().position(|other| std::ptr::eq(other, rule))?;
        Some((verdict, number))
    }

    /// The verdict of the last matching pattern. `path` is relative to the base.
    pub(super) fn decide(
        &self,
        path: &[u8],
        is_directory: bool,
    ) -> Option<(PatternVerdict, &Rule)> {
        let path = Path::new(OsStr::from_bytes(path));
        self.matchers.iter().rev().find_map(|matcher| match matcher.matched(path, is_directory) {
            Match::None => None,
            Match::Ignore(glob) => Some((PatternVerdict::Exclude, self.rule_of(glob)?)),
            Match::Whitelist(glob) => Some((PatternVerdict::Include, self.rule_of(glob)?)),
        })
    }

    fn rule_of(&self, glob: &ignore::gitignore::Glob) -> Option<&Rule> {
        let number: usize = glob.from()?.to_str()?.parse().ok()?;
        self.hits.note(number);
        self.rules.get(number)
    }
}

/// The crate `ignore` reports the file of a pattern, but not its line. So it gets the number of the
/// rule instead of a file name.
#[derive(Debug)]
pub(super) struct RuleSetBuilder {
    builder: GitignoreBuilder,
    rules: Vec<Rule>,
    /// The same, as the crate gets them.
    lines: Vec<Line>,
    is_any_case: bool,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// The case of letters does not matter.
    any_case: bool,
}

impl Default for RuleSetBuilder {
    fn default() -> Self {
        // With root "." nothing is stripped from paths, which come relative to the base.
        // (A real root is stripped by bytes: "/home/u" would be cut off "/home/user".)
        let (rules, lines) = Default::default();
        let builder = GitignoreBuilder::new(".");
        RuleSetBuilder { builder, rules, lines, is_any_case: false }
    }
}

impl RuleSetBuilder {
    /// Patterns so far.
    pub(super) fn count(&self) -> usize {
        self.rules.len()
    }

    /// Whether the case of letters matters to the patterns that are added from now on.
    pub(super) fn ignore_case(&mut self, any_case: bool) {
        self.is_any_case = any_case;
    }

    pub(super) fn add(
        &mut self,
        file: Option<Arc<Path>>,
        line: usize,
        pattern: &str,
    ) -> Result<(), PatternError> {
        let rule = Rule { pattern: pattern.into(), file, line };
        let text = match git_glob::line_of(pattern) {
            Ok(text) => text,
            Err(reason) => return Err(PatternError::Invalid { rule, reason: reason.to_owned() }),
        };
        let line = Line { text, any_case: self.is_any_case };
        if let Err(error) = add_to(&mut self.builder, self.rules.len(), &line) {
            return Err(PatternError::Invalid { rule, reason: error.to_string() });
        }
        self.rules.push(rule);
        self.lines.push(line);
        Ok(())
    }

    pub(super) fn add_lines(&mut self, file: &Path, text: &[u8]) -> Result<(), PatternError> {
        let file: Arc<Path> = file.into();
        for (line, pattern) in lines(text) {
            self.add(Some(file.clone()), line, &pattern)?;
        }
        Ok(())
    }

    /// Adds lines and ignores invalid ones, as git does.
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
        let matchers = match self.builder.build() {
            Ok(matcher) => vec![matcher],
            Err(_) => self.in_parts()?,
        };
        let hits = PatternHits::of(self.rules.len());
        Ok(RuleSet { matchers, rules: self.rules, hits })
    }

    /// Several matchers, where all patterns are too large for one: halves of them, halves of those, and so on.
    fn in_parts(&self) -> Result<Vec<Gitignore>, PatternError> {
        let all = std::iter::once(0..self.rules.len());
        let (mut matchers, mut parts) = (Vec::new(), all.collect::<Vec<_>>());
        while let Some(part) = parts.pop() {
            match self.part(part.clone()) {
                Ok(matcher) => matchers.push(matcher),
                Err(_) if part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(error) => {
                    let rule = self.rules[part.start].clone();
                    return Err(PatternError::TooLarge { rule, reason: error.to_string() });
                }
            }
        }
        Ok(matchers)
    }

    fn part(&self, numbers: Range<usize>) -> Result<Gitignore, ignore::Error> {
        let mut builder = GitignoreBuilder::new(".");
        for number in numbers {
            add_to(&mut builder, number, &self.lines[number])?;
        }
        builder.build()
    }
}

fn add_to(builder: &mut GitignoreBuilder, number: usize, line: &Line) -> Result<(), ignore::Error> {
    // It only sets a flag: the error is there for what is not implemented any more.
    let _ = builder.case_insensitive(line.any_case);
    builder.add_line(Some(PathBuf::from(number.to_string())), &line.text).map(drop)
}

/// Rejects a pattern that can match nothing.
pub(super) fn refuse_empty(pattern: &str) -> Result<(), PatternError> {
    let rest = pattern.strip_prefix('!').unwrap_or(pattern);
    if !rest.trim_start_matches('/').trim().is_empty() {
        return Ok(());
    }
    let rule = Rule { pattern: pattern.into(), file: None, line: 0 };
    Err(PatternError::Invalid { rule, reason: "it matches nothing".to_owned() })
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
