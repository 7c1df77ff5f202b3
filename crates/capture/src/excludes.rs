//! Exclude patterns, with the full semantics of gitignore.
//!
//! Patterns are matched against paths on this machine (not in the snapshot): those of the
//! user are relative to `/`, so `/home/*/.cache` is anchored and `*.o` is not (a pattern of the
//! command line with a slash in it can be anchored elsewhere, see [`anchored`]); those of a
//! `.gitignore` are relative to its directory. The last pattern that matches wins, the user's
//! win over `.gitignore` files, inner `.gitignore` files over outer ones. As in git, nothing in an
//! excluded directory can be included again.
//!
//! Paths are bytes. Patterns are text; a byte that is not UTF-8 in a file of patterns makes
//! that line lossy, so such names are best matched by `?` or `*`, which match any byte.

mod explain;
mod git_glob;
mod gitignore;
mod hits;
mod nodump;
mod only;
mod rules;
mod tag;

pub(crate) use explain::decide;
pub use explain::{ExcludeDecision, explain};
pub use git_glob::line_of;
pub(crate) use gitignore::GITIGNORE;
pub use gitignore::{GitignoreStack, PatternVerdict};
pub use nodump::nodump_above;
pub use only::Only;
use rules::{FILE_BYTES_MAX, RuleSet};
pub use rules::{PatternError, Rule};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
pub use tag::{ExcludeTag, InvalidTag};

/// The patterns of the user, in the order given.
#[derive(Debug, Default)]
pub struct Excludes {
    rules: RuleSet,
    /// Those of somebody who may only exclude: what they include, they take back from themselves.
    foreign: RuleSet,
    /// The number of the first pattern from the command line.
    typed_from: usize,
    /// A directory that is excluded wherever it is met, unless a pattern includes it there.
    exact: Option<Exact>,
}

/// A directory by the bytes of its path and, if it is there, by its device and inode: a bind mount has it elsewhere.
#[derive(Debug)]
struct Exact {
    path: Vec<u8>,
    identity: Option<(u64, u64)>,
    rule: Rule,
}

impl Excludes {
    /// No patterns.
    pub fn none() -> Self {
        Self::default()
    }

    /// Starts to collect patterns.
    pub fn builder() -> ExcludesBuilder {
        ExcludesBuilder::default()
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.foreign.is_empty() && self.exact.is_none()
    }

    /// Patterns of the command line that have not matched so far.
    pub fn unused(&self) -> impl Iterator<Item = &Rule> {
        self.rules.unused(self.typed_from).chain(self.foreign.unused(0))
    }

    /// The verdict of the patterns on `path`, absolute on this machine.
    pub fn decide(&self, path: &[u8], is_directory: bool) -> Option<(PatternVerdict, &Rule)> {
        let inner = path.strip_prefix(b"/").unwrap_or(path);
        let foreign = self.foreign.decide(inner, is_directory);
        if let Some(excluded @ (PatternVerdict::Exclude, _)) = foreign {
            return Some(excluded);
        }
        let exact = self.exact.as_ref().filter(|exact| is_directory && exact.path == path);
        let own = self.rules.decide(inner, is_directory);
        own.or(exact.map(|exact| (PatternVerdict::Exclude, &exact.rule)))
    }

    /// Whether the directory that is excluded wherever it is met has this device and inode.
    pub(crate) fn has_identity(&self, identity: (u64, u64)) -> bool {
        self.exact.as_ref().is_some_and(|exact| exact.identity == Some(identity))
    }

    /// The verdict on the directory at `path` that has this device and inode, if it is the one that is excluded wherever
    /// it is met.
    pub(crate) fn decide_found(
        &self,
        path: &[u8],
        identity: (u64, u64),
    ) -> Option<(PatternVerdict, &Rule)> {
        let exact = self.exact.as_ref().filter(|_| self.has_identity(identity))?;
        self.decide(path, true).or(Some((PatternVerdict::Exclude, &exact.rule)))
    }
}

/// Collects the patterns of `--exclude` and `--exclude-from`.
#[derive(Debug, Default)]
pub struct ExcludesBuilder {
    builder: rules::RuleSetBuilder,
    foreign: rules::RuleSetBuilder,
    typed_from: usize,
    exact: Option<Exact>,
}

impl ExcludesBuilder {
    /// Patterns added from now on come from the command line, and should match something
    /// ([`Excludes::unused`]).
    pub fn mark_command_line(&mut self) {
        self.typed_from = self.builder.count();
    }

    /// Excludes the directory `path`, absolute and by its exact bytes, also where else it is mounted; patterns win over
    /// it.
    pub fn directory(&mut self, path: &[u8]) -> &mut Self {
        let pattern = format!("{}/", String::from_utf8_lossy(path));
        let found = std::fs::metadata(Path::new(OsStr::from_bytes(path))).ok();
        let identity = found.map(|found| (found.dev(), found.ino()));
        let rule = Rule { pattern, file: None, line: 0 };
        self.exact = Some(Exact { path: path.to_vec(), identity, rule });
        self
    }

    /// Adds one pattern, as for `--exclude`. It is never a comment.
    ///
    /// # Errors
    /// When it is invalid or can match nothing.
    pub fn pattern(&mut self, pattern: &str) -> Result<&mut Self, PatternError> {
        self.one(pattern, false)
    }

    /// Adds one pattern that ignores case.
    ///
    /// # Errors
    /// When it is invalid or can match nothing.
    pub fn pattern_ignore_case(&mut self, pattern: &str) -> Result<&mut Self, PatternError> {
        self.one(pattern, true)
    }

    /// Adds one pattern of somebody who may only exclude: one behind a `!` takes back what others added so exclude,
    /// and nothing that any other pattern excludes.
    ///
    /// # Errors
    /// When it is invalid or can match nothing.
    pub fn foreign(&mut self, pattern: &str) -> Result<&mut Self, PatternError> {
        self.foreign.add(None, 0, &escaped(pattern)?)?;
        Ok(self)
    }

    fn one(&mut self, pattern: &str, any_case: bool) -> Result<&mut Self, PatternError> {
        let escaped = escaped(pattern)?;
        self.builder.ignore_case(any_case);
        self.builder.add(None, 0, &escaped)?;
        Ok(self)
    }

    /// Adds a file of patterns, one per line, as for `--exclude-from`.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is invalid.
    pub fn file(&mut self, file: &Path) -> Result<&mut Self, PatternError> {
        let text = whole(file)?;
        self.builder.ignore_case(false);
        self.builder.add_lines(file, &text)?;
        Ok(self)
    }

    /// Finishes the patterns.
    ///
    /// # Errors
    /// When one is too large to be used.
    pub fn build(self) -> Result<Excludes, PatternError> {
        let Self { builder, foreign, typed_from, exact } = self;
        Ok(Excludes { rules: builder.build()?, foreign: foreign.build()?, typed_from, exact })
    }
}

/// All of a file, or of a pipe, that somebody named.
fn whole(file: &Path) -> Result<Vec<u8>, PatternError> {
    let mut text = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| PatternError::Unreadable { file: file.into(), error })?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(PatternError::FileTooLarge { file: file.into() });
    }
    Ok(text)
}

/// A pattern that is never a comment.
fn escaped(pattern: &str) -> Result<String, PatternError> {
    rules::refuse_empty(pattern)?;
    Ok(if pattern.starts_with('#') { format!("\\{pattern}") } else { pattern.into() })
}

/// Anchors a `pattern` typed in the directory `here` (absolute): one with a slash in its middle, or
/// that begins with `./` or `../`, is relative to it. One without a slash, or only one at its end,
/// matches names anywhere, and one that begins with `/` or `**/` stays as it is.
pub fn anchored(pattern: &str, here: &Path) -> String {
    let (sign, rest) = match pattern.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", pattern),
    };
    let is_path =
        rest.trim_end_matches('/').contains('/') || matches!(rest, "." | ".." | "./" | "../");
    if !is_path || rest.starts_with('/') || rest.starts_with("**/") {
        return pattern.to_owned();
    }
    let (mut base, mut rest) = (here, rest);
    loop {
        if let Some(below) = rest.strip_prefix("./") {
            rest = below;
        } else if let Some(below) = rest.strip_prefix("../") {
            (base, rest) = (base.parent().unwrap_or(base), below);
        } else {
            break;
        }
    }
    let base = literal(&base.to_string_lossy());
    format!("{sign}{}/{rest}", base.trim_end_matches('/'))
}

/// Escapes `path` to a pattern that matches only it.
pub fn literal(path: &str) -> String {
    let is_special = |char: char| r"\*?[]{}! ".contains(char);
    path.chars()
        .flat_map(|char| is_special(char).then_some('\\').into_iter().chain([char]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_a_slash_is_a_path_from_where_it_was_typed() {
        let table = [
            ("*.o", "*.o"),
            ("build/", "build/"),
            ("/a/b", "/a/b"),
            ("**/x/y", "**/x/y"),
            ("src/target", "/home/me [x]/src/target"),
            ("./target", "/home/me [x]/target"),
            ("../other/*.o", "/home/other/*.o"),
            ("!src/keep", "!/home/me [x]/src/keep"),
            ("a/b/", "/home/me [x]/a/b/"),
        ];
        for (typed, meant) in table {
            let meant = meant.replace("me [x]", r"me\ \[x\]");
            assert_eq!(anchored(typed, Path::new("/home/me [x]")), meant, "{typed}");
        }
        assert_eq!(anchored("../../../x", Path::new("/a")), "/x");
    }

    /// Seen: 20,000 patterns with two stars were "error building NFA".
    #[test]
    fn as_many_patterns_as_somebody_has_are_used_and_the_last_one_wins() {
        let mut builder = Excludes::builder();
        let names: Vec<_> = (0..20_000).map(|number| format!("*foo{number}.*")).collect();
        for name in &names {
            builder.pattern(name).unwrap();
        }
        builder.pattern("!*foo7.keep").unwrap();
        builder.pattern_ignore_case("*BAR*").unwrap();
        builder.pattern("*foo7.keep.not").unwrap();
        let excludes = builder.build().unwrap();
        let is_excluded = |path: &str| excludes.rules.decide(path.as_bytes(), false);
        let verdict = |path: &str| is_excluded(path).map(|(verdict, _)| verdict);
        use gitignore::PatternVerdict::{Exclude, Include};
        for (path, wanted) in [
            ("a/xfoo0.txt", Some(Exclude)),
            ("xfoo19999.c", Some(Exclude)),
            ("xfoo20000.c", None),
            ("xfoo7.keep", Some(Include)),
            ("xfoo7.keep.not", Some(Exclude)),
            ("a bar", Some(Exclude)),
            ("XFOO7.C", None),
        ] {
            assert_eq!(verdict(path), wanted, "{path}");
        }
        assert_eq!(is_excluded("xfoo19999.c").unwrap().1.pattern, "*foo19999.*");
    }

    #[test]
    fn patterns_without_a_meaning_are_refused() {
        for pattern in ["", " ", "!", "/", "!/", "[", "a[b", "x/[a-", "[z-a]", "[[:x:]]"] {
            assert!(Excludes::builder().pattern(pattern).is_err(), "{pattern:?}");
        }
        for pattern in [r"\[", "a[b]", "[]]", "[!]a]", "#", r"a\ ", "*", "[]-]", "{a", r"[\]]"] {
            assert!(Excludes::builder().pattern(pattern).is_ok(), "{pattern:?}");
        }
    }

    #[test]
    fn patterns_that_decided_nothing_are_known() {
        let mut builder = Excludes::builder();
        builder.pattern("of-the-config-file").unwrap().mark_command_line();
        builder.pattern("*.o").unwrap().pattern("typo").unwrap();
        builder.pattern_ignore_case("*.JPG").unwrap();
        let excludes = builder.build().unwrap();
        let unused = || excludes.unused().map(|rule| rule.pattern.clone()).collect::<Vec<_>>();
        assert_eq!(unused(), ["*.o", "typo", "*.JPG"]);
        excludes.decide(b"/a/x.o", false);
        assert!(excludes.decide(b"/a/x.jpg", false).is_some());
        assert!(excludes.decide(b"/a/x.O", false).is_none());
        assert_eq!(unused(), ["typo"]);
    }

    #[test]
    fn who_may_only_exclude_takes_back_nothing_of_others() {
        let mut builder = Excludes::builder();
        builder.directory(b"/srv/backup").pattern("secret").unwrap().pattern("!keep").unwrap();
        for pattern in ["*.o", "!good.o", "!secret", "!/srv/backup/", "keep"] {
            builder.foreign(pattern).unwrap();
        }
        let excludes = builder.build().unwrap();
        let is_out = |path: &[u8]| {
            let verdict = excludes.decide(path, true).map(|(verdict, _)| verdict);
            verdict == Some(PatternVerdict::Exclude)
        };
        for (path, expected) in [
            ("/a/secret", true),
            ("/srv/backup", true),
            ("/a/x.o", true),
            ("/a/good.o", false),
            ("/a/keep", true),
            ("/a/b", false),
        ] {
            assert_eq!(is_out(path.as_bytes()), expected, "{path}");
        }
        assert!(Excludes::builder().foreign("!").is_err());
    }

    #[test]
    fn a_directory_is_left_out_by_its_bytes_and_no_other_that_looks_like_it() {
        let mut builder = Excludes::builder();
        builder.directory(b"/srv/b\xffck*up");
        let excludes = builder.build().unwrap();
        let is_out = |path: &[u8], is_directory| excludes.decide(path, is_directory).is_some();
        assert!(!excludes.is_empty() && is_out(b"/srv/b\xffck*up", true));
        assert!(!is_out(b"/srv/b\xfeck*up", true) && !is_out(b"/srv/b\xffckup", true));
        assert!(!is_out(b"/srv/b\xffck*up", false) && !is_out(b"/srv", true));
        let mut builder = Excludes::builder();
        builder.directory(b"/srv/backup").pattern("!/srv/backup/").unwrap();
        let kept = builder.build().unwrap();
        assert_eq!(
            kept.decide(b"/srv/backup", true).map(|(verdict, _)| verdict),
            Some(PatternVerdict::Include)
        );
    }
}
