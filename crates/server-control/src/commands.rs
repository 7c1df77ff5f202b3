//! Node commands: what an administrator asks of nodes.

use crate::catalog_mark::CatalogMark;
use crate::error::parse_name;
use crate::open::Parts;
use crate::permissions::Permissions;
use crate::{Error, Result, by};
use api::commands::{CommandState, CommandUpdate, NodeCommand, NodeCommands, Task};
use catalog::Catalog;
use server_contract::access_control::Node;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const COMMAND_TEXT_BYTES_MAX: usize = 4096;
const PATHS_MAX: usize = 1000;
const MESSAGE_BYTES_MAX: usize = 1000;
const SHOWN: u32 = 500;

/// The commands of all nodes.
pub(crate) struct Commands {
    catalog: Arc<Catalog>,
    mark: Arc<CatalogMark>,
    permissions: Arc<Permissions>,
    /// Counts the commands given.
    given: AtomicU64,
}

impl Commands {
    /// The commands of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        let (catalog, permissions) = (parts.catalog.clone(), parts.permissions.clone());
        Self { catalog, mark: parts.mark.clone(), permissions, given: AtomicU64::new(0) }
    }

    /// Rises with every command, to any node.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// A command was given past this, in a transaction of the catalog.
    pub(crate) fn was_given(&self) {
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives a command. A restore from another domain needs a grant, now and when it is done.
    ///
    /// # Errors
    /// [`Error::Refused`] without a grant; [`Error::Usage`]; [`Error::Catalog`] when there is no such node.
    pub(crate) fn add(&self, who: &str, task: &Task) -> Result<NodeCommand> {
        check(task)?;
        if let Task::Restore(restore) = task
            && let Some(domain) = &restore.domain
        {
            self.permissions.may_read(&restore.node, domain)?;
        }
        let command = self.catalog.add_command(by(who), task)?;
        self.given.fetch_add(1, Ordering::Relaxed);
        Ok(command)
    }

    /// The commands of `node` that have not ended. A failure is only logged: the next call tries again.
    pub(crate) fn open(&self, node: &str) -> Vec<NodeCommand> {
        let open = self.catalog.open_commands(node).and_then(|open| self.not_done(open));
        open.unwrap_or_else(|error| {
            tracing::error!(%error, node, "cannot read the commands of a node");
            Vec::new()
        })
    }

    /// Without restores of an older catalog. Those that it had when it was found have ended; another copy of it may
    /// have come since, under a running server.
    fn not_done(&self, open: Vec<NodeCommand>) -> catalog::Result<Vec<NodeCommand>> {
        let mut left = Vec::new();
        for one in open {
            if !matches!(one.task, Task::Restore(_)) || !self.mark.may_be_of_copy(one.made)? {
                left.push(one);
            }
        }
        Ok(left)
    }

    /// The newest commands of all nodes.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn all(&self) -> Result<NodeCommands> {
        Ok(NodeCommands { commands: self.catalog.commands(SHOWN)? })
    }

    /// Records the state that a node reports for its command.
    ///
    /// # Errors
    /// [`Error::Catalog`] when it has no such command; [`Error::Usage`].
    pub(crate) fn update(&self, node: &Node, id: u64, update: &CommandUpdate) -> Result<()> {
        if update.state == CommandState::Pending {
            return Err(Error::Usage(
                "a command that was started cannot become pending again".to_owned(),
            ));
        }
        let name = parse_name(&node.name)?;
        let message = update.message.as_deref();
        let message = message.map(|text| &text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)]);
        let who = format!("node {name}");
        Ok(self.catalog.update_command(by(&who), &name, id, update.state, message)?)
    }
}

fn check(task: &Task) -> Result<()> {
    let bad = |what: &str| Err(Error::Usage(what.to_owned()));
    let (paths, texts) = match task {
        Task::Backup(backup) if backup.excludes.len() + backup.only.len() > PATHS_MAX => {
            return bad("too many patterns");
        }
        Task::Backup(backup) => (&backup.paths, vec![]),
        Task::Restore(restore) => (&restore.paths, vec![&restore.snapshot, &restore.target]),
    };
    if paths.len() > PATHS_MAX {
        return bad("too many paths: name a directory above them");
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
