//! Removal of extraneous objects: planned while the tree is read, done at the very end, and only if
//! nothing of the snapshot was lost. What could not be read may be what the target has.

use super::Counters;
use super::entries::Selection;
use super::work::RestoreContext;
use crate::manifest::Snapshot;
use crate::{Error, Result};
use format::escape::escape;
use restore::{KeepFilter, RemovalOutcome, is_in_repository};
use rustix::fs::{CWD, Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Bytes of paths kept in memory; more go into an unnamed file.
const MEMORY_MAX: usize = 4 << 20;

/// What is said of the first path that would be removed, and was not asked about.
const NOT_CONFIRMED: &str = "it would be deleted now, and you were not asked about it: nothing was deleted. Run it again to be asked, or with --yes to delete without a question";

/// The paths to remove, each terminated by a NUL.
#[derive(Default)]
pub(super) struct Removals {
    waiting: Vec<u8>,
    file: Option<File>,
}

impl Removals {
    pub(super) fn add(&mut self, path: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(path);
        self.waiting.push(0);
        if self.waiting.len() >= MEMORY_MAX { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed_file()?),
        };
        file.write_all(&self.waiting).map_err(in_temp_dir)?;
        self.waiting.clear();
        Ok(())
    }

    /// Calls `remove` for each path, in the order added.
    fn each(&mut self, mut remove: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.rewind().map_err(in_temp_dir)?;
            for path in BufReader::new(file).split(0) {
                remove(&path.map_err(in_temp_dir)?)?;
            }
        }
        let paths = self.waiting.split(|byte| *byte == 0);
        paths.filter(|path| !path.is_empty()).try_for_each(remove)
    }
}

fn in_temp_dir(source: std::io::Error) -> Error {
    Error::File { path: std::env::temp_dir().display().to_string(), source }
}

/// A temporary file that disappears with the process.
fn unnamed_file() -> Result<File> {
    let (folder, mode) = (std::env::temp_dir(), Mode::RUSR | Mode::WUSR);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(CWD, &folder, flags | OFlags::TMPFILE, mode) {
        return Ok(file.into());
    }
    let name = folder.join(format!(".icecore-removals-{}", std::process::id()));
    let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file =
        rustix::fs::openat(CWD, &name, new, mode).map_err(|error| in_temp_dir(error.into()))?;
    std::fs::remove_file(&name).map_err(in_temp_dir)?;
    Ok(file.into())
}

/// Refuses `--delete` where it would be dangerous.
pub(super) fn refuse(snapshot: &Snapshot, target: &Path) -> Result<()> {
    if is_root(target) {
        return Err(Error::Usage(
            "restore --delete never removes anything in '/'; restore one directory of the snapshot instead, as in SNAP:/etc --target /etc --delete".into(),
        ));
    }
    if is_in_repository(target) {
        return Err(Error::Usage(
            "the target lies in a repository: --delete would remove its files; restore to another directory, or without --delete".into(),
        ));
    }
    if snapshot.body.partial {
        return Err(Error::Usage(
            "the snapshot is partial: --delete would remove what could not be read when it was created; restore without --delete, or from a complete snapshot".into(),
        ));
    }
    Ok(())
}

/// Whether a path leads to `/`, through links or not.
fn is_root(path: &Path) -> bool {
    let inode = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let here = inode(path);
    here.is_some() && here == inode(Path::new("/"))
}

/// Removes the planned paths, if everything was restored; otherwise reports why not. Returns
/// whether it was done.
pub(super) fn run(
    shared: &RestoreContext<'_>,
    selection: &Selection,
    mut removals: Removals,
) -> Result<bool> {
    if shared.is_incomplete.load(Ordering::Relaxed) {
        shared.monitor.note(
            "nothing was removed from the target: parts of the snapshot could not be restored, and may be what is there",
        );
        return Ok(false);
    }
    let has_met_any = shared.counters.has_met_any() || !shared.in_the_way.lock().is_empty();
    if selection.has_include() && !has_met_any {
        shared
            .monitor
            .note("nothing was removed from the target: nothing in the snapshot matches --include");
        return Ok(false);
    }
    let unselected = |path: &[u8], is_directory| !selection.wants_in_target(path, is_directory);
    let spare = selection.has_patterns().then_some(&unselected as KeepFilter<'_>);
    if !is_confirmed(shared, &mut removals, spare)? {
        return Ok(false);
    }
    removals.each(|path| {
        shared.check()?;
        let RemovalOutcome { objects, bytes, stays, problem, unread, repositories } =
            shared.target.remove(path, spare);
        for path in unread {
            let path = escape(&path);
            shared.monitor.note(&format!(
                "{path} cannot be listed before it is opened: what is in it would be deleted, too, and is not counted"
            ));
        }
        if shared.options.dry_run && !stays && shared.in_the_way.lock().contains(path) {
            shared.target.foresee_removed(path);
        }
        if objects > 0 {
            Counters::add(&shared.counters.deleted, objects);
            Counters::add(&shared.counters.deleted_bytes, bytes);
            shared.monitor.removed(path, objects, bytes);
        }
        for path in repositories {
            let path = escape(&path);
            shared.monitor.note(&format!("{path} is a repository: --delete leaves it alone"));
        }
        if let Some(problem) = problem {
            shared.failed(&problem.path, &problem.reason());
        }
        Ok(())
    })?;
    Ok(true)
}

/// What somebody was asked about: the paths that would be removed, each with the number of objects below it and itself.
/// Of a path only a hash is kept, since there may be millions.
#[derive(Clone, Debug, Default)]
pub struct ConfirmedRemovals {
    hash: RandomState,
    objects: HashMap<u64, u64>,
}

impl ConfirmedRemovals {
    /// Adds what a dry run has told of.
    pub fn add(&mut self, path: &[u8], objects: u64) {
        self.objects.insert(self.hash.hash_one(path), objects);
    }

    fn allow(&self, path: &[u8], objects: u64) -> bool {
        let confirmed = self.objects.get(&self.hash.hash_one(path)).copied();
        objects <= confirmed.unwrap_or(0)
    }
}

/// Whether what would be removed is no more than what somebody was asked about.
fn is_confirmed(
    shared: &RestoreContext<'_>,
    removals: &mut Removals,
    spare: Option<KeepFilter<'_>>,
) -> Result<bool> {
    let Some(confirmed) = &shared.options.confirmed else { return Ok(true) };
    let mut other = None;
    removals.each(|path| {
        shared.check()?;
        if other.is_none() && !confirmed.allow(path, shared.target.count(path, spare)) {
            other = Some(path.to_vec());
        }
        Ok(())
    })?;
    other.iter().for_each(|path| shared.failed(path, NOT_CONFIRMED));
    Ok(other.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_paths_than_memory_is_meant_for_come_back_in_order() {
        let path = |number: usize| format!("{number:0>1000}");
        let mut removals = Removals::default();
        (0..10_000).for_each(|number| removals.add(path(number).as_bytes()).unwrap());
        assert!(removals.file.is_some() && removals.waiting.len() < MEMORY_MAX);
        for _ in 0..2 {
            let mut next = 0;
            let each = removals.each(|found| {
                assert_eq!(found, path(next).as_bytes());
                next += 1;
                Ok(())
            });
            each.unwrap();
            assert_eq!(next, 10_000);
        }
    }
}
