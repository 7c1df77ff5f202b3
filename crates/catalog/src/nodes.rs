//! Nodes.

use crate::audit::note;
use crate::certificates::{Holder, IssuedCertificate, issued};
use crate::error::found;
use crate::schedules::end_of_removed;
use crate::sql::{Row, Sql, ToValue, Word, values};
use crate::{By, Catalog, Result};
use api::Name;
use api::enroll::Role;
use api::nodes::ForgetScope;

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

fn node(row: &Row) -> Result<Node> {
    Ok(Node {
        name: row.get::<Word<_>>(0)?.0,
        domain: row.get::<Word<_>>(1)?.0,
        role: row.get::<Word<_>>(2)?.0,
        key: row.get(3)?,
        made: row.get(4)?,
        last_seen: row.get(5)?,
        address: row.get(6)?,
        version: row.get(7)?,
        revoked: row.get(8)?,
        certificate_expires: row.get(9)?,
        alarm: row.get(10)?,
        forget: row.get::<Word<_>>(11)?.0,
    })
}

impl Catalog {
    /// All nodes, by name.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn nodes(&self) -> Result<Vec<Node>> {
        self.look_long(|look| look.rows(&format!("{SELECT} ORDER BY name"), &[], node))
    }

    /// The nodes of `domain`, by name.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn nodes_of(&self, domain: &Name) -> Result<Vec<Node>> {
        self.look(|look| {
            let select = format!("{SELECT} WHERE domain = $1 ORDER BY name");
            look.rows(&select, values![Word(domain)], node)
        })
    }

    /// One node, if it exists.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn node(&self, name: &Name) -> Result<Option<Node>> {
        self.look(|look| look.row(&format!("{SELECT} WHERE name = $1"), values![Word(name)], node))
    }

    /// Records when nodes were last seen: name, address, time. Not in the audit log.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn nodes_seen(&self, seen: &[(&str, String, i64)]) -> Result<()> {
        if seen.is_empty() {
            return Ok(());
        }
        self.change(|change| {
            let update = "UPDATE nodes SET last_seen = $3, address = $2
                 WHERE name = $1 AND (last_seen IS NULL OR last_seen <= $3)";
            seen.iter().try_for_each(|(name, address, at)| {
                change.execute(update, values![name, address, at]).map(drop)
            })
        })
    }

    /// Revokes a node with all its certificates; it can enroll again with a new token.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Database`].
    pub fn revoke_node(&self, by: By<'_>, name: &Name) -> Result<()> {
        self.change(|change| {
            keep_old_key(change, name, Leaving::Revoked)?;
            let revoke = "UPDATE nodes SET revoked = 1 WHERE name = $1";
            found(change.execute(revoke, values![Word(name)])?, "node", name)?;
            let revoke = "UPDATE certificates SET revoked = 1 WHERE node = $1";
            change.execute(revoke, values![Word(name)])?;
            note(change, by, "node.revoke", name.as_str(), "")
        })
    }

    /// Sets which snapshots a node may forget from now on.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Database`].
    pub fn allow_forget(&self, by: By<'_>, name: &Name, scope: ForgetScope) -> Result<()> {
        self.change(|change| {
            let update = "UPDATE nodes SET forget = $2 WHERE name = $1";
            found(change.execute(update, values![Word(name), Word(scope)])?, "node", name)?;
            let detail = match scope {
                ForgetScope::None => "none",
                ForgetScope::Own => "its own snapshots",
                ForgetScope::Domain => "all snapshots of its domain",
            };
            note(change, by, "node.may-forget", name.as_str(), detail)
        })
    }

    /// Removes a node with its grants and its certificates, which are returned. Its domain and what is stored there
    /// stay.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Database`].
    pub fn remove_node(&self, by: By<'_>, name: &Name) -> Result<Vec<IssuedCertificate>> {
        self.change(|change| {
            let certificates = issued(change, Holder::Node, Some(name))?;
            keep_old_key(change, name, Leaving::Removed)?;
            let remove = "DELETE FROM nodes WHERE name = $1";
            found(change.execute(remove, values![Word(name)])?, "node", name)?;
            end_of_removed(change, by, name.as_str())?;
            note(change, by, "node.remove", name.as_str(), "")?;
            Ok(certificates)
        })
    }
}

/// Why the key slot of a node is no longer its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaving<'a> {
    /// The node is revoked.
    Revoked,
    /// The node is removed.
    Removed,
    /// The node enrolls again, with this key slot or none.
    Replaced(Option<&'a str>),
}

/// Records the key slot that `name` has until now, in the transaction that takes it away: until the slot is removed.
pub(crate) fn keep_old_key(change: &Sql<'_>, name: &Name, leaving: Leaving<'_>) -> Result<()> {
    let (condition, next) = match leaving {
        Leaving::Revoked => ("revoked = 0", None),
        Leaving::Removed => ("key IS NOT NULL", None),
        Leaving::Replaced(next) => ("key <> $2", Some(next.unwrap_or_default())),
    };
    let insert = format!(
        "INSERT INTO old_keys (key, node, domain) SELECT key, name, domain FROM nodes
         WHERE name = $1 AND key IS NOT NULL AND {condition} ON CONFLICT (key) DO NOTHING"
    );
    let values = [Some(name.as_str()), next].into_iter().flatten().map(|text| text.to_value());
    change.execute(&insert, &values.collect::<Result<Vec<_>>>()?)?;
    Ok(())
}
