//! Certificates of nodes.

use crate::audit::note;
use crate::error::found;
use crate::stored::Word;
use crate::{By, Catalog, Result};
use api::Name;
use rusqlite::{OptionalExtension, Transaction};

/// A certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its serial number, lower-case hex.
    pub serial: String,
    /// Valid from.
    pub not_before: i64,
    /// Valid until.
    pub not_after: i64,
}

/// What decides whether a certificate is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whose it is.
    pub node: Name,
    /// Valid until.
    pub not_after: i64,
    /// It was revoked, or its node was.
    pub revoked: bool,
}

impl Catalog {
    /// What is known of the certificate `serial`; `None` for one that was not issued here.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn certificate(&self, serial: &str) -> Result<Option<Standing>> {
        self.look(|look| {
            let mut select = look.prepare_cached(
                "SELECT node, not_after, certificates.revoked OR nodes.revoked
                 FROM certificates JOIN nodes ON nodes.name = node WHERE serial = ?1",
            )?;
            let standing = select.query_row([serial], |row| {
                let node = row.get::<_, Word<_>>(0)?.0;
                Ok(Standing { node, not_after: row.get(1)?, revoked: row.get(2)? })
            });
            Ok(standing.optional()?)
        })
    }

    /// Adds the next certificate of a node. The last one stays good until it ends: who never got the next one tries
    /// again with it.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] for a node that is revoked or gone, [`crate::Error::Sqlite`].
    pub fn renew(&self, by: By<'_>, node: &Name, next: &Certificate, version: &str) -> Result<()> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE nodes SET version = ?2 WHERE name = ?1 AND revoked = 0",
                (Word(node), version),
            )?;
            found(rows, "node", node)?;
            let old = "DELETE FROM certificates WHERE node = ?1 AND not_after < ?2";
            change.execute(old, (Word(node), by.now_secs))?;
            add(change, node, next)?;
            note(change, by, "certificate.renew", node.as_str(), &next.serial)
        })
    }
}

/// Adds a certificate of `node`.
pub(crate) fn add(change: &Transaction<'_>, node: &Name, new: &Certificate) -> Result<()> {
    change.execute(
        "INSERT INTO certificates (serial, node, not_before, not_after) VALUES (?1, ?2, ?3, ?4)",
        (&new.serial, Word(node), new.not_before, new.not_after),
    )?;
    Ok(())
}
