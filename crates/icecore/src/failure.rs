//! What the user reads when something fails: what happened, why, and what to type next.

#[cfg(test)]
mod tests;
mod translated;

use crate::codes::Code;
use crate::{lost_config, read_only};
use api::sites::Mistake;
use serde::Serialize;
use std::io;
use translated::{in_use, of_io};

/// What the text of every failure begins with.
pub(crate) const ERROR: &str = "error:";

/// Result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// What happened, to what, and why.
    pub(crate) message: String,
    /// The next command to type, or what to do.
    pub(crate) hint: Option<String>,
    /// All that is wrong with what was declared, if it is more than one thing.
    pub(crate) mistakes: Vec<Mistake>,
    /// Whoever read our output has gone: there is nobody to tell.
    pub(crate) is_quiet: bool,
}

/// What helps whose key is write-only.
const NEEDS_READER: &str = "Use a key that can read. To list keys: icecore key list";

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, mistakes: Vec::new(), is_quiet: false }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A file of this machine could not be used.
    pub(crate) fn file(path: &std::path::Path, error: &io::Error) -> Self {
        let message = format!("{}: {error}", path.display());
        of_io(error, message)
    }

    /// Damage was met at the object `path`; other failures are not its own.
    pub(crate) fn of(mut self, path: &[u8]) -> Self {
        if self.code == Code::Damage {
            self.message = format!("{}: {}", crate::escape::path(path), self.message);
        }
        self
    }

    /// The repository at `location` could not be used: fills in what to type.
    pub(crate) fn at(mut self, location: &str) -> Self {
        let is_bucket = location.starts_with("s3://");
        if self.code == Code::NoRepository && lost_config::is_at(location) {
            return lost_config::failure(location, None);
        }
        // It refuses whatever is signed with another time, whoever signed it.
        let is_skewed = is_bucket && self.message.contains("RequestTimeTooSkewed");
        // Of its two files the other one cannot be read either.
        let is_config = self.message.contains("config is damaged: ");
        let lacks_conditions = is_bucket && self.message.contains("(If-None-Match)");
        let hint = match self.code {
            _ if lacks_conditions => crate::place::NEEDS_CONDITIONS.into(),
            Code::Failed if self.message.ends_with(" is in its place") => format!(
                "Nothing of Icecore makes that. Move it out of {}, then try again",
                quoted(location)
            ),
            Code::NotAllowed if is_skewed => {
                "The clock of this machine differs from that of the storage by more than 15 minutes. What it shows: timedatectl. To let it be set from the network: timedatectl set-ntp true".into()
            }
            Code::NotAllowed | Code::Unreachable if is_bucket => {
                crate::place::hint(location, self.code == Code::NotAllowed)
            }
            Code::NoSpace if is_bucket => {
                "The storage accepts no more data: raise its quota, or forget old snapshots and reclaim".into()
            }
            Code::NoRepository if is_bucket => {
                format!("Create one: icecore init --repo {}", quoted(location))
            }
            // Who creates one below a mount point has two, of which the mount hides one.
            Code::NoRepository => format!(
                "Is its file system mounted? If it is, create one: icecore init --repo {}",
                quoted(location)
            ),
            Code::InUse => in_use(&self.message),
            Code::WrongKey => "Check ICECORE_PASSWORD, ICECORE_PASSWORD_FILE or --password-file. A recovery key works too.".into(),
            Code::NotAllowed => read_only::advice(&self.message, location)
                .unwrap_or_else(|| format!("Check the permissions: ls -la {}", quoted(location))),
            Code::Damage if is_config => format!(
                "Nothing opens without config or config.copy, not even a check. A copy has the same file as what it was made from. Bring it back from there as {location}/config, then: icecore check --repair --repo {}",
                quoted(location)
            ),
            Code::Damage => format!("To see what is affected: icecore check --repo {}", quoted(location)),
            Code::NoSpace => crate::full_disk::advice(location),
            Code::Unreachable => format!("Check that it is mounted: df {}", quoted(location)),
            _ => return self,
        };
        self.hint.get_or_insert(hint);
        self
    }

    /// The repository on the server could not be used: fills in what to type.
    pub(crate) fn at_server(mut self) -> Self {
        // A node has one key.
        if self.hint.as_deref() == Some(NEEDS_READER) {
            return self.hint("This node is write-only. Restore on another node of the domain, or let this one read. On the server: icecore server token NODE --read-write. Here, with what it prints: icecore agent enroll --replace URL TOKEN");
        }
        let hint = match self.code {
            Code::NoRepository => {
                "Back up first: icecore backup PATH. If there were backups before, the repository is missing: an administrator of the server sees why with icecore server status"
            }
            Code::InUse => "A command on the server is using it. Wait for it: --wait 10m",
            Code::WrongKey => {
                "The key of this machine was removed, or belongs to another domain: icecore agent status"
            }
            Code::Damage => "On the server: icecore server check DOMAIN",
            // Which disk of the server is full, and what helps there, says the server.
            Code::Unreachable => "Check that the server runs and is reachable: icecore net test",
            _ => return self,
        };
        self.hint.get_or_insert(hint.into());
        self
    }

    /// Output that nobody reads changes nothing about what was done.
    pub(crate) fn ignore_broken_pipe(printed: Result<()>) -> Result<()> {
        printed.or_else(|failure| if failure.is_quiet { Ok(()) } else { Err(failure) })
    }

    /// Of a command whose output is what was asked for: without a reader it is not done.
    pub(crate) fn of_bytes(self) -> Self {
        if !self.is_quiet {
            return self;
        }
        Self::new(Code::Failed, "whoever read the output stopped before its end")
    }

    /// As a line of JSON shows it.
    pub(crate) fn json(&self) -> Json<'_> {
        Json {
            message_type: "error",
            code: self.code.number(),
            name: self.code.name(),
            message: &self.message,
            hint: self.hint.as_deref(),
            mistakes: &self.mistakes,
        }
    }

    /// As people read it.
    pub(crate) fn text(&self) -> String {
        let message = crate::escape::text(&self.message);
        let hint = self
            .hint
            .as_deref()
            .map_or_else(String::new, |hint| format!("\n  {}", crate::escape::text(hint)));
        let mistakes = self.mistakes.iter().map(mistake).collect::<String>();
        format!("{ERROR} {message} (exit {}){mistakes}{hint}", self.code.number())
    }

    /// The same in one line, for a log.
    pub(crate) fn line(&self) -> String {
        self.text().replace("\n  ", ". ")
    }
}

/// A mistake as people read it: its place, and what to write instead.
fn mistake(mistake: &Mistake) -> String {
    let line = mistake.line.map_or_else(String::new, |line| format!("line {line}: "));
    let fix = mistake.fix.as_deref().map_or_else(String::new, |fix| format!("; {fix}"));
    format!("\n  {line}{}", crate::escape::text(&format!("{}{fix}", mistake.message)))
}

/// The last line of JSON of a command that failed.
#[derive(Serialize)]
pub(crate) struct Json<'a> {
    message_type: &'static str,
    code: u8,
    name: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    mistakes: &'a [Mistake],
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
