//! Threads where the system may start no more of them: processes and address space have limits.

use crate::{Error, Result};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts `count` threads for `work`, or as many as the system starts.
///
/// # Errors
/// [`Error::NoThread`], if it starts none.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: impl Fn() -> T + Clone + Send + 'scope,
) -> Result<Vec<ScopedJoinHandle<'scope, T>>> {
    let mut started = Vec::new();
    for _ in 0..count.max(1) {
        match Builder::new().spawn_scoped(scope, work.clone()) {
            Ok(thread) => started.push(thread),
            Err(error) if started.is_empty() => return Err(Error::NoThread(error)),
            Err(_) => break,
        }
    }
    Ok(started)
}
