//! Open directories, the least recently used closed first.

use crate::directory::DirHandle;
use rustc_hash::FxHashMap;

/// Default of the soft limit of open files is 1,024; the caller has files and containers open too.
pub(crate) const MAX_OPEN_DIRECTORIES: usize = 256;

/// Path to handle. Handles that somebody still holds stay open when they fall out.
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

    /// A scan of 256 numbers, far cheaper than the `mkdirat` that leads here.
    fn drop_oldest(&mut self) {
        let oldest = self.handles.iter().min_by_key(|(_, (_, used))| *used);
        if let Some(path) = oldest.map(|(path, _)| path.clone()) {
            self.handles.remove(&path);
        }
    }
}
