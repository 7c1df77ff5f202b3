//! A quota of permits for each of many users, without state for users that hold none.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A quota for each of many users.
#[derive(Debug)]
pub struct Quota<K> {
    each: usize,
    taken: Mutex<FxHashMap<K, Arc<Semaphore>>>,
}

/// A permit, until it is dropped.
pub type Permit = OwnedSemaphorePermit;

impl<K: Eq + Hash> Quota<K> {
    /// A quota of `each` permits for each user.
    pub fn new(each: usize) -> Self {
        Self { each, taken: Mutex::default() }
    }

    /// A permit for `who`, if there is one left.
    pub fn acquire(&self, who: K) -> Option<Permit> {
        let mut taken = self.taken.lock();
        taken.retain(|_, permits| Arc::strong_count(permits) > 1);
        let permits = taken.entry(who).or_insert_with(|| Arc::new(Semaphore::new(self.each)));
        permits.clone().try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_more_than_its_share_and_others_have_theirs() {
        let quota = Quota::new(2);
        let one = quota.acquire("one").unwrap();
        let _two = quota.acquire("one").unwrap();
        assert!(quota.acquire("one").is_none());
        let other = quota.acquire("other").unwrap();
        drop(one);
        assert!(quota.acquire("one").is_some(), "what was given back is there again");
        drop(other);
        assert!(quota.acquire("third").is_some());
        assert!(!quota.taken.lock().contains_key("other"), "who has nothing is forgotten");
    }
}
