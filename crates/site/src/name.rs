//! Names of objects, classes, sources, labels, hooks and options.

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// A text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a valid name; use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
)]
pub struct NameError(pub String);

/// Whether `name` can be a name: harmless in files, paths and addresses, and the same for nodes and
/// domains as in the API. Capitals are refused, since names that differ only in them are confused.
///
/// # Errors
/// [`NameError`], with the rule.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins = name.bytes().next().is_some_and(is_plain);
    let goes_on = name.bytes().all(|byte| is_plain(byte) || b"._-".contains(&byte));
    if begins && goes_on && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(NameError(shown.escape_default().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_63_harmless_characters_at_most() {
        for name in ["a", "0", "web-01", "a.b_c", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in
            ["", ".", "..", "-a", "_a", "a/b", "A", "ä", "a b", &"x".repeat(NAME_BYTES_MAX + 1)]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
