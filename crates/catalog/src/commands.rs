//! Node commands.

use crate::audit::note;
use crate::error::found;
use crate::sql::{Json, Row, Sql, Word, values};
use crate::{By, Catalog, Error, Result};
use api::Name;
use api::commands::{CommandState, NodeCommand, Task};

const COLUMNS: &str = "id, task, made, state, message";
/// Of a restore that an older catalog has open.
const MAY_BE_DONE: &str = "the catalog came back from an older copy, and the node may have done this since: order it again if it is still wanted";

fn command(row: &Row) -> Result<NodeCommand> {
    Ok(NodeCommand {
        id: row.get(0)?,
        task: row.get::<Json<_>>(1)?.0,
        made: row.get(2)?,
        state: row.get::<Word<_>>(3)?.0,
        message: row.get(4)?,
    })
}

/// Adds a command in the running transaction, and returns its number.
pub(crate) fn insert(change: &Sql<'_>, by: By<'_>, task: &Task) -> Result<u64> {
    let node = task.node();
    let known = "SELECT 1 FROM nodes WHERE name = $1 AND revoked = 0";
    if !change.exists(known, values![Word(node)])? {
        return Err(Error::Missing { what: "node", name: node.to_string() });
    }
    let id: u64 = change.one(
        "INSERT INTO commands (node, task, made, state) VALUES ($1, $2, $3, 'pending')
         RETURNING id",
        values![Word(node), Json(task), by.now_secs],
        |row| row.get(0),
    )?;
    let action = match task {
        Task::Restore(_) => "command.restore",
        Task::Backup(_) => "command.backup",
    };
    note(change, by, action, node.as_str(), &format!("command {id}"))?;
    Ok(id)
}

impl Catalog {
    /// Adds a command.
    ///
    /// # Errors
    /// [`Error::Missing`] when the node does not exist or is revoked, [`Error::Database`].
    pub fn add_command(&self, by: By<'_>, task: &Task) -> Result<NodeCommand> {
        self.change(|change| {
            let id = insert(change, by, task)?;
            let (task, made) = (task.clone(), by.now_secs);
            Ok(NodeCommand { id, task, made, state: CommandState::Pending, message: None })
        })
    }

    /// Commands of `node` that have not ended, oldest first.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn open_commands(&self, node: &str) -> Result<Vec<NodeCommand>> {
        self.look(|look| {
            let select = format!(
                "SELECT {COLUMNS} FROM commands
                 WHERE node = $1 AND state IN ('pending', 'taken') ORDER BY id"
            );
            look.rows(&select, values![node], command)
        })
    }

    /// The newest commands of all nodes, newest first.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn commands(&self, limit: u32) -> Result<Vec<NodeCommand>> {
        self.look_long(|look| {
            let select = format!("SELECT {COLUMNS} FROM commands ORDER BY id DESC LIMIT $1");
            look.rows(&select, values![limit], command)
        })
    }

    /// Fails pending commands that were given before `made`: a forgotten restore must not start when a machine comes
    /// back after months. Returns how many.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn give_up_commands(&self, by: By<'_>, made: i64) -> Result<usize> {
        let stale = "FROM commands WHERE state = 'pending' AND made < $1";
        let is_none = self.look_long(|look| {
            let sql = format!("SELECT 1 {stale} LIMIT 1");
            Ok(!look.exists(&sql, values![made])?)
        })?;
        if is_none {
            return Ok(0);
        }
        self.change(|change| {
            let rows = change.execute(
                "UPDATE commands SET state = 'failed', message = 'the node did not take it in time'
                 WHERE state = 'pending' AND made < $1",
                values![made],
            )?;
            note(change, by, "command.give-up", "", &format!("{rows} commands"))?;
            Ok(rows as usize)
        })
    }

    /// Fails the restores that have not ended: in a catalog that is older than it says, they may have, and one that is
    /// done again overwrites what was changed since. A backup that is made again costs a snapshot too many, and one
    /// that is not made may be missed. Returns how many.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn fail_restores(&self, by: By<'_>) -> Result<usize> {
        self.change(|change| {
            let select =
                format!("SELECT {COLUMNS} FROM commands WHERE state IN ('pending', 'taken')");
            let mut open = change.rows(&select, &[], command)?;
            open.retain(|one| matches!(one.task, Task::Restore(_)));
            let update = "UPDATE commands SET state = 'failed', message = $2 WHERE id = $1";
            for one in &open {
                change.execute(update, values![one.id, MAY_BE_DONE])?;
            }
            if !open.is_empty() {
                let ids: Vec<_> = open.iter().map(|one| one.id.to_string()).collect();
                note(change, by, "command.fail-restores", "", &ids.join(" "))?;
            }
            Ok(open.len())
        })
    }

    /// Records the state that `node` reports for its command. A command that has ended does not change.
    ///
    /// # Errors
    /// [`Error::Missing`] when the node has no such open command, [`Error::Database`].
    pub fn update_command(
        &self,
        by: By<'_>,
        node: &Name,
        id: u64,
        state: CommandState,
        message: Option<&str>,
    ) -> Result<()> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE commands SET state = $3, message = $4
                 WHERE id = $1 AND node = $2 AND state IN ('pending', 'taken')",
                values![id, Word(node), Word(state), message],
            )?;
            found(rows, "command", id)?;
            let subject = format!("command {id}");
            note(change, by, "command.update", &subject, &format!("{state:?}"))
        })
    }
}
