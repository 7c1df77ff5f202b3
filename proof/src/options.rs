//! What the rigs have in common: where the binary lies, their options, how they end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The top folder of the sources.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The folder that Cargo builds in.
pub(crate) fn target() -> PathBuf {
    std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from)
}

/// The binary of `cargo build --profile PROFILE`.
pub(crate) fn binary(profile: &str) -> PathBuf {
    target().join(profile).join("icecore")
}

/// This program as it runs: its file is another one once it was built with other features.
pub(crate) const THIS: &str = "/proc/self/exe";

/// Words that have no value.
const FLAGS: [&str; 2] = ["--keep", "--target"];

/// What was asked of a rig.
pub(crate) struct Asked(Vec<(String, String)>);

impl Asked {
    /// Options of all rigs, and those `more` of this one.
    pub(crate) fn parse(arguments: &[String], more: &[&str]) -> Result<Self, String> {
        let mut asked = Vec::new();
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            let is_known = ["--binary", "--seconds", "--seed"].contains(&name.as_str());
            if !is_known && !more.contains(&name.as_str()) {
                return Err(format!("unknown option {name}"));
            }
            let value = if FLAGS.contains(&name.as_str()) { Some(name) } else { words.next() };
            let value = value.ok_or(format!("{name} needs a value"))?;
            asked.push((name.clone(), value.clone()));
        }
        Ok(Self(asked))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Whether a flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// How long to go on.
    pub(crate) fn limit(&self) -> Result<Option<Duration>, String> {
        Ok(self.number("--seconds")?.map(Duration::from_secs))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let parse = |value: &str| value.parse().map_err(|_| format!("{name} {value}: no number"));
        self.text(name).map(parse).transpose()
    }

    /// The binary to run.
    pub(crate) fn binary(&self) -> PathBuf {
        self.text("--binary").map_or_else(|| binary("release"), PathBuf::from)
    }

    /// When to stop; by default never.
    pub(crate) fn deadline(&self) -> Result<Option<Instant>, String> {
        let seconds = self.number("--seconds")?;
        Ok(seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)))
    }

    /// The seed, of the clock unless it was given.
    pub(crate) fn seed(&self) -> Result<u64, String> {
        Ok(self.number("--seed")?.unwrap_or_else(clock))
    }
}

/// Milliseconds since 1970: another number each time.
pub(crate) fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// The folder of a rig, removed also when the rig panics.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is kept: {error}", self.0.display());
        }
    }
}

/// Runs a rig in a folder of its own and says how it ended: its one line, that it was skipped, or
/// what was lost.
pub(crate) fn report(
    name: &str,
    run: impl FnOnce(&Path) -> Result<String, String>,
    possible: Result<(), String>,
) -> ExitCode {
    report_in(&format!("{name}-{}", std::process::id()), name, run, possible)
}

/// The same in a folder with a name that whoever started this has chosen.
pub(crate) fn report_in(
    folder: &str,
    name: &str,
    run: impl FnOnce(&Path) -> Result<String, String>,
    possible: Result<(), String>,
) -> ExitCode {
    if let Err(reason) = possible {
        return skipped(name, &reason);
    }
    let work = std::env::temp_dir().join(format!("icecore-{folder}"));
    let made = std::fs::create_dir_all(&work).map_err(|error| error.to_string());
    let folder = Folder(work);
    let result = made.and_then(|()| run(&folder.0));
    drop(folder);
    said(name, result)
}

/// Ends a rig that cannot be here.
pub(crate) fn skipped(name: &str, reason: &str) -> ExitCode {
    skipped_part(name, reason);
    println!("{name}: SKIPPED, {reason}");
    ExitCode::SUCCESS
}

/// Notes that a part of a rig cannot be here.
pub(crate) fn skipped_part(name: &str, reason: &str) {
    testkit::skip(&format!("{name}: {reason}"));
}

/// Ends a rig: its line, or what was lost.
pub(crate) fn said(name: &str, result: Result<String, String>) -> ExitCode {
    match result {
        Ok(line) => {
            println!("{name}: {line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}
