//! Whose keys are being made: one at a time in each domain, for each makes slots before it is sure. A storage server that does
//! not answer holds up who enrolls into its own domains, for a while, and nobody else.

use super::{Error, Result};
use api::Name;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// Who waits longer is told to come again: a thread waits with it.
const TURN_WITHIN: Duration = Duration::from_secs(5);

/// Domains in which somebody makes or removes keys.
#[derive(Default)]
pub(crate) struct Turns(Mutex<FxHashMap<Name, Arc<Mutex<()>>>>);

impl Turns {
    /// Does `work` while nobody else does any in `domain`.
    ///
    /// # Errors
    /// [`Error::Busy`] when that takes too long; what `work` fails with.
    pub(crate) fn take<T>(&self, domain: &Name, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let place = self.place(domain);
        let turn = place.try_lock_for(TURN_WITHIN);
        let _turn = turn.ok_or_else(|| Error::Busy(domain.to_string()))?;
        work()
    }

    fn place(&self, domain: &Name) -> Arc<Mutex<()>> {
        let mut places = self.0.lock();
        places.retain(|_, place| Arc::strong_count(place) > 1);
        places.entry(domain.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_domain_that_hangs_holds_up_no_other_and_its_own_only_for_a_while() {
        let turns = Turns::default();
        let (hanging, free): (Name, Name) = ("hanging".parse().unwrap(), "free".parse().unwrap());
        std::thread::scope(|scope| {
            let (begun, has_begun) = channel();
            let (end, ends) = channel::<()>();
            let turns = &turns;
            let hanging_in = &hanging;
            scope.spawn(move || {
                turns.take(hanging_in, || {
                    begun.send(()).unwrap();
                    let _ = ends.recv();
                    Ok(())
                })
            });
            has_begun.recv().unwrap();
            assert!(turns.take(&free, || Ok(())).is_ok());
            assert!(matches!(turns.take(&hanging, || Ok(())), Err(Error::Busy(_))));
            drop(end);
        });
        assert!(turns.take(&hanging, || Ok(())).is_ok());
    }
}
