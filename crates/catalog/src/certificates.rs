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
    /// It was shown before.
    pub used: bool,
    /// Another one was given out in its place, before it was ever shown.
    pub superseded: bool,
    /// When the certificate that came after it was shown for the first time.
    pub successor_used: Option<i64>,
}

/// A renewal that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Renewal<'a> {
    /// Who asks.
    pub node: &'a Name,
    /// Serial number of the certificate that it shows.
    pub predecessor: &'a str,
    /// Hash of the public key that it asks for.
    pub key: &'a [u8; 32],
    /// The next certificate.
    pub next: &'a Certificate,
    /// The same, PEM.
    pub pem: &'a str,
    /// Version of its program.
    pub version: &'a str,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// It is good from now on.
    New,
    /// The same key asked before: it gets what it got then.
    Before {
        /// The certificate, PEM.
        pem: String,
        /// Valid until.
        not_after: i64,
    },
    /// The next certificate is in use already: two have this one. The node is stopped.
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

impl Catalog {
    /// What is known of the certificate `serial`; `None` for one that was not issued here.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn certificate(&self, serial: &str) -> Result<Option<Standing>> {
        self.look(|look| {
            let mut select = look.prepare_cached(
                "SELECT it.node, it.not_after, it.revoked OR nodes.revoked, it.used IS NOT NULL,
                 it.superseded, later.used
                 FROM certificates it JOIN nodes ON nodes.name = it.node
                 LEFT JOIN certificates later ON later.serial = it.successor
                 WHERE it.serial = ?1",
            )?;
            let standing = select.query_row([serial], |row| {
                Ok(Standing {
                    node: row.get::<_, Word<_>>(0)?.0,
                    not_after: row.get(1)?,
                    revoked: row.get(2)?,
                    used: row.get(3)?,
                    superseded: row.get(4)?,
                    successor_used: row.get(5)?,
                })
            });
            Ok(standing.optional()?)
        })
    }

    /// Notes that a certificate was shown for the first time. Of no weight by itself: not in the audit log.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn certificate_used(&self, serial: &str, now_secs: i64) -> Result<()> {
        self.change(|change| {
            let update = "UPDATE certificates SET used = ?2 WHERE serial = ?1 AND used IS NULL";
            change.execute(update, (serial, now_secs))?;
            Ok(())
        })
    }

    /// Adds the next certificate of a node. The last one stays good until the next one is shown: who never got that asks
    /// again, with the same key, and gets the same. Who asks with another key takes the place of one that nobody has
    /// shown yet; once it was shown, two have the last one, and the node is stopped.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] for a node that is revoked or gone, [`crate::Error::Sqlite`].
    pub fn renew(&self, by: By<'_>, asked: Renewal<'_>) -> Result<Renewed> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE nodes SET version = ?2 WHERE name = ?1 AND revoked = 0",
                (Word(asked.node), asked.version),
            )?;
            found(rows, "node", asked.node)?;
            match after(change, asked)? {
                Some(later) if later.key.as_deref() == Some(&asked.key[..]) => {
                    let (pem, not_after) = (later.pem.unwrap_or_default(), later.not_after);
                    return Ok(Renewed::Before { pem, not_after });
                }
                Some(later) if later.is_used => {
                    stop(change, by, asked.node, asked.predecessor)?;
                    return Ok(Renewed::Forked);
                }
                Some(later) => {
                    let update = "UPDATE certificates SET superseded = 1 WHERE serial = ?1";
                    change.execute(update, [later.serial])?;
                }
                None => {}
            }
            append(change, by, asked)?;
            Ok(Renewed::New)
        })
    }

    /// Two have the certificate `serial`: its node is revoked with all its certificates, until it enrols again, and says
    /// why.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn forked(&self, by: By<'_>, node: &Name, serial: &str) -> Result<()> {
        self.change(|change| stop(change, by, node, serial))
    }
}

/// What came after the certificate that is shown.
fn after(change: &Transaction<'_>, asked: Renewal<'_>) -> Result<Option<Link>> {
    let is_known = "SELECT count(*) FROM certificates WHERE serial = ?1 AND node = ?2";
    let known: u32 =
        change.query_row(is_known, (asked.predecessor, Word(asked.node)), |row| row.get(0))?;
    found(known as usize, "certificate", asked.predecessor)?;
    let mut select = change.prepare_cached(
        "SELECT later.serial, later.key, later.pem, later.not_after, later.used IS NOT NULL
         FROM certificates it JOIN certificates later ON later.serial = it.successor
         WHERE it.serial = ?1",
    )?;
    let link = select.query_row([asked.predecessor], |row| {
        let (serial, key, pem) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Link { serial, key, pem, not_after: row.get(3)?, is_used: row.get(4)? })
    });
    Ok(link.optional()?)
}

fn append(change: &Transaction<'_>, by: By<'_>, asked: Renewal<'_>) -> Result<()> {
    let old = "DELETE FROM certificates WHERE node = ?1 AND not_after < ?2";
    change.execute(old, (Word(asked.node), by.now_secs))?;
    add(change, asked.node, asked.next)?;
    let serial = &asked.next.serial;
    let update = "UPDATE certificates SET key = ?2, pem = ?3 WHERE serial = ?1";
    change.execute(update, (serial, asked.key, asked.pem))?;
    let update = "UPDATE certificates SET successor = ?2 WHERE serial = ?1";
    change.execute(update, (asked.predecessor, serial))?;
    note(change, by, "certificate.renew", asked.node.as_str(), serial)
}

fn stop(change: &Transaction<'_>, by: By<'_>, node: &Name, serial: &str) -> Result<()> {
    let alarm = format!(
        "two machines have shown what only this node should have (certificate {serial}, {}): it is stopped until it enrols again",
        by.now_secs
    );
    let update = "UPDATE nodes SET revoked = 1, alarm = ?2 WHERE name = ?1";
    change.execute(update, (Word(node), alarm))?;
    change.execute("UPDATE certificates SET revoked = 1 WHERE node = ?1", [Word(node)])?;
    note(change, by, "certificate.fork", node.as_str(), serial)
}

/// Adds a certificate of `node`.
pub(crate) fn add(change: &Transaction<'_>, node: &Name, new: &Certificate) -> Result<()> {
    change.execute(
        "INSERT INTO certificates (serial, node, not_before, not_after) VALUES (?1, ?2, ?3, ?4)",
        (&new.serial, Word(node), new.not_before, new.not_after),
    )?;
    Ok(())
}
