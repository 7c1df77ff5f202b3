//! Grants: which node may read which domain besides its own, and the key slots issued for that.

use crate::audit::note;
use crate::error::found;
use crate::sql::{Row, Sql, Word, values};
use crate::{By, Catalog, Error, Result};
use api::Name;
use api::domains::Grant;

/// A key slot issued for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedKey {
    /// Id of the slot, hex.
    pub key: String,
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
}

fn key(row: &Row) -> Result<GrantedKey> {
    let (node, domain) = (row.get::<Word<_>>(1)?.0, row.get::<Word<_>>(2)?.0);
    Ok(GrantedKey { key: row.get(0)?, node, domain })
}

fn grant(row: &Row) -> Result<Grant> {
    let (node, domain) = (row.get::<Word<_>>(0)?.0, row.get::<Word<_>>(1)?.0);
    Ok(Grant { node, domain, until: row.get(2)? })
}

impl Catalog {
    /// All grants.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn grants(&self) -> Result<Vec<Grant>> {
        self.look_long(|look| {
            look.rows("SELECT node, domain, until FROM grants ORDER BY node, domain", &[], grant)
        })
    }

    /// The grant of `domain` to `node` that is valid at `now_secs`.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn grant(&self, node: &Name, domain: &Name, now_secs: i64) -> Result<Option<Grant>> {
        self.look(|look| {
            let select = "SELECT node, domain, until FROM grants
                 WHERE node = $1 AND domain = $2 AND (until IS NULL OR until > $3)";
            look.row(select, values![Word(node), Word(domain), now_secs], grant)
        })
    }

    /// Adds a grant, or changes its expiry.
    ///
    /// # Errors
    /// [`Error::Missing`] when node or domain is, [`Error::Database`].
    pub fn add_grant(&self, by: By<'_>, new: &Grant) -> Result<()> {
        self.change(|change| {
            let exists = |sql: &str, name: &Name| change.exists(sql, values![Word(name)]);
            if !exists("SELECT 1 FROM nodes WHERE name = $1 AND revoked = 0", &new.node)? {
                return Err(Error::Missing { what: "node", name: new.node.to_string() });
            }
            if !exists("SELECT 1 FROM domains WHERE name = $1", &new.domain)? {
                return Err(Error::Missing { what: "domain", name: new.domain.to_string() });
            }
            change.execute(
                "INSERT INTO grants (node, domain, until) VALUES ($1, $2, $3)
                 ON CONFLICT (node, domain) DO UPDATE SET until = excluded.until",
                values![Word(&new.node), Word(&new.domain), new.until],
            )?;
            let until = new.until.map_or("no end".to_owned(), |until| format!("until {until}"));
            let subject = format!("{} reads {}", new.node, new.domain);
            note(change, by, "grant.add", &subject, &until)
        })
    }

    /// Withdraws a grant.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Database`].
    pub fn remove_grant(&self, by: By<'_>, node: &Name, domain: &Name) -> Result<()> {
        self.change(|change| {
            let rows = change.execute(
                "DELETE FROM grants WHERE node = $1 AND domain = $2",
                values![Word(node), Word(domain)],
            )?;
            let subject = format!("{node} reads {domain}");
            found(rows, "grant", &subject)?;
            note(change, by, "grant.remove", &subject, "")
        })
    }

    /// Records a key slot before it is created: a record without a slot is harmless, a slot without a record would
    /// stay for ever.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn add_granted_key(&self, by: By<'_>, new: &GrantedKey) -> Result<()> {
        self.change(|change| {
            change.execute(
                "INSERT INTO granted_keys (key, node, domain) VALUES ($1, $2, $3)
                 ON CONFLICT (key) DO UPDATE SET node = excluded.node, domain = excluded.domain",
                values![new.key, Word(&new.node), Word(&new.domain)],
            )?;
            let subject = format!("{} reads {}", new.node, new.domain);
            note(change, by, "grant.key", &subject, &new.key)
        })
    }

    /// Key slots to remove: their grant expired or was withdrawn, or their node was revoked or removed.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn stale_keys(&self, now_secs: i64) -> Result<Vec<GrantedKey>> {
        self.look_long(|look| {
            let select = "SELECT key, node, domain FROM granted_keys WHERE NOT EXISTS (
                   SELECT 1 FROM grants JOIN nodes ON nodes.name = grants.node
                   WHERE grants.node = granted_keys.node AND grants.domain = granted_keys.domain
                   AND (until IS NULL OR until > $1) AND nodes.revoked = 0)";
            look.rows(select, values![now_secs], key)
        })
    }

    /// Key slots of nodes that were revoked, removed or enrolled again: to be removed.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn old_keys(&self) -> Result<Vec<GrantedKey>> {
        self.look_long(|look| {
            let select = "SELECT key, node, domain FROM old_keys WHERE NOT EXISTS (
                   SELECT 1 FROM nodes WHERE nodes.key = old_keys.key AND nodes.revoked = 0)";
            look.rows(select, &[], key)
        })
    }

    /// Records that the key slot of a former node was removed.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn remove_old_key(&self, by: By<'_>, old: &GrantedKey) -> Result<()> {
        self.change(|change| {
            change.execute("DELETE FROM old_keys WHERE key = $1", values![old.key])?;
            remember(change, by, old)?;
            let subject = format!("{} in {}", old.node, old.domain);
            note(change, by, "node.unkey", &subject, &old.key)
        })
    }

    /// All key slots that were removed from repositories: none of them may be in use there again.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn removed_keys(&self) -> Result<Vec<GrantedKey>> {
        self.look_long(|look| {
            look.rows("SELECT key, node, domain FROM removed_keys ORDER BY domain", &[], key)
        })
    }

    /// Notes that key slots of a domain had come back, and were removed again.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn note_removed_again(&self, by: By<'_>, keys: &[GrantedKey]) -> Result<()> {
        self.change(|change| {
            keys.iter().try_for_each(|key| {
                let subject = format!("{} in {}", key.node, key.domain);
                note(change, by, "node.unkey.again", &subject, &key.key)
            })
        })
    }

    /// The keys issued for a grant.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn granted_keys(&self, node: &Name, domain: &Name) -> Result<Vec<GrantedKey>> {
        self.look(|look| {
            let select =
                "SELECT key, node, domain FROM granted_keys WHERE node = $1 AND domain = $2";
            look.rows(select, values![Word(node), Word(domain)], key)
        })
    }

    /// Deletes the record of a removed key slot, and expired grants.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn remove_granted_key(&self, by: By<'_>, gone: &GrantedKey) -> Result<()> {
        self.change(|change| {
            change.execute("DELETE FROM granted_keys WHERE key = $1", values![gone.key])?;
            remember(change, by, gone)?;
            change.execute("DELETE FROM grants WHERE until <= $1", values![by.now_secs])?;
            let subject = format!("{} reads {}", gone.node, gone.domain);
            note(change, by, "grant.key.remove", &subject, &gone.key)
        })
    }
}

fn remember(change: &Sql<'_>, by: By<'_>, gone: &GrantedKey) -> Result<()> {
    let insert = "INSERT INTO removed_keys (domain, key, node, removed) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING";
    let values = values![Word(&gone.domain), gone.key, Word(&gone.node), by.now_secs];
    change.execute(insert, values).map(drop)
}
