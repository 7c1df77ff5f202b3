//! Recovery keys on paper: 32 random bytes as eleven groups of five characters.
//!
//! Crockford's base32 has no letters that look alike; 55 characters hold 275 bits, of which 256 are
//! the key and 19 a checksum: a typing error goes unnoticed once in half a million times.

use zeroize::Zeroizing;

use crate::Error;
use crate::context::{self, derive};

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CHARACTERS: usize = 55;
const GROUP: usize = 5;
/// 32 bytes of key ‖ 3 bytes of checksum whose last 5 bits are zero and not printed.
const PACKED: usize = 35;
/// Longest text that is looked at, separators included.
const MAX_TEXT_LEN: usize = 1024;

/// The key as text to print: groups of five joined by `-`.
pub fn recovery_to_text(key: &[u8; 32]) -> String {
    let packed = pack(key);
    let letters: Vec<u8> = (0..CHARACTERS).map(|at| ALPHABET[five_bits(&packed, at)]).collect();
    let groups: Vec<_> = letters.chunks(GROUP).map(String::from_utf8_lossy).collect();
    groups.join("-")
}

/// The key that was printed as `text`. Case, spaces and hyphens do not matter; `O` reads as 0, `I`
/// and `L` as 1.
///
/// # Errors
/// [`Error::BadRecoveryText`] saying whether length, a character or the checksum is wrong.
pub fn recovery_from_text(text: &str) -> Result<[u8; 32], Error> {
    let digits = digits(text)?;
    let mut packed = Zeroizing::new([0; PACKED]);
    for (at, digit) in digits.iter().enumerate() {
        put_five_bits(&mut packed, at, *digit);
    }
    let mut key = [0; 32];
    key.copy_from_slice(&packed[..32]);
    if pack(&key) == packed { Ok(key) } else { Err(bad("the checksum does not match")) }
}

fn bad(what: &'static str) -> Error {
    Error::BadRecoveryText { what }
}

fn pack(key: &[u8; 32]) -> Zeroizing<[u8; PACKED]> {
    let checksum = derive(context::RECOVERY_CHECKSUM, &[key]);
    let mut packed = Zeroizing::new([0; PACKED]);
    packed[..32].copy_from_slice(key);
    packed[32..].copy_from_slice(&checksum[..3]);
    packed[PACKED - 1] &= 0b1110_0000;
    packed
}

/// Bits 5·at .. 5·at + 5, most significant first.
fn five_bits(packed: &[u8; PACKED], at: usize) -> usize {
    let bit = |i: usize| usize::from(packed[i / 8] >> (7 - i % 8) & 1);
    (at * GROUP..at * GROUP + GROUP).fold(0, |value, i| value << 1 | bit(i))
}

fn put_five_bits(packed: &mut [u8; PACKED], at: usize, digit: u8) {
    for i in 0..GROUP {
        let place = at * GROUP + i;
        packed[place / 8] |= (digit >> (GROUP - 1 - i) & 1) << (7 - place % 8);
    }
}

fn digits(text: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
    if text.len() > MAX_TEXT_LEN {
        return Err(bad("too long"));
    }
    let letters = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
    let digits: Option<Vec<u8>> = letters.map(digit).collect();
    let digits = Zeroizing::new(digits.ok_or(bad("a character that does not belong there"))?);
    match digits.len() {
        CHARACTERS => Ok(digits),
        0..CHARACTERS => Err(bad("too short")),
        _ => Err(bad("too long")),
    }
}

fn digit(letter: char) -> Option<u8> {
    let letter = match letter.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        other => other,
    };
    let place = ALPHABET.iter().position(|known| char::from(*known) == letter)?;
    u8::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 32] = [0xa7; 32];

    #[test]
    fn the_text_of_a_fixed_key_is_fixed() {
        assert_eq!(
            recovery_to_text(&KEY),
            "MYKTF-9X7MY-KTF9X-7MYKT-F9X7M-YKTF9-X7MYK-TF9X7-MYKTF-9X7MY-KMTYX"
        );
    }

    #[test]
    fn a_key_is_read_however_it_is_typed() {
        let text = recovery_to_text(&core::array::from_fn(|i| i as u8));
        let key = recovery_from_text(&text);
        assert!(key.is_ok());
        let sloppy = text.to_lowercase().replace('-', "  ").replace('0', "o").replace('1', "l");
        assert_eq!(recovery_from_text(&sloppy), key);
        assert_eq!(recovery_from_text(&text.replace('1', "I").replace('-', "")), key);
    }

    #[test]
    fn every_single_wrong_character_is_noticed() {
        let text = recovery_to_text(&KEY);
        for at in (0..text.len()).filter(|at| text.as_bytes()[*at] != b'-') {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'Z' { b'Y' } else { b'Z' };
            let wrong = String::from_utf8_lossy(&wrong).into_owned();
            assert!(recovery_from_text(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bad_texts_say_what_is_wrong() {
        assert_eq!(recovery_from_text(""), Err(bad("too short")));
        assert_eq!(recovery_from_text(&"0".repeat(56)), Err(bad("too long")));
        assert_eq!(recovery_from_text(&" ".repeat(5000)), Err(bad("too long")));
        assert!(recovery_from_text("U").is_err());
    }

    proptest! {
        #[test]
        fn every_key_is_read_back(key in any::<[u8; 32]>()) {
            prop_assert_eq!(recovery_from_text(&recovery_to_text(&key)), Ok(key));
        }

        #[test]
        fn any_text_is_decoded_without_panic(text in "\\PC*") {
            let _ = recovery_from_text(&text);
        }
    }
}
