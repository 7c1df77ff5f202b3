//! Entries and places for the tests.

use crate::{Overwrite, OwnerMapping, Target, TargetOptions};
use format::entry::{Attributes, Content, Entry, Kind, Time, Xattr};
use rustix::fs::Statx;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// u::rw-, u:1000:rw-, g::r--, m::rw-, o::---
#[rustfmt::skip]
pub(crate) const ACL: [u8; 44] = [
    2, 0, 0, 0,
    0x01, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
    0x02, 0, 6, 0, 0xe8, 0x03, 0, 0,
    0x04, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
    0x10, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
    0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];

/// cap_net_raw, effective, version 2.
pub(crate) const CAPABILITY: [u8; 20] =
    [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(crate) const MTIME: Time = Time { secs: 1_600_000_000, nanos: 123_456_789 };

pub(crate) fn entry(kind: Kind, path: impl AsRef<[u8]>, mode: u16) -> Entry {
    let attributes = Attributes {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..Attributes::new(kind, mode)
    };
    Entry { mtime: MTIME, ..Entry::new(path.as_ref(), Arc::new(attributes)) }
}

pub(crate) fn file(path: impl AsRef<[u8]>, mode: u16) -> Entry {
    entry(Kind::File, path, mode)
}

pub(crate) fn directory(path: impl AsRef<[u8]>, mode: u16) -> Entry {
    entry(Kind::Directory, path, mode)
}

pub(crate) fn symlink(path: &str, target: &[u8]) -> Entry {
    let content = Content::Inline(target.to_vec());
    Entry { size: target.len() as u64, content, ..entry(Kind::Symlink, path, 0o777) }
}

pub(crate) fn change(entry: &mut Entry, how: impl FnOnce(&mut Attributes)) {
    how(Arc::make_mut(&mut entry.attributes));
}

pub(crate) fn with_xattr(mut entry: Entry, name: &str, value: &[u8]) -> Entry {
    let xattr = Xattr { name: name.into(), value: value.to_vec() };
    change(&mut entry, |a| a.xattrs.push(xattr));
    entry
}

pub(crate) fn options(overwrite: Overwrite) -> TargetOptions {
    TargetOptions { overwrite, owners: OwnerMapping::ById, ..TargetOptions::default() }
}

/// A folder with the target `inside` and a canary beside it.
pub(crate) struct TestFolder {
    pub(crate) folder: tempfile::TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self::below(Path::new("/tmp"))
    }

    pub(crate) fn below(path: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("restore").tempdir_in(path).unwrap();
        std::fs::create_dir(folder.path().join("inside")).unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        std::fs::write(folder.path().join("outside/canary"), "alive").unwrap();
        TestFolder { folder }
    }

    /// On ext4 and on tmpfs.
    pub(crate) fn both() -> [Self; 2] {
        [Self::new(), Self::below(Path::new("/dev/shm"))]
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("inside")
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn target(&self, overwrite: Overwrite) -> Target {
        self.target_with(options(overwrite))
    }

    pub(crate) fn target_with(&self, options: TargetOptions) -> Target {
        Target::open(&self.root(), options).unwrap()
    }

    pub(crate) fn assert_canary_alive(&self) {
        let outside = self.folder.path().join("outside");
        assert_eq!(std::fs::read(outside.join("canary")).unwrap(), b"alive");
        assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1);
    }

    /// The names in a directory, as it lists them.
    pub(crate) fn names(&self, path: &str) -> std::collections::BTreeSet<String> {
        let names = std::fs::read_dir(self.at(path)).unwrap();
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn look(&self, path: &str) -> Statx {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let mask = rustix::fs::StatxFlags::BASIC_STATS;
        rustix::fs::statx(rustix::fs::CWD, self.at(path), flags, mask).unwrap()
    }
}

impl Drop for TestFolder {
    /// Trees may be too deep for `remove_dir_all`, which calls itself, and locked.
    fn drop(&mut self) {
        let _ = std::process::Command::new("chattr")
            .args(["-R", "-i", "-a"])
            .arg(self.folder.path())
            .output();
        let _ = std::process::Command::new("rm").arg("-rf").arg(self.folder.path()).status();
    }
}

/// Restores one small file with this content (the size is set) and looks for degradations.
pub(crate) fn restore(target: &Target, entry: &Entry, content: &[u8]) -> crate::RestoreOutcome {
    let entry = Entry { size: content.len() as u64, ..entry.clone() };
    let parent = target.parent_of(&entry.path).unwrap();
    let outcome = target.small_file(&parent, &entry, content).unwrap();
    assert_eq!(target.take_degraded(), crate::Degradations::default());
    outcome
}

/// Removes the names of a directory that `keep` does not know: each path, and how much went.
pub(crate) fn delete_extraneous(
    target: &Target,
    directory: &[u8],
    keep: impl Fn(&[u8]) -> bool,
) -> Vec<Result<(Vec<u8>, u64), crate::RestoreProblem>> {
    let none = crate::SnapshotNames::default();
    let name = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let others = match target.extraneous_beside(directory, &none) {
        Ok(others) => others.collect::<Vec<_>>(),
        Err(problem) => return vec![Err(problem)],
    };
    let is_kept = |path: &Result<Vec<u8>, _>| path.as_ref().is_ok_and(|path| keep(&name(path)));
    let others: Vec<_> = others.into_iter().filter(|path| !is_kept(path)).collect();
    let remove = |path: Result<Vec<u8>, crate::RestoreProblem>| {
        let path = path?;
        let removed = target.remove(&path, None);
        removed.problem.map_or(Ok((path, removed.objects)), Err)
    };
    others.into_iter().map(remove).collect()
}

/// Runs as another user, in a thread of its own (Linux keeps ids per thread); `None` when we are
/// nobody who may do that.
pub(crate) fn as_plain_user<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    use rustix::process::{Gid, Uid};
    if !rustix::process::geteuid().is_root() {
        testkit::skip("only root can become another user");
        return None;
    }
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(1_000), Gid::from_raw(1_000));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            // Else /proc/self/fd belongs to root from now on, as it does for no real plain user.
            use rustix::process::{DumpableBehavior, set_dumpable_behavior};
            set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
            work()
        });
        Some(plain.join().unwrap())
    })
}

/// A file system mounted inside the target for one test.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// Calls `mount` with these arguments and the directory `at`; `None` where that is not possible.
    pub(crate) fn make(arguments: &[&str], at: &Path) -> Option<Self> {
        Self::with("mount", arguments, at)
    }

    /// The same with the program of one file system.
    pub(crate) fn with(program: &str, arguments: &[&str], at: &Path) -> Option<Self> {
        let called = std::process::Command::new(program).args(arguments).arg(at).output().ok()?;
        called.status.success().then(|| Mount(at.to_path_buf()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
