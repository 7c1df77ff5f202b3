//! What a backup takes when it takes only what some patterns name, and which directories lead there.
//!
//! Patterns are as for excludes, and one behind a `!` takes back. Of all that match a path, or a directory above it, the
//! last one counts: so what lies in a directory that is not taken can be taken nevertheless.

use super::PatternError;
use super::gitignore::PatternVerdict;
use super::rules::{RuleSet, RuleSetBuilder, refuse_empty};

/// Patterns of what is taken.
#[derive(Debug)]
pub struct Only {
    rules: RuleSet,
    leads: Vec<Lead>,
}

/// Which directories lead to what one pattern takes.
#[derive(Debug)]
struct Lead {
    /// Its number among the patterns.
    rule: usize,
    /// The directories on the way, one pattern for each of their depths.
    above: RuleSet,
    /// From so many names on every directory leads there.
    deep_from: Option<usize>,
}

impl Only {
    /// Takes what `patterns` say. `None` without any.
    ///
    /// # Errors
    /// When one is invalid or can match nothing.
    pub fn new(patterns: &[String]) -> Result<Option<Self>, PatternError> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let mut rules = RuleSetBuilder::default();
        let mut leads = Vec::new();
        for (rule, pattern) in patterns.iter().enumerate() {
            refuse_empty(pattern)?;
            let escaped =
                if pattern.starts_with('#') { format!("\\{pattern}") } else { pattern.clone() };
            rules.add(None, 0, &escaped)?;
            if !pattern.starts_with('!') {
                leads.push(Lead::new(rule, pattern)?);
            }
        }
        Ok(Some(Self { rules: rules.build()?, leads }))
    }

    /// Whether `path`, absolute, is taken.
    pub fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        self.verdict(path, is_directory).is_some_and(|(_, verdict)| verdict)
    }

    /// Whether something below the directory `path`, which is not taken itself, may be.
    pub fn leads_from(&self, path: &[u8]) -> bool {
        let last = self.verdict(path, true).map(|(rule, _)| rule);
        let mut later = self.leads.iter().filter(|lead| last.is_none_or(|last| lead.rule > last));
        later.any(|lead| lead.leads_from(path))
    }

    /// Whether a walk passes the object on.
    pub fn includes(&self, path: &[u8], is_directory: bool) -> bool {
        self.takes(path, is_directory) || is_directory && self.leads_from(path)
    }

    /// The last pattern that matches the path or a directory above it, and whether it takes.
    fn verdict(&self, path: &[u8], is_directory: bool) -> Option<(usize, bool)> {
        let matched = above(path).map(|part| {
            let is_directory = part.len() < inner(path).len() || is_directory;
            let (verdict, number) = self.rules.decide_numbered(part, is_directory)?;
            Some((number, verdict == PatternVerdict::Exclude))
        });
        matched.flatten().max()
    }
}

impl Lead {
    fn new(rule: usize, pattern: &str) -> Result<Self, PatternError> {
        let names: Vec<&str> = pattern.trim_matches('/').split('/').collect();
        let is_anchored = pattern.starts_with('/') || names.len() > 1;
        let deep_from = match is_anchored {
            true => names.iter().position(|name| *name == "**"),
            false => Some(0),
        };
        let depth = deep_from.unwrap_or(names.len() - 1);
        let mut above = RuleSetBuilder::default();
        for depth in 1..=depth {
            above.add(None, 0, &format!("/{}/", names[..depth].join("/")))?;
        }
        Ok(Self { rule, above: above.build()?, deep_from })
    }

    fn leads_from(&self, path: &[u8]) -> bool {
        let leads = |part: &[u8]| self.above.decide(part, true).is_some();
        let parts: Vec<_> = above(path).collect();
        match (self.deep_from, parts.last()) {
            (Some(0), _) | (_, None) => true,
            (Some(depth), _) if parts.len() >= depth => leads(parts[depth - 1]),
            (_, Some(whole)) => leads(whole),
        }
    }
}

fn inner(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path)
}

/// The path and all above it, the uppermost first.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let path = inner(path);
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let all = ends.chain((!path.is_empty()).then_some(path.len()));
    all.map(|end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(patterns: &[&str]) -> Only {
        let patterns: Vec<_> = patterns.iter().map(|one| (*one).to_owned()).collect();
        Only::new(&patterns).unwrap().unwrap()
    }

    /// `t`aken, `l`eads there, or neither.
    fn shown(only: &Only, path: &str) -> char {
        let name = path.strip_suffix('/').unwrap_or(path);
        let is_directory = path.ends_with('/');
        match only.takes(name.as_bytes(), is_directory) {
            true => 't',
            false if is_directory && only.leads_from(name.as_bytes()) => 'l',
            false => '-',
        }
    }

    #[test]
    fn only_what_matches_is_taken_and_only_the_way_there_is_walked() {
        let table: &[(&[&str], &str, char)] = &[
            (&["/var/log/**"], "/var/", 'l'),
            (&["/var/log/**"], "/var/log/", 'l'),
            (&["/var/log/**"], "/var/log/a", 't'),
            (&["/var/log/**"], "/var/log/a/b", 't'),
            (&["/var/log/**"], "/var/lib/", '-'),
            (&["/var/log/**"], "/var/log", '-'),
            (&["/var/log"], "/var/log/", 't'),
            (&["/var/log"], "/var/log/a/b", 't'),
            (&["/var/log"], "/var/logs", '-'),
            (&["/srv/*/tmp/**"], "/srv/a/", 'l'),
            (&["/srv/*/tmp/**"], "/srv/a/tmp/", 'l'),
            (&["/srv/*/tmp/**"], "/srv/a/bin/", '-'),
            (&["/srv/*/tmp/**"], "/srv/a/tmp/x", 't'),
            (&["/srv/*.log"], "/srv/a/", '-'),
            (&["/srv/*.log"], "/srv/a.log", 't'),
            (&["/srv/**/*.log"], "/srv/a/b/", 'l'),
            (&["/srv/**/*.log"], "/srv/a/b/c.log", 't'),
            (&["/srv/**/*.log"], "/etc/", '-'),
            (&["/**/*.log"], "/etc/", 'l'),
            (&["*.log"], "/etc/", 'l'),
            (&["*.log"], "/etc/x.log", 't'),
            (&["*.log"], "/etc/x", '-'),
            (&["/**"], "/etc/", 't'),
            (&["/**"], "/etc/x", 't'),
            (&["cache/"], "/a/cache/", 't'),
            (&["cache/"], "/a/cache/x", 't'),
            (&["cache/"], "/a/cache", '-'),
        ];
        for (patterns, path, expected) in table {
            assert_eq!(shown(&only(patterns), path), *expected, "{patterns:?} {path}");
        }
    }

    #[test]
    fn what_is_taken_back_can_be_taken_again_further_in() {
        let rules = only(&["/**", "!/var/log/**", "/var/log/keep/**"]);
        for (path, expected) in [
            ("/etc/", 't'),
            ("/var/log/", 't'),
            ("/var/log/x", '-'),
            ("/var/log/x/", '-'),
            ("/var/log/keep/", 'l'),
            ("/var/log/keep/x", 't'),
            ("/var/log/keep/x/y", 't'),
        ] {
            assert_eq!(shown(&rules, path), expected, "{path}");
        }
        let whole = only(&["/**", "!/var/log"]);
        assert_eq!([shown(&whole, "/var/log/"), shown(&whole, "/var/log/x")], ['-', '-']);
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in ["", "/", "!", "[a"] {
            assert!(Only::new(&[pattern.to_owned()]).is_err(), "{pattern}");
        }
        assert!(Only::new(&[]).unwrap().is_none());
    }
}
