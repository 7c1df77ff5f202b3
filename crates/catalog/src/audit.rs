//! The audit log: who did what. Each entry's hash covers the one before, so that a changed or removed entry is
//! detected. A removed end is detected by whoever kept the newest hash.

use crate::{By, Catalog, Result};
use api::status::AuditEntry;
use blake3::Hash;
use rusqlite::{Connection, OptionalExtension, Row, Transaction};

const CONTEXT: &str = "icecore 2026 audit entry v1";

/// Adds an entry to the running transaction.
pub(crate) fn note(
    change: &Transaction<'_>,
    by: By<'_>,
    action: &str,
    subject: &str,
    detail: &str,
) -> Result<()> {
    let last = change.query_row("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?))
    });
    let (id, before) = last.optional()?.unwrap_or((0, [0; 32]));
    let id = id + 1;
    let hash = chained(&before, id, by.now_secs, [by.who, action, subject, detail]);
    change.execute(
        "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (id, by.now_secs, by.who, action, subject, detail, hash.as_bytes()),
    )?;
    Ok(())
}

/// Each text is preceded by its length, so that different entries never hash the same bytes.
fn chained(before: &[u8; 32], id: i64, time: i64, texts: [&str; 4]) -> Hash {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(before).update(&id.to_le_bytes()).update(&time.to_le_bytes());
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize()
}

/// Result of verifying the whole log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Number of entries.
    pub total: u64,
    /// Number of the first entry whose hash does not match.
    pub broken_at: Option<u64>,
    /// Hash of the newest entry, hex.
    pub head: String,
}

impl Catalog {
    /// Adds an entry for an action that changes nothing else in the catalog.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn audit_note(&self, by: By<'_>, action: &str, subject: &str, detail: &str) -> Result<()> {
        self.change(|change| note(change, by, action, subject, detail))
    }

    /// The newest entries with numbers below `before`, newest first.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn audit_entries(&self, before: Option<u64>, limit: u32) -> Result<Vec<AuditEntry>> {
        let before = before.map_or(i64::MAX, |id| i64::try_from(id).unwrap_or(i64::MAX));
        self.look_long(|look| {
            let mut select = look.prepare_cached(
                "SELECT id, time, who, action, subject, detail, hash FROM audit
                 WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let rows = select.query_map((before, limit), entry)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Verifies the whole hash chain.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn audit_verify(&self) -> Result<Verdict> {
        self.look_long(verify)
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    Ok(AuditEntry {
        id: row.get::<_, i64>(0)?.unsigned_abs(),
        time: row.get(1)?,
        who: row.get(2)?,
        action: row.get(3)?,
        subject: row.get(4)?,
        detail: row.get(5)?,
        hash: Hash::from_bytes(row.get(6)?).to_hex().to_string(),
    })
}

fn verify(look: &Connection) -> Result<Verdict> {
    let mut select =
        look.prepare("SELECT id, time, who, action, subject, detail, hash FROM audit ORDER BY id")?;
    let mut rows = select.query([])?;
    let (mut before, mut total, mut broken_at) = ([0; 32], 0, None);
    while let Some(row) = rows.next()? {
        let found = entry(row)?;
        total += 1;
        let texts = [&*found.who, &found.action, &found.subject, &found.detail];
        let hash = chained(&before, total, found.time, texts);
        if hash.to_hex().as_str() != found.hash {
            broken_at = broken_at.or(Some(found.id));
        }
        before = row.get(6)?;
    }
    let head = Hash::from_bytes(before).to_hex().to_string();
    Ok(Verdict { total: total.unsigned_abs(), broken_at, head })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BY, catalog};

    fn with_entries() -> (tempfile::TempDir, Catalog) {
        let (folder, catalog) = catalog();
        for subject in ["a", "b", "c"] {
            catalog.audit_note(BY, "test", subject, "").unwrap();
        }
        (folder, catalog)
    }

    #[test]
    fn a_log_that_nobody_touched_is_whole() {
        let (_folder, catalog) = with_entries();
        let verdict = catalog.audit_verify().unwrap();
        assert_eq!((verdict.total, verdict.broken_at), (3, None));
        let entries = catalog.audit_entries(Some(3), 1).unwrap();
        assert_eq!(entries[0].subject, "b");
        assert_eq!(verdict.head, catalog.audit_entries(None, 1).unwrap()[0].hash);
    }

    /// Who knows how hashes are made has to make all later ones anew, and then the newest is another.
    #[test]
    fn an_entry_with_a_good_hash_of_its_own_does_not_fit_the_next() {
        let (_folder, catalog) = with_entries();
        let hash = chained(&[0; 32], 1, BY.now_secs, ["nobody", "test", "a", ""]);
        let writer = catalog.writer.lock();
        let sql = "UPDATE audit SET who = 'nobody', hash = ?1 WHERE id = 1";
        writer.execute(sql, [hash.as_bytes()]).unwrap();
        drop(writer);
        assert_eq!(catalog.audit_verify().unwrap().broken_at, Some(2));
    }

    #[test]
    fn a_changed_or_removed_entry_is_found() {
        let tampering = [
            ("UPDATE audit SET subject = 'x' WHERE id = 2", 2),
            ("UPDATE audit SET who = 'x' WHERE id = 1", 1),
            ("UPDATE audit SET time = 5 WHERE id = 3", 3),
            ("DELETE FROM audit WHERE id = 2", 3),
            ("DELETE FROM audit WHERE id = 1", 2),
            ("UPDATE audit SET action = 'tes', subject = 'ta' WHERE id = 1", 1),
        ];
        for (sql, broken_at) in tampering {
            let (_folder, catalog) = with_entries();
            catalog.writer.lock().execute_batch(sql).unwrap();
            assert_eq!(catalog.audit_verify().unwrap().broken_at, Some(broken_at), "{sql}");
        }
    }
}
