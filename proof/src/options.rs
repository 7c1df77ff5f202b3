//! Where the binary lies that the rigs run.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The top folder of the sources.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The binary of `cargo build --profile PROFILE`.
pub(crate) fn binary(profile: &str) -> PathBuf {
    let target =
        std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from);
    target.join(profile).join("icecore")
}

/// A seed that is another one each time.
pub(crate) fn seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as u64)
}

/// Words of a command line, one after the other.
pub(crate) struct Arguments<'a> {
    rest: std::slice::Iter<'a, String>,
    name: &'a str,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(arguments: &'a [String]) -> Self {
        Self { rest: arguments.iter(), name: "" }
    }

    /// The next option.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.name = self.rest.next()?;
        Some(self.name)
    }

    /// Its value.
    pub(crate) fn value(&mut self) -> Result<&'a str, String> {
        let value = self.rest.next().ok_or(format!("{} needs a value", self.name))?;
        Ok(value)
    }

    /// Its value, a number.
    pub(crate) fn number(&mut self) -> Result<u64, String> {
        let value = self.value()?;
        value.parse().map_err(|error| format!("{} {value}: {error}", self.name))
    }
}
