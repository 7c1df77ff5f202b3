//! Patterns as git reads them, written for the crates `ignore` and `globset`, which read some of them otherwise.
//!
//! | pattern | git | `globset` |
//! |---|---|---|
//! | `[!x]`, `[.-0]` | no slash | a slash, too |
//! | `{a,b}` | these five characters | `a` or `b` |
//! | `[[:digit:]]` | a digit | one of `[:digt` and a `]` |
//! | `[\]]` | a `]` | a `\` and a `]` |

use std::str::Chars;

/// In no path: with it a class has a first character that means nothing, and is never empty.
const NEVER: char = '\0';
/// Characters that need a place of their own in a class of `globset`, or are in none.
const SPECIAL: [char; 3] = ['/', ']', '-'];

const OPEN_CLASS: &str = "a '[' has no ']'; for a literal bracket write '\\['";

/// The line that means to the crate `ignore` what `pattern` means to git.
///
/// # Errors
/// Why it means nothing.
pub fn line_of(pattern: &str) -> Result<String, &'static str> {
    // A blank at the end counts only behind a backslash.
    let pattern = if pattern.ends_with("\\ ") { pattern } else { pattern.trim_end() };
    let (sign, pattern) = match pattern.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", pattern),
    };
    let mut line = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(char) = rest.next() {
        match char {
            '[' => Class::parse(&mut rest)?.write(&mut line),
            '{' | '}' => line.extend(['\\', char]),
            '\\' => line.extend([char].into_iter().chain(rest.next())),
            _ => line.push(char),
        }
    }
    // A slash anchors a line wherever it stands, also in a class.
    let start = match (is_anchored(pattern), is_anchored(&line)) {
        (true, false) => "/",
        (false, true) => "**/",
        _ => "",
    };
    Ok([sign, start, &line].concat())
}

fn is_anchored(line: &str) -> bool {
    line.strip_suffix('/').unwrap_or(line).contains('/')
}

/// A class of characters.
struct Class {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

impl Class {
    /// Reads what stands behind the `[`, up to its `]`.
    fn parse(rest: &mut Chars<'_>) -> Result<Self, &'static str> {
        let is_negated = rest.as_str().starts_with(['!', '^']);
        if is_negated {
            rest.next();
        }
        let mut class = Class { is_negated, ranges: Vec::new() };
        // The character with which a `-` makes a range.
        let mut start = None;
        let mut is_first = true;
        loop {
            let is_range = start.is_some() && !rest.as_str().starts_with("-]");
            let char = rest.next().ok_or(OPEN_CLASS)?;
            let named = name_of_class(rest).filter(|_| char == '[');
            start = match (char, start, named) {
                // One that comes first is one of the characters.
                (']', ..) if !is_first => return Ok(class),
                ('-', Some(from), _) if is_range => {
                    let char = rest.next().ok_or(OPEN_CLASS)?;
                    class.add(from, literal(char, rest)?)?
                }
                (_, _, Some(name)) => {
                    class.ranges.extend(ranges_of(name)?);
                    rest.nth(name.len() + 2); // two colons and the bracket
                    None
                }
                (char, ..) => {
                    let char = literal(char, rest)?;
                    class.ranges.push((char, char));
                    Some(char)
                }
            };
            is_first = false;
        }
    }

    /// Adds a range; nothing that a further `-` could go on from.
    fn add(&mut self, from: char, to: char) -> Result<Option<char>, &'static str> {
        if to < from {
            return Err("a range of characters ends before it begins");
        }
        self.ranges.push((from, to));
        Ok(None)
    }

    fn has(&self, char: char) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&char))
    }

    /// In a class of `globset` a `]` can only come first, and a `-` of its own last.
    fn write(&self, line: &mut String) {
        line.push('[');
        line.extend(self.is_negated.then_some('!'));
        line.push(if self.has(']') { ']' } else { NEVER });
        for (from, to) in SPECIAL.iter().fold(self.ranges.clone(), without) {
            line.push(from);
            line.extend((from != to).then_some(['-', to]).into_iter().flatten());
        }
        line.extend(self.is_negated.then_some('/'));
        line.extend(self.has('-').then_some('-'));
        line.push(']');
    }
}

/// This character, or the one behind it if it is a backslash.
fn literal(char: char, rest: &mut Chars<'_>) -> Result<char, &'static str> {
    if char == '\\' { rest.next().ok_or(OPEN_CLASS) } else { Ok(char) }
}

/// The ranges without one ASCII character.
fn without(ranges: Vec<(char, char)>, gone: &char) -> Vec<(char, char)> {
    let (before, after) = (char::from(*gone as u8 - 1), char::from(*gone as u8 + 1));
    let parts = ranges.into_iter().flat_map(|(from, to)| match (from..=to).contains(gone) {
        true => [(from, before), (after, to)],
        false => [(from, to), (after, before)], // the second is none
    });
    parts.filter(|(from, to)| from <= to).collect()
}

/// The name in `[:name:]`, if that is what begins here: behind the first bracket.
fn name_of_class<'a>(rest: &Chars<'a>) -> Option<&'a str> {
    let rest = rest.as_str().strip_prefix(':')?;
    rest.split_once(']')?.0.strip_suffix(':')
}

/// What git puts into a class with a name: only ASCII, and no vertical tab among the blanks.
fn ranges_of(name: &str) -> Result<&'static [(char, char)], &'static str> {
    Ok(match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "cntrl" => &[('\x01', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[(' ', ' '), ('\t', '\n'), ('\r', '\r')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return Err("there is no class of characters with this name"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_git_is_written_for_the_crate() {
        for (pattern, line) in [
            ("a[!x]", "**/a[!\0x/]"),
            ("!a[^x]/", "!**/a[!\0x/]/"),
            ("/a[!x]", "/a[!\0x/]"),
            ("a[/]b", "/a[\0]b"),
            ("[.-0]", "[\0..0]"),
            ("[]a-]", "[]a-]"),
            (r"[\]]\[", r"[]]\["),
            ("{a,b}", r"\{a,b\}"),
            ("[[:digit:]x]", "[\x000-9x]"),
            ("[[:]", "[\0[:]"),
            ("a \\ ", "a \\ "),
            ("a[ ]  ", "a[\0 ]"),
        ] {
            assert_eq!(line_of(pattern).as_deref(), Ok(line), "{pattern}");
        }
        for pattern in ["[", "a[b", r"[\]", "[z-a]", "[[:none:]]", "[[:digit:]", "[!"] {
            assert!(line_of(pattern).is_err(), "{pattern}");
        }
    }
}
