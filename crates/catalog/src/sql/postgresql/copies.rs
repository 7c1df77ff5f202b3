//! Copies of all tables in a schema of their own, made before the tables change.

use super::{Backend, Postgres, Value};
use crate::Result;

/// Before the version that was copied.
const BEFORE: &str = "before_";

/// Copies all tables into the schema `before_N`, and drops older copies: in one transaction.
pub(super) fn copy(catalog: &mut Postgres, version: u32, keep: usize) -> Result<()> {
    catalog.begin(true)?;
    let steps = steps(catalog, version, keep);
    match steps.and_then(|steps| catalog.batch(&steps)).and_then(|()| catalog.commit()) {
        Ok(()) => Ok(()),
        Err(error) => {
            catalog.rollback();
            Err(error)
        }
    }
}

fn steps(catalog: &mut Postgres, version: u32, keep: usize) -> Result<String> {
    let schema = format!("{BEFORE}{version}");
    let mut steps = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema};");
    for table in catalog.tables()? {
        steps += &format!("CREATE TABLE {schema}.{table} AS TABLE {table};");
    }
    for old in old(catalog, &schema, keep)? {
        steps += &format!("DROP SCHEMA {old} CASCADE;");
    }
    Ok(steps)
}

/// All copies but the new one and the newest of the others, together `keep`.
fn old(catalog: &mut Postgres, new: &str, keep: usize) -> Result<Vec<String>> {
    let sql = "SELECT nspname::text FROM pg_namespace
        WHERE nspname::text ~ '^before_[0-9]+$' AND nspname::text <> $1
        ORDER BY length(nspname::text) DESC, nspname::text DESC";
    let others = catalog.texts(sql, &[Value::Text(new.to_owned())])?;
    Ok(others.into_iter().skip(keep.saturating_sub(1)).collect())
}
