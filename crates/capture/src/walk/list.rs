//! Listing one directory: its names, and its `.gitignore` and tag files.

use super::batch::Listing;
use super::directory::{Directory, open_quietly};
use super::names::{ListedType, Names};
use crate::excludes::{ExcludeTag, GITIGNORE, GitignoreStack};
use rustix::fs::{OFlags, RawDir};
use rustix::io::Result;
use std::sync::Arc;

/// Room for names in one call: 64 KiB are about 2,000 names.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;
/// Listings up to this size are copied to blocks of their exact size.
const COPIED_BYTES: usize = 256 * 1024;
/// A `.gitignore` larger than this is not one.
const GITIGNORE_LIMIT: usize = 1024 * 1024;

/// Keeps the buffers between directories.
#[derive(Default)]
pub(super) struct Lister {
    buffer: Vec<u8>,
    names: Names,
}

impl Lister {
    /// Reads the names of a directory, sorted, and the patterns that apply in it. Returns whether
    /// it contains one of `tags`; then only the name of that file is kept, and those that lead to
    /// what the user named.
    pub(super) fn list(
        &mut self,
        listing: &mut Listing,
        tags: &[ExcludeTag],
        gitignore: bool,
    ) -> Result<bool> {
        self.names.clear();
        let read = self.read_names(&listing.directory);
        self.names.sort();
        if gitignore && self.names.find(GITIGNORE).is_some() {
            add_gitignore(listing);
        }
        let has = |tag: &&ExcludeTag| {
            self.names.find(tag.name()).is_some() && is_tagged(&listing.directory, tag)
        };
        let tag = tags.iter().find(has);
        if let Some(tag) = tag {
            let plan = listing.context.plan.as_deref();
            let is_planned = |name: &[u8]| plan.is_some_and(|plan| plan.child(name).is_some());
            self.names.retain(|name| name == tag.name() || is_planned(name));
            listing.is_tagged = true;
        }
        // Names that came before an error are as good as any.
        listing.names = match self.names.weight() {
            0..=COPIED_BYTES => self.names.take_exact(),
            _ => self.names.take_whole(),
        };
        read.map(|()| tag.is_some())
    }

    fn read_names(&mut self, directory: &Arc<Directory>) -> Result<()> {
        let handle = directory.handle()?;
        self.buffer.reserve(BUFFER_BYTES);
        let mut entries = RawDir::new(&*handle, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                self.names.push(entry.file_name(), ListedType::from_type(entry.file_type()));
            }
        }
        Ok(())
    }
}

fn add_gitignore(listing: &mut Listing) {
    // An unreadable one is ignored here; the walk reports the file itself.
    if let Ok(text) = gitignore_in(&listing.directory) {
        let outer = listing.context.gitignores.take();
        listing.context.gitignores =
            Some(Arc::new(GitignoreStack::new(listing.path.clone(), &text, outer)));
    }
}

/// What the `.gitignore` of a directory says; a link is not followed, and a pipe is not waited for.
pub(crate) fn gitignore_in(directory: &Arc<Directory>) -> Result<Vec<u8>> {
    read_start(directory, c".gitignore", GITIGNORE_LIMIT)
}

fn is_tagged(directory: &Arc<Directory>, tag: &ExcludeTag) -> bool {
    let header = tag.header();
    header.is_empty()
        || read_start(directory, tag.c_name(), header.len()).is_ok_and(|start| start == header)
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
