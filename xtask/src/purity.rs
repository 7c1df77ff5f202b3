//! Pure crates do no I/O and read no clock: the caller does it for them.

use crate::{files, source};
use std::collections::BTreeSet;

/// What a pure crate may not name, with why.
const FORBIDDEN: [(&str, &str); 6] = [
    ("std::fs", "files are for `repository`, `capture` and `restore`"),
    ("std::net", "the network is for others"),
    ("thread::spawn", "threads are for the caller"),
    ("Instant::now", "times come in as parameters"),
    ("SystemTime", "times come in as parameters"),
    ("getrandom", "randomness comes in as bytes"),
];

/// Where the crates `pure` are not.
pub(crate) fn problems(pure: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in files::with_extension("rs") {
        let Some((name, inner)) =
            path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'))
        else {
            continue;
        };
        if pure.contains(name) && inner.starts_with("src/") && !source::is_test_file(&path) {
            let found = named(&text).into_iter();
            problems.extend(
                found.map(|(line, what, why)| format!("{path}:{line} names {what}: {why}")),
            );
        }
    }
    problems
}

fn named(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let code = source::without_tests(&source::code_only(text));
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let line = ungrouped(line);
        for (what, why) in FORBIDDEN {
            if line.contains(what) {
                found.push((number + 1, what, why));
            }
        }
    }
    found
}

/// `use std::{fs, io};` spelled as `std::fs std::io`.
fn ungrouped(line: &str) -> String {
    let Some((before, group)) = line.split_once("std::{") else {
        return line.to_owned();
    };
    let parts = group.split(',').map(|part| format!(" std::{}", part.trim()));
    parts.fold(before.to_owned(), |text, part| text + &part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pure_crate_may_not_name_is_found_in_code_only() {
        let text = "use std::{fmt, fs};\n// std::net\nfn f() { Instant::now(); }\n#[cfg(test)]\nmod t { use std::fs; }";
        let found: Vec<_> = named(text).into_iter().map(|(line, what, _)| (line, what)).collect();
        assert_eq!(found, [(1, "std::fs"), (3, "Instant::now")]);
    }
}
