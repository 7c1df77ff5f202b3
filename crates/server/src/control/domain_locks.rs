//! Whose keys are being made: one at a time in each domain, for each makes slots before it is sure. A storage server that does
//! not answer holds up who enrolls into its own domains, for a while, and nobody else.

use super::{Error, Result};
use api::Name;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// Who waits longer is told to come again: a thread waits with it.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

/// Domains in which somebody makes or removes keys.
#[derive(Default)]
pub(crate) struct DomainLocks(Mutex<FxHashMap<Name, Arc<Mutex<()>>>>);

impl DomainLocks {
    /// Does `work` while nobody else does any in `domain`.
    ///
    /// # Errors
    /// [`Error::Busy`] when that takes too long; what `work` fails with.
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
