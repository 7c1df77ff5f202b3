//! The tree that is backed up: changed at random, and remembered as it was.

use simulation::Random;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stands in the top folder of the tree, so that it is found again below any target.
pub(crate) const MARKER: &str = ".icecore-crash-root";
const FILES_MAX: usize = 60;
const FILE_BYTES_MAX: u64 = 200 << 10;
const LARGE_BYTES: u64 = 3 << 20;
/// All files together: rigs make disks that hold a tree several times.
const TREE_BYTES_MAX: u64 = 24 << 20;

/// One object as it was.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Object {
    mode: u32,
    mtime: (i64, i64),
    content: Content,
}

#[derive(Clone, PartialEq, Eq)]
enum Content {
    File(Arc<[u8]>),
    Folder,
    Link(PathBuf),
}

/// All objects of a tree by path.
pub(crate) type Copy = BTreeMap<PathBuf, Object>;

/// Bytes of all files, once for each name: no less than they take.
pub(crate) fn bytes(copy: &Copy) -> u64 {
    let sizes = copy.values().map(|object| match &object.content {
        Content::File(content) => content.len() as u64,
        Content::Folder | Content::Link(_) => 0,
    });
    sizes.sum()
}

/// Makes the first tree.
pub(crate) fn create(root: &Path, random: &mut Random) -> io::Result<()> {
    fs::create_dir_all(root)?;
    fs::write(root.join(MARKER), b"")?;
    for _ in 0..FILES_MAX / 2 {
        mutate(root, random)?;
    }
    Ok(())
}

/// Changes the tree in a few places.
pub(crate) fn mutate(root: &Path, random: &mut Random) -> io::Result<()> {
    for _ in 0..1 + random.below(6) {
        let all = copy(root)?;
        let files = files_of(root, &all);
        let room = TREE_BYTES_MAX.saturating_sub(bytes(&all));
        let picked = files.get(random.below(files.len().max(1) as u64) as usize).cloned();
        match (random.below(8), picked) {
            (0, Some(file)) if files.len() > 5 => fs::remove_file(file)?,
            (1, Some(file)) => append(&file, room, random)?,
            (2, Some(file)) => overwrite(&file, room, random)?,
            (3, Some(file)) => fs::rename(&file, new_path(root, random)?)?,
            (4, Some(file)) => {
                let mode = [0o600, 0o644, 0o755, 0o640][random.below(4) as usize];
                fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
            }
            (5, Some(file)) => link(root, &file, random)?,
            _ if files.len() < FILES_MAX => {
                let length =
                    if random.one_in(20) { LARGE_BYTES } else { random.below(FILE_BYTES_MAX) };
                fs::write(new_path(root, random)?, random.bytes(length.min(room)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn append(file: &Path, room: u64, random: &mut Random) -> io::Result<()> {
    let length = random.below(10_000).min(room);
    fs::OpenOptions::new().append(true).open(file)?.write_all(&random.bytes(length))
}

fn overwrite(file: &Path, room: u64, random: &mut Random) -> io::Result<()> {
    let mut bytes = fs::read(file)?;
    let at = random.below(bytes.len() as u64 + 1) as usize;
    // At its end the file grows.
    let length = random.below(1_000).min((bytes.len() - at) as u64 + room);
    let patch = random.bytes(length);
    let end = bytes.len().min(at + patch.len());
    bytes.splice(at..end, patch);
    fs::write(file, bytes)
}

fn link(root: &Path, target: &Path, random: &mut Random) -> io::Result<()> {
    let path = new_path(root, random)?;
    if random.one_in(2) {
        fs::hard_link(target, path)
    } else {
        std::os::unix::fs::symlink(target, path)
    }
}

/// A free name in one of a few folders.
fn new_path(root: &Path, random: &mut Random) -> io::Result<PathBuf> {
    let folder = match random.below(6) {
        0 => root.to_owned(),
        number => root.join(format!("folder {number}")),
    };
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{:016x}", random.next())))
}

/// Regular files (no links), sorted.
fn files_of(root: &Path, all: &Copy) -> Vec<PathBuf> {
    let is_file = |object: &Object| matches!(object.content, Content::File(_));
    let files = all.iter().filter(|(path, object)| is_file(object) && !path.ends_with(MARKER));
    files.map(|(path, _)| root.join(path)).collect()
}

/// The tree as it is now.
pub(crate) fn copy(root: &Path) -> io::Result<Copy> {
    let mut found = Copy::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let content = if metadata.is_dir() {
                waiting.push(path.clone());
                Content::Folder
            } else if metadata.is_symlink() {
                Content::Link(fs::read_link(&path)?)
            } else {
                Content::File(fs::read(&path)?.into())
            };
            let mtime = (metadata.mtime(), metadata.mtime_nsec());
            let object = Object { mode: metadata.mode(), mtime, content };
            found.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), object);
        }
    }
    Ok(found)
}

/// Lets `new` share what it has in common with `old`: many copies of a tree take little memory.
pub(crate) fn share(old: &Copy, new: &mut Copy) {
    for (path, object) in new {
        if let Some(before) = old.get(path).filter(|before| before.content == object.content) {
            object.content = before.content.clone();
        }
    }
}

/// The folder below `target` that holds the marker.
pub(crate) fn find_root(target: &Path) -> Option<PathBuf> {
    let mut waiting = vec![target.to_owned()];
    while let Some(folder) = waiting.pop() {
        if folder.join(MARKER).exists() {
            return Some(folder);
        }
        let entries = fs::read_dir(&folder).ok()?.flatten();
        waiting.extend(
            entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()),
        );
    }
    None
}

/// How `found` differs from what it was: the first few differences.
pub(crate) fn differences(was: &Copy, found: &Copy) -> Vec<String> {
    let missing = was
        .keys()
        .filter(|path| !found.contains_key(*path))
        .map(|path| format!("missing {}", path.display()));
    let strange = found
        .keys()
        .filter(|path| !was.contains_key(*path))
        .map(|path| format!("not expected {}", path.display()));
    let other = was.iter().filter_map(|(path, object)| {
        let found = found.get(path)?;
        let what = if found.content != object.content { "content" } else { "mode or time" };
        (found != object).then(|| format!("other {what} {}", path.display()))
    });
    missing.chain(strange).chain(other).take(10).collect()
}

/// Whether every file that is there is as it was: some may be missing, none may be a part.
pub(crate) fn all_whole(was: &Copy, found: &Copy) -> Result<(), String> {
    // A restore that did not end leaves a marker that says so.
    let is_marker = |path: &Path| path.to_string_lossy().starts_with(".icecore-restore-");
    let is_part = |path: &PathBuf, object: &Object| {
        matches!(object.content, Content::File(_))
            && !is_marker(path)
            && was.get(path).is_none_or(|other| other.content != object.content)
    };
    match found.iter().find(|(path, object)| is_part(path, object)) {
        Some((path, _)) => Err(format!("{} is there and not whole", path.display())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes on the disk: a file of several names is there once.
    fn taken(root: &Path) -> u64 {
        let files = files_of(root, &copy(root).expect("copy"));
        let sizes = files.iter().map(|path| {
            let metadata = fs::metadata(path).expect("a file");
            (metadata.ino(), metadata.len())
        });
        sizes.collect::<BTreeMap<_, _>>().into_values().sum()
    }

    #[test]
    fn a_tree_grows_to_its_limit_and_no_further() {
        let root = std::env::temp_dir().join(format!("icecore-limit-{}", std::process::id()));
        let mut random = Random::new(3);
        create(&root, &mut random).expect("a tree");
        // A byte below the limit, at it, and as if it were above.
        for length in [TREE_BYTES_MAX - 1, TREE_BYTES_MAX, TREE_BYTES_MAX + 1] {
            fs::File::create(root.join("large")).expect("a file").set_len(length).expect("large");
            let others = files_of(&root, &copy(&root).expect("copy"));
            others
                .iter()
                .filter(|path| !path.ends_with("large"))
                .for_each(|path| fs::remove_file(path).expect("remove"));
            let before = taken(&root);
            for _ in 0..8 {
                mutate(&root, &mut random).expect("change");
                assert!(taken(&root) <= before.max(TREE_BYTES_MAX));
                if !root.join("large").exists() {
                    break;
                }
            }
        }
        fs::remove_dir_all(root).expect("remove");
    }

    #[test]
    fn a_tree_is_repeated_by_its_seed_and_differences_are_seen() {
        let folder = std::env::temp_dir().join(format!("icecore-tree-{}", std::process::id()));
        let build = |name: &str| {
            let root = folder.join(name);
            let mut random = Random::new(7);
            create(&root, &mut random).map(|()| root)
        };
        let (one, two) = (build("a").expect("a"), build("b").expect("b"));
        let (one_copy, two_copy) = (copy(&one).expect("copy"), copy(&two).expect("copy"));
        assert!(one_copy.keys().eq(two_copy.keys()));
        assert!(differences(&one_copy, &one_copy).is_empty());
        let file = files_of(&one, &one_copy).remove(0);
        fs::write(file, b"other").expect("write");
        assert_eq!(differences(&one_copy, &copy(&one).expect("copy")).len(), 1);
        assert_eq!(
            find_root(&folder).and_then(|root| root.parent().map(Path::to_owned)),
            Some(folder.clone())
        );
        fs::remove_dir_all(folder).expect("remove");
    }
}
