//! Client options that a server gives.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A value for a client option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientOption {
    /// The value.
    pub value: OptionValue,
    /// Whether it stands above what the node's user says; else it is a suggestion.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// A value, as the option takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "this is no value of an option; write a text, a number, true, false or a list of texts"
)]
pub enum OptionValue {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

impl OptionValue {
    /// As the flag of a backup takes it: several texts for a list.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::List(list) => list.clone(),
            one => vec![one.to_string()],
        }
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(formatter),
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => formatter.write_str(text),
            Self::List(list) => formatter.write_str(&list.join(", ")),
        }
    }
}

pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
