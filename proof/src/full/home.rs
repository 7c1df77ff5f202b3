//! A small file system as the home of a repository, and ballast that fills it up.

use crate::failed;
use crate::mounted::{Mounted, run};
use rustix::fs::{FallocateFlags, fallocate, ftruncate, syncfs};
use std::fs::File;
use std::path::{Path, PathBuf};

const BLOCK: u64 = 4096;

/// What there is not enough of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lack {
    Blocks,
    Inodes,
}

/// A home of one kind.
pub(super) struct Home {
    pub(super) name: &'static str,
    pub(super) lack: Lack,
    pub(super) mounted: Mounted,
}

/// Kinds of homes, small ones: name, file system, what runs out.
pub(super) const KINDS: [(&str, &str, Lack); 6] = [
    ("ext4", "ext4", Lack::Blocks),
    ("tmpfs", "tmpfs", Lack::Blocks),
    ("tmpfs inodes", "tmpfs", Lack::Inodes),
    ("ext4 inodes", "ext4", Lack::Inodes),
    ("xfs", "xfs", Lack::Blocks),
    ("btrfs", "btrfs", Lack::Blocks),
];

impl Home {
    pub(super) fn make(
        (name, kind, lack): (&'static str, &str, Lack),
        work: &Path,
    ) -> Result<Self, String> {
        let at = work.join(name.replace(' ', "-"));
        let mounted = match kind {
            "tmpfs" => Mounted::tmpfs(&at, "size=96m,nr_inodes=300")?,
            // xfs is not made smaller than that.
            "xfs" => Mounted::image(kind, &at, 300 << 20, &[])?,
            // Data and metadata share what there is, as they do in small ones.
            "btrfs" => Mounted::image(kind, &at, 300 << 20, &["--mixed"])?,
            // No blocks that only root may use: the rig is root.
            _ => Mounted::image(kind, &at, 96 << 20, &["-m", "0", "-b", "4096", "-N", "300"])?,
        };
        Ok(Self { name, lack, mounted })
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.mounted.path().join("repository")
    }

    /// Puts the repository back to what it was.
    pub(super) fn reset(&self, pristine: &Path) -> Result<(), String> {
        self.relieve()?;
        let repository = self.repository();
        run("rm", ["-rf".as_ref(), repository.as_os_str()])?;
        run("cp", ["-a".as_ref(), pristine.as_os_str(), repository.as_os_str()])?;
        self.sync()
    }

    /// Leaves `free` blocks or inodes.
    pub(super) fn fill(&self, free: u64) -> Result<(), String> {
        let ballast = self.mounted.path().join("ballast");
        std::fs::create_dir_all(&ballast).map_err(failed("make the ballast"))?;
        match self.lack {
            Lack::Blocks => fill_blocks(&ballast.join("blocks"), free)?,
            Lack::Inodes => fill_inodes(&ballast, free)?,
        }
        // What was given back is not to be had before the journal was written.
        self.sync()
    }

    /// Takes the ballast away.
    pub(super) fn relieve(&self) -> Result<(), String> {
        let ballast = self.mounted.path().join("ballast");
        run("rm", ["-rf".as_ref(), ballast.as_os_str()])?;
        self.sync()
    }

    fn sync(&self) -> Result<(), String> {
        let root = File::open(self.mounted.path()).map_err(failed("open the home"))?;
        syncfs(&root).map_err(|error| format!("cannot sync: {error}"))
    }

    /// Bytes of the repository.
    pub(super) fn used(&self) -> Result<u64, String> {
        let files = files_below(&self.repository())?;
        Ok(files.iter().map(|(_, bytes)| bytes).sum())
    }
}

/// Every file with its size.
pub(super) fn files_below(root: &Path) -> Result<Vec<(PathBuf, u64)>, String> {
    let mut files = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).map_err(failed("list the repository"))? {
            let entry = entry.map_err(failed("list the repository"))?;
            let metadata = entry.metadata().map_err(failed("look at the repository"))?;
            if metadata.is_dir() {
                waiting.push(entry.path());
            } else {
                files.push((entry.path(), metadata.len()));
            }
        }
    }
    Ok(files)
}

/// Takes all there is, in smaller and smaller steps, and gives some back.
fn fill_blocks(path: &Path, free: u64) -> Result<(), String> {
    let file = File::create(path).map_err(failed("make the ballast"))?;
    let (mut length, mut step) = (0, 64 << 20);
    while step >= BLOCK {
        match fallocate(&file, FallocateFlags::empty(), length, step) {
            Ok(()) => length += step,
            Err(_) => step /= 2,
        }
    }
    let left = length.saturating_sub(free * BLOCK);
    ftruncate(&file, left).map_err(|error| format!("cannot give back: {error}"))
}

fn fill_inodes(ballast: &Path, free: u64) -> Result<(), String> {
    let name = |number: u64| ballast.join(format!("{number}"));
    let made = (0..100_000).find(|number| File::create(name(*number)).is_err()).unwrap_or(0);
    for number in made.saturating_sub(free)..made {
        std::fs::remove_file(name(number)).map_err(failed("give an inode back"))?;
    }
    Ok(())
}
