//! The repository that the command line names, in the commands that messages print: typed as they
//! are printed, they must not meet another one.

use crate::client_options::{Candidate, Layer};
use crate::failure::quoted;

/// Commands on a repository.
const COMMANDS: [&str; 18] = [
    "backup",
    "bench",
    "cat",
    "check",
    "copy",
    "diff",
    "dump",
    "find",
    "forget",
    "key",
    "ls",
    "map",
    "rebuild",
    "reclaim",
    "restore",
    "snapshots",
    "stats",
    "tag",
];
const PROGRAM: &str = "icecore ";

/// The repository of `--repo`, as a shell takes it.
pub(crate) fn typed(candidates: &[Candidate]) -> Option<String> {
    let is_typed = |one: &&Candidate| one.option == "repo" && one.layer == Layer::CommandLine;
    let value = candidates.iter().find(is_typed)?.values.first()?;
    value.to_str().map(quoted)
}

/// `text`, in which each command on a repository has `--repo REPO`, unless it has one.
pub(crate) fn naming(text: &str, repo: &str) -> String {
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PROGRAM) {
        let (before, after) = rest.split_at(at + PROGRAM.len());
        let is_a_word =
            !rest[..at].ends_with(|last: char| !last.is_whitespace() && !"`'(".contains(last));
        named.push_str(before);
        rest = after;
        let verb = COMMANDS.iter().find(|verb| begins_with_word(after, verb));
        if let Some(verb) = verb.filter(|_| is_a_word && !names_one(after)) {
            named.push_str(&format!("{verb} --repo {repo}"));
            rest = &after[verb.len()..];
        }
    }
    named + rest
}

fn begins_with_word(text: &str, word: &str) -> bool {
    let rest = text.strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next == '-' || next.is_alphanumeric()))
}

/// Whether the command at the beginning of `text` says which repository it is for.
fn names_one(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let command = line.find(PROGRAM).map_or(line, |next| &line[..next]);
    command.contains("--repo ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_on_a_repository_name_the_one_that_was_typed() {
        for (text, wanted) in [
            (
                "Then give it up:\n  icecore forget --damaged 1f\n  icecore check",
                "Then give it up:\n  icecore forget --repo /r --damaged 1f\n  icecore check --repo /r",
            ),
            ("To list keys: icecore key list", "To list keys: icecore key --repo /r list"),
            (
                "Free it: icecore reclaim (or --prune)",
                "Free it: icecore reclaim --repo /r (or --prune)",
            ),
            (
                "To see: icecore map --failed 1f. All: icecore snapshots",
                "To see: icecore map --repo /r --failed 1f. All: icecore snapshots --repo /r",
            ),
        ] {
            assert_eq!(naming(text, "/r"), wanted);
        }
    }

    #[test]
    fn whatever_is_of_another_place_stays() {
        for text in [
            "On the server: icecore server check web",
            "Next: icecore rebuild --repo /other && icecore check --repo /other",
            "saved /home/icecore check",
            "icecore restored it",
            "icecore agent status",
        ] {
            assert_eq!(naming(text, "/r"), text);
        }
    }

    #[test]
    fn what_is_printed_is_a_command_line() {
        for command in COMMANDS {
            let text = format!("icecore {command}");
            let named = naming(&text, "/r");
            assert!(named.ends_with(" --repo /r"), "{named}");
            let help = format!("{named} --help");
            let words = help.split(' ').map(std::ffi::OsString::from);
            let error = crate::cli::Cli::read(words).err().unwrap();
            assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{help}");
        }
    }
}
