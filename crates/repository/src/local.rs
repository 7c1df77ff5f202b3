//! Storage in a directory of a local file system.
//!
//! The directory is opened once, and every file relative to that handle: when another file system is mounted over the
//! path later, nothing is written to the wrong place.

mod aligned;
mod attached;
mod current;
mod failing;
mod heir;
mod histogram;
mod io;
mod locking;
pub mod mode;
pub mod superblock;
pub mod sweep;
pub mod tune;
mod writer;

use crate::storage::{
    FileReader, FileWriter, LockGuard, PUT_SUFFIX, Storage, StorageError, StorageResult,
};
use attached::Identity;
use failing::Root;
use heir::Heir;
pub use histogram::{Histogram, Latencies, Mark};
use io::LocalIo;
pub use io::{Counters, counters, listen};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use writer::LocalWriter;

/// What is written in large pieces, and perhaps directly. All else is small, or read again soon.
const CONTAINERS: &str = "containers/";
/// Kinds of file systems whose lists nobody changes but the kernel that makes them (`statfs(2)`):
/// ext, XFS, btrfs, tmpfs, ramfs, overlay, F2FS, ZFS, bcachefs, JFS, NILFS, VFAT, exFAT, NTFS.
const LOCAL_KINDS: [u32; 14] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0xCA45_1A4E,
    0x3153_464A,
    0x3434,
    0x4D44,
    0x2011_BAB0,
    0x7366_746E,
];
/// Those of them that write to a disk by themselves: ext, XFS, F2FS, JFS.
const DISK_KINDS: [u32; 4] = [0xEF53, 0x5846_5342, 0xF2F5_2010, 0x3153_464A];
/// How often a file is opened again that another machine replaces meanwhile.
const REPLACED_MAX: u32 = 10;
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory that holds a repository.
pub struct LocalStorage {
    root: Arc<Root>,
    /// The kind of its file system (`statfs(2)`); 0 if unknown.
    kind: u32,
    /// Which directory it is; `None` if the system does not say.
    identity: Option<Identity>,
    /// To whom the directory belongs.
    owner: u32,
    /// To whom what is created is given.
    heir: Option<Heir>,
    io: Arc<LocalIo>,
    /// Directories whose names are durable. One that is found may be of a writer that was killed
    /// before it had synced, or of a sync that failed.
    durable: Mutex<FxHashSet<String>>,
}

impl LocalStorage {
    /// Opens the directory `path`, which must exist.
    pub fn open(path: &Path) -> StorageResult<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = fs::open(path, flags, Mode::empty())
            .map_err(|error| StorageError::new("open", &path.to_string_lossy(), error))?;
        let kind = fs::fstatfs(&root).map(|status| status.f_type as u32).unwrap_or_default();
        let owner = fs::fstat(&root).map(|status| status.st_uid).unwrap_or_default();
        let (identity, io) = (Identity::of(&root, kind), Arc::new(LocalIo::of(&root, path)));
        let heir = Heir::of(&root);
        let root = Arc::new(Root { handle: root, path: path.to_owned() });
        Ok(Self { kind, root, identity, owner, heir, io, durable: Mutex::default() })
    }

    /// Opens the directory `path` to measure it with `settings`.
    fn open_with(path: &Path, settings: mode::IoSettings) -> StorageResult<Self> {
        let io = Arc::new(LocalIo::measuring(settings, path));
        Ok(Self { io, ..Self::open(path)? })
    }

    /// Whether this is a file system of this machine, and none of a network.
    fn is_local(&self) -> bool {
        LOCAL_KINDS.contains(&self.kind)
    }

    /// Whether its file system itself writes to a disk of this machine, and where no checksum of it would fail if a
    /// buffer changed on the way.
    fn writes_to_disk(&self) -> bool {
        DISK_KINDS.contains(&self.kind)
    }

    /// Opens the directory `path`; creates it and its parents when it is missing. It is its owner's alone, whatever the
    /// umask gives to others: who may write in it may remove all of the repository, although everything in it is closed
    /// to them. Its parents are as the umask wants them.
    pub fn create(path: &Path) -> StorageResult<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let made = parent.map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
                made => made,
            }
        });
        made.map_err(|error| {
            StorageError::new("create the directory", &path.to_string_lossy(), error)
        })?;
        Self::open(path)
    }

    /// Fails if the file system of the storage is no longer mounted where it was opened. Whatever makes something
    /// visible asks first: on a file system that nobody sees it would be acknowledged and not found.
    ///
    /// # Errors
    /// One that is unreachable, and no damage.
    pub fn verify_attached(&self) -> StorageResult<()> {
        self.identity.map_or(Ok(()), |identity| identity.verify(&self.root.path))
    }

    fn open_file(
        &self,
        operation: &'static str,
        name: &str,
        flags: OFlags,
    ) -> StorageResult<OwnedFd> {
        self.try_open(name, flags).map_err(|error| self.root.error(operation, name, error))
    }

    /// Opens a file without waiting: a pipe in its place would wait for somebody who writes.
    fn open_to_read(&self, name: &str) -> StorageResult<OwnedFd> {
        let opened = match self.try_open(name, OFlags::RDONLY | OFlags::NONBLOCK) {
            // A program that has it for itself is asked to give it back, so it is a file.
            Err(Errno::WOULDBLOCK) => self.try_open(name, OFlags::RDONLY),
            opened => opened,
        };
        // Reads do wait for the disk, those of io_uring too.
        opened
            .and_then(|file| fs::fcntl_setfl(&file, OFlags::empty()).map(|()| file))
            .map_err(|error| self.root.error("open", name, error))
    }

    fn try_open(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        fs::openat(&self.root.handle, name, flags, Mode::from_raw_mode(FILE_MODE))
    }

    /// Creates a file that is not there.
    fn create_file(&self, operation: &'static str, name: &str) -> StorageResult<OwnedFd> {
        let Some(heir) = self.heir else {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            return self.open_file(operation, name, flags);
        };
        let file = heir.create(&self.root.handle, name);
        file.map_err(|error| self.root.error(operation, name, error))
    }

    fn make_directory(&self, name: &str) -> rustix::io::Result<()> {
        match self.heir {
            Some(heir) => heir.create_directory(&self.root.handle, name),
            None => fs::mkdirat(&self.root.handle, name, Mode::from_raw_mode(DIRECTORY_MODE)),
        }
    }

    /// Opens the file that has this name now.
    fn open_current(&self, name: &str) -> StorageResult<OwnedFd> {
        for _ in 0..REPLACED_MAX {
            current::look(&self.root.handle, name);
            let file = self.open_to_read(name)?;
            // Some clients look for the file only now. It may have been replaced in between.
            if !matches!(fs::fstat(&file), Err(Errno::STALE)) {
                return Ok(file);
            }
        }
        Err(StorageError::new("open", name, Errno::STALE))
    }

    /// [`Storage::publish`] in two steps, as not every file system can do it in one: NFS and SMB
    /// cannot. A look that fails says nothing.
    fn look_and_rename(&self, from: &str, to: &str) -> StorageResult<()> {
        match self.open(to) {
            Err(error) if error.is_not_found() => self.replace(from, to),
            Err(error) => Err(error),
            Ok(_) => Err(StorageError::new("rename", to, Errno::EXIST)),
        }
    }

    /// Takes a name away; `false` when there was none.
    fn has_unlinked(&self, name: &str) -> StorageResult<bool> {
        match fs::unlinkat(&self.root.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(StorageError::new("remove", name, error)),
        }
    }

    fn sync_parent(&self, name: &str) -> StorageResult<()> {
        self.sync_directory(name.rsplit_once('/').map_or(".", |(parent, _)| parent))
    }
}

impl Storage for LocalStorage {
    fn create(&self, name: &str) -> StorageResult<Box<dyn FileWriter>> {
        self.verify_attached()?;
        let file = self.create_file("create", name)?;
        Ok(Box::new(match name.starts_with(CONTAINERS) {
            true => LocalWriter::gathering(file, name, &self.io),
            false => LocalWriter::plain(file, name, &self.io),
        }))
    }

    fn open(&self, name: &str) -> StorageResult<Box<dyn FileReader>> {
        let file = match self.is_local() || !current::is_replaced(name) {
            true => self.open_to_read(name)?,
            false => self.open_current(name)?,
        };
        Ok(Box::new(LocalReader {
            file,
            name: name.to_owned(),
            root: self.root.clone(),
            counters: self.io.counters.clone(),
            directory_owner: self.owner,
        }))
    }

    fn publish(&self, from: &str, to: &str) -> StorageResult<()> {
        self.verify_attached()?;
        let flags = RenameFlags::NOREPLACE;
        match fs::renameat_with(&self.root.handle, from, &self.root.handle, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS) => self.look_and_rename(from, to),
            Err(error) => Err(StorageError::new("rename", from, error)),
            Ok(()) => self.sync_parent(to),
        }
    }

    fn replace(&self, from: &str, to: &str) -> StorageResult<()> {
        self.verify_attached()?;
        fs::renameat(&self.root.handle, from, &self.root.handle, to).map_err(
            |error| match error {
                Errno::ISDIR => StorageError::new("write", to, error),
                _ => StorageError::new("rename", from, error),
            },
        )?;
        self.sync_parent(to)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        let part = format!("{name}{PUT_SUFFIX}");
        self.remove(&part)?;
        let mut file = self.create(&part)?;
        file.append(&[bytes])?;
        file.sync()?;
        self.replace(&part, name)
    }

    fn remove(&self, name: &str) -> StorageResult<()> {
        if self.has_unlinked(name)? { self.sync_parent(name) } else { Ok(()) }
    }

    fn unlink(&self, name: &str) -> StorageResult<()> {
        self.has_unlinked(name).map(drop)
    }

    fn list(&self, directory: &str) -> StorageResult<Vec<String>> {
        let failed = |error| self.root.error("list", directory, error);
        let handle = self.open_file("list", directory, OFlags::DIRECTORY | OFlags::RDONLY)?;
        if !self.is_local() {
            ask_the_server(&handle);
        }
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy();
            if !matches!(name.as_ref(), "." | "..") {
                names.push(name.into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn has_consistent_listing(&self) -> bool {
        self.is_local()
    }

    fn create_directory(&self, name: &str) -> StorageResult<()> {
        if self.durable.lock().contains(name) {
            return Ok(());
        }
        for (end, _) in name.match_indices('/').chain([(name.len(), "")]) {
            let part = name.get(..end).unwrap_or(name);
            match self.make_directory(part) {
                Ok(()) | Err(Errno::EXIST) => self.sync_parent(part)?,
                Err(error) => return Err(StorageError::new("create directory", part, error)),
            }
        }
        self.durable.lock().insert(name.to_owned());
        Ok(())
    }

    fn sync_directory(&self, name: &str) -> StorageResult<()> {
        #[cfg(test)]
        tests::note_sync(name);
        let directory = self.open_file("sync", name, OFlags::DIRECTORY | OFlags::RDONLY)?;
        match fs::fsync(&directory) {
            // Some network file systems cannot sync a directory; their renames are synchronous.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(StorageError::new("sync directory", name, error)),
        }
    }

    fn locks_are_shared(&self) -> bool {
        self.is_local() || !crate::mount::keeps_locks(&self.root.handle)
    }

    fn try_lock(&self, name: &str) -> StorageResult<Option<Box<dyn LockGuard>>> {
        Ok(self.lock_file(name)?.map(|lock| Box::new(lock) as Box<dyn LockGuard>))
    }

    fn free_bytes(&self) -> StorageResult<u64> {
        let status = fs::fstatvfs(&self.root.handle)
            .map_err(|error| StorageError::new("ask for the free space of", ".", error))?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }

    /// Btrfs and others that make inodes as they need them say that they have none at all.
    fn free_inodes(&self) -> StorageResult<Option<u64>> {
        let status = fs::fstatvfs(&self.root.handle)
            .map_err(|error| StorageError::new("ask for the free inodes of", ".", error))?;
        Ok(bounded(status.f_files, status.f_favail))
    }

    fn describe(&self) -> String {
        self.root.path.display().to_string()
    }
}

/// The `free` ones of so many inodes, unless the file system makes them as it needs them.
fn bounded(inodes: u64, free: u64) -> Option<u64> {
    (inodes > 0).then_some(free)
}

/// NFS, SMB and FUSE list from their cache while they consider it valid. This call makes them compare it with the
/// server. Where it has no effect the listing is stale, and `listing_markers` detects that.
fn ask_the_server(directory: &OwnedFd) {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let _ = fs::statx(directory, "", flags, StatxFlags::CTIME | StatxFlags::MTIME);
}

struct LocalReader {
    file: OwnedFd,
    name: String,
    root: Arc<Root>,
    counters: Arc<Counters>,
    directory_owner: u32,
}

impl LocalReader {
    fn read(&self, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
        let bytes = buffer.len() as u64;
        self.counters.read.time(bytes, || rustix::io::pread(&self.file, buffer, offset))
    }
}

impl FileReader for LocalReader {
    fn length(&self) -> StorageResult<u64> {
        let status = fs::fstat(&self.file)
            .map_err(|error| StorageError::new("ask for the length of", &self.name, error))?;
        Ok(status.st_size as u64)
    }

    /// The helper has made it root's, in a directory that is not.
    fn is_secured(&self) -> StorageResult<bool> {
        let status = fs::fstat(&self.file)
            .map_err(|error| StorageError::new("ask for the owner of", &self.name, error))?;
        Ok(status.st_nlink > 1 && status.st_uid == 0 && self.directory_owner != 0)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let mut done = 0;
        while done < buffer.len() {
            let Some(rest) = buffer.get_mut(done..) else { break };
            match self.read(rest, offset + done as u64) {
                Ok(0) => {
                    let end = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    return Err(StorageError::new("read", &self.name, end));
                }
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.root.error("read", &self.name, error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::read_small;
    use std::cell::RefCell;

    thread_local! {
        /// Files and folders that this thread has synced: nothing short of a power cut shows it.
        static SYNCED: RefCell<Vec<String>> = RefCell::default();
    }

    pub(super) fn note_sync(name: &str) {
        SYNCED.with_borrow_mut(|synced| synced.push(name.to_owned()));
    }

    /// What `work` synced, in order.
    fn synced(work: impl FnOnce()) -> Vec<String> {
        SYNCED.take();
        work();
        SYNCED.take()
    }

    fn storage() -> (tempfile::TempDir, LocalStorage) {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path()).unwrap();
        (directory, storage)
    }

    #[test]
    fn a_file_system_that_counts_no_inodes_has_no_bound() {
        assert_eq!([bounded(0, 0), bounded(10, 0), bounded(10, 4)], [None, Some(0), Some(4)]);
    }

    #[test]
    fn a_repository_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let new = directory.path().join("a/b");
        LocalStorage::create(&new).unwrap();
        assert_eq!(mode(&new), 0o700);
        // Who made it before wanted it so.
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o750)).unwrap();
        LocalStorage::create(&new).unwrap();
        assert_eq!(mode(&new), 0o750);
    }

    #[test]
    fn what_stands_in_the_place_of_a_file_is_damaged() {
        let (directory, storage) = storage();
        let socket = directory.path().join("socket");
        fs::mknodat(fs::CWD, socket, fs::FileType::Socket, Mode::RWXU, 0).unwrap();
        let pipe = directory.path().join("pipe");
        fs::mknodat(fs::CWD, pipe, fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        std::fs::create_dir(directory.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("socket", directory.path().join("link")).unwrap();
        for name in ["socket", "pipe", "directory", "link"] {
            let mut bytes = [0];
            let read = storage.open(name).and_then(|file| file.read_exact_at(&mut bytes, 0));
            let error = read.unwrap_err();
            assert!(error.is_unreadable(), "{name}");
            // Of a socket the system says the same as of a device that is gone.
            let is_told = error.to_string().ends_with(&format!(": a {name} is in its place"));
            assert!(is_told || name == "socket", "{error}");
        }
    }

    /// With the flag, io_uring says "try again" of what is not in memory.
    #[test]
    fn what_is_read_waits_for_the_disk() {
        let (_directory, storage) = storage();
        storage.put("a", b"one").unwrap();
        let flags = fs::fcntl_getfl(storage.open_to_read("a").unwrap()).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK), "{flags:?}");
    }

    #[test]
    fn a_file_has_its_name_only_when_published() {
        let (_directory, storage) = storage();
        storage.create_directory("a/b").unwrap();
        let mut file = storage.create("a/b/x.part").unwrap();
        file.append(&[b"one", b"", b"two"]).unwrap();
        file.append(&[b"three"]).unwrap();
        file.sync().unwrap();
        assert!(storage.open("a/b/x").err().unwrap().is_not_found());
        storage.publish("a/b/x.part", "a/b/x").unwrap();
        assert_eq!(read_small(&storage, "a/b/x", 100).unwrap(), b"onetwothree");
        assert_eq!(storage.list("a/b").unwrap(), ["x"]);
        storage.create("a/b/x.part").unwrap().sync().unwrap();
        let refused = storage.publish("a/b/x.part", "a/b/x").unwrap_err();
        assert_eq!(
            refused.source.kind(),
            std::io::ErrorKind::AlreadyExists,
            "nothing is overwritten"
        );
        assert!(read_small(&storage, "a/b/x", 5).is_err(), "a limit is kept");
    }

    /// A second name of anybody else, as of a backup of the repository with hard links, is none of a lock helper.
    #[test]
    fn what_a_lock_helper_keeps_is_told_from_other_links() {
        if !rustix::process::geteuid().is_root() {
            return testkit::skip("needs root to give files to others");
        }
        let (directory, storage) = storage();
        storage.put("file", b"x").unwrap();
        let file = directory.path().join("file");
        let is_secured = || {
            let storage = LocalStorage::open(directory.path()).unwrap();
            storage.open("file").unwrap().is_secured().unwrap()
        };
        std::fs::hard_link(&file, directory.path().join("link")).unwrap();
        assert!(!is_secured(), "the directory is root's, too");
        let give = |path| std::os::unix::fs::chown(path, Some(54_321), None).unwrap();
        give(directory.path());
        assert!(is_secured());
        give(&file);
        assert!(!is_secured(), "a link of the owner");
        std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        std::fs::remove_file(directory.path().join("link")).unwrap();
        assert!(!is_secured(), "no other name");
    }

    /// What a writer that lost its lease still writes must not be written by another one as well.
    #[test]
    fn a_file_is_made_once() {
        let (_directory, storage) = storage();
        drop(storage.create("x.part").unwrap());
        assert!(storage.create("x.part").err().unwrap().already_exists());
    }

    /// Links in the storage do not make the program read or write elsewhere.
    #[test]
    fn a_link_is_not_followed() {
        let (directory, storage) = storage();
        std::fs::write(directory.path().join("elsewhere"), b"secret").unwrap();
        std::os::unix::fs::symlink("elsewhere", directory.path().join("link")).unwrap();
        assert!(storage.open("link").is_err());
        assert!(storage.try_lock("link").is_err());
    }

    #[test]
    fn a_name_that_is_given_replaced_or_taken_is_synced_in_its_folder() {
        let (_directory, storage) = storage();
        storage.create_directory("a/b").unwrap();
        drop(storage.create("a/b/x.part").unwrap());
        assert_eq!(synced(|| storage.publish("a/b/x.part", "a/b/x").unwrap()), ["a/b"]);
        assert_eq!(synced(|| storage.replace("a/b/x", "a/b/y").unwrap()), ["a/b"]);
        assert_eq!(synced(|| storage.remove("a/b/y").unwrap()), ["a/b"]);
    }

    /// Also one that is there already: who made it may have died before its sync.
    #[test]
    fn a_new_folder_and_its_parents_are_synced_in_theirs_once() {
        let (directory, storage) = storage();
        assert_eq!(synced(|| storage.create_directory("a/b").unwrap()), [".", "a"]);
        assert_eq!(synced(|| storage.create_directory("a/b").unwrap()), [""; 0]);
        let other = LocalStorage::open(directory.path()).unwrap();
        assert_eq!(synced(|| other.create_directory("a/b").unwrap()), [".", "a"]);
    }

    #[test]
    fn what_is_put_is_synced_before_it_has_its_name() {
        let (_directory, storage) = storage();
        let part = format!("state{PUT_SUFFIX}");
        assert_eq!(synced(|| storage.put("state", b"one").unwrap()), [&part, "."]);
    }

    #[test]
    fn where_a_rename_cannot_refuse_what_cannot_be_opened_is_not_replaced() {
        let (directory, storage) = storage();
        for name in ["from", "there"] {
            storage.put(name, name.as_bytes()).unwrap();
        }
        // Opening it fails, and not since it is not there.
        std::os::unix::fs::symlink("there", directory.path().join("odd")).unwrap();
        assert!(storage.look_and_rename("from", "there").unwrap_err().already_exists());
        assert!(!storage.look_and_rename("from", "odd").unwrap_err().is_not_found());
        assert_eq!(storage.list(".").unwrap(), ["from", "odd", "there"]);
        storage.look_and_rename("from", "to").unwrap();
        assert_eq!(storage.list(".").unwrap(), ["odd", "there", "to"]);
    }

    #[test]
    fn a_put_replaces_the_whole_file() {
        let (_directory, storage) = storage();
        storage.put("state", b"first and long").unwrap();
        storage.put("state", b"second").unwrap();
        assert_eq!(read_small(&storage, "state", 100).unwrap(), b"second");
        storage.remove("state").unwrap();
        storage.remove("state").unwrap();
    }

    #[test]
    fn a_missing_directory_is_an_error_and_not_empty() {
        let (_directory, storage) = storage();
        assert!(storage.list("nothing").unwrap_err().is_not_found());
    }
}
