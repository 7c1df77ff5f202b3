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
    fn functions_have_their_length() {
        let code =
            "fn a(x: [u8; 2]) -> u8 {\n  if x { 1 } else { 2 }\n}\nfn b();\nimpl X { fn c() {} }";
        let found = functions(code);
        let lengths: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(lengths, [("a", 1, 3), ("c", 5, 1)]);
    }
}
