//! Files of domains in directories: the lock helper keeps them (`docs/adr/0045-locks-on-the-disk.md`).

use super::{Kept, Outcome, nothing_lost, text};
use lock_helper::{Client, File, Secured};
use repository::reclaim::locked::LockedFiles;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that failed and are named in the log.
const NAMED_MAX: usize = 5;

/// Has the lock helper keep files.
pub(super) fn secure_files(helper: &Client, folder: &Path, locked: &LockedFiles) -> Outcome {
    let (pool, within) = place(folder).map_err(text)?;
    let files = named(&within, locked);
    if files.is_empty() {
        return Ok(Kept::default());
    }
    let secured = helper.secure(&pool, &files).map_err(text)?;
    judged(&secured, locked.lost_pages)
}

/// The directory of the pool in which the repository `folder` lies, and its path in there. Links are followed here, so
/// that the helper need not follow any. Where the directory of the domains is a file system of its own, it is the pool:
/// no file has names in two of them.
pub(super) fn place(folder: &Path) -> std::io::Result<(PathBuf, String)> {
    let real = folder.canonicalize()?;
    let device = |path: &Path| path.metadata().map(|known| known.dev());
    let own = device(&real)?;
    let mut pool = real.clone();
    for above in real.ancestors().skip(1).take(2) {
        if device(above)? != own {
            break;
        }
        above.clone_into(&mut pool);
    }
    let within = real.strip_prefix(&pool).unwrap_or(&real).to_string_lossy().into_owned();
    Ok((pool, within))
}

pub(super) fn named(within: &str, locked: &LockedFiles) -> Vec<File> {
    // Nothing, where the domain is a file system of its own, and so the pool.
    let above = if within.is_empty() { String::new() } else { format!("{within}/") };
    let file = |(name, until_secs): &(String, i64)| File {
        name: format!("{above}{name}"),
        until_secs: *until_secs,
    };
    locked.files.iter().map(file).collect()
}

/// A file that is gone was removed since it was listed, by a reclaim that moved what is needed elsewhere: the next look
/// finds it there.
pub(super) fn judged(secured: &Secured, lost_pages: u64) -> Outcome {
    let failed = secured.failed.iter().filter(|failed| !failed.is_gone);
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for failed in failed.clone().take(NAMED_MAX) {
        named.entry(&failed.why).or_default().push(&failed.name);
    }
    if !named.is_empty() {
        let reasons: Vec<_> =
            named.iter().map(|(why, names)| format!("{} ({why})", names.join(", "))).collect();
        return Err(format!("{} files are not kept: {}", failed.count(), reasons.join("; ")));
    }
    if secured.failed.iter().any(|failed| failed.is_gone) {
        return Err("some files were removed meanwhile".into());
    }
    nothing_lost(lost_pages)?;
    Ok(Kept { files: secured.files, objects: 0 })
}
