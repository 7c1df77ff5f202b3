//! Snapshots that the server received, as far as they are known without keys, and which of them lie in the trash.
//!
//! The repositories say which snapshots there are, and their receipts what they are: what is here can be read from them
//! again. Only the trash is here alone. A catalog that lost it keeps more, never less.

use crate::audit::note;
use crate::sql::{Row, Sql, values};
use crate::{By, Catalog, Error, Result};
use ids::{ObjectId, SnapshotId};
use retention::{Facts, Trashed, TrashedBy};

/// Snapshots that are written in one transaction.
const BATCH: usize = 500;
/// Snapshots that an entry of the audit log names; it has the number of all.
const NAMED_MAX: usize = 64;
const COLUMNS: &str =
    "id, number, node, source, policy, class, received, partial, suspect, locked_until,
     deleted_objects, trashed, trashed_by, domain, paths";

/// A snapshot in its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSnapshot {
    /// The domain.
    pub domain: String,
    /// What is known of it. Policy and class are those of its receipt.
    pub facts: Facts,
}

/// A snapshot that is put into the trash, or brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrashChange {
    /// The snapshot.
    pub id: SnapshotId,
    /// Its state as the caller knows it: nothing changes if it is another one.
    pub before: Option<Trashed>,
    /// Its new state.
    pub after: Option<Trashed>,
}

/// A source that is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletedSource {
    /// The node.
    pub node: String,
    /// The policy.
    pub policy: String,
    /// The name of the source in the policy.
    pub source: String,
    /// Since when.
    pub since: i64,
}

impl Catalog {
    /// What is known of the snapshots of a domain, in their order.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn snapshots_of(&self, domain: &str) -> Result<Vec<Facts>> {
        let select =
            format!("SELECT {COLUMNS} FROM snapshots WHERE domain = $1 ORDER BY number, id");
        self.look_long(|look| look.rows(&select, values![domain], facts))
    }

    /// What is known of all snapshots.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn snapshots(&self) -> Result<Vec<KnownSnapshot>> {
        let select = format!("SELECT {COLUMNS} FROM snapshots");
        let known = |row: &Row| Ok(KnownSnapshot { domain: row.get(13)?, facts: facts(row)? });
        self.look_long(|look| look.rows(&select, &[], known))
    }

    /// Notes what a repository has: `found` are new, or others than they were known to be, and `gone` are not there any
    /// more. What lies in the trash stays there.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn note_snapshots(&self, domain: &str, found: &[Facts], gone: &[SnapshotId]) -> Result<()> {
        for some in found.chunks(BATCH) {
            self.change(|change| some.iter().try_for_each(|one| put(change, domain, one)))?;
        }
        self.drop_snapshots(domain, gone)
    }

    /// Forgets about snapshots that their repository does not have any more.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn drop_snapshots(&self, domain: &str, gone: &[SnapshotId]) -> Result<()> {
        let delete = "DELETE FROM snapshots WHERE domain = $1 AND id = $2";
        gone.chunks(BATCH).try_for_each(|some| {
            self.change(|change| {
                let drop_one =
                    |id: &SnapshotId| change.execute(delete, values![domain, id.to_string()]);
                some.iter().try_for_each(|id| drop_one(id).map(drop))
            })
        })
    }

    /// Puts snapshots of a domain into the trash, or brings them back: all in one transaction, with entries in the
    /// audit log. Returns those that were still as the caller knew them; the others did not change.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn change_trash(
        &self,
        by: By<'_>,
        domain: &str,
        changes: &[TrashChange],
    ) -> Result<Vec<SnapshotId>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        self.change(|change| {
            let mut made = Vec::new();
            for one in changes {
                if set_trash(change, domain, one)? {
                    made.push(*one);
                }
            }
            note_trash(change, by, domain, &made)?;
            Ok(made.iter().map(|one| one.id).collect())
        })
    }

    /// What lies in the trash lies there from `now_secs` on, all of it for the time of its class: in a catalog that was
    /// older, some may have been brought back since. Returns how many.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn keep_trash(&self, by: By<'_>, now_secs: i64) -> Result<u64> {
        let update = format!(
            "UPDATE snapshots SET trashed = $1, trashed_by = CASE trashed_by
                 WHEN '{}' THEN '{}' ELSE trashed_by END WHERE trashed IS NOT NULL",
            word(TrashedBy::NameAtOnce),
            word(TrashedBy::Name)
        );
        self.change(|change| {
            let rows = change.execute(&update, values![now_secs])?;
            if rows > 0 {
                note(change, by, "snapshot.keep-trash", "", &rows.to_string())?;
            }
            Ok(rows)
        })
    }

    /// Notes that snapshots of a domain are about to be deleted: before they are, so that none goes without an entry.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn note_expiry(&self, by: By<'_>, domain: &str, ids: &[SnapshotId]) -> Result<()> {
        self.change(|change| note(change, by, "snapshot.expire", domain, &named(ids)))
    }

    /// The sources that are gone.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn deleted_sources(&self) -> Result<Vec<DeletedSource>> {
        let select = "SELECT node, policy, source, since FROM deleted_sources ORDER BY 1, 2, 3";
        let source = |row: &Row| {
            let (node, policy) = (row.get(0)?, row.get(1)?);
            Ok(DeletedSource { node, policy, source: row.get(2)?, since: row.get(3)? })
        };
        self.look(|look| look.rows(select, &[], source))
    }

    /// An administrator says that a source is gone. Nothing changes if it was known to be.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn delete_source(&self, by: By<'_>, gone: &DeletedSource) -> Result<()> {
        let DeletedSource { node, policy, source, since } = gone;
        let insert = "INSERT INTO deleted_sources (node, policy, source, since)
             VALUES ($1, $2, $3, $4) ON CONFLICT (node, policy, source) DO NOTHING";
        self.change(|change| {
            if change.execute(insert, values![node, policy, source, since])? == 0 {
                return Ok(());
            }
            note(change, by, "source.delete", &subject(node, policy, source), "")
        })
    }

    /// An administrator says that a source is there after all. Returns whether it was gone.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn undelete_source(
        &self,
        by: By<'_>,
        node: &str,
        policy: &str,
        source: &str,
    ) -> Result<bool> {
        let delete = "DELETE FROM deleted_sources WHERE node = $1 AND policy = $2 AND source = $3";
        self.change(|change| {
            let rows = change.execute(delete, values![node, policy, source])?;
            if rows > 0 {
                note(change, by, "source.undelete", &subject(node, policy, source), "")?;
            }
            Ok(rows > 0)
        })
    }
}

fn subject(node: &str, policy: &str, source: &str) -> String {
    format!("{source} of the policy {policy} on the node {node}")
}

fn put(change: &Sql<'_>, domain: &str, one: &Facts) -> Result<()> {
    change.execute(
        "INSERT INTO snapshots (domain, id, number, node, source, policy, class, received, partial,
             suspect, locked_until, deleted_objects, paths)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (domain, id) DO UPDATE SET number = $3, node = $4, source = $5, policy = $6,
             class = $7, received = $8, partial = $9, suspect = $10, locked_until = $11,
             deleted_objects = $12, paths = $13",
        values![
            domain,
            one.id.to_string(),
            one.number,
            one.node,
            one.source,
            one.policy,
            one.class,
            one.received_secs,
            one.is_partial,
            one.suspect,
            one.locked_until_secs,
            one.has_deleted_objects,
            one.paths.map(|paths| paths.to_string()),
        ],
    )?;
    Ok(())
}

fn set_trash(change: &Sql<'_>, domain: &str, one: &TrashChange) -> Result<bool> {
    let id = one.id.to_string();
    let select = "SELECT trashed, trashed_by FROM snapshots WHERE domain = $1 AND id = $2";
    let found = change.row(select, values![domain, id], |row| trashed(row, 0))?;
    if found != Some(one.before) {
        return Ok(false);
    }
    let update = "UPDATE snapshots SET trashed = $3, trashed_by = $4 WHERE domain = $1 AND id = $2";
    let (since, by) = one.after.map(|after| (after.since_secs, word(after.by))).unzip();
    change.execute(update, values![domain, id, since, by])?;
    Ok(true)
}

/// One entry for each thing that was done.
fn note_trash(change: &Sql<'_>, by: By<'_>, domain: &str, made: &[TrashChange]) -> Result<()> {
    for (action, is_put) in [("snapshot.trash", true), ("snapshot.undelete", false)] {
        let ids: Vec<_> =
            made.iter().filter(|one| one.after.is_some() == is_put).map(|one| one.id).collect();
        if !ids.is_empty() {
            note(change, by, action, domain, &named(&ids))?;
        }
    }
    Ok(())
}

fn named(ids: &[SnapshotId]) -> String {
    let shown: Vec<_> = ids.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = if ids.len() > NAMED_MAX { " …" } else { "" };
    let noun = if ids.len() == 1 { "snapshot" } else { "snapshots" };
    format!("{} {noun}: {}{more}", ids.len(), shown.join(" "))
}

fn facts(row: &Row) -> Result<Facts> {
    let id = SnapshotId::from_hex(&row.get::<String>(0)?);
    Ok(Facts {
        id: id.ok_or_else(|| Error::database("the id of a snapshot is none"))?,
        number: row.get(1)?,
        node: row.get(2)?,
        source: row.get(3)?,
        paths: row.get::<Option<String>>(14)?.as_deref().and_then(ObjectId::from_hex),
        policy: row.get(4)?,
        class: row.get(5)?,
        received_secs: row.get(6)?,
        is_partial: row.get(7)?,
        suspect: row.get(8)?,
        tags: None,
        locked_until_secs: row.get(9)?,
        has_deleted_objects: row.get(10)?,
        source_deleted_secs: None,
        trashed: trashed(row, 11)?,
    })
}

fn trashed(row: &Row, at: usize) -> Result<Option<Trashed>> {
    let Some(since_secs) = row.get(at)? else { return Ok(None) };
    let by = row.get::<Option<String>>(at + 1)?;
    let by = match by.as_deref() {
        Some("rules") => TrashedBy::Rules,
        Some("name") => TrashedBy::Name,
        Some("name-at-once") => TrashedBy::NameAtOnce,
        _ => return Err(Error::database("nobody knows who put a snapshot into the trash")),
    };
    Ok(Some(Trashed { since_secs, by }))
}

fn word(by: TrashedBy) -> &'static str {
    match by {
        TrashedBy::Rules => "rules",
        TrashedBy::Name => "name",
        TrashedBy::NameAtOnce => "name-at-once",
    }
}

#[cfg(test)]
mod tests;
