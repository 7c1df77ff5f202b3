//! Recovery keys as people type them: what is taken is printed and read to the same.

use crypto::{recovery_from_text, recovery_to_text};

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    if let Some(key) = bytes.first_chunk::<32>() {
        let text = recovery_to_text(key);
        assert_eq!(recovery_from_text(&text).as_ref(), Ok(key));
        // One typing error is noticed; half a million of them may hide one that is not.
        if let Some([at, letter]) = bytes.get(32..34).and_then(|two| two.first_chunk()) {
            let mut typed = text.clone().into_bytes();
            let at = usize::from(*at) % typed.len();
            typed[at] = *letter;
            let _ = String::from_utf8(typed).map(|typed| recovery_from_text(&typed));
        }
    }
    if let Ok(key) = recovery_from_text(&String::from_utf8_lossy(bytes)) {
        assert_eq!(recovery_from_text(&recovery_to_text(&key)), Ok(key));
    }
}
