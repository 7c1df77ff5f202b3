//! Columns that text takes on a terminal: CJK and emoji take two, combining marks none.
//!
//! Terminals disagree on sequences that join several emoji into one picture. `escape` shows the joiner as `\x…`, so none
//! reaches a terminal.

use unicode_width::UnicodeWidthStr;

/// Columns of `text`, which has no control characters.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// `text` with spaces behind it, up to `width` columns.
pub(crate) fn pad_right(text: &str, width: usize) -> String {
    format!("{text}{}", spaces(text, width))
}

/// `text` with spaces before it, up to `width` columns.
pub(crate) fn pad_left(text: &str, width: usize) -> String {
    format!("{}{text}", spaces(text, width))
}

fn spaces(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(columns(text)))
}

/// The beginning of `text` and an ellipsis, in at most `width` columns; `text` itself if it fits.
pub(crate) fn cut(text: &str, width: usize) -> String {
    match columns(text) <= width {
        true => text.to_owned(),
        false => format!("{}…", head(text, width.saturating_sub(1))),
    }
}

/// The beginning and the end of `path` in at most `width` columns: the end tells more.
pub(crate) fn shorten(path: &str, width: usize) -> String {
    if columns(path) <= width {
        return path.to_owned();
    }
    let begin = width / 3;
    format!("{}…{}", head(path, begin), tail(path, (width - begin).saturating_sub(1)))
}

/// The longest beginning of at most `width` columns.
fn head(text: &str, width: usize) -> &str {
    let fits = |end: &usize| columns(&text[..*end]) <= width;
    &text[..ends(text).take_while(fits).last().unwrap_or(0)]
}

/// The longest end of at most `width` columns. No combining mark stands at its beginning, without its letter.
fn tail(text: &str, width: usize) -> &str {
    let fits = |start: &usize| columns(&text[*start..]) <= width;
    let starts = text.char_indices().map(|(start, _)| start).rev();
    let start = starts.take_while(fits).last().unwrap_or(text.len());
    text[start..].trim_start_matches(|char: char| columns(char.encode_utf8(&mut [0; 4])) == 0)
}

/// Where each character ends.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().map(|(start, char)| start + char.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: &str = "日本語";
    /// An e and a combining acute accent.
    const COMBINED: &str = "e\u{301}";

    #[test]
    fn columns_are_those_of_a_terminal() {
        let table = [
            ("abc", 3),
            ("é", 1),
            (COMBINED, 1),
            (WIDE, 6),
            ("한국어", 6),
            ("🦀", 2),
            ("ｗｉｄｅ", 8),
        ];
        table.iter().for_each(|(text, width)| assert_eq!(columns(text), *width, "{text}"));
    }

    #[test]
    fn padding_fills_columns_and_not_characters() {
        assert_eq!(pad_right(WIDE, 8), "日本語  ");
        assert_eq!(pad_left(WIDE, 8), "  日本語");
        assert_eq!(pad_right(COMBINED, 3), "e\u{301}  ");
        assert_eq!(pad_left("longer", 3), "longer");
    }

    #[test]
    fn nothing_is_cut_in_the_middle_of_a_character() {
        assert_eq!([cut(WIDE, 6), cut(WIDE, 5), cut(WIDE, 4)], ["日本語", "日本…", "日…"]);
        assert_eq!(cut("ae\u{301}b", 2), "a…");
        assert_eq!(cut("ae\u{301}bc", 3), "ae\u{301}…");
    }

    #[test]
    fn both_ends_of_a_long_path_are_shown() {
        assert_eq!(shorten("short", 10), "short");
        assert_eq!(shorten("usr/lib/python3/base.py", 14), "usr/…3/base.py");
        assert_eq!(shorten("日本/語/ファイル.txt", 12), "日本…ル.txt");
        assert!(!shorten(&COMBINED.repeat(20), 9).contains("…\u{301}"));
        for width in 1..40 {
            let long = shorten(&"日e\u{301}/🦀".repeat(20), width);
            assert!(columns(&long) <= width, "{width}: {long}");
        }
    }
}
