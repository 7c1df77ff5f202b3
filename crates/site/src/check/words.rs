//! Words in objects: labels, paths, patterns and options.

use super::Checker;
use crate::{ClientOption, OptionValue};
use std::collections::BTreeMap;

/// The most labels, options, classes or sources of an object.
const TABLE_MAX: usize = 100;

impl Checker<'_> {
    pub(super) fn labels(&mut self, labels: &BTreeMap<String, String>) {
        self.table("labels", labels.len());
        for (key, value) in labels.iter().take(TABLE_MAX) {
            self.name(&["labels", key], key);
            self.name(&["labels", key], value);
        }
    }

    pub(super) fn options(&mut self, options: &BTreeMap<String, ClientOption>) {
        self.table("options", options.len());
        for (key, option) in options.iter().take(TABLE_MAX) {
            self.name(&["options", key], key);
            let empty = |text: &String| text.is_empty() || text.contains('\0');
            let is_empty = match &option.value {
                OptionValue::Text(text) => empty(text),
                OptionValue::List(list) => list.iter().any(empty),
                OptionValue::Flag(_) | OptionValue::Number(_) => false,
            };
            if is_empty {
                self.note(
                    &["options", key, "value"],
                    "the value is empty",
                    "write one, or remove the option",
                );
            }
        }
    }

    pub(super) fn table(&mut self, key: &str, count: usize) {
        if count > TABLE_MAX {
            let message = format!("{key} has {count} entries, more than {TABLE_MAX}");
            self.note(&[key], message, "divide it");
        }
    }

    /// Paths to back up. A relative one would depend on where an agent was started.
    pub(super) fn paths(&mut self, key: &[&str], paths: &[String]) {
        for (at, path) in paths.iter().enumerate() {
            let at = at.to_string();
            if let Some(message) = wrong_path(path) {
                let fix =
                    "write the whole path: \"/srv/data\", or \"~/data\" for the home directory";
                self.note(&[key, &[&at]].concat(), message, fix);
            }
        }
    }

    /// Patterns of what is left out, as in `.gitignore`.
    pub(super) fn patterns(&mut self, key: &[&str], patterns: &[String]) {
        for (at, pattern) in patterns.iter().enumerate() {
            let at = at.to_string();
            if let Some((message, fix)) = wrong_pattern(pattern) {
                self.note(&[key, &[&at]].concat(), format!("'{pattern}' {message}"), fix);
            }
        }
    }

    /// Patterns of whole paths: they begin with a slash.
    pub(super) fn path_patterns(&mut self, key: &[&str], patterns: &[String]) {
        self.patterns(key, patterns);
        for (at, pattern) in patterns.iter().enumerate() {
            let at = at.to_string();
            if !pattern.starts_with('/') && wrong_pattern(pattern).is_none() {
                let message = format!("'{pattern}' is no pattern of whole paths");
                self.note(
                    &[key, &[&at]].concat(),
                    message,
                    format!("write \"/**/{pattern}\" or the whole path"),
                );
            }
        }
    }
}

fn wrong_path(path: &str) -> Option<String> {
    let is_whole = path.starts_with('/') || path.starts_with("~/") || path == "~";
    if !is_whole {
        return Some(format!("'{path}' is no whole path"));
    }
    if path.contains('\0') {
        return Some("a path cannot have a NUL character".to_owned());
    }
    let has_parent = path.split('/').any(|part| part == "..");
    has_parent.then(|| format!("'{path}' leads up with '..'"))
}

/// What is wrong with a pattern, and the fix.
fn wrong_pattern(pattern: &str) -> Option<(&'static str, &'static str)> {
    if pattern.trim().is_empty() || pattern.contains(['\0', '\n', '\r']) {
        return Some(("is no pattern", "write one as in .gitignore: \"*.tmp\", \"/var/cache/\""));
    }
    if pattern.starts_with('#') {
        return Some(("would be a comment", "write \"\\\\#…\" for a name that begins with '#'"));
    }
    let mut class_is_open = false;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.next().is_none() => {
                return Some(("ends with a backslash", "write \"\\\\\\\\\" for a backslash"));
            }
            '[' if !class_is_open => {
                class_is_open = true;
                // A bracket that closes right away stands for itself.
                let mut rest = letters.clone();
                let is_negated = matches!(rest.clone().next(), Some('!' | '^'));
                if is_negated {
                    rest.next();
                }
                if rest.next() == Some(']') {
                    letters = rest;
                } else if is_negated {
                    letters.next();
                }
            }
            ']' => class_is_open = false,
            _ => {}
        }
    }
    let fix = "write ']' at the end of the class, or \"\\\\[\" for a bracket";
    class_is_open.then_some(("has a '[' without ']'", fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_mean_nothing_are_found() {
        for pattern in ["*.tmp", "/var/cache/", "!keep", "[a-z]*", "[]]x", "[!]]x", "a\\[b", "**/x"]
        {
            assert_eq!(wrong_pattern(pattern), None, "{pattern}");
        }
        for pattern in ["", " ", "# x", "[a", "[]", "[!]", "x\\", "a\nb", "a\0"] {
            assert!(wrong_pattern(pattern).is_some(), "{pattern}");
        }
    }

    #[test]
    fn paths_are_whole() {
        for path in ["/", "/etc", "~", "~/work", "/a..b"] {
            assert_eq!(wrong_path(path), None, "{path}");
        }
        for path in ["", "etc", "./etc", "~root/x", "/etc/../x", "/a\0"] {
            assert!(wrong_path(path).is_some(), "{path}");
        }
    }
}
