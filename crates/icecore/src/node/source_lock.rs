//! One backup of a source at a time on this machine, whoever starts it: a lock in the agent state directory that ends
//! with its process, however that ends.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The folder of the locks.
const FOLDER: &str = "running";
/// What holders write is short.
const BYTES_MAX: u64 = 4096;

/// Held while a source is backed up.
#[derive(Debug)]
pub(crate) struct SourceLock {
    _file: File,
}

/// Who holds a lock. Only for people: the lock itself is the kernel's.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    process: u32,
    since_secs: i64,
    /// The job of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<u64>,
}

impl SourceLock {
    /// Takes the lock of the source of these names, in the state directory `folder`. What is the same source is
    /// decided by the caller.
    ///
    /// # Errors
    /// [`Code::InUse`] with who holds it; files that cannot be written.
    pub(crate) fn take(folder: &Path, source: &[String], job: Option<u64>) -> Result<Self> {
        let path = file_of(folder, source);
        let mut file = open_to_lock(folder, &path).map_err(|error| Failure::file(&path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(held(&mut file)),
            Err(error) => return Err(Failure::file(&path, &error.into())),
        }
        let since_secs = jiff::Timestamp::now().as_second();
        let holder = Holder { process: std::process::id(), since_secs, job };
        let text = serde_json::to_string(&holder).map_err(std::io::Error::from)?;
        // A full disk here keeps no backup from the server.
        let _ = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        Ok(Self { _file: file })
    }

    /// The same, and waits as long as the command may.
    ///
    /// # Errors
    /// As [`SourceLock::take`].
    pub(crate) fn take_patiently(
        context: &Context,
        wait: crate::wait::Wait,
        source: &[String],
    ) -> Result<Self> {
        let (folder, job) = (context.agent_folder(), context.global.server.job_number);
        wait.for_source(context, || Self::take(&folder, source, job))
    }
}

/// A file of each source: names of any length and of any letters become one of hexadecimal digits.
fn file_of(folder: &Path, source: &[String]) -> PathBuf {
    let text = serde_json::to_vec(source).unwrap_or_default();
    let digest = pki::fingerprint(&text);
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    folder.join(FOLDER).join(name)
}

/// Whether a process of this machine backs a source up for `job` of the server.
pub(crate) fn is_at_work(folder: &Path, job: u64) -> bool {
    let files = std::fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
    files.filter_map(|entry| File::open(entry.path()).ok()).any(|mut file| {
        let is_of_job = holder(&mut file).is_some_and(|holder| holder.job == Some(job));
        // What a holder left behind stays in the file.
        is_of_job
            && flock(&file, FlockOperation::NonBlockingLockShared)
                == Err(rustix::io::Errno::WOULDBLOCK)
    })
}

fn holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.take(BYTES_MAX).read_to_string(&mut text)).ok()?;
    serde_json::from_str(&text).ok()
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Where nothing can be written, a file that is there is locked, or else the state directory: then one source at a time
/// is backed up, whichever it is.
fn open_to_lock(folder: &Path, path: &Path) -> std::io::Result<File> {
    open(path).or_else(|error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => {
            File::open(path).or_else(|_| File::open(folder))
        }
        _ => Err(error),
    })
}

fn held(file: &mut File) -> Failure {
    let who = holder(file).map_or_else(
        || "another process".to_owned(),
        |holder| {
            let job =
                holder.job.map_or_else(String::new, |job| format!("job {job} of the server, "));
            let since = crate::commands::server::when(holder.since_secs);
            format!("{job}process {}, since {since}", holder.process)
        },
    );
    Failure::new(Code::InUse, format!("this source is being backed up already: {who}"))
        .hint("Nothing was changed. Wait for it: --wait 10m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, UnmountFlags};

    #[test]
    fn a_source_is_locked_once_and_others_are_free() {
        let folder = tempfile::tempdir().unwrap();
        let names = |path: &str| vec!["web".to_owned(), path.to_owned()];
        let take = |path: &str| SourceLock::take(folder.path(), &names(path), Some(17));
        let first = take("/etc").unwrap();
        let refused = take("/etc").unwrap_err();
        assert_eq!(refused.code, Code::InUse);
        assert!(refused.message.contains("job 17 of the server, process "), "{}", refused.message);
        let other = take("/home").unwrap();
        assert!(is_at_work(folder.path(), 17) && !is_at_work(folder.path(), 18));
        drop(first);
        take("/etc").unwrap();
        drop(other);
        assert!(!is_at_work(folder.path(), 17), "nobody holds what it left behind");
    }

    /// Seen: a machine whose disk was full, or mounted read-only, was not backed up any more.
    #[test]
    fn a_source_is_locked_where_nothing_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        // By calls: a program that is started would hold the locks of other tests for a moment.
        let path = folder.path();
        if rustix::mount::mount("tmpfs", path, "tmpfs", MountFlags::empty(), c"size=64k").is_err() {
            return testkit::skip("no tmpfs can be mounted: not root");
        }
        let take = |path: &str| SourceLock::take(folder.path(), &[path.to_owned()], None);
        drop(take("/before").unwrap());
        let mut full = File::create(folder.path().join("full")).unwrap();
        while full.write_all(&[0; 4096]).is_ok() {}
        drop(full);
        let left = |path: &str| {
            let first = take(path).unwrap();
            assert_eq!(take(path).unwrap_err().code, Code::InUse, "{path}");
            drop(first);
        };
        left("/before");
        left("/new");
        rustix::mount::mount_remount(path, MountFlags::RDONLY, c"").unwrap();
        left("/before");
        left("/other");
        rustix::mount::unmount(path, UnmountFlags::DETACH).unwrap();
    }

    #[test]
    fn what_a_holder_left_behind_does_not_lock() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["web".to_owned()];
        let path = file_of(folder.path(), &names);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        drop(SourceLock::take(folder.path(), &names, None).unwrap());
        assert!(std::fs::metadata(&path).unwrap().len() < 200);
    }
}
