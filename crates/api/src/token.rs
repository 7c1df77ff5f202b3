//! Tokens: the one string that a person carries from the server to a new machine.
//!
//! It contains the fingerprint of the server's certificate authority, so that the first contact is safe against a man
//! in the middle, and a secret that is valid once.

use data_encoding::BASE32_NOPAD;
use std::fmt;

const PREFIX: &str = "ice1-";
const SECRET_BYTES: usize = 16;
const CA_FINGERPRINT_BYTES: usize = 16;
/// Detects typing errors: one in 16 million goes unnoticed here, and none at the server.
const CHECKSUM_BYTES: usize = 3;
const BYTES: usize = SECRET_BYTES + CA_FINGERPRINT_BYTES + CHECKSUM_BYTES;
/// Longest text that is read: groups may be separated by white space.
const TEXT_BYTES_MAX: usize = 256;

/// The contents of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Known to the holder of the token; the server keeps only a hash.
    pub secret: [u8; SECRET_BYTES],
    /// First bytes of the SHA-256 of the certificate of the server's certificate authority.
    pub ca_fingerprint: [u8; CA_FINGERPRINT_BYTES],
}

/// Why a text is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It does not begin like a token.
    #[error("a token begins with 'ice1-'")]
    Prefix,
    /// Too short, too long, or with characters that tokens do not have.
    #[error("the token is incomplete: copy all of it")]
    NotWhole,
    /// The checksum is wrong.
    #[error("the token has a typing error: copy it again")]
    Checksum,
}

impl Token {
    /// The token as text.
    pub fn to_text(&self) -> String {
        let mut bytes = [0; BYTES];
        bytes[..SECRET_BYTES].copy_from_slice(&self.secret);
        bytes[SECRET_BYTES..SECRET_BYTES + CA_FINGERPRINT_BYTES]
            .copy_from_slice(&self.ca_fingerprint);
        let sum = checksum(&bytes);
        bytes[SECRET_BYTES + CA_FINGERPRINT_BYTES..].copy_from_slice(&sum);
        format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }

    /// Reads a token. Case and white space do not matter: it may have been wrapped.
    ///
    /// # Errors
    /// [`BadToken`].
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(BadToken::NotWhole);
        }
        let text: String = text.split_whitespace().collect::<String>().to_ascii_lowercase();
        let digits = text.strip_prefix(PREFIX).ok_or(BadToken::Prefix)?.to_ascii_uppercase();
        let bytes = BASE32_NOPAD.decode(digits.as_bytes()).map_err(|_| BadToken::NotWhole)?;
        let bytes: [u8; BYTES] = bytes.try_into().map_err(|_| BadToken::NotWhole)?;
        if bytes[SECRET_BYTES + CA_FINGERPRINT_BYTES..] != checksum(&bytes) {
            return Err(BadToken::Checksum);
        }
        let (mut secret, mut ca_fingerprint) = ([0; SECRET_BYTES], [0; CA_FINGERPRINT_BYTES]);
        secret.copy_from_slice(&bytes[..SECRET_BYTES]);
        ca_fingerprint.copy_from_slice(&bytes[SECRET_BYTES..SECRET_BYTES + CA_FINGERPRINT_BYTES]);
        Ok(Self { secret, ca_fingerprint })
    }

    /// The secret as the API carries it.
    pub fn secret_text(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.secret)
    }
}

/// Shows no secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn checksum(bytes: &[u8; BYTES]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::derive_key("icecore 2026 token checksum v1", &bytes[..BYTES - 3]);
    [hash[0], hash[1], hash[2]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token { secret: [7; 16], ca_fingerprint: *b"0123456789abcdef" }
    }

    #[test]
    fn a_token_is_read_back_however_it_was_copied() {
        let text = token().to_text();
        assert_eq!(text.len(), 5 + 56);
        let (head, tail) = text.split_at(30);
        for copied in [text.clone(), text.to_uppercase(), format!(" {head}\n  {tail}\n")] {
            assert_eq!(Token::parse(&copied).unwrap(), token());
        }
    }

    #[test]
    fn every_typing_error_of_one_character_is_found() {
        let text = token().to_text();
        for at in PREFIX.len()..text.len() {
            let mut typed = text.clone().into_bytes();
            typed[at] = if typed[at] == b'a' { b'b' } else { b'a' };
            let typed = String::from_utf8(typed).unwrap();
            assert!(Token::parse(&typed).is_err(), "{at}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let text = token().to_text();
        let table = [
            ("", BadToken::Prefix),
            ("ice2-aaaa", BadToken::Prefix),
            ("ice1-", BadToken::NotWhole),
            (&text[..60], BadToken::NotWhole),
            ("ice1-ä", BadToken::NotWhole),
            (&"ice1-a".repeat(100), BadToken::NotWhole),
        ];
        table.iter().for_each(|(text, why)| assert_eq!(Token::parse(text), Err(*why), "{text}"));
    }

    #[test]
    fn a_token_is_not_shown_by_accident() {
        assert!(!format!("{:?}", token()).contains('7'));
    }
}
