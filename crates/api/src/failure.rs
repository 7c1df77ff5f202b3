//! Errors, all of the same form.

use crate::sites::Mistake;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of failure. Numbers and names are those of exit codes (`docs/EXIT-CODES.md`), so that a command exits with
/// the server's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It failed otherwise.
    Failed = 1,
    /// The request is invalid.
    Usage = 2,
    /// A resource is in use: try again later.
    InUse = 11,
    /// The caller may not do this.
    NotAllowed = 13,
    /// A disk is full.
    NoSpace = 15,
    /// A server or storage is unreachable.
    Unreachable = 16,
}

impl Code {
    const ALL: [Self; 6] = [
        Self::Failed,
        Self::Usage,
        Self::InUse,
        Self::NotAllowed,
        Self::NoSpace,
        Self::Unreachable,
    ];

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::InUse => "in-use",
            Self::NotAllowed => "not-allowed",
            Self::NoSpace => "no-space",
            Self::Unreachable => "unreachable",
        }
    }

    /// The code with this number; [`Code::Failed`] for an unknown one.
    pub fn of_number(number: u8) -> Self {
        Self::ALL.into_iter().find(|code| code.number() == number).unwrap_or(Self::Failed)
    }
}

/// The body of every reply that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Failure {
    /// Number of the code, as in `docs/EXIT-CODES.md`.
    pub code: u8,
    /// Name of the code.
    pub name: String,
    /// What happened, to what, and why.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// All that is wrong with what was declared, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Mistake>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let (number, name) = (code.number(), code.name().to_owned());
        Self { code: number, name, message: message.into(), hint: None, mistakes: Vec::new() }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
