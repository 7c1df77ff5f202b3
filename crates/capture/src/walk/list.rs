//! Listing one directory: its names, and the two files that change what they mean.

use super::chunk::Listing;
use super::directory::{Directory, open_quietly};
use super::names::{Listed, Names};
use crate::excludes::{GITIGNORE, Layer};
use rustix::fs::{OFlags, RawDir};
use rustix::io::Result;
use std::sync::Arc;

/// Room for names in one call: 64 KiB are about 2,000 names.
const BUFFER_BYTES: usize = 64 * 1024;
/// Listings up to this size are copied to blocks of their exact size.
const COPIED_BYTES: usize = 256 * 1024;
const TAG_NAME: &[u8] = b"CACHEDIR.TAG";
/// A tag is a tag by its first bytes: <https://bford.info/cachedir/>.
const TAG_START: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// A `.gitignore` larger than this is not one.
const GITIGNORE_LIMIT: usize = 1024 * 1024;

/// Keeps the buffers between directories.
#[derive(Default)]
pub(super) struct Lister {
    buffer: Vec<u8>,
    names: Names,
}

impl Lister {
    /// Fills in the names of a directory, sorted, and the patterns that hold in it. Says
    /// whether it is a cache directory: then only the tag is left of its names.
    pub(super) fn list(
        &mut self,
        listing: &mut Listing,
        tags: bool,
        gitignore: bool,
    ) -> Result<bool> {
        self.names.clear();
        let read = self.read_names(&listing.directory);
        self.names.sort();
        if gitignore && self.names.find(GITIGNORE).is_some() {
            add_layer(listing);
        }
        let is_cache = tags && self.names.find(TAG_NAME).is_some() && has_tag(&listing.directory);
        if is_cache {
            self.names.retain_only(TAG_NAME);
        }
        // Names that came before an error are as good as any.
        listing.names = match self.names.weight() {
            0..=COPIED_BYTES => self.names.take_exact(),
            _ => self.names.take_whole(),
        };
        read.map(|()| is_cache)
    }

    fn read_names(&mut self, directory: &Arc<Directory>) -> Result<()> {
        let handle = directory.handle()?;
        self.buffer.reserve(BUFFER_BYTES);
        let mut entries = RawDir::new(&*handle, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                self.names.push(entry.file_name(), Listed::from_type(entry.file_type()));
            }
        }
        Ok(())
    }
}

fn add_layer(listing: &mut Listing) {
    // One that cannot be read is as if it were not there; the walk reports the file itself.
    if let Ok(text) = read_start(&listing.directory, c".gitignore", GITIGNORE_LIMIT) {
        let outer = listing.around.layers.take();
        listing.around.layers = Some(Arc::new(Layer::new(listing.path.clone(), &text, outer)));
    }
}

fn has_tag(directory: &Arc<Directory>) -> bool {
    read_start(directory, c"CACHEDIR.TAG", TAG_START.len()).is_ok_and(|start| start == TAG_START)
}

fn read_start(directory: &Arc<Directory>, name: &std::ffi::CStr, most: usize) -> Result<Vec<u8>> {
    let file = open_quietly(&*directory.handle()?, name, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < most {
        match rustix::io::pread(&file, &mut bytes[length..], length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
