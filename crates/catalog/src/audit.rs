//! The audit log: who did what. Each entry's hash covers the one before, so that a changed or removed entry is
//! detected. A removed end is detected by whoever kept the newest hash.

use crate::sql::{Row, Sql, storable, values};
use crate::{By, Catalog, Result};
use api::status::AuditEntry;
use blake3::Hash;

const CONTEXT: &str = "icecore 2026 audit entry v1";

/// Adds an entry to the running transaction.
pub(crate) fn note(
    change: &Sql<'_>,
    by: By<'_>,
    action: &str,
    subject: &str,
    detail: &str,
) -> Result<()> {
    let newest = "SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1";
    let last = change.row(newest, &[], |row| Ok((row.get::<i64>(0)?, row.get(1)?)))?;
    let (id, before) = last.unwrap_or((0, [0; 32]));
    let texts = [by.who, action, subject, detail].map(storable);
    let [who, action, subject, detail] = texts.each_ref().map(|text| &**text);
    let id = id + 1;
    let hash = chained(&before, id, by.now_secs, [who, action, subject, detail]);
    change.execute(
        "INSERT INTO audit (id, time, who, action, subject, detail, hash)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        values![id, by.now_secs, who, action, subject, detail, hash.as_bytes()],
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

/// An entry, as whoever has seen it recognizes it: its hash covers all entries before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditMark {
    /// Its number.
    pub id: u64,
    /// Its time, seconds since 1970.
    pub time: i64,
    /// Its hash, hex.
    pub hash: String,
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
    /// [`crate::Error::Database`].
    pub fn audit_note(&self, by: By<'_>, action: &str, subject: &str, detail: &str) -> Result<()> {
        self.change(|change| note(change, by, action, subject, detail))
    }

    /// The newest entries with numbers below `before`, newest first.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn audit_entries(&self, before: Option<u64>, limit: u32) -> Result<Vec<AuditEntry>> {
        let before = before.map_or(i64::MAX, |id| i64::try_from(id).unwrap_or(i64::MAX));
        self.look_long(|look| {
            look.rows(
                "SELECT id, time, who, action, subject, detail, hash FROM audit
                 WHERE id < $1 ORDER BY id DESC LIMIT $2",
                values![before, limit],
                entry,
            )
        })
    }

    /// The newest entry, and the entry `id`: the same one as ever, if the catalog goes on from where it was.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn audit_marks(&self, id: u64) -> Result<[Option<AuditMark>; 2]> {
        let id = i64::try_from(id).unwrap_or(i64::MAX);
        self.look(|look| {
            let newest = "SELECT id, time, hash FROM audit ORDER BY id DESC LIMIT 1";
            let one = "SELECT id, time, hash FROM audit WHERE id = $1";
            Ok([look.row(newest, &[], mark)?, look.row(one, values![id], mark)?])
        })
    }

    /// Verifies the whole hash chain.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn audit_verify(&self) -> Result<Verdict> {
        self.look_long(verify)
    }
}

fn entry(row: &Row) -> Result<AuditEntry> {
    Ok(AuditEntry {
        id: row.get(0)?,
        time: row.get(1)?,
        who: row.get(2)?,
        action: row.get(3)?,
        subject: row.get(4)?,
        detail: row.get(5)?,
        hash: Hash::from_bytes(row.get(6)?).to_hex().to_string(),
    })
}

fn mark(row: &Row) -> Result<AuditMark> {
    let hash = Hash::from_bytes(row.get(2)?).to_hex().to_string();
    Ok(AuditMark { id: row.get(0)?, time: row.get(1)?, hash })
}

fn verify(look: &Sql<'_>) -> Result<Verdict> {
    let select = "SELECT id, time, who, action, subject, detail, hash FROM audit ORDER BY id";
    let (mut before, mut total, mut broken_at) = ([0; 32], 0_i64, None);
    look.each(select, &[], |row| {
        let found = entry(row)?;
        total += 1;
        let texts = [&*found.who, &found.action, &found.subject, &found.detail];
        let hash = chained(&before, total, found.time, texts);
        if hash.to_hex().as_str() != found.hash {
            broken_at = broken_at.or(Some(found.id));
        }
        before = row.get(6)?;
        Ok(())
    })?;
    let head = Hash::from_bytes(before).to_hex().to_string();
    Ok(Verdict { total: total.unsigned_abs(), broken_at, head })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BY, On, on_both, run};

    fn with_entries(on: On) -> (tempfile::TempDir, Catalog) {
        let (folder, catalog) = on.catalog();
        for subject in ["a", "b", "c"] {
            catalog.audit_note(BY, "test", subject, "").unwrap();
        }
        (folder, catalog)
    }

    fn a_log_that_nobody_touched_is_whole(on: On) {
        let (_folder, catalog) = with_entries(on);
        let verdict = catalog.audit_verify().unwrap();
        assert_eq!((verdict.total, verdict.broken_at), (3, None));
        let entries = catalog.audit_entries(Some(3), 1).unwrap();
        assert_eq!(entries[0].subject, "b");
        assert_eq!(verdict.head, catalog.audit_entries(None, 1).unwrap()[0].hash);
    }

    /// Who knows how hashes are made has to make all later ones anew, and then the newest is another.
    fn an_entry_with_a_good_hash_of_its_own_does_not_fit_the_next(on: On) {
        let (_folder, catalog) = with_entries(on);
        let hash = chained(&[0; 32], 1, BY.now_secs, ["nobody", "test", "a", ""]);
        let sql = "UPDATE audit SET who = 'nobody', hash = $1 WHERE id = 1";
        catalog.change(|change| change.execute(sql, values![hash.as_bytes()])).unwrap();
        assert_eq!(catalog.audit_verify().unwrap().broken_at, Some(2));
    }

    fn a_changed_or_removed_entry_is_found(on: On) {
        let tampering = [
            ("UPDATE audit SET subject = 'x' WHERE id = 2", 2),
            ("UPDATE audit SET who = 'x' WHERE id = 1", 1),
            ("UPDATE audit SET time = 5 WHERE id = 3", 3),
            ("DELETE FROM audit WHERE id = 2", 3),
            ("DELETE FROM audit WHERE id = 1", 2),
            ("UPDATE audit SET action = 'tes', subject = 'ta' WHERE id = 1", 1),
        ];
        for (sql, broken_at) in tampering {
            let (_folder, catalog) = with_entries(on);
            run(&catalog, sql);
            assert_eq!(catalog.audit_verify().unwrap().broken_at, Some(broken_at), "{sql}");
        }
    }

    /// Two logs of the same length are not the same log.
    fn an_entry_is_recognized_until_the_log_before_it_is_another(on: On) {
        let (_folder, catalog) = with_entries(on);
        assert_eq!(on.catalog().1.audit_marks(0).unwrap(), [None, None]);
        let [newest, second] = catalog.audit_marks(2).unwrap();
        assert_eq!(newest.map(|it| it.id), Some(3));
        let (_other_folder, other) = on.catalog();
        for subject in ["x", "b"] {
            other.audit_note(BY, "test", subject, "").unwrap();
        }
        let [newest, found] = other.audit_marks(2).unwrap();
        assert!(newest == found && found.is_some() && found != second);
        assert_eq!(other.audit_marks(3).unwrap()[1], None);
    }

    on_both![
        an_entry_is_recognized_until_the_log_before_it_is_another,
        a_log_that_nobody_touched_is_whole,
        an_entry_with_a_good_hash_of_its_own_does_not_fit_the_next,
        a_changed_or_removed_entry_is_found,
    ];
}
