//! What a directory of the target lists beside the names of the snapshot.

use crate::extraneous::is_never_extraneous;
use crate::snapshot_names::{Respelled, SnapshotNames};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Dir;
use rustix::io::Errno;

/// So many names wait for the end of the list, which shows whether names of the snapshot are
/// missing in it. If there are more, the directory is listed once more, and memory stays small.
const WAITING_MAX: usize = 1 << 16;

/// The names in a directory that no object of the snapshot has.
pub(crate) struct Others<'a> {
    directory: OwnedFd,
    of_snapshot: &'a SnapshotNames,
    waiting: std::vec::IntoIter<Vec<u8>>,
    /// The rest of the list, if it is longer than what waits.
    rest: Option<Dir>,
    respelled: Respelled,
}

impl<'a> Others<'a> {
    pub(crate) fn list(directory: OwnedFd, of_snapshot: &'a SnapshotNames) -> Result<Self, Errno> {
        Self::list_with(directory, of_snapshot, WAITING_MAX)
    }

    fn list_with(
        directory: OwnedFd,
        of_snapshot: &'a SnapshotNames,
        waiting_max: usize,
    ) -> Result<Self, Errno> {
        let listed = Dir::read_from(&directory)?;
        let (waiting, respelled) = Default::default();
        let mut others = Others { directory, of_snapshot, waiting, rest: Some(listed), respelled };
        let (mut found, mut waiting) = (0, Vec::new());
        while waiting.len() < waiting_max
            && let Some(listed) = others.next_listed()?
        {
            match listed {
                Listed::OfSnapshot => found += 1,
                Listed::Other(name) => waiting.push(name),
            }
        }
        let is_complete = others.rest.is_none() && found >= of_snapshot.len();
        if !waiting.is_empty() && !is_complete {
            others.respelled = Respelled::find(others.directory.as_fd(), of_snapshot)?;
        }
        others.waiting = waiting.into_iter();
        Ok(others)
    }

    /// The next name of the list; at its end, that is closed.
    fn next_listed(&mut self) -> Result<Option<Listed>, Errno> {
        while let Some(item) = self.rest.as_mut().and_then(Dir::next) {
            let item = item?;
            let name = item.file_name().to_bytes();
            if self.of_snapshot.contains(name) {
                return Ok(Some(Listed::OfSnapshot));
            }
            if !is_never_extraneous(self.directory.as_fd(), name) {
                return Ok(Some(Listed::Other(name.to_vec())));
            }
        }
        self.rest = None;
        Ok(None)
    }

    fn next_other(&mut self) -> Result<Option<Vec<u8>>, Errno> {
        if let Some(name) = self.waiting.next() {
            return Ok(Some(name));
        }
        loop {
            match self.next_listed()? {
                Some(Listed::OfSnapshot) => {}
                Some(Listed::Other(name)) => return Ok(Some(name)),
                None => return Ok(None),
            }
        }
    }
}

enum Listed {
    OfSnapshot,
    Other(Vec<u8>),
}

impl Iterator for Others<'_> {
    type Item = Result<Vec<u8>, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let name = match self.next_other() {
                Ok(name) => name?,
                Err(error) => {
                    self.rest = None; // nothing is known of what follows
                    return Some(Err(error));
                }
            };
            match self.respelled.has(self.directory.as_fd(), &name) {
                Ok(true) => {}
                Ok(false) => return Some(Ok(name)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode};

    fn listed(
        at: &std::path::Path,
        of_snapshot: &SnapshotNames,
        waiting_max: usize,
    ) -> Vec<String> {
        let open = rustix::fs::openat(CWD, at, crate::system::DIRECTORY, Mode::empty()).unwrap();
        let others = Others::list_with(open, of_snapshot, waiting_max).unwrap();
        let mut names: Vec<_> =
            others.map(|name| String::from_utf8(name.unwrap()).unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_list_that_does_not_fit_comes_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut of_snapshot = SnapshotNames::default();
        for number in 0..50 {
            std::fs::write(folder.path().join(format!("other{number:02}")), "").unwrap();
            std::fs::write(folder.path().join(format!("own{number:02}")), "").unwrap();
            of_snapshot.insert(format!("own{number:02}").as_bytes());
        }
        let others: Vec<_> = (0..50).map(|number| format!("other{number:02}")).collect();
        for waiting_max in [0, 1, 20, 49, 50, 51, 1000] {
            assert_eq!(listed(folder.path(), &of_snapshot, waiting_max), others, "{waiting_max}");
        }
        of_snapshot.insert(b"missing");
        for waiting_max in [0, 20, 1000] {
            assert_eq!(listed(folder.path(), &of_snapshot, waiting_max), others, "{waiting_max}");
        }
    }
}
