//! A very small reader of Rust source: enough to tell code from comments, strings and tests, and
//! to see where a function ends.

/// A function and how many lines it has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// Whether a whole file is of tests, by its name.
pub(crate) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "tests.rs" | "testing.rs") || path.contains("/tests/")
}

/// `text` with comments, strings and characters blanked out; lines stay where they are.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let length = not_code(bytes, at);
        if length == 0 {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let end = (at + length).min(bytes.len());
        out.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Length of the comment, string or character that begins at `at`; 0 for code.
fn not_code(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => until(rest, b"\n"),
        b'/' if rest.starts_with(b"/*") => block_comment(rest),
        b'"' => string(rest),
        b'r' if !is_word(at.checked_sub(1).map_or(b' ', |before| bytes[before])) => {
            raw_string(rest)
        }
        b'r' if at > 0 && matches!(bytes[at - 1], b'b' | b'c') => raw_string(rest),
        b'\'' => character(rest),
        _ => 0,
    }
}

/// `text` where `other`, of the same length, has a space, and spaces where it has not. Lines stay where they are.
pub(crate) fn difference(text: &str, other: &str) -> String {
    let pairs = text.bytes().zip(other.bytes());
    let bytes = pairs.map(|(byte, other)| if other == b' ' || byte == b'\n' { byte } else { b' ' });
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

/// Prose without its code: what stands between backticks, and in fenced blocks, is blank.
pub(crate) fn without_spans(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        let inner = line.trim_start_matches([' ', '/', '!']);
        let is_fence = inner.starts_with("```");
        fenced ^= is_fence;
        let is_blank = |span: usize| fenced || is_fence || span % 2 == 1;
        for (span, part) in line.split('`').enumerate() {
            if span > 0 {
                out.push(' ');
            }
            if is_blank(span) {
                out.extend(part.chars().flat_map(blank));
            } else {
                out.push_str(part);
            }
        }
    }
    out
}

/// As many spaces as `letter` has bytes; an end of line stays.
fn blank(letter: char) -> impl Iterator<Item = char> {
    let filler = if letter == '\n' { '\n' } else { ' ' };
    std::iter::repeat_n(filler, letter.len_utf8())
}

/// The words of an identifier in lower case: `first_run`, `FirstRun` and `FIRST_RUN` have the same.
pub(crate) fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The rows of all tables of a document under exactly this heading.
pub(crate) fn tables<'a>(text: &'a str, heading: &[&str]) -> Vec<Vec<&'a str>> {
    let cells = |line: &'a str| -> Vec<&'a str> {
        line.trim().trim_matches('|').split('|').map(str::trim).collect()
    };
    let mut rows = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| cells(line) == heading) {
        // The line of dashes, then the rows.
        lines.next();
        let table = lines.by_ref().take_while(|line| line.trim_start().starts_with('|'));
        rows.extend(table.map(cells).filter(|row| row.len() == heading.len()));
    }
    rows
}

fn until(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len()).position(|window| window == end).unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let start = 2 + hashes;
    start + until(&rest[start..], &end) + end.len()
}

/// A character, or 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => 3 + until(&rest[3.min(rest.len())..], b"'") + 1,
        Some(first) => {
            let width = [1, 1, 2, 3, 4][(first.leading_ones() as usize).min(4)];
            if rest.get(1 + width) == Some(&b'\'') { 2 + width } else { 0 }
        }
        None => 0,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Code without the items under `#[cfg(test)]`.
pub(crate) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut bytes = code.as_bytes().to_vec();
    let mut from = 0;
    while let Some(found) = code[from..].find(MARK) {
        let start = from + found;
        let end = item_end(code.as_bytes(), start + MARK.len());
        bytes[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        from = end;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the item that begins at `start` ends: behind its block, or its semicolon.
fn item_end(code: &[u8], start: usize) -> usize {
    match body_start(code, start) {
        Some(open) if code[open] == b'{' => block_end(code, open),
        Some(semicolon) => semicolon + 1,
        None => code.len(),
    }
}

/// The first `{` or `;` from `start` on that is in no bracket.
fn body_start(code: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' | b';' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

fn block_end(code: &[u8], open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The functions in `code`, as [`code_only`] gives it.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let starts = code.match_indices("fn ").map(|(at, _)| at);
    let starts = starts.filter(|at| *at == 0 || !is_word(bytes[at - 1]));
    starts.filter_map(|at| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let name: String =
        code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let open = body_start(code.as_bytes(), at)?;
    if name.is_empty() || code.as_bytes()[open] != b'{' {
        return None;
    }
    let line = code[..at].matches('\n').count() + 1;
    let lines = code[at..block_end(code.as_bytes(), open)].matches('\n').count() + 1;
    Some(Function { name, line, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_no_code() {
        let text = "a /* x /* y */ z */ b // c\n\"d\\\"e\" r#\"f\"g\"# 'h' '\\'' '{' b\"i\" 'life: &'a str";
        let words: Vec<_> = code_only(text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["a", "b", "b", "'life:", "&'a", "str"]);
    }

    #[test]
    fn tests_are_taken_out_and_lines_stay() {
        let code =
            "one\n#[cfg(test)]\nmod tests {\n fn x() { { } }\n}\ntwo\n#[cfg(test)]\nmod y;\nthree";
        let left = without_tests(code);
        assert_eq!(left.split_whitespace().collect::<Vec<_>>(), ["one", "two", "three"]);
        assert_eq!(left.lines().count(), code.lines().count());
    }

    #[test]
    fn prose_is_what_code_is_not() {
        let text = "let x = \"it is\"; // so `y` it\n";
        let prose = without_spans(&difference(text, &code_only(text)));
        assert_eq!(
            prose.split_whitespace().collect::<Vec<_>>(),
            ["\"it", "is\"", "//", "so", "it"]
        );
        let fenced = without_spans("a\n```\nb\n```\nc ä `ö` d\n");
        assert_eq!(fenced.split_whitespace().collect::<Vec<_>>(), ["a", "c", "ä", "d"]);
        assert_eq!(fenced.len(), "a\n```\nb\n```\nc ä `ö` d\n".len());
    }

    #[test]
    fn the_words_of_a_name_are_told_apart() {
        for name in ["first_run", "FirstRun", "FIRST_RUN", "firstRun"] {
            assert_eq!(words_of(name), ["first", "run"], "{name}");
        }
    }

    #[test]
    fn all_tables_of_a_heading_are_read() {
        let text = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| c | d |\n|---|---|\n| 3 | 4 |\n\n| a | b |\n|---|---|\n| 5 | |\n";
        assert_eq!(tables(text, &["a", "b"]), [["1", "2"], ["5", ""]]);
    }

    #[test]
    fn functions_have_their_length() {
        let code =
            "fn a(x: [u8; 2]) -> u8 {\n  if x { 1 } else { 2 }\n}\nfn b();\nimpl X { fn c() {} }";
        let found = functions(code);
        let lengths: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(lengths, [("a", 1, 3), ("c", 5, 1)]);
    }
}
