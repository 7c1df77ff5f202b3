//! Commands on the logged disk, and what those on a repository acknowledged when.

use super::Options;
use super::fuse::{self, NAME, Shared};
use super::log::{Log, Request};
use crate::icecore::{Icecore, acknowledged, told};
use crate::snapshot::same;
use crate::volume::{Volume, free_bytes};
use crate::{failed, tree};
use simulation::Random;
use std::path::{Path, PathBuf};

/// Folder of the repository on the volume.
pub(super) const REPOSITORY: &str = "repository";
/// The tree that is backed up, beside the volume.
pub(super) const SOURCE: &str = "source";
/// Snapshots that `forget` keeps.
const KEEP: usize = 3;
/// With less than so many times the size of the tree free on the disk, old snapshots go first.
const ROOM: u64 = 2;
const EXT4_BYTES: usize = 96 << 20;
/// The least that xfs and btrfs are made with.
const OTHER_BYTES: usize = 320 << 20;

/// What a run of commands left.
pub(super) struct Recorded<T> {
    pub(super) requests: Vec<Request>,
    pub(super) bytes: u64,
    /// Flushes since that was ready which must outlive them.
    pub(super) flushes: Vec<usize>,
    /// Requests before the disk was given up.
    pub(super) end: usize,
    /// What the commands did.
    pub(super) done: Vec<T>,
}

/// A snapshot that was acknowledged.
pub(super) struct Snapshot {
    pub(super) id: String,
    pub(super) was: tree::Copy,
    /// Requests to the disk before it was acknowledged.
    acknowledged: usize,
    /// Requests to the disk before a command began that may remove it.
    may_go: Option<usize>,
}

impl Snapshot {
    /// Whether it must be there after a power cut at that request.
    pub(super) fn is_due(&self, moment: usize) -> bool {
        self.acknowledged <= moment && self.may_go.is_none_or(|begun| begun >= moment)
    }
}

struct Script<'a> {
    icecore: Icecore,
    log: &'a Shared,
    random: Random,
    source: PathBuf,
    snapshots: Vec<Snapshot>,
}

/// Runs `commands` on a new file system on a new disk. They say what they did, and at which request they began.
pub(super) fn record<T>(
    options: &Options,
    work: &Path,
    commands: impl FnOnce(&Options, &Shared, &Path, &Path) -> Result<(Vec<T>, usize), String>,
) -> Result<Recorded<T>, String> {
    let bytes = if options.file_system == "ext4" { EXT4_BYTES } else { OTHER_BYTES };
    let log = Shared::new(Log::new(bytes));
    let (disk, mount) = (work.join("disk"), work.join("mount"));
    std::fs::create_dir_all(&disk).map_err(failed("make the mount point"))?;
    let session = fuse::mount(&log, &disk)?;
    let volume = Volume::format(&options.file_system, &disk.join(NAME), &mount);
    // Not to the end of the unmounting: a torn superblock says nothing of what we wrote.
    let result = volume.and_then(|_volume| {
        let (done, begun) = commands(options, &log, work, &mount)?;
        Ok((done, begun, log.lock().len()))
    });
    session.umount_and_join().map_err(failed("unmount the logged disk"))?;
    let (done, begun, end) = result?;
    let log = log.take().ok_or("the logged disk is still in use")?;
    let (bytes, flushes) = (log.bytes(), log.flushes());
    // One cut point more than flushes: who never flushes is cut, too.
    let first = begun.saturating_sub(1);
    let flushes = flushes.into_iter().filter(|flush| (begun..end).contains(flush));
    let flushes = [first].into_iter().chain(flushes).collect();
    Ok(Recorded { requests: log.into_requests(), bytes, flushes, end, done })
}

/// Commands at random on a new repository.
pub(super) fn commands(
    options: &Options,
    log: &Shared,
    work: &Path,
    mount: &Path,
) -> Result<(Vec<Snapshot>, usize), String> {
    let source = work.join(SOURCE);
    let mut random = Random::new(options.seed);
    tree::create(&source, &mut random).map_err(failed("make the tree"))?;
    let icecore = options.kind.make(&options.binary, &mount.join(REPOSITORY), None)?;
    let mut script = Script { icecore, log, random, source, snapshots: Vec::new() };
    if let Some(mode) = &options.io {
        script.icecore.run(&["pool", "set", mode])?;
    }
    let begun = log.lock().len();
    script.back_up()?;
    for _ in 0..options.commands {
        script.make_room(mount)?;
        script.one()?;
    }
    script.make_room(mount)?;
    Ok((script.snapshots, begun))
}

impl Script<'_> {
    /// A full disk is another rig's: here it would only hide what a power cut does. Once the power is back there is a
    /// backup and a reclaim, which copies what is live, so that there is room at the end, too.
    fn make_room(&mut self, mount: &Path) -> Result<(), String> {
        let now = tree::copy(&self.source).map_err(failed("read the tree"))?;
        if free_bytes(mount)? >= ROOM * tree::bytes(&now) {
            return Ok(());
        }
        self.forget()?;
        self.icecore.run(&["reclaim"]).map(|_| ())
    }

    fn one(&mut self) -> Result<(), String> {
        tree::mutate(&self.source, &mut self.random).map_err(failed("change the tree"))?;
        match self.random.below(8) {
            0 | 1 => self.forget(),
            2 => self.icecore.run(&["reclaim"]).map(|_| ()),
            3 => self.icecore.run(&["rebuild"]).map(|_| ()),
            _ => self.back_up(),
        }
    }

    fn back_up(&mut self) -> Result<(), String> {
        let was = tree::copy(&self.source).map_err(failed("read the tree"))?;
        let arguments = ["backup", &self.source.to_string_lossy(), "--json"];
        let output = self.icecore.command(&arguments).output();
        let output = output.map_err(failed("start icecore"))?;
        let id = acknowledged(&output).ok_or_else(|| told(&arguments, &output))?;
        let acknowledged = self.log.lock().len();
        self.snapshots.push(Snapshot { id, was, acknowledged, may_go: None });
        Ok(())
    }

    fn forget(&mut self) -> Result<(), String> {
        let listed = self.icecore.snapshots()?;
        let kept = &listed[listed.len().saturating_sub(KEEP)..];
        let begun = self.log.lock().len();
        let gone = |snapshot: &&mut Snapshot| !kept.iter().any(|id| same(id, &snapshot.id));
        for snapshot in self.snapshots.iter_mut().filter(gone) {
            snapshot.may_go.get_or_insert(begun);
        }
        self.icecore.run(&["forget", "--keep-last", &KEEP.to_string()]).map(|_| ())
    }
}
