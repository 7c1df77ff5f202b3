//! A quota for unauthenticated connections. When it is full, a newcomer still gets a permit: the oldest holder of the
//! largest group is evicted. So nobody can keep others out by holding permits.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::Notify;

/// Permits, by group.
#[derive(Debug)]
pub struct EvictingQuota<K> {
    all_max: usize,
    each_max: usize,
    here: Mutex<Here<K>>,
}

#[derive(Debug)]
struct Here<K> {
    /// Oldest first.
    groups: FxHashMap<K, VecDeque<(u64, Arc<Notify>)>>,
    count: usize,
    next: u64,
}

/// A permit, until it is dropped or evicted.
#[derive(Debug)]
pub struct EvictablePermit<K: Eq + Hash + Clone> {
    crowd: Arc<EvictingQuota<K>>,
    who: K,
    number: u64,
    go: Arc<Notify>,
}

impl<K: Eq + Hash + Clone> EvictingQuota<K> {
    /// At most `all_max` permits, and `each_max` of each group.
    pub fn new(all_max: usize, each_max: usize) -> Arc<Self> {
        let here = Here { groups: FxHashMap::default(), count: 0, next: 0 };
        Arc::new(Self { all_max, each_max, here: Mutex::new(here) })
    }

    /// A new permit; another one is evicted when the quota is full.
    pub fn enter(self: &Arc<Self>, who: K) -> EvictablePermit<K> {
        let mut here = self.here.lock();
        if here.groups.get(&who).is_some_and(|group| group.len() >= self.each_max) {
            here.evict(&who);
        }
        if here.count >= self.all_max
            && let Some(largest) = here.largest()
        {
            here.evict(&largest);
        }
        let (number, go) = (here.next, Arc::new(Notify::new()));
        here.next += 1;
        here.count += 1;
        here.groups.entry(who.clone()).or_default().push_back((number, go.clone()));
        EvictablePermit { crowd: self.clone(), who, number, go }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        let here = self.here.lock();
        assert_eq!(here.groups.values().map(VecDeque::len).sum::<usize>(), here.count);
        here.count
    }
}

impl<K: Eq + Hash + Clone> Here<K> {
    fn largest(&self) -> Option<K> {
        self.groups.iter().max_by_key(|(_, group)| group.len()).map(|(who, _)| who.clone())
    }

    /// Evicts the oldest permit of `who`.
    fn evict(&mut self, who: &K) {
        let Some(group) = self.groups.get_mut(who) else { return };
        if let Some((_, go)) = group.pop_front() {
            go.notify_one();
            self.count -= 1;
        }
        if group.is_empty() {
            self.groups.remove(who);
        }
    }

    fn remove(&mut self, who: &K, number: u64) {
        let Some(group) = self.groups.get_mut(who) else { return };
        let before = group.len();
        group.retain(|(other, _)| *other != number);
        self.count -= before - group.len();
        if group.is_empty() {
            self.groups.remove(who);
        }
    }
}

impl<K: Eq + Hash + Clone> EvictablePermit<K> {
    /// Waits until it is evicted; for ever once it has left.
    pub async fn evicted(&self) {
        self.go.notified().await;
    }

    /// It has authenticated, and does not count any more.
    pub fn leave(&self) {
        self.crowd.here.lock().remove(&self.who, self.number);
    }
}

impl<K: Eq + Hash + Clone> Drop for EvictablePermit<K> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The network of one customer of a provider: a /64 of IPv6, or one IPv4 address.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
        },
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it was told to go.
    fn is_evicted(member: &EvictablePermit<&'static str>) -> bool {
        let gone = member.evicted();
        let mut gone = std::pin::pin!(gone);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        gone.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn who_holds_all_places_makes_room_and_others_keep_theirs() {
        let crowd = EvictingQuota::new(10, 8);
        let honest = crowd.enter("honest");
        let hoard: Vec<_> = (0..100).map(|_| crowd.enter("hoarder")).collect();
        assert_eq!(crowd.count(), 9);
        assert!(hoard[..92].iter().all(is_evicted) && !hoard[92..].iter().any(is_evicted));
        let others = [crowd.enter("a"), crowd.enter("b"), crowd.enter("c")];
        assert_eq!(crowd.count(), 10, "two of the hoarder had to go");
        assert!(!is_evicted(&honest) && !others.iter().any(is_evicted));
        drop(hoard);
        assert_eq!(crowd.count(), 4);
    }

    #[test]
    fn who_has_shown_itself_is_not_sent_away() {
        let crowd = EvictingQuota::new(2, 2);
        let shown = crowd.enter("one");
        shown.leave();
        let rest: Vec<_> = (0..5).map(|_| crowd.enter("one")).collect();
        assert!(!is_evicted(&shown) && is_evicted(&rest[0]));
        drop(shown);
        assert_eq!(crowd.count(), 2, "it is not taken off twice");
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let ip = |text: &str| network(text.parse().unwrap());
        assert_eq!(ip("2001:db8::1"), ip("2001:db8::ffff:1"));
        assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
        assert_eq!(ip("::ffff:192.0.2.1"), ip("192.0.2.1"));
        assert_ne!(ip("192.0.2.2"), ip("192.0.2.1"));
    }
}
