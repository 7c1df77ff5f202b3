//! What a machine remembers of names and small files for a while, as GlusterFS does: somebody else has replaced the
//! file, and it is still read as it was, until the machine wants to change something of it.

use super::locked;
use fuser::FileAttr;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const AGE: Duration = Duration::from_secs(1);
const SMALL_BYTES: u64 = 64 << 10;

#[derive(Default)]
pub(super) struct Memory {
    names: Mutex<HashMap<PathBuf, (Instant, FileAttr)>>,
    /// By inode.
    contents: Mutex<HashMap<u64, Arc<Vec<u8>>>>,
    /// By handle: files that were opened from memory.
    opened: Mutex<HashMap<u64, Arc<Vec<u8>>>>,
}

impl Memory {
    pub(super) fn name(&self, path: &Path) -> Option<FileAttr> {
        let names = locked(&self.names);
        names.get(path).filter(|(seen, _)| seen.elapsed() < AGE).map(|(_, attributes)| *attributes)
    }

    pub(super) fn inode(&self, inode: u64) -> Option<FileAttr> {
        let names = locked(&self.names);
        let mut young = names.values().filter(|(seen, _)| seen.elapsed() < AGE);
        young.find(|(_, attributes)| attributes.ino.0 == inode).map(|(_, attributes)| *attributes)
    }

    /// Remembers a small file as it is now, whatever was known of it under another name.
    pub(super) fn keep(&self, path: &Path, attributes: FileAttr) {
        self.forget_inode(attributes.ino.0);
        if attributes.size > SMALL_BYTES {
            return;
        }
        if let Ok(bytes) = std::fs::read(path) {
            locked(&self.contents).insert(attributes.ino.0, Arc::new(bytes));
            locked(&self.names).insert(path.to_owned(), (Instant::now(), attributes));
        }
    }

    pub(super) fn forget_name(&self, path: &Path) {
        locked(&self.names).remove(path);
    }

    pub(super) fn forget_inode(&self, inode: u64) {
        locked(&self.names).retain(|_, (_, attributes)| attributes.ino.0 != inode);
    }

    /// What was in the file when its name was seen.
    pub(super) fn content(&self, inode: u64) -> Option<Arc<Vec<u8>>> {
        self.inode(inode)?;
        locked(&self.contents).get(&inode).cloned()
    }

    pub(super) fn open(&self, handle: u64, content: Arc<Vec<u8>>) {
        locked(&self.opened).insert(handle, content);
    }

    /// What a file that was opened from memory has at `offset`.
    pub(super) fn read(&self, handle: u64, offset: u64, size: usize) -> Option<Vec<u8>> {
        let content = locked(&self.opened).get(&handle).cloned()?;
        let from = (offset as usize).min(content.len());
        Some(content[from..content.len().min(from + size)].to_vec())
    }

    pub(super) fn close(&self, handle: u64) -> bool {
        locked(&self.opened).remove(&handle).is_some()
    }
}
