//! Nodes.

use crate::audit::note;
use crate::error::found;
use crate::stored::Word;
use crate::{By, Catalog, Result};
use api::Name;
use api::enroll::Role;
use api::nodes::ForgetScope;
use rusqlite::{OptionalExtension, Row};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Name,
    /// Its domain.
    pub domain: Name,
    /// What it may do.
    pub role: Role,
    /// Id of its key slot, hex; `None` with client-held keys.
    pub key: Option<String>,
    /// When it enrolled.
    pub made: i64,
    /// When it was last seen.
    pub last_seen: Option<i64>,
    /// Address from which it connected.
    pub address: Option<String>,
    /// Version of its program.
    pub version: Option<String>,
    /// Whether it is revoked.
    pub revoked: bool,
    /// When the last of its certificates expires.
    pub certificate_expires: Option<i64>,
    /// Why the server stopped it by itself.
    pub alarm: Option<String>,
    /// Which snapshots it may forget.
    pub forget: ForgetScope,
}

const SELECT: &str = "SELECT name, domain, role, key, made, last_seen, address, version, revoked,
    (SELECT max(not_after) FROM certificates WHERE node = name AND certificates.revoked = 0),
    alarm, forget FROM nodes";

fn node(row: &Row<'_>) -> rusqlite::Result<Node> {
    Ok(Node {
        name: row.get::<_, Word<_>>(0)?.0,
        domain: row.get::<_, Word<_>>(1)?.0,
        role: row.get::<_, Word<_>>(2)?.0,
        key: row.get(3)?,
        made: row.get(4)?,
        last_seen: row.get(5)?,
        address: row.get(6)?,
        version: row.get(7)?,
        revoked: row.get(8)?,
        certificate_expires: row.get(9)?,
        alarm: row.get(10)?,
        forget: row.get::<_, Word<_>>(11)?.0,
    })
}

impl Catalog {
    /// All nodes, by name.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn nodes(&self) -> Result<Vec<Node>> {
        self.look_long(|look| {
            let mut select = look.prepare_cached(&format!("{SELECT} ORDER BY name"))?;
            let rows = select.query_map([], node)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The nodes of `domain`, by name.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn nodes_of(&self, domain: &Name) -> Result<Vec<Node>> {
        self.look(|look| {
            let mut select =
                look.prepare_cached(&format!("{SELECT} WHERE domain = ?1 ORDER BY name"))?;
            let rows = select.query_map([Word(domain)], node)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// One node, if it exists.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn node(&self, name: &Name) -> Result<Option<Node>> {
        self.look(|look| {
            let mut select = look.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?;
            Ok(select.query_row([Word(name)], node).optional()?)
        })
    }

    /// Records when nodes were last seen: name, address, time. Not in the audit log.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn nodes_seen(&self, seen: &[(&str, String, i64)]) -> Result<()> {
        if seen.is_empty() {
            return Ok(());
        }
        self.change(|change| {
            let mut update = change.prepare_cached(
                "UPDATE nodes SET last_seen = ?3, address = ?2
                 WHERE name = ?1 AND (last_seen IS NULL OR last_seen <= ?3)",
            )?;
            seen.iter().try_for_each(|node| update.execute(node.clone()).map(drop))?;
            Ok(())
        })
    }

    /// Revokes a node with all its certificates; it can enroll again with a new token.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Sqlite`].
    pub fn revoke_node(&self, by: By<'_>, name: &Name) -> Result<()> {
        self.change(|change| {
            let name = name.as_str();
            found(
                change.execute("UPDATE nodes SET revoked = 1 WHERE name = ?1", [name])?,
                "node",
                name,
            )?;
            change.execute("UPDATE certificates SET revoked = 1 WHERE node = ?1", [name])?;
            note(change, by, "node.revoke", name, "")
        })
    }

    /// Sets which snapshots a node may forget from now on.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Sqlite`].
    pub fn allow_forget(&self, by: By<'_>, name: &Name, scope: ForgetScope) -> Result<()> {
        self.change(|change| {
            let update = "UPDATE nodes SET forget = ?2 WHERE name = ?1";
            found(change.execute(update, (Word(name), Word(scope)))?, "node", name)?;
            let detail = match scope {
                ForgetScope::None => "none",
                ForgetScope::Own => "its own snapshots",
                ForgetScope::Domain => "all snapshots of its domain",
            };
            note(change, by, "node.may-forget", name.as_str(), detail)
        })
    }

    /// Removes a node with its certificates and grants. Its domain and what is stored there stay.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Sqlite`].
    pub fn remove_node(&self, by: By<'_>, name: &Name) -> Result<()> {
        self.change(|change| {
            let name = name.as_str();
            found(change.execute("DELETE FROM nodes WHERE name = ?1", [name])?, "node", name)?;
            note(change, by, "node.remove", name, "")
        })
    }
}
