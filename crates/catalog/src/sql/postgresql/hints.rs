//! What to do about an error of PostgreSQL: SQL for whoever administers the database.

use super::address::Address;
use postgres::error::{DbError, SqlState};

/// How to go on, behind the text of the error; empty where nobody can tell.
pub(super) fn what_to_do(error: &postgres::Error, address: &Address) -> String {
    let Some(told) = error.as_db_error() else { return String::new() };
    let (user, database) = (quoted(address.user()), quoted(address.database()));
    match *told.code() {
        SqlState::READ_ONLY_SQL_TRANSACTION => format!(
            ". If it is a standby, name the primary instead. If not, as its administrator in psql: ALTER ROLE {user} IN DATABASE {database} SET default_transaction_read_only = off"
        ),
        SqlState::INSUFFICIENT_PRIVILEGE if is_of_schema(told) => format!(
            ". The database must belong to its user. As its administrator, in psql connected to {database}: ALTER DATABASE {database} OWNER TO {user}; GRANT ALL ON SCHEMA public TO {user}"
        ),
        _ => String::new(),
    }
}

/// Nothing but the text says what the user may not do: rights on a table are another matter.
fn is_of_schema(told: &DbError) -> bool {
    told.message().to_lowercase().contains("schema")
}

/// A name as SQL takes it, whatever it contains.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
