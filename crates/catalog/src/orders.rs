//! Orders to nodes.

use crate::audit::note;
use crate::error::found;
use crate::stored::{Json, Word};
use crate::{By, Catalog, Error, Result};
use api::Name;
use api::orders::{Order, OrderState, Task};
use rusqlite::{OptionalExtension, Row};

const COLUMNS: &str = "id, task, made, state, message";

fn order(row: &Row<'_>) -> rusqlite::Result<Order> {
    Ok(Order {
        id: row.get::<_, i64>(0)?.unsigned_abs(),
        task: row.get::<_, Json<_>>(1)?.0,
        made: row.get(2)?,
        state: row.get::<_, Word<_>>(3)?.0,
        message: row.get(4)?,
    })
}

impl Catalog {
    /// Adds an order.
    ///
    /// # Errors
    /// [`Error::Missing`] when the node is not there or revoked, [`Error::Sqlite`].
    pub fn add_order(&self, by: By<'_>, task: &Task) -> Result<Order> {
        self.change(|change| {
            let node = task.node();
            let known = "SELECT 1 FROM nodes WHERE name = ?1 AND revoked = 0";
            if change.query_row(known, [Word(node)], |_| Ok(())).optional()?.is_none() {
                return Err(Error::Missing { what: "node", name: node.to_string() });
            }
            change.execute(
                "INSERT INTO orders (node, task, made, state) VALUES (?1, ?2, ?3, 'pending')",
                (Word(node), Json(task), by.now_secs),
            )?;
            let id = change.last_insert_rowid().unsigned_abs();
            let action = match task {
                Task::Restore(_) => "order.restore",
                Task::Backup(_) => "order.backup",
            };
            note(change, by, action, node.as_str(), &format!("order {id}"))?;
            let (task, made) = (task.clone(), by.now_secs);
            Ok(Order { id, task, made, state: OrderState::Pending, message: None })
        })
    }

    /// The orders that `node` has not ended, oldest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn open_orders(&self, node: &str) -> Result<Vec<Order>> {
        self.look(|look| {
            let mut select = look.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM orders
                 WHERE node = ?1 AND state IN ('pending', 'taken') ORDER BY id"
            ))?;
            let rows = select.query_map([node], order)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The newest orders of all nodes, newest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn orders(&self, limit: u32) -> Result<Vec<Order>> {
        self.look(|look| {
            let mut select = look.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM orders ORDER BY id DESC LIMIT ?1"
            ))?;
            let rows = select.query_map([limit], order)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Notes what `node` says of its order. One that has ended stays so.
    ///
    /// # Errors
    /// [`Error::Missing`] when it has no such order, [`Error::Sqlite`].
    pub fn update_order(
        &self,
        by: By<'_>,
        node: &Name,
        id: u64,
        state: OrderState,
        message: Option<&str>,
    ) -> Result<()> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE orders SET state = ?3, message = ?4
                 WHERE id = ?1 AND node = ?2 AND state IN ('pending', 'taken')",
                (i64::try_from(id).unwrap_or(i64::MAX), Word(node), Word(state), message),
            )?;
            found(rows, "order", id)?;
            let subject = format!("order {id}");
            note(change, by, "order.update", &subject, &format!("{state:?}"))
        })
    }
}
