//! How much one of many may have at once: so many places for each, and nothing is kept of who has none.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for each of many.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    each: usize,
    taken: Mutex<FxHashMap<K, Arc<Semaphore>>>,
}

/// A place, until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

impl<K: Eq + Hash> Shares<K> {
    /// So many places for each.
    pub(crate) fn new(each: usize) -> Self {
        Self { each, taken: Mutex::default() }
    }

    /// A place for `who`, if there is one left.
    pub(crate) fn take(&self, who: K) -> Option<Place> {
        let mut taken = self.taken.lock();
        taken.retain(|_, places| Arc::strong_count(places) > 1);
        let places = taken.entry(who).or_insert_with(|| Arc::new(Semaphore::new(self.each)));
        places.clone().try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_more_than_its_share_and_others_have_theirs() {
        let shares = Shares::new(2);
        let one = shares.take("one").unwrap();
        let _two = shares.take("one").unwrap();
        assert!(shares.take("one").is_none());
        let other = shares.take("other").unwrap();
        drop(one);
        assert!(shares.take("one").is_some(), "what was given back is there again");
        drop(other);
        assert!(shares.take("third").is_some());
        assert!(!shares.taken.lock().contains_key("other"), "who has nothing is forgotten");
    }
}
