//! `icecore server backup`, `restore`, `commands`.

use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use crate::table::{Table, flexible, left, right};
use api::Name;
use api::commands::{NewBackup, NewRestore, NodeCommand, NodeCommands, Task, message_of};
use serde::Serialize;

/// Ask a node to back up.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server backup web-01\n  icecore server backup web-01 /etc"
)]
pub(crate) struct Backup {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// Paths to back up [default: `backup` in the allow.toml of the node].
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

impl Backup {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let new = NewBackup::of(self.node.clone(), self.paths.clone());
        report(context, &reach.post("/backups", &new)?)
    }
}

/// Ask a node to restore files to its own disk.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server restore web-01 --target /var/restored /etc\n  icecore server restore web-02 --from web-01 --target /var/restored\n\nTo restore from another domain, the node needs a grant: icecore server grant NODE DOMAIN"
)]
pub(crate) struct Restore {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// Snapshot: latest, an id or a time.
    #[arg(long, value_name = "SNAPSHOT", default_value = "latest")]
    snapshot: String,
    /// Domain to restore from [default: the node's own].
    #[arg(long, value_name = "DOMAIN")]
    from: Option<Name>,
    /// Directory on the node to restore to.
    #[arg(long, value_name = "DIR")]
    target: String,
    /// Paths in the snapshot [default: all].
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

impl Restore {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let new = NewRestore {
            node: self.node.clone(),
            domain: self.from.clone(),
            snapshot: self.snapshot.clone(),
            paths: self.paths.clone(),
            target: self.target.clone(),
        };
        report(context, &reach.post("/restores", &new)?)
    }
}

fn report(context: &Context, command: &NodeCommand) -> Result<Code> {
    let node = command.task.node();
    context
        .out
        .line(&format!("Command {} waits for {node}: icecore server commands", command.id))?;
    context.out.summary(Code::Complete, command)
}

/// List the commands given to nodes, newest first.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server commands")]
pub(crate) struct Commands {}

#[derive(Serialize)]
struct Count {
    commands: usize,
}

impl Commands {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let NodeCommands { commands } = reach.get("/commands")?;
        let mut table = Table::new(&[
            right("COMMAND"),
            left("STATE"),
            left("NODE"),
            left("REQUESTED"),
            flexible("WHAT"),
            flexible("RESULT"),
        ]);
        for command in &commands {
            context.out.record("command", command)?;
            table.row(row(command));
        }
        table.print(&context.out)?;
        if commands.is_empty() {
            context.out.line("No node was asked for anything yet: icecore server backup NODE")?;
        }
        context.out.summary(Code::Complete, &Count { commands: commands.len() })
    }
}

fn row(command: &NodeCommand) -> [String; 6] {
    let what = match &command.task {
        Task::Backup(backup) if backup.paths.is_empty() => "backup of its own list".to_owned(),
        Task::Backup(backup) => format!("backup {}", backup.paths.join(" ")),
        Task::Restore(restore) => format!("restore {} to {}", restore.snapshot, restore.target),
    };
    [
        command.id.to_string(),
        word(&command.state),
        command.task.node().to_string(),
        when(command.made),
        escape::text(&what),
        escape::text(&message_of(command.message.as_deref().unwrap_or_default())),
    ]
}
