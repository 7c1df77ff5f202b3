//! Node commands: given by the administrator, fetched and reported on by nodes.

use crate::commands::Commands;
use crate::http::answer::{Answer, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::{Admin, FromNode};
use api::Failure;
use api::commands::{CommandUpdate, NewBackup, NewRestore, NodeCommand, NodeCommands, Task};
use api::status::Done;
use axum::extract::State;

/// Asks a node to restore onto itself.
#[utoipa::path(post, path = "/api/v1/restores", tag = "commands", request_body = NewRestore,
    security(("admin" = [])),
    responses((status = 200, body = NodeCommand), (status = "4XX", body = Failure)))]
pub(crate) async fn restore(
    State(commands): Topic<Commands>,
    _: Admin,
    Body(new): Body<NewRestore>,
) -> Answer<NodeCommand> {
    work(commands, move |commands| commands.add(Admin::WHO, &Task::Restore(new))).await
}

/// Asks a node to back itself up.
#[utoipa::path(post, path = "/api/v1/backups", tag = "commands", request_body = NewBackup,
    security(("admin" = [])),
    responses((status = 200, body = NodeCommand), (status = "4XX", body = Failure)))]
pub(crate) async fn backup(
    State(commands): Topic<Commands>,
    _: Admin,
    Body(new): Body<NewBackup>,
) -> Answer<NodeCommand> {
    work(commands, move |commands| commands.add(Admin::WHO, &Task::Backup(new))).await
}

/// Lists the newest commands of all nodes.
#[utoipa::path(get, path = "/api/v1/commands", tag = "commands", security(("admin" = [])),
    responses((status = 200, body = NodeCommands), (status = "4XX", body = Failure)))]
pub(crate) async fn commands(State(commands): Topic<Commands>, _: Admin) -> Answer<NodeCommands> {
    work(commands, |commands| commands.all()).await
}

/// Lists the calling node's commands that have not ended.
#[utoipa::path(get, path = "/api/v1/node/commands", tag = "commands", security(("node" = [])),
    responses((status = 200, body = NodeCommands), (status = "4XX", body = Failure)))]
pub(crate) async fn own_commands(
    State(commands): Topic<Commands>,
    FromNode(node): FromNode,
) -> Answer<NodeCommands> {
    work(commands, move |commands| Ok(NodeCommands { commands: commands.open(&node.name) })).await
}

/// Reports the state of a command.
#[utoipa::path(post, path = "/api/v1/node/commands/{id}", tag = "commands",
    params(("id" = u64, Path, description = "Its number.")), request_body = CommandUpdate,
    security(("node" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn update_command(
    State(commands): Topic<Commands>,
    FromNode(node): FromNode,
    At(id): At<u64>,
    Body(update): Body<CommandUpdate>,
) -> Answer<Done> {
    work(commands, move |commands| commands.update(&node, id, &update).map(|()| Done {})).await
}
