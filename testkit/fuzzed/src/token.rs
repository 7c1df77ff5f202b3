//! Tokens and names as people paste them: what is taken is written and read to the same.

use api::{Name, Token};

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(token) = Token::parse(&text) {
        assert_eq!(Token::parse(&token.to_text()).as_ref(), Ok(&token));
    }
    if let Ok(name) = text.parse::<Name>() {
        let path = std::path::Path::new(name.as_str());
        let mut parts = path.components();
        assert!(
            matches!(parts.next(), Some(std::path::Component::Normal(_))) && parts.next().is_none()
        );
    }
    if let Some((secret, rest)) = bytes.split_first_chunk::<16>()
        && let Some((ca_fingerprint, typed)) = rest.split_first_chunk::<16>()
    {
        let token = Token { secret: *secret, ca_fingerprint: *ca_fingerprint };
        let text = token.to_text();
        assert_eq!(Token::parse(&text).as_ref(), Ok(&token));
        // Typing errors: found, or very rarely another token; never a panic.
        if let Some([at, letter]) = typed.first_chunk() {
            let mut typed = text.into_bytes();
            let at = usize::from(*at) % typed.len();
            typed[at] = *letter;
            let _ = String::from_utf8(typed).map(|typed| Token::parse(&typed));
        }
    }
}
