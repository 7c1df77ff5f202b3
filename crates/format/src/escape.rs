//! Names, which are bytes, as text (`docs/FORMAT.md`, F-7.9): nothing in them is ever obeyed by a terminal.

/// Bytes as text to show: invalid UTF-8 and every control character as `\xNN`; a backslash
/// twice, so that no two names look alike. Characters that turn the direction of text or take no
/// room count as control characters.
pub fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        part.valid().chars().for_each(|char| push_char(&mut shown, char));
        part.invalid().iter().for_each(|byte| push_byte(&mut shown, *byte));
    }
    shown
}

/// Appends a character as [`escape`] shows it.
pub fn push_char(shown: &mut String, char: char) {
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

/// Appends a byte that is no text: `\xNN`.
pub fn push_byte(shown: &mut String, byte: u8) {
    shown.push_str(&format!("\\x{byte:02x}"));
}

/// Control characters (C0, DEL, C1), line separators, and marks that reorder or hide text.
fn is_dangerous(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(char, '\u{feff}' | '\u{fff9}'..='\u{fffb}')
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
}
