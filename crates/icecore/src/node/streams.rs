//! Streams: programs of this machine whose output is backed up. Which there are, only the file `streams.toml` beside the
//! identity of the agent says; policies only name them.
//!
//! ```toml
//! [stream.shop]
//! command = ["/usr/bin/pg_dump", "-Fc", "shop"]
//! ```

use super::allow;
use crate::hooks::parse_name;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The file.
const FILE: &str = "streams.toml";
/// Most streams of a machine, and words of one.
const STREAMS_MAX: usize = 64;
const WORDS_MAX: usize = 64;

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Listed {
    stream: BTreeMap<String, Stream>,
}

/// A program, without a shell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    /// The program by its full path, and its arguments.
    command: Vec<String>,
}

/// The program of the stream `name`, with its arguments.
///
/// # Errors
/// When the machine has no such stream, or its list cannot be believed; for people.
pub(crate) fn find(folder: &Path, name: &str) -> Result<Vec<String>, String> {
    let file = folder.join(FILE).display().to_string();
    let text = allow::own_file(folder, FILE)?.unwrap_or_default();
    let mut listed = parse(&text).map_err(|why| format!("{file}: {why}"))?;
    let found = listed.stream.remove(name);
    found.map(|stream| stream.command).ok_or_else(|| {
        format!(
            "there is no stream '{name}' in {file}: add [stream.{name}] with command = [\"/usr/bin/PROGRAM\"]"
        )
    })
}

fn parse(text: &str) -> Result<Listed, String> {
    let listed: Listed = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if listed.stream.len() > STREAMS_MAX {
        return Err(format!("it has more than {STREAMS_MAX} streams"));
    }
    for (name, stream) in &listed.stream {
        parse_name(name)?;
        check(&stream.command).map_err(|why| format!("stream {name}: {why}"))?;
    }
    Ok(listed)
}

fn check(command: &[String]) -> Result<(), String> {
    let program = command.first().ok_or("command is empty")?;
    if !Path::new(program).is_absolute() {
        return Err(format!("'{program}' must be a full path"));
    }
    if command.len() > WORDS_MAX {
        return Err(format!("command has more than {WORDS_MAX} words"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(count: usize, words: usize) -> String {
        let command = vec!["\"/bin/true\""; words].join(", ");
        (0..count).map(|number| format!("[stream.s{number}]\ncommand = [{command}]\n")).collect()
    }

    #[test]
    fn streams_and_words_are_bounded_and_programs_have_full_paths() {
        for (count, words, is_good) in [
            (0, 1, true),
            (STREAMS_MAX, 1, true),
            (STREAMS_MAX + 1, 1, false),
            (1, WORDS_MAX, true),
            (1, WORDS_MAX + 1, false),
            (1, 0, false),
        ] {
            assert_eq!(parse(&streams(count, words)).is_ok(), is_good, "{count} {words}");
        }
        assert!(parse("[stream.a]\ncommand = [\"true\"]").unwrap_err().contains("full path"));
        assert!(parse("[stream.\"-a\"]\ncommand = [\"/bin/true\"]").is_err());
    }

    #[test]
    fn only_what_the_machine_lists_is_found() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        assert!(find(folder.path(), "s0").unwrap_err().contains("no stream 's0'"));
        let file = folder.path().join(FILE);
        std::fs::write(&file, streams(1, 2)).unwrap();
        for (mode, is_good) in [(0o600, true), (0o666, false)] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(find(folder.path(), "s0").is_ok(), is_good, "{mode:o}");
        }
    }
}
