//! Showing names that are bytes: nothing in them is ever obeyed by a terminal.

pub(crate) use format::escape::escape;
use format::escape::{push_byte, push_char};
use serde::{Serialize, Serializer};

/// Bytes as text that can be given back on the command line: with a leading `/`.
pub(crate) fn path(bytes: &[u8]) -> String {
    format!("/{}", escape(bytes))
}

/// Text of others (labels, node names, messages) as text to show.
pub(crate) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars()
        .for_each(|char| if char == '\\' { shown.push(char) } else { push_char(&mut shown, char) });
    shown
}

/// The same as one line, for a table: a message and its advice are lines of their own.
pub(crate) fn line(text: &str) -> String {
    text.lines().map(self::text).collect::<Vec<_>>().join(" ")
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
        for (position, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = LETTERS[(bits >> shift & 63) as usize];
            text.push(if position <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_message_become_one_and_nothing_in_them_is_obeyed() {
        assert_eq!(line("no disk\nMount it: \u{1b}[2J\r\n"), "no disk Mount it: \\x1b[2J");
        assert_eq!(line(""), "");
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
