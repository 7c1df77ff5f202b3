//! What the engine needs from a storage: a few operations on named files.
//!
//! Names are relative, with `/` between their parts. Each operation says what is durable when it returns; the engine
//! relies on nothing else. [`crate::local`] implements the trait; the simulated storage can lose everything that was
//! not made durable.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
pub use store::{Archived, StorageError};

/// Result of a file operation.
pub type StorageResult<T> = Result<T, StorageError>;

/// A file that is being written. Nothing in it is durable before [`FileWriter::sync`] returns.
pub trait FileWriter: Send {
    /// Appends `parts`, one after the other.
    fn append(&mut self, parts: &[&[u8]]) -> StorageResult<()>;

    /// Makes the content durable.
    ///
    /// # Errors
    /// After an error the file counts as lost: do not call it again.
    fn sync(&mut self) -> StorageResult<()>;
}

/// A file that is read at any offset.
pub trait FileReader: Send + Sync {
    /// Length in bytes.
    fn length(&self) -> StorageResult<u64>;

    /// Whether a lock helper keeps the file under a name of its own, so that removing this one frees nothing.
    ///
    /// # Errors
    /// Those of the system.
    fn is_secured(&self) -> StorageResult<bool> {
        Ok(false)
    }

    /// Fills `buffer` from `offset` on, in bytes.
    ///
    /// # Errors
    /// Also when the file ends before the buffer is full.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()>;

    /// What was read does not fit its checksums: as [`Storage::distrust`].
    fn distrust(&self) -> bool {
        false
    }
}

/// A lock, held until this is dropped. The system releases it when the process dies.
pub trait LockGuard: Send + Sync {}

/// An interrupted [`Storage::put`] leaves at most a file of its name with this suffix. Nobody reads it; the next
/// writer removes it.
pub const PUT_SUFFIX: &str = ".new";

/// How a container can be read that lies in a storage class where reading costs more than usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cold {
    /// The class, as the storage calls it.
    pub class: String,
    /// Whether its writer marked it as one that holds nothing but content of files.
    pub is_content: bool,
}

/// A folder of named files, local or remote.
pub trait Storage: Send + Sync {
    /// How many containers are published at the same time: more than one where each waits for somebody far away.
    fn published_at_once(&self) -> usize {
        1
    }

    /// Creates a file.
    ///
    /// # Errors
    /// [`StorageError::already_exists`] when there is one of that name.
    fn create(&self, name: &str) -> StorageResult<Box<dyn FileWriter>>;

    /// Opens an existing file: the one that has the name now, whoever has replaced it. A storage that is far away may
    /// look for a container only when it is read.
    fn open(&self, name: &str) -> StorageResult<Box<dyn FileReader>>;

    /// Gives a synced file its final name and makes the name durable.
    ///
    /// # Errors
    /// [`StorageError::already_exists`] when a writer that took over the lease has created that name.
    fn publish(&self, from: &str, to: &str) -> StorageResult<()>;

    /// Whether content of files is to lie in containers of its own, which [`Storage::publish_content`] gives their names:
    /// the storage keeps those where reading costs more.
    ///
    /// # Errors
    /// Those of the storage, if it has to ask.
    fn separates_content(&self) -> StorageResult<bool> {
        Ok(false)
    }

    /// The same as [`Storage::publish`] for a container that holds nothing but content of files.
    ///
    /// # Errors
    /// As [`Storage::publish`].
    fn publish_content(&self, from: &str, to: &str) -> StorageResult<()> {
        self.publish(from, to)
    }

    /// For each of the containers `names`, whether it is cold. One that is not there is not.
    ///
    /// # Errors
    /// Those of the storage: nobody may take what it did not say for warm.
    fn cold(&self, names: &[String]) -> StorageResult<Vec<Option<Cold>>> {
        Ok(vec![None; names.len()])
    }

    /// Renames a synced file over another and makes that durable. Readers see the old or the new file.
    fn replace(&self, from: &str, to: &str) -> StorageResult<()>;

    /// Durably writes a small file as a whole. Readers see the old or the new content.
    ///
    /// # Errors
    /// [`StorageError::already_exists`] where a storage can tell that somebody else has written it since it was read.
    fn put(&self, name: &str, bytes: &[u8]) -> StorageResult<()>;

    /// The same for a file that was not there, under the lease.
    ///
    /// # Errors
    /// [`StorageError::already_exists`] where a storage can tell that another process, which had the lease before, has
    /// written it meanwhile.
    fn put_new(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        self.put(name, bytes)
    }

    /// Durably removes a file; succeeds when there is none.
    fn remove(&self, name: &str) -> StorageResult<()>;

    /// Removes a file, which is durable only after [`Storage::sync_directory`]. Succeeds when there is none.
    fn unlink(&self, name: &str) -> StorageResult<()> {
        self.remove(name)
    }

    /// Durably removes several files. When it fails, some of them may be gone. Those that were gone before are durably
    /// so afterwards: what removed them may not have been durable.
    fn remove_all(&self, names: &[String]) -> StorageResult<()> {
        names.iter().try_for_each(|name| self.unlink(name))?;
        let directory = |name: &String| name.rsplit_once('/').map_or(".", |(it, _)| it).to_owned();
        let directories: BTreeSet<_> = names.iter().map(directory).collect();
        directories.iter().try_for_each(|name| self.sync_directory(name))
    }

    /// So many files are removed together for the price of one: who removes many looks at the lease once for so many.
    fn removed_at_once(&self) -> usize {
        1
    }

    /// The length of the container `name`, where a listing proves that all of it is there: each request costs time, and
    /// one listing tells of many. `None` where one has to look into it.
    ///
    /// # Errors
    /// [`StorageError::is_not_found`] when it is not there.
    fn listed_length(&self, _name: &str) -> StorageResult<Option<u64>> {
        Ok(None)
    }

    /// The length of the file `name`, in bytes. Where a listing has just told it, nobody is asked again.
    ///
    /// # Errors
    /// [`StorageError::is_not_found`] when it is not there.
    fn length(&self, name: &str) -> StorageResult<u64> {
        self.open(name)?.length()
    }

    /// What was read of the file `name` does not fit its checksums: what this machine keeps of it counts no more. Whether
    /// the next reader of it may see something else.
    fn distrust(&self, _name: &str) -> bool {
        false
    }

    /// These files are opened next. A storage that is far away reads them at once; no more than a hint.
    fn expect(&self, _names: &[String]) {}

    /// Names in a directory (sub-directories too), sorted. A missing directory is an error.
    ///
    /// The listing may be stale: a network file system lists what its cache holds. The newest names may be missing, and
    /// removed ones may be listed. So a caller neither removes a file nor reuses a number because a name is not
    /// listed, and a listed name that cannot be opened was removed. [`Storage::open`] sees the current state.
    fn list(&self, directory: &str) -> StorageResult<Vec<String>>;

    /// The same as they were some moments ago, and with what this process has done since: where each listing is a
    /// request to somebody far away, and many ask for the same one.
    ///
    /// # Errors
    /// As [`Storage::list`].
    fn list_lately(&self, directory: &str) -> StorageResult<Vec<String>> {
        self.list(directory)
    }

    /// Whether [`Storage::list`] is never stale.
    fn has_consistent_listing(&self) -> bool {
        false
    }

    /// Durably creates a directory and its parents; succeeds when it exists.
    fn create_directory(&self, name: &str) -> StorageResult<()>;

    /// Makes the names in a directory durable. Names that a killed writer created or removed may be visible without
    /// being durable.
    fn sync_directory(&self, name: &str) -> StorageResult<()>;

    /// Whether other machines that use the same storage see a lock that is taken here, as far as the mount options
    /// tell.
    fn locks_are_shared(&self) -> bool {
        true
    }

    /// Whether there are other locks than that of the writer.
    fn has_named_locks(&self) -> bool {
        true
    }

    /// Takes the lock `name`; `None` when another process holds it.
    fn try_lock(&self, name: &str) -> StorageResult<Option<Box<dyn LockGuard>>>;

    /// Bytes that can still be written.
    fn free_bytes(&self) -> StorageResult<u64>;

    /// Whether the space could run out that [`Storage::free_bytes`] tells of, so that some of it is kept for forget and
    /// reclaim.
    fn has_limited_space(&self) -> bool {
        true
    }

    /// Files that can still be created; `None` where the storage has no bound, or does not tell it.
    ///
    /// # Errors
    /// Those of the system.
    fn free_inodes(&self) -> StorageResult<Option<u64>> {
        Ok(None)
    }

    /// Location of the storage, for messages.
    fn describe(&self) -> String;
}

/// Appends all of `parts` with `write`, which gets what is left and the number of bytes written so far. Like the
/// system call, `write` may take only a part and return its length, or be interrupted: then it is called again.
///
/// # Errors
/// The error of `write`. What it wrote before stays written.
pub fn write_all(
    parts: &[&[u8]],
    mut write: impl FnMut(&[IoSlice<'_>], usize) -> io::Result<usize>,
) -> io::Result<()> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let mut written = 0;
    while written < total {
        match write(&rest_of(parts, written), written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn rest_of<'a>(parts: &[&'a [u8]], mut skip: usize) -> Vec<IoSlice<'a>> {
    let mut slices = Vec::with_capacity(parts.len());
    for part in parts {
        let cut = skip.min(part.len());
        skip -= cut;
        slices.extend(part.get(cut..).filter(|rest| !rest.is_empty()).map(IoSlice::new));
    }
    slices
}

/// The content of the small file `name`, at most `limit` bytes.
pub fn read_small(storage: &dyn Storage, name: &str, limit: usize) -> StorageResult<Vec<u8>> {
    let file = storage.open(name)?;
    let length = file.length()?;
    if length > limit as u64 {
        let reason = format!("it has {length} bytes, more than {limit}");
        return Err(StorageError::new(
            "read",
            name,
            io::Error::new(io::ErrorKind::InvalidData, reason),
        ));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// What the small file `name` says, by `decode`. What this machine keeps of it can be wrong, and bytes can be bad on their
/// way: so what is damaged is read once more, past all that is kept, before anybody is told.
///
/// # Errors
/// [`crate::Error::Damaged`]; those of the storage.
pub(crate) fn read_checked<T>(
    storage: &dyn Storage,
    name: &str,
    limit: usize,
    decode: impl Fn(Vec<u8>) -> format::Result<T>,
) -> crate::Result<T> {
    let read = || {
        let bytes = read_limited(storage, name, limit)?;
        decode(bytes).map_err(|reason| crate::Error::damaged(name, reason))
    };
    match read() {
        Err(crate::Error::Damaged { .. }) if storage.distrust(name) => read(),
        read => read,
    }
}

/// The content of the small file `name`. One that is longer is damaged, as its writer never makes such; and one that the
/// storage does not give.
fn read_limited(storage: &dyn Storage, name: &str, limit: usize) -> crate::Result<Vec<u8>> {
    read_small(storage, name, limit).map_err(|error| match error.source.kind() {
        io::ErrorKind::InvalidData => {
            crate::Error::damaged(name, format::Error::Invalid { what: "its length" })
        }
        _ if error.is_unreadable() => {
            let why = error.source.to_string();
            crate::Error::damaged(name, format::Error::Unreadable { why })
        }
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `write` took in the end, and how `write_all` ended.
    fn written(
        parts: &[&[u8]],
        mut write: impl FnMut(usize, usize) -> io::Result<usize>,
    ) -> (Vec<u8>, io::Result<()>) {
        let mut disk = Vec::new();
        let result = write_all(parts, |slices, at| {
            let left: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            assert_eq!(at, disk.len(), "what was taken is not written again");
            let count = write(at, left.len())?;
            disk.extend_from_slice(&left[..count]);
            Ok(count)
        });
        (disk, result)
    }

    #[test]
    fn a_write_that_takes_a_part_goes_on_where_it_ended() {
        let parts: [&[u8]; 4] = [b"one", b"", b"two", b"three"];
        for most in 1..12 {
            let (disk, result) = written(&parts, |_, left| Ok(left.min(most)));
            assert_eq!((disk, result.is_ok()), (b"onetwothree".to_vec(), true), "{most}");
        }
    }

    #[test]
    fn a_write_that_is_interrupted_is_tried_again_and_one_that_fails_is_not() {
        let mut calls = 0;
        let mut every_other = |error: io::ErrorKind| {
            written(&[b"abc", b"def"], |_, _| {
                calls += 1;
                if calls % 2 == 0 { Err(error.into()) } else { Ok(2) }
            })
        };
        let (disk, result) = every_other(io::ErrorKind::Interrupted);
        assert_eq!((disk, result.is_ok()), (b"abcdef".to_vec(), true));
        let (disk, result) = every_other(io::ErrorKind::StorageFull);
        assert_eq!(disk, b"");
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        let (disk, result) = every_other(io::ErrorKind::StorageFull);
        assert_eq!((disk, result.is_err()), (b"ab".to_vec(), true), "what was taken stays");
        assert!(written(&[b"abc"], |_, _| Ok(0)).1.is_err(), "nothing taken is no progress");
    }
}
