//! The name under which a file is kept: its own, since when, its inode, and until when. So the names are the whole
//! state, and to keep a file longer is a rename. Earlier helpers did not write since when.
//!
//! ```text
//! 000000012c.ice@1796169600@1573921@1798761600
//! 000000012c.ice@1573921@1798761600
//! ```

use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

/// A name in a directory of the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name of the file in the pool.
    pub(crate) file: String,
    /// When it came, by the helper's clock, and later than each that came before it under the same name; 0 if nobody
    /// knows. No stamp of the file says so: who owned it set them.
    pub(crate) since_secs: i64,
    /// Its inode: a file that took the place of another is another one.
    pub(crate) inode: u64,
    /// In seconds since 1970.
    pub(crate) until_secs: i64,
}

impl Entry {
    pub(crate) fn name(&self) -> String {
        let Self { file, since_secs, inode, until_secs } = self;
        match since_secs {
            0 => format!("{file}@{inode}@{until_secs}"),
            _ => format!("{file}@{since_secs}@{inode}@{until_secs}"),
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (rest, until) = name.rsplit_once('@')?;
        let (rest, inode) = rest.rsplit_once('@')?;
        let (file, since) = rest.split_once('@').unwrap_or((rest, "0"));
        let parsed = Self {
            file: file.to_owned(),
            since_secs: since.parse().ok()?,
            inode: inode.parse().ok()?,
            until_secs: until.parse().ok()?,
        };
        // Its only spelling.
        (!file.is_empty() && parsed.name() == name).then_some(parsed)
    }
}

/// An entry as it was found. The inode that it names is another one where the pool was copied: then it keeps the copy.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) entry: Entry,
    pub(crate) status: Stat,
}

/// What lies in a directory of the helper.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Kept>,
    pub(crate) directories: Vec<String>,
}

/// Lists `directory`. What the helper did not name is passed over, and what goes meanwhile.
pub(crate) fn list(directory: &OwnedFd) -> rustix::io::Result<Listing> {
    let mut listing = Listing::default();
    for found in Dir::read_from(directory)? {
        let found = found?;
        let Ok(name) = found.file_name().to_str() else { continue };
        let status = match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            status => status?,
        };
        let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        match (Entry::parse(name), is_directory) {
            (Some(entry), false) => listing.entries.push(Kept { entry, status }),
            (None, true) if !name.starts_with('.') => listing.directories.push(name.to_owned()),
            _ => {}
        }
    }
    listing.directories.sort_unstable();
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_has_one_spelling() {
        for since_secs in [0, 7] {
            let file = "a.ice".to_owned();
            let entry = Entry { file, since_secs, inode: 12, until_secs: -3 };
            assert_eq!(Entry::parse(&entry.name()), Some(entry));
        }
        for bad in [
            "",
            "a",
            "a@1",
            "@1@2",
            "a@1@",
            "a@@2",
            "a@01@2",
            "a@1@+2",
            "a@1@2 ",
            "a@-1@2",
            "a@0@1@2",
            "a@b@1@2",
            "a@1@2@3@4",
            "@1@2@3",
        ] {
            assert_eq!(Entry::parse(bad), None, "{bad:?}");
        }
    }
}
