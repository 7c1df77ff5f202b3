//! Names of nodes and domains.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// Name of a node or a domain: 1 to 63 characters of `a-z 0-9 . _ -`, beginning with a letter or digit. It is safe as
/// one component of a path: it is never `.` or `..` and has no `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text that is not a valid [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a valid name: use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
)]
pub struct BadName(String);

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Host names ignore case: capitals become lower-case.
impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let name = text.to_ascii_lowercase();
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let begins = name.bytes().next().is_some_and(is_plain);
        let goes_on = name.bytes().all(|byte| is_plain(byte) || b"._-".contains(&byte));
        if begins && goes_on && name.len() <= NAME_BYTES_MAX {
            return Ok(Self(name));
        }
        let shown = text.chars().take(80).collect::<String>();
        Err(BadName(shown.escape_default().to_string()))
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl utoipa::PartialSchema for Name {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[a-z0-9][a-z0-9._-]{0,62}$"))
            .into()
    }
}

impl utoipa::ToSchema for Name {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_are_names() {
        for text in ["a", "web-01.example.com", "9", "A_b", &"x".repeat(63)] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), text.to_ascii_lowercase());
        }
    }

    #[test]
    fn what_could_be_a_path_is_no_name() {
        let long = "x".repeat(64);
        for text in ["", ".", "..", "../x", "a/b", "-a", ".a", "a b", "a\n", "ä", "a\0", &long] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn json_cannot_smuggle_a_path_in() {
        assert!(serde_json::from_str::<Name>("\"../../etc\"").is_err());
        assert_eq!(serde_json::from_str::<Name>("\"Web\"").unwrap().as_str(), "web");
    }
}
