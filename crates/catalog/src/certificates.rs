//! Certificates of nodes and of storage servers: the same rules apply to both.

use crate::audit::note;
use crate::error::found;
use crate::nodes::{self, Leaving};
use crate::sql::{Sql, ToValue, Word, values};
use crate::{By, Catalog, Result};
use api::Name;

/// An issued certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its serial number, lower-case hex.
    pub serial: String,
    /// Valid from.
    pub not_before: i64,
    /// Valid until.
    pub not_after: i64,
}

/// Kind of the holder of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A node.
    Node,
    /// A storage server.
    StorageServer,
}

/// Where the certificates of a kind of holders stand, and what is noted of them.
struct Table {
    /// The certificates.
    name: &'static str,
    /// The column that says whose they are.
    holder: &'static str,
    /// The table of those.
    holders: &'static str,
    renew: &'static str,
    fork: &'static str,
}

const OF_NODES: Table = Table {
    name: "certificates",
    holder: "node",
    holders: "nodes",
    renew: "certificate.renew",
    fork: "certificate.fork",
};

const OF_STORAGE_SERVERS: Table = Table {
    name: "storage_certificates",
    holder: "storage",
    holders: "storage_servers",
    renew: "storage.renew",
    fork: "storage.fork",
};

impl Holder {
    fn table(self) -> &'static Table {
        match self {
            Self::Node => &OF_NODES,
            Self::StorageServer => &OF_STORAGE_SERVERS,
        }
    }
}

/// Status of a certificate, which decides whether it may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// Name of the holder.
    pub holder: Name,
    /// Valid until.
    pub not_after: i64,
    /// Whether it or its holder was revoked.
    pub revoked: bool,
    /// Whether it was ever shown.
    pub used: bool,
    /// Whether another one was issued in its place before it was ever shown.
    pub superseded: bool,
    /// When its successor was first shown.
    pub successor_used: Option<i64>,
}

/// A request for a renewal.
#[derive(Clone, Copy, Debug)]
pub struct Renewal<'a> {
    /// Kind of the holder.
    pub of: Holder,
    /// Name of the holder.
    pub holder: &'a Name,
    /// Serial number of the certificate that it showed.
    pub predecessor: &'a str,
    /// Hash of the requested public key.
    pub key: &'a [u8; 32],
    /// The next certificate.
    pub next: &'a Certificate,
    /// The next certificate, PEM.
    pub pem: &'a str,
    /// Version of its program.
    pub version: &'a str,
}

/// Result of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The next certificate is valid from now on.
    New,
    /// The same key was requested before: the same certificate again.
    Before {
        /// The certificate, PEM.
        pem: String,
        /// Valid until.
        not_after: i64,
    },
    /// The next certificate is already in use: two machines have this one. Both are stopped.
    Forked,
}

/// The link from a certificate to the one after it.
struct Link {
    serial: String,
    key: Option<Vec<u8>>,
    pem: Option<String>,
    not_after: i64,
    is_used: bool,
}

/// A certificate that was issued and not yet deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// Kind of its holder.
    pub of: Holder,
    /// Its holder.
    pub holder: Name,
    /// Its serial number, lower-case hex.
    pub serial: String,
    /// Valid until.
    pub not_after: i64,
    /// Whether it or its holder was revoked.
    pub revoked: bool,
}

/// The certificates of a kind of holders, or of one of them.
pub(crate) fn issued(
    look: &Sql<'_>,
    of: Holder,
    holder: Option<&Name>,
) -> Result<Vec<IssuedCertificate>> {
    let Table { name, holder: column, holders, .. } = of.table();
    let only = if holder.is_some() { "WHERE holders.name = $1" } else { "" };
    let select = format!(
        "SELECT it.{column}, it.serial, it.not_after, it.revoked + holders.revoked
         FROM {name} it JOIN {holders} holders ON holders.name = it.{column} {only}"
    );
    let values = holder.map(|holder| Word(holder).to_value()).transpose()?;
    look.rows(&select, values.as_slice(), |row| {
        let (holder, serial) = (row.get::<Word<_>>(0)?.0, row.get(1)?);
        Ok(IssuedCertificate { of, holder, serial, not_after: row.get(2)?, revoked: row.get(3)? })
    })
}

impl Catalog {
    /// All certificates of nodes and storage servers.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn certificates(&self) -> Result<Vec<IssuedCertificate>> {
        self.look_long(|look| {
            let storage_servers = issued(look, Holder::StorageServer, None)?;
            Ok([issued(look, Holder::Node, None)?, storage_servers].concat())
        })
    }

    /// Status of the certificate `serial` of a node or storage server; `None` for one that was not issued here.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn certificate(&self, of: Holder, serial: &str) -> Result<Option<CertificateStatus>> {
        let Table { name, holder, holders, .. } = of.table();
        self.look(|look| {
            let select = format!(
                "SELECT it.{holder}, it.not_after, it.revoked + {holders}.revoked,
                 it.used IS NOT NULL, it.superseded, later.used
                 FROM {name} it JOIN {holders} ON {holders}.name = it.{holder}
                 LEFT JOIN {name} later ON later.serial = it.successor
                 WHERE it.serial = $1"
            );
            look.row(&select, values![serial], |row| {
                Ok(CertificateStatus {
                    holder: row.get::<Word<_>>(0)?.0,
                    not_after: row.get(1)?,
                    revoked: row.get(2)?,
                    used: row.get(3)?,
                    superseded: row.get(4)?,
                    successor_used: row.get(5)?,
                })
            })
        })
    }

    /// Records that a certificate was shown for the first time. Not in the audit log.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn certificate_used(&self, of: Holder, serial: &str, now_secs: i64) -> Result<()> {
        let name = of.table().name;
        self.change(|change| {
            let update = format!("UPDATE {name} SET used = $2 WHERE serial = $1 AND used IS NULL");
            change.execute(&update, values![serial, now_secs])?;
            Ok(())
        })
    }

    /// Adds the next certificate of a node or storage server. The current one stays valid until the next one is
    /// shown: a holder that never received it repeats the request with the same key and gets the same. A request with
    /// another key replaces a certificate that was not shown yet; once it was shown, two machines have the current
    /// one, and both are stopped.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when the holder is revoked or does not exist, [`crate::Error::Database`].
    pub fn renew(&self, by: By<'_>, asked: Renewal<'_>) -> Result<Renewed> {
        let table = asked.of.table();
        self.change(|change| {
            let holders = table.holders;
            let update =
                format!("UPDATE {holders} SET version = $2 WHERE name = $1 AND revoked = 0");
            let rows = change.execute(&update, values![Word(asked.holder), asked.version])?;
            found(rows, table.holder, asked.holder)?;
            match after(change, table, asked)? {
                Some(later) if later.key.as_deref() == Some(&asked.key[..]) => {
                    let (pem, not_after) = (later.pem.unwrap_or_default(), later.not_after);
                    return Ok(Renewed::Before { pem, not_after });
                }
                Some(later) if later.is_used => {
                    stop(change, by, table, (asked.holder, asked.predecessor))?;
                    return Ok(Renewed::Forked);
                }
                Some(later) => {
                    let name = table.name;
                    let update = format!("UPDATE {name} SET superseded = 1 WHERE serial = $1");
                    change.execute(&update, values![later.serial])?;
                }
                None => {}
            }
            append(change, by, table, asked)?;
            Ok(Renewed::New)
        })
    }

    /// Two machines have the certificate `serial`: its holder is revoked with all its certificates until it enrolls
    /// again, and gets an alarm.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn forked(&self, by: By<'_>, of: Holder, holder: &Name, serial: &str) -> Result<()> {
        self.change(|change| stop(change, by, of.table(), (holder, serial)))
    }
}

/// The successor of the certificate that was shown.
fn after(change: &Sql<'_>, table: &Table, asked: Renewal<'_>) -> Result<Option<Link>> {
    let Table { name, holder, .. } = table;
    let known = format!("SELECT 1 FROM {name} WHERE serial = $1 AND {holder} = $2");
    let is_known = change.exists(&known, values![asked.predecessor, Word(asked.holder)])?;
    found(is_known.into(), "certificate", asked.predecessor)?;
    let select = format!(
        "SELECT later.serial, later.key, later.pem, later.not_after, later.used IS NOT NULL
         FROM {name} it JOIN {name} later ON later.serial = it.successor
         WHERE it.serial = $1"
    );
    change.row(&select, values![asked.predecessor], |row| {
        let (serial, key, pem) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Link { serial, key, pem, not_after: row.get(3)?, is_used: row.get(4)? })
    })
}

fn append(change: &Sql<'_>, by: By<'_>, table: &Table, asked: Renewal<'_>) -> Result<()> {
    let Table { name, holder, .. } = table;
    let old = format!("DELETE FROM {name} WHERE {holder} = $1 AND not_after < $2");
    change.execute(&old, values![Word(asked.holder), by.now_secs])?;
    add(change, asked.of, asked.holder, asked.next)?;
    let serial = &asked.next.serial;
    let update = format!("UPDATE {name} SET key = $2, pem = $3 WHERE serial = $1");
    change.execute(&update, values![serial, asked.key, asked.pem])?;
    let update = format!("UPDATE {name} SET successor = $2 WHERE serial = $1");
    change.execute(&update, values![asked.predecessor, serial])?;
    note(change, by, table.renew, asked.holder.as_str(), serial)
}

fn stop(change: &Sql<'_>, by: By<'_>, table: &Table, (whose, serial): (&Name, &str)) -> Result<()> {
    let Table { name, holder, holders, fork, .. } = table;
    let alarm = format!(
        "two machines have shown what only this {} should have (certificate {serial}): it is stopped until it enrolls again. When that was: icecore server audit",
        if *holder == "node" { "node" } else { "storage server" },
    );
    if *holder == "node" {
        nodes::keep_old_key(change, whose, Leaving::Revoked)?;
    }
    let update = format!("UPDATE {holders} SET revoked = 1, alarm = $2 WHERE name = $1");
    change.execute(&update, values![Word(whose), alarm])?;
    let update = format!("UPDATE {name} SET revoked = 1 WHERE {holder} = $1");
    change.execute(&update, values![Word(whose)])?;
    note(change, by, fork, whose.as_str(), serial)
}

/// Adds a certificate of `whose`.
pub(crate) fn add(change: &Sql<'_>, of: Holder, whose: &Name, new: &Certificate) -> Result<()> {
    let Table { name, holder, .. } = of.table();
    let insert = format!(
        "INSERT INTO {name} (serial, {holder}, not_before, not_after) VALUES ($1, $2, $3, $4)"
    );
    change.execute(&insert, values![new.serial, Word(whose), new.not_before, new.not_after])?;
    Ok(())
}
