//! The lock of whoever serves or migrates a catalog: one of the session, so that it ends with the connection, and what
//! writes over this connection has it.

use super::{Backend, Postgres, Row};
use crate::Result;

/// The first half of the number of the lock; the second is that of the schema.
const LOCK: i32 = 0x1ce_c04e;
/// The second half, as the functions take it.
const SCHEMA: &str = "hashtext(current_schema()::text)";
/// Who holds the lock: its process, and whence it is connected. In the list of locks, numbers have no sign.
const HOLDER: &str = "SELECT a.pid::bigint, coalesce(host(a.client_addr), '')
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2";

/// Takes the lock. Returns whether it is free.
pub(super) fn take(catalog: &mut Postgres) -> Result<bool> {
    Ok(catalog.number(&format!("SELECT pg_try_advisory_lock({LOCK}, {SCHEMA})"), &[])? == 1)
}

/// Gives it back.
pub(super) fn give_back(catalog: &mut Postgres) -> Result<()> {
    catalog.batch(&format!("SELECT pg_advisory_unlock({LOCK}, {SCHEMA})"))
}

/// Says who holds it. A machine that lost its power holds it until the database misses its connection.
pub(super) fn how_to_free(catalog: &mut Postgres) -> String {
    let Ok(Some((process, address))) = holder(catalog) else { return "stop it first".to_owned() };
    let whence = if address.is_empty() { "over a local socket" } else { &address };
    format!(
        "stop it first. It is connected from {whence}. If no server runs there any more, wait two minutes, or end its connection: psql '{}' -c 'SELECT pg_terminate_backend({process})'",
        catalog.address
    )
}

fn holder(catalog: &mut Postgres) -> Result<Option<(i64, String)>> {
    let number =
        format!("l.classid = {LOCK}::oid AND l.objid = ({SCHEMA}::bigint & 4294967295)::oid");
    let mut holder = None;
    catalog.each(&format!("{HOLDER} AND {number}"), &[], &mut |row: &Row| {
        holder = Some((row.get(0)?, row.get(1)?));
        Ok(())
    })?;
    Ok(holder)
}
