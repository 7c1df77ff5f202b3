//! What an error of PostgreSQL means for the program.

use super::address::Address;
use super::hints;
use crate::Error;
use crate::error::Failure;
use postgres::error::SqlState;
use std::error::Error as _;

/// An error before a commit, at the database `address`.
pub(super) fn failed(error: &postgres::Error, address: &Address) -> Error {
    let failure = match error.code() {
        Some(state) if is_busy(state) => Failure::Busy,
        Some(state) if ends_connection(state) => Failure::Disconnected,
        Some(&SqlState::DISK_FULL) => Failure::Full,
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => Failure::ReadOnly,
        Some(state) if is_denied(state) => Failure::Denied,
        Some(_) => Failure::Lasting,
        None if is_io(error) => Failure::Disconnected,
        None => Failure::Lasting,
    };
    Error::failed(
        failure,
        format!("{address}: {}{}", text(error), hints::what_to_do(error, address)),
    )
}

/// An error of a commit. Only an answer of the database says that nothing was committed; without one, or with one
/// that ends the connection, nobody knows.
pub(super) fn at_commit(error: &postgres::Error, address: &Address) -> Error {
    match error.code() {
        Some(state) if !ends_connection(state) => failed(error, address),
        _ => Error::OutcomeUnknown,
    }
}

/// Other transactions were in the way: they are done soon.
fn is_busy(state: &SqlState) -> bool {
    [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ]
    .contains(state)
}

/// A wrong password, a user who may not connect, or one who may not do this.
fn is_denied(state: &SqlState) -> bool {
    [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ]
    .contains(state)
}

/// A limit for transactions that PostgreSQL has since its version 17.
const TRANSACTION_TIMEOUT: &str = "25P04";

/// The database restarts, was dropped, has too many connections, or ends those that are idle for long; class 08 is
/// about connections. In a transaction that failed and was not undone, a connection is of no more use either.
fn ends_connection(state: &SqlState) -> bool {
    let ends = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::DATABASE_DROPPED,
        SqlState::IDLE_SESSION_TIMEOUT,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::IN_FAILED_SQL_TRANSACTION,
    ];
    let code = state.code();
    ends.contains(state) || code == TRANSACTION_TIMEOUT || code.starts_with("08")
}

/// A certificate of an unknown authority is an error of input and output too; it lasts.
fn is_io(error: &postgres::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind() != std::io::ErrorKind::InvalidData;
        }
        source = error.source();
    }
    error.is_closed()
}

/// What the database said, or the system. Neither knows a password.
fn text(error: &postgres::Error) -> String {
    if let Some(told) = error.as_db_error() {
        return format!("{} ({})", told.message(), told.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text += &format!(": {next}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `DROP DATABASE` and the timeouts of an administrator end a session, whatever it does.
    #[test]
    fn what_ends_a_session_ends_its_connection() {
        for code in
            ["57P01", "57P02", "57P03", "57P04", "57P05", "25P02", "25P03", "25P04", "08006"]
        {
            assert!(ends_connection(&SqlState::from_code(code)), "{code}");
        }
        for code in ["57014", "42501", "25006", "40001", "55P03"] {
            assert!(!ends_connection(&SqlState::from_code(code)), "{code}");
        }
    }
}
