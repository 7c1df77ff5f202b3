//! The tables, as steps from one version to the next. A step that was published never changes.

use crate::{Error, Result};
use rusqlite::{Connection, TransactionBehavior};

/// From version 0 on; the version is the number of steps.
const STEPS: [&str; 7] = [FIRST, STORAGES, CHAIN, OLD_KEYS, SETTINGS, FORGET, STORAGE_CHAIN];

const FIRST: &str = "
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE domains (
    name TEXT PRIMARY KEY, keys TEXT NOT NULL, folder TEXT NOT NULL UNIQUE, repository TEXT,
    sealed BLOB, made INTEGER NOT NULL) STRICT;
CREATE TABLE nodes (
    name TEXT PRIMARY KEY, domain TEXT NOT NULL REFERENCES domains, role TEXT NOT NULL, key TEXT,
    made INTEGER NOT NULL, last_seen INTEGER, address TEXT, version TEXT,
    revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX nodes_domain ON nodes (domain);
CREATE TABLE certificates (
    serial TEXT PRIMARY KEY, node TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE,
    not_before INTEGER NOT NULL, not_after INTEGER NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX certificates_node ON certificates (node);
CREATE TABLE tokens (
    hash BLOB PRIMARY KEY, node TEXT NOT NULL, domain TEXT NOT NULL, role TEXT NOT NULL,
    keys TEXT NOT NULL, made INTEGER NOT NULL, expires INTEGER NOT NULL, used_at INTEGER,
    request BLOB, answer TEXT) STRICT;
CREATE TABLE grants (
    node TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, domain TEXT NOT NULL REFERENCES domains,
    until INTEGER, PRIMARY KEY (node, domain)) STRICT;
CREATE TABLE granted_keys (
    key TEXT PRIMARY KEY, node TEXT NOT NULL, domain TEXT NOT NULL REFERENCES domains) STRICT;
CREATE TABLE limits (
    id INTEGER PRIMARY KEY AUTOINCREMENT, rule TEXT NOT NULL) STRICT;
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL, domain TEXT NOT NULL,
    kind TEXT NOT NULL, what TEXT NOT NULL, begun INTEGER NOT NULL, ended INTEGER,
    state TEXT NOT NULL, objects INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0,
    bytes_read INTEGER NOT NULL DEFAULT 0, bytes_wire INTEGER NOT NULL DEFAULT 0,
    stage TEXT NOT NULL DEFAULT '', path TEXT NOT NULL DEFAULT '', snapshot TEXT, error TEXT,
    cancelled INTEGER NOT NULL DEFAULT 0, report TEXT) STRICT;
CREATE INDEX jobs_node ON jobs (node, id);
CREATE INDEX jobs_running ON jobs (id) WHERE state = 'running';
CREATE TABLE commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL, task TEXT NOT NULL,
    made INTEGER NOT NULL, state TEXT NOT NULL, message TEXT) STRICT;
CREATE INDEX commands_node ON commands (node, state);
CREATE TABLE audit (
    id INTEGER PRIMARY KEY, time INTEGER NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, detail TEXT NOT NULL, hash BLOB NOT NULL) STRICT;
";

/// Further storage servers, and which domains lie on them.
const STORAGES: &str = "
CREATE TABLE storage_servers (
    name TEXT PRIMARY KEY, names TEXT NOT NULL, port INTEGER, made INTEGER NOT NULL,
    last_seen INTEGER, version TEXT, free_bytes INTEGER, total_bytes INTEGER,
    revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE storage_certificates (
    serial TEXT PRIMARY KEY, storage TEXT NOT NULL REFERENCES storage_servers ON DELETE CASCADE,
    not_before INTEGER NOT NULL, not_after INTEGER NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX storage_certificates_storage ON storage_certificates (storage);
CREATE TABLE storage_tokens (
    hash BLOB PRIMARY KEY, storage TEXT NOT NULL, made INTEGER NOT NULL,
    expires INTEGER NOT NULL, used_at INTEGER, request BLOB, answer TEXT) STRICT;
ALTER TABLE domains ADD COLUMN storage TEXT REFERENCES storage_servers;
ALTER TABLE tokens ADD COLUMN storage TEXT;
";

/// Renewals are a chain: who came after whom, for which key, and whether it was ever shown.
const CHAIN: &str = "
ALTER TABLE certificates ADD COLUMN successor TEXT;
ALTER TABLE certificates ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE certificates ADD COLUMN used INTEGER;
ALTER TABLE certificates ADD COLUMN key BLOB;
ALTER TABLE certificates ADD COLUMN pem TEXT;
ALTER TABLE nodes ADD COLUMN alarm TEXT;
";

/// Key slots of nodes that were revoked, removed, or enrolled anew: noted in the transaction that does it, until the
/// slots are gone. (Not INSERT OR IGNORE: the upsert of an enrollment overrides what a trigger says of conflicts.)
const OLD_KEYS: &str = "
CREATE TABLE old_keys (key TEXT PRIMARY KEY, node TEXT NOT NULL, domain TEXT NOT NULL) STRICT;
CREATE TRIGGER node_removed AFTER DELETE ON nodes WHEN old.key IS NOT NULL BEGIN
    INSERT INTO old_keys SELECT old.key, old.name, old.domain
    WHERE NOT EXISTS (SELECT 1 FROM old_keys WHERE key = old.key);
END;
CREATE TRIGGER node_changed AFTER UPDATE OF key, revoked ON nodes
WHEN old.key IS NOT NULL AND (new.key IS NOT old.key OR new.revoked > old.revoked) BEGIN
    INSERT INTO old_keys SELECT old.key, old.name, old.domain
    WHERE NOT EXISTS (SELECT 1 FROM old_keys WHERE key = old.key);
END;
";

/// What the repository of a domain is made with. All that were made before have these.
const SETTINGS: &str = "
ALTER TABLE domains ADD COLUMN privacy TEXT NOT NULL DEFAULT 'standard';
ALTER TABLE domains ADD COLUMN parity INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN privacy TEXT;
ALTER TABLE tokens ADD COLUMN parity INTEGER;
";

/// Which snapshots a node may forget from afar.
const FORGET: &str = "ALTER TABLE nodes ADD COLUMN forget TEXT NOT NULL DEFAULT 'none';";

/// The renewals of storage servers are a chain, too.
const STORAGE_CHAIN: &str = "
ALTER TABLE storage_certificates ADD COLUMN successor TEXT;
ALTER TABLE storage_certificates ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE storage_certificates ADD COLUMN used INTEGER;
ALTER TABLE storage_certificates ADD COLUMN key BLOB;
ALTER TABLE storage_certificates ADD COLUMN pem TEXT;
ALTER TABLE storage_servers ADD COLUMN alarm TEXT;
";

/// Brings the catalog to the newest version.
pub(crate) fn migrate(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = STEPS.len() as u32;
    if found > known {
        return Err(Error::Newer { found, known });
    }
    for step in STEPS.iter().skip(found as usize) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    #[test]
    fn a_catalog_of_a_later_program_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        drop(Catalog::open(&path).unwrap());
        let later = Connection::open(&path).unwrap();
        later.pragma_update(None, "user_version", 99).unwrap();
        drop(later);
        assert!(matches!(Catalog::open(&path), Err(Error::Newer { found: 99, .. })));
    }

    #[test]
    fn opening_twice_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        drop(Catalog::open(&path).unwrap());
        assert!(Catalog::open(&path).is_ok());
    }
}
