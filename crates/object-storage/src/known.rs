//! Objects that are small, change seldom, and are read at the beginning of each session: key slots, and the keys of
//! servers. A process that opens the same repository again and again, as a server does, reads each once. It believes
//! what it has for as long as the storage lists the object with the same tag, and for an hour at most.

use bytes::Bytes;
use parking_lot::Mutex;
use repository::storage::StorageResult;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Larger ones are read again: 4 KiB.
const BYTES_MAX: usize = 4 << 10;
/// So many are kept, of all repositories.
const OBJECTS_MAX: usize = 4096;

/// So long they are believed at most: bytes can be bad on their way.
const BELIEVED_FOR: Duration = Duration::from_secs(3600);
/// Shorter tags are no hash of the content: a storage may count, and begin again.
const TAG_DIGITS_MIN: usize = 32;

/// What was read last, by address and name.
static KNOWN: Mutex<Option<HashMap<String, Known>>> = Mutex::new(None);

struct Known {
    at: Instant,
    tag: String,
    bytes: Bytes,
}

/// The object `name` in the repository at `location`: what is known with this `tag`, or what `fetch` brings.
///
/// # Errors
/// Those of `fetch`.
pub(crate) fn get(
    location: &str,
    name: &str,
    tag: Option<String>,
    fetch: impl FnOnce() -> StorageResult<Bytes>,
) -> StorageResult<Bytes> {
    let Some(tag) = tag.filter(|tag| tag.len() >= TAG_DIGITS_MIN) else { return fetch() };
    let at = format!("{location} {name}");
    if let Some(known) = known(&at, &tag) {
        return Ok(known);
    }
    let bytes = fetch()?;
    keep(at, Known { at: Instant::now(), tag, bytes: bytes.clone() });
    Ok(bytes)
}

/// What is known of the object `name` in the repository at `location` is wrong.
pub(crate) fn forget(location: &str, name: &str) {
    if let Some(all) = KNOWN.lock().as_mut() {
        all.remove(&format!("{location} {name}"));
    }
}

fn known(at: &str, tag: &str) -> Option<Bytes> {
    let all = KNOWN.lock();
    let known = all.as_ref()?.get(at)?;
    let is_it = known.tag == tag && known.at.elapsed() < BELIEVED_FOR;
    is_it.then(|| known.bytes.clone())
}

fn keep(at: String, known: Known) {
    if known.bytes.len() > BYTES_MAX {
        return;
    }
    let mut all = KNOWN.lock();
    let all = all.get_or_insert_default();
    if all.len() >= OBJECTS_MAX {
        all.clear();
    }
    all.insert(at, known);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// What comes of reading it with this tag, and how often it was fetched by then.
    fn read(name: &str, tag: Option<&str>, content: Bytes, fetched: &Cell<u32>) -> (Bytes, u32) {
        let fetch = || {
            fetched.set(fetched.get() + 1);
            Ok(content)
        };
        let tag = tag.map(|tag| tag.repeat(TAG_DIGITS_MIN));
        let bytes = get("s3://known", name, tag, fetch).unwrap();
        (bytes, fetched.get())
    }

    #[test]
    fn what_has_the_same_tag_is_read_once_and_what_is_large_or_has_none_each_time() {
        let (fetched, [old, new]) = (Cell::new(0), [&b"old"[..], b"new"].map(Bytes::from_static));
        assert_eq!(read("slot", Some("1"), old.clone(), &fetched), (old.clone(), 1));
        assert_eq!(read("slot", Some("1"), new.clone(), &fetched), (old.clone(), 1));
        assert_eq!(read("slot", Some("2"), new.clone(), &fetched), (new.clone(), 2));
        assert_eq!(read("slot", None, old.clone(), &fetched), (old.clone(), 3));
        assert_eq!(read("other", Some("2"), old.clone(), &fetched), (old, 4));
        let large = Bytes::from(vec![0; BYTES_MAX + 1]);
        for count in [5, 6] {
            assert_eq!(read("large", Some("1"), large.clone(), &fetched), (large.clone(), count));
        }
    }

    #[test]
    fn a_tag_that_is_no_hash_is_not_believed() {
        let fetched = Cell::new(0);
        for content in ["one", "two"] {
            let content = Bytes::from_static(content.as_bytes());
            let fetch = || {
                fetched.set(fetched.get() + 1);
                Ok(content.clone())
            };
            assert_eq!(get("s3://known", "counted", Some("7".into()), fetch).unwrap(), content);
        }
        assert_eq!(fetched.get(), 2);
    }

    #[test]
    fn a_read_that_failed_leaves_nothing() {
        let gone = || {
            Err(repository::storage::StorageError::new("read", "x", std::io::ErrorKind::NotFound))
        };
        assert!(get("s3://known", "gone", Some("1".repeat(TAG_DIGITS_MIN)), gone).is_err());
        let bytes = Bytes::from_static(b"there");
        assert_eq!(read("gone", Some("1"), bytes.clone(), &Cell::new(0)).0, bytes);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        for number in 0..2 * OBJECTS_MAX {
            let (at, tag, bytes) = (Instant::now(), String::new(), Bytes::new());
            keep(format!("many {number}"), Known { at, tag, bytes });
        }
        assert!(KNOWN.lock().as_ref().unwrap().len() <= OBJECTS_MAX);
    }
}
