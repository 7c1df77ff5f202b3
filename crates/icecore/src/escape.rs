//! Showing names that are bytes: nothing in them is ever obeyed by a terminal.

use serde::{Serialize, Serializer};

/// Bytes as text to show: invalid UTF-8 and every control character as `\xNN`; a backslash
/// twice, so that no two names look alike. Characters that turn the direction of text or take no
/// room count as control characters.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        part.valid().chars().for_each(|char| push(&mut shown, char));
        part.invalid().iter().for_each(|byte| push_byte(&mut shown, *byte));
    }
    shown
}

fn push(shown: &mut String, char: char) {
    match char {
        '\\' => shown.push_str("\\\\"),
        '\n' => shown.push_str("\\n"),
        '\t' => shown.push_str("\\t"),
        '\r' => shown.push_str("\\r"),
        char if is_dangerous(char) => {
            let mut buffer = [0; 4];
            char.encode_utf8(&mut buffer).bytes().for_each(|byte| push_byte(shown, byte));
        }
        char => shown.push(char),
    }
}

fn push_byte(shown: &mut String, byte: u8) {
    shown.push_str(&format!("\\x{byte:02x}"));
}

/// Control characters (C0, DEL, C1), line separators, and marks that reorder or hide text.
fn is_dangerous(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(char, '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Bytes as text that can be given back on the command line: with a leading `/`.
pub(crate) fn path(bytes: &[u8]) -> String {
    format!("/{}", escape(bytes))
}

/// Text of others (labels, node names, messages) as text to show.
pub(crate) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars()
        .for_each(|char| if char == '\\' { shown.push(char) } else { push(&mut shown, char) });
    shown
}

/// A path as JSON shows it: `path`, and `path_base64` when the bytes are not UTF-8.
#[derive(Serialize)]
pub(crate) struct JsonPath {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<Base64>,
}

impl JsonPath {
    /// The path of an entry of a snapshot.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let rooted = [b"/", bytes].concat();
        Self::as_is(&rooted)
    }

    /// A path of this machine.
    pub(crate) fn as_is(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self { path: text.to_owned(), path_base64: None },
            Err(_) => {
                Self { path: escape_invalid(bytes), path_base64: Some(Base64(bytes.to_vec())) }
            }
        }
    }
}

/// JSON escapes control characters itself; only invalid UTF-8 needs help.
fn escape_invalid(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for part in bytes.utf8_chunks() {
        shown.push_str(part.valid());
        part.invalid().iter().for_each(|byte| push_byte(&mut shown, *byte));
    }
    shown
}

struct Base64(Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64(&self.0))
    }
}

/// RFC 4648 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = LETTERS[(bits >> shift & 63) as usize];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_in_a_name() {
        let table: &[(&[u8], &str)] = &[
            (b"plain name", "plain name"),
            ("gr\u{fc}n".as_bytes(), "gr\u{fc}n"),
            (b"\x1b[31mred", "\\x1b[31mred"),
            (b"a\nb\tc\rd", "a\\nb\\tc\\rd"),
            (b"\xff\xfe", "\\xff\\xfe"),
            (b"back\\slash", "back\\\\slash"),
            ("\u{9b}31m".as_bytes(), "\\xc2\\x9b31m"),
            ("\u{202e}txt.exe".as_bytes(), "\\xe2\\x80\\xaetxt.exe"),
            (b"\x7f\x00", "\\x7f\\x00"),
        ];
        table.iter().for_each(|(bytes, shown)| assert_eq!(escape(bytes), *shown));
    }

    #[test]
    fn two_names_never_look_alike() {
        assert_ne!(escape(b"\xff"), escape(b"\\xff"));
        assert_ne!(escape(b"\n"), escape(b"\\n"));
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let table =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        table.iter().for_each(|(plain, text)| assert_eq!(base64(plain.as_bytes()), *text));
    }

    #[test]
    fn only_names_that_are_no_text_have_base64() {
        let json = |bytes: &[u8]| serde_json::to_string(&JsonPath::new(bytes)).unwrap();
        assert_eq!(json(b"a\nb"), r#"{"path":"/a\nb"}"#);
        assert_eq!(json(b"a\xff"), r#"{"path":"/a\\xff","path_base64":"L2H/"}"#);
    }
}
