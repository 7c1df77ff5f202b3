//! Where the password comes from: flags, then the environment, then the profile, then the person
//! at the terminal. A recovery key is taken wherever a password is.

use crate::client_options::resolve::Resolved;
use crate::client_options::table;
use crate::codes::Code;
use crate::failure::{Failure, Result};
use crypto::SlotSecret;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use zeroize::Zeroizing;

const PASSWORD: &str = "ICECORE_PASSWORD";
const PASSWORD_FILE: &str = "ICECORE_PASSWORD_FILE";
const PASSWORD_BYTES_MAX: u64 = 64 << 10;
const PASSWORD_COMMAND: &str = "ICECORE_PASSWORD_COMMAND";

/// A password or recovery key; wiped when it is dropped.
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// As slots take it: what reads as a recovery key is one.
    pub(crate) fn slot(&self) -> SlotSecret<'_> {
        let text = str::from_utf8(&self.0).ok();
        match text.and_then(|text| crypto::recovery_from_text(text).ok()) {
            Some(key) => SlotSecret::Recovery(key),
            None => SlotSecret::Password(&self.0),
        }
    }

    fn new(bytes: Vec<u8>) -> Self {
        let mut bytes = Zeroizing::new(bytes);
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            bytes.pop_if(|byte| *byte == b'\r');
        }
        Self(bytes)
    }
}

/// How often a person is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// To open something.
    Once,
    /// To lock something: a typing error would lock it for good.
    Twice,
}

/// The password of the repository.
pub(crate) fn get(options: &Resolved, ask: Ask) -> Result<Secret> {
    let secret = match given(options)? {
        Some(secret) => secret,
        None => prompt("Repository password", ask)?,
    };
    if secret.0.is_empty() {
        return Err(Failure::usage("the password is empty")
            .hint("An empty password would not protect anything."));
    }
    Ok(secret)
}

/// What flags, environment or profile say; nobody is asked.
pub(crate) fn get_if_given(options: &Resolved) -> Result<Option<Secret>> {
    given(options)
}

/// What flags, environment or profile say: at most one of the three has a value.
fn given(options: &Resolved) -> Result<Option<Secret>> {
    if let Some(password) = options.value(table::PASSWORD) {
        return Ok(Some(Secret(Zeroizing::new(password.as_bytes().to_vec()))));
    }
    if let Some(file) = options.value("password-file") {
        return from_file(Path::new(file)).map(Some);
    }
    options.value("password-command").map(from_command).transpose()
}

/// The password in `file`, without its line end.
pub(crate) fn from_file(file: &Path) -> Result<Secret> {
    let bytes = std::fs::File::open(file).and_then(at_most);
    let bytes = bytes.map_err(|error| {
        let failure = Failure::file(file, &error);
        Failure { message: format!("cannot read the password file {}", failure.message), ..failure }
    })?;
    Ok(Secret::new(bytes))
}

/// All that comes, if it can be a password: a device that never ends would take all memory.
fn at_most(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(PASSWORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(std::io::Error::other("it is longer than 64 KiB, so it is no password"));
    }
    Ok(bytes)
}

/// What the shell command prints.
fn from_command(command: &OsStr) -> Result<Secret> {
    let shown = String::from_utf8_lossy(command.as_bytes()).into_owned();
    let failed = |why: String| {
        Failure::new(Code::Failed, format!("the password command '{shown}' {why}"))
            .hint("Run it by itself to see what is wrong.")
    };
    let child = Command::new("sh").arg("-c").arg(command).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(format!("cannot be started: {error}")))?;
    let said = child.stdout.take().map_or(Ok(Vec::new()), at_most);
    if said.is_err() {
        let _ = child.kill(); // or it has ended, since nobody reads what it says
    }
    let status = child.wait().map_err(|error| failed(format!("was lost: {error}")))?;
    let said = said.map_err(|error| failed(format!("is of no use: {error}")))?;
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }
    Ok(Secret::new(said))
}

/// Asks the person at the terminal a question; only `y` and `yes` mean yes.
pub(crate) fn confirm(question: &str) -> Result<bool> {
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks the person at the terminal.
pub(crate) fn prompt(what: &str, ask: Ask) -> Result<Secret> {
    let first = ask_for(&format!("{what}: "))?;
    if ask == Ask::Twice && ask_for("Repeat it: ")? != first {
        return Err(
            Failure::usage("the two passwords differ").hint("Nothing was changed. Try again.")
        );
    }
    Ok(Secret(first))
}

fn ask_for(prompt: &str) -> Result<Zeroizing<Vec<u8>>> {
    let typed = rpassword::prompt_password(prompt).map_err(|error| {
        let failure =
            Failure::usage(format!("no password given, and no terminal to ask for it: {error}"));
        failure.hint(format!(
            "Set {PASSWORD_FILE}, {PASSWORD_COMMAND} or {PASSWORD}, or use --password-file FILE"
        ))
    })?;
    Ok(Zeroizing::new(typed.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_is_dropped_and_nothing_else() {
        let kept = |bytes: &[u8]| Secret::new(bytes.to_vec()).0.to_vec();
        assert_eq!(kept(b"a b \n"), b"a b ");
        assert_eq!(kept(b"a\r\n"), b"a");
        assert_eq!(kept(b"a\n\n"), b"a\n");
        assert_eq!(kept(b"\xff"), b"\xff");
    }

    #[test]
    fn what_reads_as_a_recovery_key_is_one() {
        let text = crypto::recovery_to_text(&[7; 32]);
        assert!(
            matches!(Secret::new(text.clone().into_bytes()).slot(), SlotSecret::Recovery(key) if key == [7; 32])
        );
        let wrong = text.replacen(&text[..1], if text.starts_with('0') { "1" } else { "0" }, 1);
        assert!(matches!(Secret::new(wrong.into_bytes()).slot(), SlotSecret::Password(_)));
    }

    #[test]
    fn a_password_command_that_fails_gives_no_password() {
        assert!(from_command(OsStr::new("echo x; exit 3")).is_err());
        assert_eq!(
            from_command(OsStr::new("echo x")).unwrap_or_else(|_| Secret::new(vec![])).0.as_slice(),
            b"x"
        );
    }
}
