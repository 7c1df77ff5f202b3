//! What is wrong in a file, where, and what to write instead.

use crate::near::near;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mistake {
    /// The line, from 1 on.
    pub line: usize,
    /// The character in it, from 1 on.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "line {}, column {}: {}; {}",
            self.line, self.column, self.message, self.fix
        )
    }
}

impl Mistake {
    /// A mistake at a byte of the text.
    pub(super) fn at(text: &str, byte: usize, message: String, fix: String) -> Self {
        let byte = (0..=byte.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let before = &text[..byte.unwrap_or(0)];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Self { line, column, message, fix }
    }

    /// What a parser says, within the object that `what` names, which lies at `whole`.
    pub(super) fn of(text: &str, error: &toml::de::Error, what: &str, whole: Range<usize>) -> Self {
        let byte = error.span().map_or(whole.start, |span| span.start);
        let (message, fix) = said(error.message());
        Self::at(text, byte, format!("{what}{message}"), fix)
    }
}

/// Message and fix, from one text.
fn said(error: &str) -> (String, String) {
    let list = |rest: &str| -> Vec<String> {
        let parts = rest.split('`').enumerate().filter(|(at, _)| at % 2 == 1);
        parts.map(|(_, word)| word.to_owned()).collect()
    };
    if let Some(rest) = error.strip_prefix("unknown field ") {
        return unknown("key", &list(rest));
    }
    if let Some(rest) = error.strip_prefix("unknown variant ") {
        return unknown("word", &list(rest));
    }
    if let Some(rest) = error.strip_prefix("missing field ") {
        let key = rest.trim_matches('`');
        return (format!("the key '{key}' is missing"), format!("add {key} = …"));
    }
    if error == "duplicate key" {
        return (error.to_owned(), "remove one of the two".to_owned());
    }
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    if let Some(rest) = kinds.iter().find_map(|prefix| error.strip_prefix(prefix)) {
        let (found, expected) = rest.split_once(", expected ").unwrap_or((rest, "something else"));
        return (
            format!("{} is not possible here", plain(found)),
            format!("write {}", wanted(expected)),
        );
    }
    let parts = error.split_once("; ").or_else(|| error.split_once('\n'));
    let (message, fix) = parts.unwrap_or((error, "correct it as https://toml.io describes"));
    (message.replace('\n', ", "), fix.replace('\n', ", "))
}

fn unknown(what: &str, words: &[String]) -> (String, String) {
    let (name, known) =
        words.split_first().map_or(("", words), |(name, known)| (name.as_str(), known));
    let message = format!("there is no {what} '{name}' here");
    let fix = match near(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean '{near}'?"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    };
    (message, fix)
}

/// How people call what a parser found.
fn plain(found: &str) -> String {
    let words = [
        ("string", "the text"),
        ("integer", "the number"),
        ("boolean", "the word"),
        ("floating point", "the number"),
    ];
    let word = words.iter().find_map(|(from, to)| Some((found.strip_prefix(from)?, to)));
    match (word, found) {
        (Some((rest, word)), _) => format!("{word}{}", rest.replace('`', "")),
        (_, "map") => "a table".to_owned(),
        (_, "sequence") => "a list".to_owned(),
        _ => found.to_owned(),
    }
}

/// How people call what a parser wanted.
fn wanted(expected: &str) -> String {
    match expected {
        "u32" => format!("a number from 0 to {}", u32::MAX),
        "i32" | "i64" | "usize" | "u64" => "a whole number".to_owned(),
        "a string" | "string" => "a text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        "a map" => "a table".to_owned(),
        _ if expected.starts_with("struct ") => "a table".to_owned(),
        _ => expected.to_owned(),
    }
}
