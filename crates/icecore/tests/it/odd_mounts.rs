//! Sources on file systems that list what they do not give.

use crate::machine::Machine;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry,
    ReplyOpen, Request,
};
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Nothing is believed longer than it is looked at.
const NOW: Duration = Duration::ZERO;
/// Inode, the one it lies in, name. Even ones are directories.
const OBJECTS: [(u64, u64, &str); 4] =
    [(3, 1, "first"), (4, 1, "below"), (5, 4, "second"), (3, 1, "further")];
const ROOT: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Lookup,
    List,
    Open,
    Read,
    /// Each name is listed twice: of this, the error means nothing.
    ListOnce,
}

/// Which operation fails on which inode.
type Fault = Option<(Operation, u64, Errno)>;

/// A directory with a file and a directory with another one.
struct Faulty(Arc<Mutex<Fault>>);

impl Faulty {
    fn fate(&self, operation: Operation, inode: u64) -> Result<(), Errno> {
        match *self.0.lock().unwrap() {
            Some((fails, at, error)) if (fails, at) == (operation, inode) => Err(error),
            _ => Ok(()),
        }
    }
}

fn attributes(inode: u64) -> FileAttr {
    let kind = kind(inode);
    FileAttr {
        ino: INodeNo(inode),
        size: if kind == FileType::RegularFile { 1 } else { 0 },
        blocks: 1,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0o755,
        nlink: OBJECTS.iter().filter(|it| it.0 == inode).count().max(1) as u32,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn kind(inode: u64) -> FileType {
    match inode == ROOT || inode.is_multiple_of(2) {
        true => FileType::Directory,
        false => FileType::RegularFile,
    }
}

impl Filesystem for Faulty {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = OBJECTS.iter().find(|it| (it.1, OsStr::new(it.2)) == (parent.0, name));
        let fate = found
            .ok_or(Errno::ENOENT)
            .and_then(|it| self.fate(Operation::Lookup, it.0).map(|()| it.0));
        match fate {
            Ok(inode) => reply.entry(&NOW, &attributes(inode), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&NOW, &attributes(inode.0));
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.fate(Operation::List, inode.0) {
            Ok(()) => reply.opened(FileHandle(inode.0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let times = if self.fate(Operation::ListOnce, inode.0).is_ok() { 1 } else { 2 };
        let below = OBJECTS.repeat(times).into_iter().filter(|it| it.1 == inode.0);
        for (at, (inode, _, name)) in below.enumerate().skip(offset as usize) {
            if reply.add(INodeNo(inode), at as u64 + 1, kind(inode), name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.fate(Operation::Open, inode.0) {
            Ok(()) => reply.opened(FileHandle(inode.0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.fate(Operation::Read, inode.0) {
            Ok(()) => reply.data(if offset == 0 { b"x" } else { b"" }),
            Err(error) => reply.error(error),
        }
    }
}

/// A mount of it, until this is dropped.
struct Mounted {
    at: PathBuf,
    fault: Arc<Mutex<Fault>>,
    _session: BackgroundSession,
}

impl Mounted {
    /// `None` where nobody may mount.
    fn at(at: PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let fault = Arc::default();
        match fuser::spawn_mount(Faulty(Arc::clone(&fault)), &at, &Config::default()) {
            Ok(_session) => Some(Self { at, fault, _session }),
            Err(error) => {
                testkit::skip(&format!("no FUSE file system can be mounted: {error}"));
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

/// They counted as deleted during the backup: it ended well, and the snapshot was complete without them.
#[test]
fn what_is_listed_and_cannot_be_had_makes_a_backup_partial() {
    use Operation::{List, Lookup, Open, Read};
    let machine = Machine::bare();
    let Some(mounted) = Mounted::at(machine.path("mounted")) else { return };
    let backup = ["backup", mounted.at.to_str().unwrap()];
    machine.run(["init"]).ends(0);
    machine.run(backup).ends(0);
    for (operation, inode, name) in [
        (Lookup, 3, "/first"),
        (Lookup, 4, "/below"),
        (List, 4, "/below"),
        (Open, 3, "/first"),
        (Open, 5, "/below/second"),
        (Read, 5, "/below/second"),
        (List, ROOT, ""),
    ] {
        for error in [Errno::ENOENT, Errno::ESTALE] {
            *mounted.fault.lock().unwrap() = Some((operation, inode, error));
            let told = machine.run(["backup", "--full", backup[1]]).ends(3);
            let path = format!("{}{name}", mounted.at.display());
            let text = told.text() + &told.stderr;
            assert!(text.contains(&path), "{path}: {text}");
        }
    }
    *mounted.fault.lock().unwrap() = None;
    machine.run(backup).ends(0);
}

/// Seen: zeros came back in place of what a backup could not read, over a good file, and the restore ended well.
#[test]
fn what_could_not_be_read_is_named_by_a_restore_and_replaces_nothing() {
    let machine = Machine::bare();
    let Some(mounted) = Mounted::at(machine.path("mounted")) else { return };
    let source = mounted.at.to_str().unwrap();
    machine.run(["init"]).ends(0);
    *mounted.fault.lock().unwrap() = Some((Operation::Read, 3, Errno::EIO));
    machine.run(["backup", source]).ends(3);
    let target = machine.path("target");
    let stored = format!("latest:{source}");
    let restore = |more: &[&str], code| {
        let to = ["restore", &stored, "--target", target.to_str().unwrap()];
        machine.run([&to[..], more].concat()).ends(code)
    };
    let first = || std::fs::read(target.join("first")).unwrap();
    let told = restore(&[], 3);
    assert!(told.stderr.contains("first: it could not be read completely"), "{told:?}");
    assert_eq!(first(), [0]);
    // Each time, and what is better stays.
    std::fs::write(target.join("first"), "x").unwrap();
    for mode in ["if-changed", "if-newer"] {
        let told = restore(&["--overwrite", mode], 3);
        assert!(told.stderr.contains("first: it could not be read"), "{told:?}");
        assert!(told.stderr.contains("--overwrite always"), "{told:?}");
        assert_eq!(first(), *b"x");
    }
    restore(&["--overwrite", "never"], 0);
    assert_eq!(first(), *b"x");
    restore(&["--overwrite", "always"], 3);
    assert_eq!(first(), [0]);
    for command in ["cat", "dump"] {
        let told = machine.run([command, &format!("{stored}/first")]).ends(3);
        assert!(told.stderr.contains("could not be read completely"), "{told:?}");
    }
    machine.run(["cat", &format!("{stored}/below/second")]).ends(0);
}

/// Seen: what stood under a further name of such a file became a link to its zeros, and nobody named it.
#[test]
fn what_could_not_be_read_replaces_nothing_under_a_further_name_either() {
    let machine = Machine::bare();
    let Some(mounted) = Mounted::at(machine.path("mounted")) else { return };
    let source = mounted.at.to_str().unwrap();
    machine.run(["init"]).ends(0);
    *mounted.fault.lock().unwrap() = Some((Operation::Read, 3, Errno::EIO));
    machine.run(["backup", source]).ends(3);
    let stored = format!("latest:{source}");
    let target = machine.path("target");
    let further = target.join("further");
    std::fs::create_dir(&target).unwrap();
    for mode in ["if-changed", "if-newer"] {
        std::fs::write(&further, "x").unwrap();
        let to = ["restore", &stored, "--target", target.to_str().unwrap(), "--overwrite", mode];
        let told = machine.run(to).ends(3);
        assert!(told.stderr.contains("further: it could not be read"), "{mode}: {told:?}");
        assert_eq!(std::fs::read(&further).unwrap(), b"x", "{mode}");
        // Its own link it knows again.
        std::fs::remove_file(&further).unwrap();
        machine.run(to).ends(3);
        assert_eq!(std::fs::read(&further).unwrap(), [0]);
        let told = machine.run(to).ends(3);
        assert!(!told.stderr.contains("further: "), "{told:?}");
        std::fs::remove_file(target.join("first")).unwrap();
    }
}

/// Seen: what a restore had begun of such a file was kept as if it were better than what the snapshot has.
#[test]
fn what_a_restore_began_of_an_unread_file_is_written_again() {
    let machine = Machine::bare();
    let Some(mounted) = Mounted::at(machine.path("mounted")) else { return };
    let source = mounted.at.to_str().unwrap();
    machine.run(["init"]).ends(0);
    *mounted.fault.lock().unwrap() = Some((Operation::Read, 3, Errno::EIO));
    machine.run(["backup", source]).ends(3);
    let (target, id) = (machine.path("target"), machine.snapshots().remove(0));
    std::fs::create_dir(&target).unwrap();
    // As it is when the restore is killed in the middle of the file.
    // By the clock of the file system, as a marker has it: what it stamps may be a tick behind the clock of the system.
    let made = std::fs::metadata(&target).unwrap().modified().unwrap();
    let now = made.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (marked, path) = (target.join(".icecore-restore-1-5"), source.trim_start_matches('/'));
    let text = format!(
        "An icecore restore into this folder is under way or was cut short. Files changed since {now} (seconds since 1970)\n"
    );
    let stored = format!("latest:{source}");
    let to = ["restore", &stored, "--target", target.to_str().unwrap()];
    for (what, is_begun) in [
        (String::new(), false),
        (format!("Restored: {id}:somewhere/else\n"), false),
        (
            format!("Restored: {id}:{path}\nFiles have their names only when they are complete.\n"),
            false,
        ),
        (format!("Restored: {id}:{path}\n"), true),
    ] {
        std::fs::write(&marked, format!("{text}{what}")).unwrap();
        std::fs::write(target.join("first"), "?").unwrap();
        std::fs::set_permissions(target.join("first"), Permissions::from_mode(0o600)).unwrap();
        let told = machine.run(to).ends(3);
        assert!(told.stderr.contains("first: it could not be read completely"), "{told:?}");
        let left: &[u8] = if is_begun { &[0] } else { b"?" };
        assert_eq!(std::fs::read(target.join("first")).unwrap(), left, "{what}");
    }
    // What somebody has put there since is no leftover.
    std::fs::write(&marked, format!("{text}Restored: {id}:{path}\n")).unwrap();
    std::fs::write(target.join("first"), "!").unwrap();
    std::fs::set_permissions(target.join("first"), Permissions::from_mode(0o640)).unwrap();
    machine.run(to).ends(3);
    assert_eq!(std::fs::read(target.join("first")).unwrap(), b"!");
}

/// XFS lists a name twice if it is deleted and made again meanwhile. The backup failed, and called it damage.
#[test]
fn a_name_that_a_directory_lists_twice_is_stored_once() {
    let machine = Machine::bare();
    let Some(mounted) = Mounted::at(machine.path("mounted")) else { return };
    machine.run(["init"]).ends(0);
    for inode in [ROOT, 4] {
        *mounted.fault.lock().unwrap() = Some((Operation::ListOnce, inode, Errno::EIO));
        machine.run(["backup", "--full", mounted.at.to_str().unwrap()]).ends(0);
        let listed = machine.run(["ls", "-R", "latest"]).ends(0).text();
        for name in ["first", "second", "below"] {
            let end = format!("/{name}");
            assert_eq!(listed.lines().filter(|line| line.ends_with(&end)).count(), 1, "{listed}");
        }
    }
    machine.run(["check"]).ends(0);
}

/// What the system generates is told to be empty.
#[test]
fn a_file_of_which_nobody_knows_the_size_has_its_content() {
    let machine = Machine::new();
    let path = "/proc/sys/kernel/osrelease";
    machine.run(["backup", path]).ends(0);
    let shown = machine.run(["cat", &format!("latest:{path}")]).ends(0).stdout;
    assert_eq!(shown, std::fs::read(path).unwrap());
}
