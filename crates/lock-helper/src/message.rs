//! What the server and the lock helper say to each other: one line of JSON each, over a Unix socket.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::path::PathBuf;

/// Files in one request.
pub const FILES_MAX: usize = 4096;
/// Bytes of a line: so many files with the longest names that a repository has, and their times.
pub(crate) const LINE_BYTES_MAX: u64 = 4 << 20;
/// So many characters are repeated of what a stranger may have written.
const TOLD_CHARS_MAX: usize = 200;

/// A file to be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Relative to the pool, with `/` between its parts.
    pub name: String,
    /// Until when, in seconds since 1970.
    pub until_secs: i64,
}

/// What the server asks for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The directory of the pool.
    pub(crate) pool: PathBuf,
    pub(crate) files: Vec<File>,
}

/// What the helper answers.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done(Secured),
    Refused(String),
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secured {
    /// Files that are kept now.
    pub files: u64,
    /// Those that are not. They can be asked for again.
    pub failed: Vec<Failed>,
}

/// A file that is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
    /// Whether it was not there: it may have been removed since it was listed.
    pub is_gone: bool,
}

/// Writes `message` as a line.
pub(crate) fn write(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let failed = |error: std::io::Error| Error::Refused(error.to_string());
    let mut line = serde_json::to_vec(message).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    to.write_all(&line).and_then(|()| to.flush()).map_err(failed)
}

/// The next line, decoded; `None` at the end.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(from: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = Vec::new();
    let failed = |error: std::io::Error| Error::Refused(error.to_string());
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Silent,
        _ => failed(error),
    })?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(Error::Refused("a line is too long, or was cut".into()));
    }
    let decoded = serde_json::from_slice(&line);
    decoded.map(Some).map_err(|error| {
        Error::Refused(format!("a line that makes no sense: {}", printable(&error.to_string())))
    })
}

/// What a stranger may have written, for the log: on one line, and not endless.
fn printable(text: &str) -> String {
    let shown = text.chars().take(TOLD_CHARS_MAX);
    shown.map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of an unknown field is part of the reason.
    #[test]
    fn a_line_that_makes_no_sense_forges_none_in_the_log() {
        let bad = b"{\"\\u001b[2J\\nroot: all is well\":1}\n";
        let said = read::<Request>(&mut &bad[..]).unwrap_err().to_string();
        assert!(said.contains("root: all is well"), "{said:?}");
        assert!(!said.contains(char::is_control), "{said:?}");
        let long = format!("{{\"{}\":1}}\n", "x".repeat(9_000));
        assert!(read::<Request>(&mut long.as_bytes()).unwrap_err().to_string().len() < 400);
    }

    #[test]
    fn a_message_is_read_back_and_what_is_cut_or_unknown_is_refused() {
        let file = File { name: "domains/web/config".into(), until_secs: 7 };
        let request = Request { pool: "/srv/pool".into(), files: vec![file] };
        let mut bytes = Vec::new();
        write(&mut bytes, &request).unwrap();
        assert_eq!(read::<Request>(&mut &bytes[..]).unwrap(), Some(request));
        assert_eq!(read::<Request>(&mut &b""[..]).unwrap(), None);
        for bad in [&bytes[..bytes.len() - 1], b"{}\n", b"\n", b"{\"release\":1}\n", b"\xff\n"] {
            assert!(read::<Request>(&mut &bad[..]).is_err(), "{bad:?}");
        }
        let long = vec![b' '; LINE_BYTES_MAX as usize + 10];
        assert!(read::<Request>(&mut &long[..]).is_err(), "a line without an end");
    }

    /// A request of [`FILES_MAX`] files with long names fits.
    #[test]
    fn the_largest_request_fits_into_a_line() {
        let name = format!("domains/{}/containers/00000000/0000000000.ice", "d".repeat(255));
        let files = vec![File { name, until_secs: i64::MAX }; FILES_MAX];
        let mut bytes = Vec::new();
        write(&mut bytes, &Request { pool: "/p".repeat(200).into(), files }).unwrap();
        assert!(bytes.len() < LINE_BYTES_MAX as usize, "{}", bytes.len());
        assert_eq!(read::<Request>(&mut &bytes[..]).unwrap().unwrap().files.len(), FILES_MAX);
    }
}
