//! Node commands: what an administrator asks of nodes.

use super::access_control::parse;
use super::{Control, Error, Result};
use crate::access_control::Node;
use api::commands::{CommandState, CommandUpdate, NodeCommand, NodeCommands, Task};
use tokio::sync::watch;

const COMMAND_TEXT_BYTES_MAX: usize = 4096;
const PATHS_MAX: usize = 1000;
const MESSAGE_BYTES_MAX: usize = 1000;
const SHOWN: u32 = 500;

/// Signals that a command was given.
pub struct CommandSignal(watch::Sender<u64>);

impl Default for CommandSignal {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Control {
    /// Changes whenever a command is given to any node.
    pub fn commands_changed(&self) -> watch::Receiver<u64> {
        self.command_signal.0.subscribe()
    }

    /// Gives a command. A restore from another domain needs a grant, now and when it is done.
    ///
    /// # Errors
    /// [`Error::Refused`] without a grant; [`Error::Usage`]; [`Error::Catalog`] when there is no such node.
    pub fn add_command(&self, who: &str, task: &Task) -> Result<NodeCommand> {
        check(task)?;
        if let Task::Restore(restore) = task
            && let Some(domain) = &restore.domain
        {
            self.may_read(&restore.node, domain)?;
        }
        let command = self.catalog.add_command(self.by(who), task)?;
        self.command_signal.0.send_modify(|count| *count += 1);
        Ok(command)
    }

    /// The commands of `node` that have not ended. A failure is only logged: the next call tries again.
    pub(crate) fn open_commands(&self, node: &str) -> Vec<NodeCommand> {
        self.catalog.open_commands(node).unwrap_or_else(|error| {
            tracing::error!(%error, node, "cannot read the commands of a node");
            Vec::new()
        })
    }

    /// The newest commands of all nodes.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub fn all_commands(&self) -> Result<NodeCommands> {
        Ok(NodeCommands { commands: self.catalog.commands(SHOWN)? })
    }

    /// Records the state that a node reports for its command.
    ///
    /// # Errors
    /// [`Error::Catalog`] when it has no such command; [`Error::Usage`].
    pub fn update_command(&self, node: &Node, id: u64, update: &CommandUpdate) -> Result<()> {
        if update.state == CommandState::Pending {
            return Err(Error::Usage(
                "a command that was started cannot become pending again".to_owned(),
            ));
        }
        let name = parse(&node.name)?;
        let message = update.message.as_deref();
        let message = message.map(|text| &text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)]);
        let who = format!("node {name}");
        Ok(self.catalog.update_command(self.by(&who), &name, id, update.state, message)?)
    }
}

fn check(task: &Task) -> Result<()> {
    let bad = |what: &str| Err(Error::Usage(what.to_owned()));
    let (paths, texts) = match task {
        Task::Backup(backup) => (&backup.paths, vec![]),
        Task::Restore(restore) => (&restore.paths, vec![&restore.snapshot, &restore.target]),
    };
    if paths.len() > PATHS_MAX {
        return bad("too many paths: name a folder above them");
    }
    if texts.iter().any(|text| text.is_empty()) {
        return bad("snapshot and target must not be empty");
    }
    let is_long = |text: &&String| text.len() > COMMAND_TEXT_BYTES_MAX || text.contains('\0');
    if paths.iter().chain(texts).any(|text| is_long(&text)) {
        return bad("a text is longer than 4,096 bytes or contains a zero byte");
    }
    Ok(())
}
