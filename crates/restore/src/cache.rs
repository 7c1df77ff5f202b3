//! A cache of open directories; the least recently used are closed first.

use crate::directory::DirHandle;
use rustc_hash::FxHashMap;

/// The default soft limit of open files is 1,024, and the caller has files and containers open,
/// too.
pub(crate) const MAX_OPEN_DIRECTORIES: usize = 256;

/// Maps paths to handles. A handle that is in use stays open after it is evicted.
#[derive(Default)]
pub(crate) struct Cache {
    handles: FxHashMap<Vec<u8>, (DirHandle, u64)>,
    clock: u64,
}

impl Cache {
    pub(crate) fn get(&mut self, path: &[u8]) -> Option<DirHandle> {
        self.clock += 1;
        let (handle, used) = self.handles.get_mut(path)?;
        *used = self.clock;
        Some(handle.clone())
    }

    pub(crate) fn put(&mut self, path: &[u8], handle: &DirHandle) {
        if self.handles.len() >= MAX_OPEN_DIRECTORIES {
            self.drop_oldest();
        }
        self.clock += 1;
        self.handles.insert(path.to_vec(), (handle.clone(), self.clock));
    }

    pub(crate) fn forget(&mut self, path: &[u8]) {
        self.handles.remove(path);
    }

    /// Drops a quarter, so that not every directory costs a scan: that took 1 % of a restore of
    /// many small directories.
    fn drop_oldest(&mut self) {
        let mut used: Vec<u64> = self.handles.values().map(|(_, used)| *used).collect();
        let (_, &mut limit, _) = used.select_nth_unstable(MAX_OPEN_DIRECTORIES / 4 - 1);
        self.handles.retain(|_, (_, used)| *used > limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn what_was_used_last_stays_open_and_no_more_than_the_limit() {
        let (mut cache, handle) = (Cache::default(), DirHandle::new(Directory::missing()));
        for number in 0..10 * MAX_OPEN_DIRECTORIES {
            cache.put(format!("d{number}").as_bytes(), &handle);
            assert!(cache.get(b"d0").is_some(), "used at every step, gone after {number}");
            assert!(cache.handles.len() <= MAX_OPEN_DIRECTORIES);
            let newest = number.saturating_sub(MAX_OPEN_DIRECTORIES / 2)..=number;
            newest.for_each(|n| assert!(cache.handles.contains_key(format!("d{n}").as_bytes())));
        }
    }
}
