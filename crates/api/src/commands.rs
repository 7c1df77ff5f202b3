//! Node commands: what an administrator asks a node to do. A node does only what it could do by itself.

use crate::Name;
use crate::options::Options;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Asks a node to restore onto itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRestore {
    /// The node that restores.
    pub node: Name,
    /// The domain to restore from; the node's own when missing. Another one must be granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Name>,
    /// The snapshot, as `icecore restore` takes it: `latest`, an id, a time.
    pub snapshot: String,
    /// Paths in the snapshot, taken literally; all when empty. The command fails when one is missing.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Target folder: one that the node allows, or one below it. No component may be a symbolic link.
    pub target: String,
}

/// Asks a node to back itself up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackup {
    /// The node.
    pub node: Name,
    /// Paths to back up; those of the node's own configuration when empty.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Patterns of what is left out, as `icecore backup --exclude` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
    /// Whether all files are read, even if they seem unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// Whether inode numbers say nothing about changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_inode: bool,
    /// Files that changed at this time or later are read, even if they seem unchanged.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<i64>,
    /// The program whose output is backed up instead of paths: a name of the agent's own list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Patterns of what is backed up and, behind a `!`, of what is not; the last one that fits counts. Everything when
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// What tells its snapshots from others of the same paths: a class. Empty for those that bear the paths alone;
    /// when missing, `only` tells them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// The job that it is for; the server sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Client options for this backup.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: Options,
    /// Who says each of them, for people: `policy web`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, String>,
    /// Whether `options` stand in place of those that the server sets for the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_options: bool,
}

impl NewBackup {
    /// A backup of `paths`, or of the node's own list.
    pub fn of(node: Name, paths: Vec<String>) -> Self {
        Self {
            node,
            paths,
            excludes: Vec::new(),
            full: false,
            ignore_inode: false,
            since: None,
            stream: None,
            only: Vec::new(),
            series: None,
            job: None,
            options: Options::new(),
            origins: BTreeMap::new(),
            has_options: false,
        }
    }
}

/// How a node names the backup that it makes for a command: the server then knows to which job it belongs.
pub fn what_of(command: u64) -> String {
    format!("{WHAT}{command}")
}

/// The command for which a node makes a backup, if it is for one.
pub fn command_of(what: &str) -> Option<u64> {
    what.strip_prefix(WHAT)?.parse().ok()
}

const WHAT: &str = "command ";

/// How an agent names the end of a process that was killed.
pub const KILLED: &str = "killed";

/// Whether an agent's report of a command has this name: one of the exit codes, or [`KILLED`].
pub fn is_named(report: &str, name: &str) -> bool {
    report.contains(&format!("name \"{name}\""))
}

/// What an agent's report of a command says to people: without the words around it, and its name.
pub fn message_of(report: &str) -> Cow<'_, str> {
    let Some(quoted) = report.strip_prefix("message ") else { return report.into() };
    let mut words = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
    let Some(Ok(message)) = words.next() else { return report.into() };
    let rest = quoted.get(words.byte_offset()..).unwrap_or_default();
    match rest.find(", hook ") {
        Some(at) => format!("{message}{}", &rest[at..]).into(),
        None => message.into(),
    }
}

/// What a node is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Task {
    /// A restore.
    Restore(NewRestore),
    /// A backup.
    Backup(NewBackup),
}

impl Task {
    /// The node.
    pub fn node(&self) -> &Name {
        match self {
            Self::Restore(restore) => &restore.node,
            Self::Backup(backup) => &backup.node,
        }
    }
}

/// State of a node command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommandState {
    /// The node has not started it.
    Pending,
    /// The node is working on it.
    Taken,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
}

/// A node command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCommand {
    /// Its number.
    pub id: u64,
    /// What the node is asked to do.
    pub task: Task,
    /// When it was given.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub made: i64,
    /// Its state.
    pub state: CommandState,
    /// Message from the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Node commands.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NodeCommands {
    /// Oldest first.
    pub commands: Vec<NodeCommand>,
}

/// What a node reports of a command.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandUpdate {
    /// Its state.
    pub state: CommandState,
    /// Message, for people.
    #[serde(default)]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_message_of_a_report_and_how_its_hooks_ended() {
        let no_space = r#"message "/var/a \"b\": no space left", name "no-space""#;
        assert_eq!(message_of(no_space), r#"/var/a "b": no space left"#);
        let hook = r#"message "a hook failed", name "hook-failed", hook stop (before): exit 1"#;
        assert_eq!(message_of(hook), "a hook failed, hook stop (before): exit 1");
        let cut = r#"message "this was too lo"#;
        for other in [cut, "", "message ", "message 7", "cannot start", "name \"failed\""] {
            assert_eq!(message_of(other), other);
        }
    }
}
