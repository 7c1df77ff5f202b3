//! Objects that never change, and small pieces of containers, kept in a directory of this machine.
//!
//! Numbers of runs and containers are given once, unless somebody puts an older copy of the bucket in its place. So
//! what is kept is believed only while the row of the index's state has the object, with its tag, of the last look.
//! What has a tag of its own is kept under it, also by who has just written it.

use crate::staging::Staged;
use bytes::Bytes;
use format::wire::{Checksum, checksum};
use repository::storage::FileReader;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

const MAGIC: &[u8; 8] = b"ICECACH1";
const SUM_BYTES: usize = 16;
/// The file that says at which state the last look was.
const LAST: &str = "state";
/// Larger files are not kept: 64 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;
const COPY_BYTES: usize = 1 << 20;
/// So much is kept of one repository: 512 MiB.
const BYTES_MAX: u64 = 512 << 20;

/// An object of the state's row: its number, and the tag by which the storage tells contents apart.
pub(crate) struct State {
    pub(crate) number: u64,
    pub(crate) tag: String,
}

impl State {
    fn text(&self) -> String {
        format!("{:016x} {}", self.number, self.tag)
    }
}

/// The cache of one repository.
pub(crate) struct Cache {
    directory: PathBuf,
    /// Where this repository's files lie, once that is known; `None` when nothing can be kept.
    place: OnceLock<Option<PathBuf>>,
    /// Bytes that were added.
    added: AtomicU64,
}

impl Cache {
    /// One below `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { directory, place: OnceLock::new(), added: AtomicU64::new(0) }
    }

    /// Which repository this is: the one that has the file `config`, and these objects in the row of its state.
    pub(crate) fn attach(&self, config: &[u8], states: &[State]) {
        self.place.get_or_init(|| self.prepare(&hex(&checksum(&[config])), states).ok().flatten());
    }

    fn prepare(&self, name: &str, states: &[State]) -> io::Result<Option<PathBuf>> {
        let Some(last) = states.last() else { return Ok(None) };
        let place = self.directory.join(name);
        let known = fs::read_to_string(place.join(LAST)).unwrap_or_default();
        if !states.iter().any(|state| state.text() == known) {
            match fs::remove_dir_all(&place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        write(&place, LAST, last.text().as_bytes())?;
        Ok(Some(place))
    }

    /// From now on, what is kept may be of `state`.
    pub(crate) fn note(&self, state: &State) {
        if let Some(Some(place)) = self.place.get()
            && write(place, LAST, state.text().as_bytes()).is_err()
        {
            let _ = fs::remove_dir_all(place); // else a later look believes too much
        }
    }

    /// What was kept under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<Bytes> {
        let path = self.place.get()?.as_ref()?.join(name(key));
        let bytes = Bytes::from(fs::read(&path).ok()?);
        let content = decode(key, &bytes);
        if content.is_some() {
            // What is used stays longest.
            let _ = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        }
        content
    }

    /// Keeps `content` under `key`, if that is possible.
    pub(crate) fn put(&self, key: &str, content: &[u8]) {
        let Some(Some(place)) = self.place.get() else { return };
        let sum = checksum(&[key.as_bytes(), content]);
        let kept = write(place, &name(key), &[&MAGIC[..], &sum, content].concat());
        if kept.is_ok() {
            self.added.fetch_add(content.len() as u64, Ordering::Relaxed);
        }
    }

    /// What is kept under `key` is wrong.
    pub(crate) fn remove(&self, key: &str) {
        if let Some(Some(place)) = self.place.get() {
            let _ = fs::remove_file(place.join(name(key))); // who finds it is wrong, too, asks again
        }
    }

    /// Keeps all of `file` under `key`, if that is possible.
    pub(crate) fn put_file(&self, key: &str, file: &Staged) {
        let Some(Some(place)) = self.place.get() else { return };
        if file.bytes() <= FILE_BYTES_MAX && copy(place, &name(key), key, file).is_ok() {
            self.added.fetch_add(file.bytes(), Ordering::Relaxed);
        }
    }

    /// The file that was kept under `key`, to be called `shown` in messages.
    pub(crate) fn file(&self, key: &str, shown: &str) -> Option<Staged> {
        let path = self.place.get()?.as_ref()?.join(name(key));
        let file = fs::File::open(path).ok()?;
        let mut head = [0; HEAD_BYTES];
        file.read_exact_at(&mut head, 0).ok()?;
        let length = file.metadata().ok()?.len().checked_sub(HEAD_BYTES as u64)?;
        let _ = file.set_modified(SystemTime::now()); // what is used stays longest
        let staged = Staged::part_of(file, HEAD_BYTES as u64, length, shown);
        let sum = sum_of(key, &staged, |_| Ok(())).ok()?;
        (head == head_of(&sum)).then_some(staged)
    }
}

const HEAD_BYTES: usize = MAGIC.len() + SUM_BYTES;

fn head_of(sum: &[u8; SUM_BYTES]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..MAGIC.len()].copy_from_slice(MAGIC);
    head[MAGIC.len()..].copy_from_slice(sum);
    head
}

/// The checksum of `key` and all of `file`, of which `each` gets one part after the other.
fn sum_of(
    key: &str,
    file: &Staged,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<[u8; SUM_BYTES]> {
    let mut sum = Checksum::default();
    sum.update(key.as_bytes());
    let (mut at, length) = (0, file.bytes());
    let mut buffer = vec![0; COPY_BYTES.min(length as usize)];
    while at < length {
        let part = &mut buffer[..COPY_BYTES.min((length - at) as usize)];
        file.read_exact_at(part, at).map_err(|error| error.source)?;
        sum.update(part);
        each(part)?;
        at += part.len() as u64;
    }
    Ok(sum.finish())
}

/// Writes all of `file` behind its head.
fn copy(place: &Path, name: &str, key: &str, file: &Staged) -> io::Result<()> {
    let mut new = tempfile::Builder::new().prefix(".new-").tempfile_in(place)?;
    new.write_all(&[0; HEAD_BYTES])?;
    let sum = sum_of(key, file, |part| new.write_all(part))?;
    new.as_file().write_all_at(&head_of(&sum), 0)?;
    new.persist(place.join(name)).map_err(|error| error.error)?;
    Ok(())
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(Some(place)) = self.place.get()
            && self.added.load(Ordering::Relaxed) > 0
        {
            let _ = trim(std::slice::from_ref(place), BYTES_MAX); // the next one tries again
        }
    }
}

/// The content of a file that was kept under `key`; `None` when it is damaged.
pub(crate) fn decode(key: &str, file: &Bytes) -> Option<Bytes> {
    let (sum, content) = file.strip_prefix(MAGIC)?.split_first_chunk::<SUM_BYTES>()?;
    let is_whole = checksum(&[key.as_bytes(), content]) == *sum;
    is_whole.then(|| file.slice(MAGIC.len() + SUM_BYTES..))
}

fn name(key: &str) -> String {
    hex(&checksum(&[key.as_bytes()]))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whole or not at all, for other processes. After a crash of the machine the checksum tells.
fn write(place: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(place)?;
    file.write_all(bytes)?;
    file.persist(place.join(name)).map_err(|error| error.error)?;
    Ok(())
}

/// Removes what is kept below `directory` of the repository that has the file `config`.
pub(crate) fn forget(directory: &Path, config: &[u8]) -> io::Result<()> {
    fs::remove_dir_all(directory.join(hex(&checksum(&[config]))))
}

/// Removes what was not used for longest in the caches of all repositories below `directory`, until less than `max` bytes
/// are left. Who uses one of them meanwhile reads the bucket again.
///
/// # Errors
/// Those of the system.
pub fn trim_caches(directory: &Path, max: u64) -> io::Result<()> {
    let places = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?,
    };
    trim(&places, max)
}

/// Removes what was not used for longest in `places`, until less than `max` is left.
fn trim(places: &[PathBuf], max: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for place in places {
        for entry in fs::read_dir(place)? {
            let (path, found) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
            if path.file_name().is_some_and(|name| name != LAST) {
                files.push((found.modified()?, found.len(), path));
            }
        }
    }
    files.sort_unstable();
    let mut total: u64 = files.iter().map(|file| file.1).sum();
    for (_, length, path) in files {
        if total <= max {
            break;
        }
        fs::remove_file(path)?;
        total -= length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(directory: &Path, states: &[(u64, &str)]) -> Cache {
        let cache = Cache::new(directory);
        cache.attach(b"config", &states.iter().map(state).collect::<Vec<_>>());
        cache
    }

    fn state((number, tag): &(u64, &str)) -> State {
        State { number: *number, tag: (*tag).to_owned() }
    }

    #[test]
    fn what_was_kept_comes_back_for_its_own_repository_only() {
        let folder = tempfile::tempdir().unwrap();
        cache(folder.path(), &[(7, "a")]).put("run", b"content");
        let again = cache(folder.path(), &[(7, "a"), (8, "b")]);
        assert_eq!(again.get("run").as_deref(), Some(&b"content"[..]));
        assert_eq!(again.get("other"), None);
        let another = Cache::new(folder.path());
        another.put("run", b"early");
        assert_eq!(another.get("run"), None);
        another.attach(b"another config", &[state(&(8, "b"))]);
        assert_eq!(another.get("run"), None);
    }

    #[test]
    fn a_bucket_that_was_put_back_is_not_taken_for_the_one_that_was_seen() {
        for states in [&[(6, "z")][..], &[(7, "c"), (8, "d")], &[(9, "e")], &[]] {
            let folder = tempfile::tempdir().unwrap();
            cache(folder.path(), &[(7, "a")]).put("run", b"content");
            assert_eq!(cache(folder.path(), states).get("run"), None, "{states:?}");
        }
    }

    #[test]
    fn what_is_kept_is_of_the_state_that_was_seen_last() {
        let folder = tempfile::tempdir().unwrap();
        let writer = cache(folder.path(), &[(7, "a")]);
        writer.note(&state(&(9, "b")));
        writer.put("run", b"content");
        assert_eq!(cache(folder.path(), &[(7, "a"), (8, "x")]).get("run"), None);
    }

    #[test]
    fn a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &[(7, "a")]);
        cache.put("run", b"content");
        let path = cache.place.get().unwrap().as_ref().unwrap().join(name("run"));
        let whole = fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get("run"), None, "bit {bit}");
        }
        fs::write(&path, &whole[..20]).unwrap();
        assert_eq!(cache.get("run"), None);
    }

    #[test]
    fn a_file_comes_back_whole_and_a_damaged_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &[(7, "a")]);
        for length in [0, 1, COPY_BYTES - 1, COPY_BYTES, 3 * COPY_BYTES + 5] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut staged = Staged::new("run").unwrap();
            repository::storage::FileWriter::append(&mut staged, &[&content]).unwrap();
            cache.put_file("run", &staged);
            let kept = cache.file("run", "run").unwrap();
            assert_eq!(kept.read(0, kept.bytes() as usize).unwrap(), content, "{length}");
            assert!(cache.file("other", "run").is_none());
            let path = cache.place.get().unwrap().as_ref().unwrap().join(name("run"));
            let whole = fs::read(&path).unwrap();
            for at in [0, MAGIC.len(), HEAD_BYTES - 1, whole.len() - 1] {
                let mut damaged = whole.clone();
                damaged[at] ^= 1;
                fs::write(&path, &damaged).unwrap();
                assert!(cache.file("run", "run").is_none(), "{length}, byte {at}");
            }
            fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            assert!(cache.file("run", "run").is_none(), "{length}, cut");
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in [(30, "old"), (20, "middle"), (10, "young")] {
            let path = folder.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(age);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
        trim(&[folder.path().to_owned()], 200).unwrap();
        let left = ["old", "middle", "young"].map(|name| folder.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
    }

    #[test]
    fn the_caches_of_many_repositories_have_one_limit() {
        let folder = tempfile::tempdir().unwrap();
        trim_caches(&folder.path().join("missing"), 1).unwrap();
        for (at, config) in [b"a", b"b", b"c"].into_iter().enumerate() {
            let cache = Cache::new(folder.path());
            cache.attach(config, &[state(&(7, "a"))]);
            cache.put("run", &[1; 1000]);
            let place = cache.place.get().unwrap().clone().unwrap();
            let then = SystemTime::now() - std::time::Duration::from_secs(100 - at as u64);
            fs::File::open(place.join(name("run"))).unwrap().set_modified(then).unwrap();
        }
        trim_caches(folder.path(), 2500).unwrap();
        let kept = |config: &[u8]| {
            let cache = Cache::new(folder.path());
            cache.attach(config, &[state(&(7, "a"))]);
            cache.get("run").is_some()
        };
        assert_eq!([b"a", b"b", b"c"].map(|config| kept(config)), [false, true, true]);
    }
}
