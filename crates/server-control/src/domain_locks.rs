//! One change of keys at a time in each domain, because a change creates slots before it is certain to succeed. A
//! storage server that does not answer delays enrollments into its own domains only.

use crate::{Error, Result};
use api::Name;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the lock; a thread is blocked meanwhile.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

/// Locks of the domains whose keys are being changed.
#[derive(Default)]
pub(crate) struct DomainLocks(Mutex<FxHashMap<Name, Arc<Mutex<()>>>>);

impl DomainLocks {
    /// Runs `work` while it holds the lock of `domain`.
    ///
    /// # Errors
    /// [`Error::Busy`] when the wait takes too long; those of `work`.
    pub(crate) fn with<T>(&self, domain: &Name, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let lock = self.lock(domain);
        let guard = lock.try_lock_for(LOCK_WITHIN);
        let _guard = guard.ok_or_else(|| Error::Busy(domain.to_string()))?;
        work()
    }

    fn lock(&self, domain: &Name) -> Arc<Mutex<()>> {
        let mut domains = self.0.lock();
        domains.retain(|_, lock| Arc::strong_count(lock) > 1);
        domains.entry(domain.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_domain_that_hangs_holds_up_no_other_and_its_own_only_for_a_while() {
        let locks = DomainLocks::default();
        let (hanging, free): (Name, Name) = ("hanging".parse().unwrap(), "free".parse().unwrap());
        std::thread::scope(|scope| {
            let (begun, has_begun) = channel();
            let (end, ends) = channel::<()>();
            let locks = &locks;
            let hanging_in = &hanging;
            scope.spawn(move || {
                locks.with(hanging_in, || {
                    begun.send(()).unwrap();
                    let _ = ends.recv();
                    Ok(())
                })
            });
            has_begun.recv().unwrap();
            assert!(locks.with(&free, || Ok(())).is_ok());
            assert!(matches!(locks.with(&hanging, || Ok(())), Err(Error::Busy(_))));
            drop(end);
        });
        assert!(locks.with(&hanging, || Ok(())).is_ok());
    }
}
