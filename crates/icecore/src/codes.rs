//! Exit codes: one list for the exit status, the JSON and the documentation.
//!
//! Numbers are restic's where it has one. They never change their meaning.

use serde::Serialize;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    Complete = 0,
    Failed = 1,
    Usage = 2,
    Partial = 3,
    NoRepository = 10,
    InUse = 11,
    WrongKey = 12,
    NotAllowed = 13,
    Damage = 14,
    NoSpace = 15,
    Unreachable = 16,
    DrillMismatch = 17,
    HookFailed = 18,
    Unprotected = 19,
    AtRisk = 20,
    Archived = 21,
    Cancelled = 130,
}

impl Code {
    /// All of them, by number.
    pub(crate) const ALL: [Code; 17] = [
        Code::Complete,
        Code::Failed,
        Code::Usage,
        Code::Partial,
        Code::NoRepository,
        Code::InUse,
        Code::WrongKey,
        Code::NotAllowed,
        Code::Damage,
        Code::NoSpace,
        Code::Unreachable,
        Code::DrillMismatch,
        Code::HookFailed,
        Code::Unprotected,
        Code::AtRisk,
        Code::Archived,
        Code::Cancelled,
    ];

    /// The exit status.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The name that JSON shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Code::Complete => "complete",
            Code::Failed => "failed",
            Code::Usage => "usage",
            Code::Partial => "partial",
            Code::NoRepository => "no-repository",
            Code::InUse => "in-use",
            Code::WrongKey => "wrong-key",
            Code::NotAllowed => "not-allowed",
            Code::Damage => "damage",
            Code::NoSpace => "no-space",
            Code::Unreachable => "unreachable",
            Code::DrillMismatch => "drill-mismatch",
            Code::HookFailed => "hook-failed",
            Code::Unprotected => "unprotected",
            Code::AtRisk => "at-risk",
            Code::Archived => "archived",
            Code::Cancelled => "cancelled",
        }
    }

    /// What it means, for people.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Code::Complete => "complete",
            Code::Failed => "failed; nothing is reported as done",
            Code::Usage => "invalid arguments; nothing was started",
            Code::Partial => "done, but some objects could not be read or written",
            Code::NoRepository => "no repository found",
            Code::InUse => "another process is writing to the repository",
            Code::WrongKey => "wrong password or key",
            Code::NotAllowed => "access denied by the key, the server or the system",
            Code::Damage => "damage found in the repository",
            Code::NoSpace => "no space left on the disk of the repository or the target",
            Code::Unreachable => "repository or server unreachable",
            Code::DrillMismatch => "restored data differs from the backup",
            Code::HookFailed => "a hook failed; before the backup: nothing was backed up",
            Code::Unprotected => "something has no complete backup, or an older one than promised",
            Code::AtRisk => "something is at risk, or nobody promises how old its backup may be",
            Code::Archived => "data lies in a cold storage class and has to be brought back first",
            Code::Cancelled => "stopped by a signal; the same command can be run again",
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code.number())
    }
}

/// A row of the table, as JSON shows it.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) code: u8,
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
}

impl From<Code> for Row {
    fn from(code: Code) -> Self {
        Row { code: code.number(), name: code.name(), meaning: code.meaning() }
    }
}

/// The table for `icecore help exit-codes`.
pub(crate) fn table() -> String {
    Code::ALL.map(row).join("\n")
}

/// A row of the table, as people read it.
pub(crate) fn row(code: Code) -> String {
    format!("{:>4}  {:<15} {}", code.number(), code.name(), code.meaning())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_code_with_its_name_and_meaning() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/EXIT-CODES.md");
        let document = std::fs::read_to_string(path).unwrap();
        let rows = Code::ALL
            .map(|code| format!("| {} | `{}` | {} |", code.number(), code.name(), code.meaning()));
        rows.iter()
            .for_each(|row| assert!(document.contains(row), "docs/EXIT-CODES.md lacks: {row}"));
        let listed =
            document.lines().filter(|line| line.starts_with("| ") && line.contains("| `")).count();
        assert_eq!(listed, rows.len(), "docs/EXIT-CODES.md has rows that no code has");
    }

    #[test]
    fn numbers_rise_and_names_differ() {
        assert!(Code::ALL.windows(2).all(|two| two[0].number() < two[1].number()));
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
