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
    let spawn = |_| Builder::new().spawn_scoped(scope, work.clone());
    as_many(count, spawn).map_err(Error::NoThread)
}

/// What `spawn` starts, up to the first that fails.
fn as_many<T>(
    count: usize,
    spawn: impl Fn(usize) -> std::io::Result<T>,
) -> std::io::Result<Vec<T>> {
    let mut started = Vec::new();
    for number in 0..count.max(1) {
        match spawn(number) {
            Ok(thread) => started.push(thread),
            Err(error) if started.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn started(count: usize, most: usize) -> io::Result<Vec<usize>> {
        let full = || io::Error::from(io::ErrorKind::WouldBlock);
        as_many(count, |number| (number < most).then_some(number).ok_or_else(full))
    }

    #[test]
    fn fewer_threads_than_asked_for_are_enough_and_none_is_an_error() {
        assert_eq!(started(3, 8).unwrap(), [0, 1, 2]);
        assert_eq!(started(3, 2).unwrap(), [0, 1]);
        assert_eq!(started(0, 1).unwrap(), [0], "one at least");
        assert_eq!(started(3, 0).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
