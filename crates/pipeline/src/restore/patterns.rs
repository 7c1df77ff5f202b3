//! The patterns of a restore, and which of them matched anything.

use crate::{Error, Result};
use capture::excludes::line_of;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Patterns as in a `.gitignore` at the root of the snapshot: the last one that matches decides.
pub(super) struct Patterns {
    all: Gitignore,
    each: Vec<Pattern>,
}

/// One pattern by itself: of several that match, `all` only says which is the last.
struct Pattern {
    line: String,
    alone: Gitignore,
    has_matched: AtomicBool,
}

impl Patterns {
    /// `None` for no patterns.
    ///
    /// # Errors
    /// [`Error::Usage`] for a line that is no pattern.
    pub(super) fn new(lines: &[String]) -> Result<Option<Self>> {
        if lines.is_empty() {
            return Ok(None);
        }
        let alone = |line: &String| {
            let alone = parse(std::slice::from_ref(line))?;
            Ok(Pattern { line: line.clone(), alone, has_matched: AtomicBool::new(false) })
        };
        let each = lines.iter().map(alone).collect::<Result<_>>()?;
        Ok(Some(Self { all: parse(lines)?, each }))
    }

    /// Whether `path` of the snapshot is chosen; notes the patterns that match it.
    pub(super) fn match_path(&self, path: &[u8], is_directory: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        for pattern in self.each.iter().filter(|pattern| !pattern.has_matched()) {
            let found = pattern.alone.matched_path_or_any_parents(path, is_directory);
            // Several threads ask: none takes back what another found.
            pattern.has_matched.fetch_or(!found.is_none(), Ordering::Relaxed);
        }
        self.all.matched_path_or_any_parents(path, is_directory).is_ignore()
    }

    /// Whether any of them matched anything.
    pub(super) fn has_matched(&self) -> bool {
        self.each.iter().any(Pattern::has_matched)
    }

    /// Those that matched nothing.
    pub(super) fn idle(&self) -> impl Iterator<Item = &str> {
        let idle = self.each.iter().filter(|pattern| !pattern.has_matched());
        idle.map(|pattern| &*pattern.line)
    }
}

impl Pattern {
    fn has_matched(&self) -> bool {
        self.has_matched.load(Ordering::Relaxed)
    }
}

fn parse(lines: &[String]) -> Result<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    // What git takes by the letter is a typing error here.
    builder.allow_unclosed_class(false);
    for line in lines {
        let wrong =
            |why: &dyn Display| Error::Usage(format!("the pattern '{line}' is wrong: {why}"));
        let written = line_of(line).map_err(|why| wrong(&why))?;
        builder.add_line(None, &written).map_err(|error| wrong(&error))?;
    }
    let built = builder.build();
    let built = built.map_err(|error| Error::Usage(format!("the patterns are wrong: {error}")))?;
    if built.is_empty() {
        let lines = lines.join("', '");
        return Err(Error::Usage(format!("the pattern '{lines}' is empty: it matches nothing")));
    }
    Ok(built)
}

/// What is said of a pattern of `flag` that matched nothing. Git, too, takes one with a slash from the root on.
pub(super) fn idle_text(flag: &str, line: &str) -> String {
    let path = line.strip_prefix('!').unwrap_or(line);
    let is_anchored = path.trim_end_matches('/').contains('/') && !path.starts_with("**/");
    let hint = match path.trim_start_matches('/') {
        rest if is_anchored => {
            let bang = if path.len() < line.len() { "!" } else { "" };
            format!(
                ". With a slash in it, a pattern begins at the root of the snapshot. To match it anywhere: {flag} '{bang}**/{rest}'"
            )
        }
        _ => ". To look for a name: icecore find NAME".to_owned(),
    };
    format!("{flag} '{line}' matched nothing that was to be restored{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(lines: &[&str]) -> Result<Option<Patterns>> {
        Patterns::new(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn each_pattern_is_noted_though_another_decides() {
        let two = patterns(&["*.log", "x.log", "folder/x.log"]).unwrap().unwrap();
        assert!(two.match_path(b"home/x.log", false) && two.has_matched());
        assert_eq!(two.idle().collect::<Vec<_>>(), ["folder/x.log"]);
        let back = patterns(&["*", "!keep"]).unwrap().unwrap();
        assert!(back.match_path(b"a", false) && !back.match_path(b"keep", false));
        assert_eq!(back.idle().count(), 0);
    }

    #[test]
    fn what_is_no_pattern_is_refused_and_named() {
        for line in ["", "[", "a[b", "#"] {
            let Err(Error::Usage(text)) = patterns(&["*", line]) else { panic!("{line}") };
            assert!(text.contains(&format!("'{line}'")), "{text}");
        }
        assert!(patterns(&[]).unwrap().is_none());
    }

    #[test]
    fn patterns_of_a_restore_mean_what_they_mean_in_git() {
        let choose =
            |line, path: &[u8]| patterns(&[line]).unwrap().unwrap().match_path(path, false);
        assert!(choose("core[!.]*", b"srv/corefile") && !choose("core[!.]*", b"srv/core/main.c"));
        assert!(choose("a{b", b"x/a{b") && !choose("{a,b}", b"a"));
        assert!(choose("log[[:digit:]]", b"log7") && !choose("log[[:digit:]]", b"logd"));
    }

    #[test]
    fn advice_is_a_pattern_that_can_match() {
        let said = |line| idle_text("--exclude", line);
        assert!(said("b/k").ends_with("--exclude '**/b/k'"), "{}", said("b/k"));
        assert!(said("!/b/k").ends_with("--exclude '!**/b/k'"), "{}", said("!/b/k"));
        for line in ["k", "k/", "**/b/k"] {
            assert!(said(line).ends_with("icecore find NAME"), "{}", said(line));
        }
    }
}
