//! Taking the lease of a writer that did not end it: it may be dead, or only asleep, and go on at any moment where it
//! stopped. What it can still do is bounded here.
//!
//! 1. The next state of the index gets its number: the sleeper's next one is refused.
//! 2. The list of containers that it is about to remove gets its next number, too, the removal is finished, and the
//!    list emptied: what is there after that, stays. A container that it wants to remove now is refused a place in the
//!    list.
//! 3. The snapshots that it has written until now are listed, in the row `ended`. One that it writes later, with its
//!    data perhaps reclaimed, is not in the list: nobody sees it, and it is never reported as committed, because a
//!    writer looks at the lease once more behind it.

use crate::client::Client;
use crate::lease::Leases;
use crate::names::{
    BEHIND_CONTAINERS, ENDED, LEASE, Names, REMOVED, SNAPSHOTS, STATE, numbered, parse_snapshot,
};
use crate::roots;
use bytes::Bytes;
use repository::storage::{StorageError, StorageResult};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};

/// How often the state is written anew: so often may the sleeper commit in between.
const TRIES: usize = 16;

/// Snapshots that count of leases that did not end, by the numbers of the leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended(BTreeMap<u64, BTreeSet<String>>);

impl Ended {
    /// Whether the snapshot `file` counts, as the holder of `lease` wrote it.
    pub(crate) fn counts(&self, file: &str, lease: u64) -> bool {
        self.0.get(&lease).is_none_or(|files| files.contains(file))
    }

    /// Whether it is settled which snapshots of `lease` count.
    pub(crate) fn has(&self, lease: u64) -> bool {
        self.0.contains_key(&lease)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = String::new();
        for (lease, files) in &self.0 {
            text += &format!("lease {lease:016x}\n");
            files.iter().for_each(|file| text += &format!("{file}\n"));
        }
        text.into_bytes()
    }

    /// `None` when it is no such list.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut ended, mut last) = (Self::default(), None);
        for line in std::str::from_utf8(bytes).ok()?.lines() {
            if let Some(lease) = line.strip_prefix("lease ") {
                last = Some(u64::from_str_radix(lease, 16).ok()?);
                ended.0.entry(last?).or_default();
            } else {
                ended.0.get_mut(&last?)?.insert(line.to_owned());
            }
        }
        Some(ended)
    }
}

/// The list of `names`, if there is one.
pub(crate) fn read(client: &Client, names: &Names) -> StorageResult<Ended> {
    let Some(last) = names.highest(ENDED) else { return Ok(Ended::default()) };
    let name = numbered(ENDED, last);
    let content = roots::decode(&roots::read(client, &name)?);
    content.and_then(|content| Ended::decode(&content)).ok_or_else(|| damaged(&name))
}

/// Bounds what the holders of leases can do that did not end them, for the holder of the lease `mine`.
pub(crate) fn settle(client: &Client, names: &mut Names, mine: u64) -> StorageResult<()> {
    let mut ended = read(client, names)?;
    let open = Leases::of(names).open;
    let open: Vec<_> =
        open.into_iter().filter(|lease| *lease != mine && !ended.has(*lease)).collect();
    if open.is_empty() {
        return Ok(());
    }
    fence_state(client, names)?;
    finish_removals(client, names)?;
    // Only now: what the sleeper wrote before this is seen. Its last state may name runs that came after our first
    // look.
    names.replace("", "", client.list("", BEHIND_CONTAINERS)?);
    // What is not in this list is gone for ever: it has to be one of all that was written.
    if !names.has(&numbered(LEASE, mine)) {
        let why = "its list lacks the lease that this process has just written";
        return Err(StorageError::new(
            "list",
            client.location(),
            Error::new(ErrorKind::TimedOut, why),
        ));
    }
    for lease in open {
        let of_it = names.below(SNAPSHOTS).filter_map(parse_snapshot);
        let files = of_it.filter(|(_, by)| *by == lease).map(|(file, _)| file.to_owned());
        ended.0.insert(lease, files.collect());
    }
    let name = numbered(ENDED, names.highest(ENDED).unwrap_or(0) + 1);
    let object = roots::encode(&ended.encode());
    if client.create(&name, &object)?.is_none() {
        return Err(StorageError::new("create", &name, ErrorKind::AlreadyExists));
    }
    names.insert(&name, object.len() as u64);
    Ok(())
}

/// Writes the last state of the index once more, under the next number.
fn fence_state(client: &Client, names: &mut Names) -> StorageResult<()> {
    if names.highest(STATE).is_some() {
        fence(client, names, STATE)?;
    }
    Ok(())
}

/// Removes what the sleeper was about to remove. Its state, or a later one, does not need it.
fn finish_removals(client: &Client, names: &mut Names) -> StorageResult<()> {
    let object = fence(client, names, REMOVED)?;
    let content = roots::decode(&object).ok_or_else(|| damaged(REMOVED))?;
    let text = std::str::from_utf8(&content).map_err(|_| damaged(REMOVED))?;
    let containers: Vec<_> = text.lines().map(str::to_owned).collect();
    if containers.iter().any(|name| !name.starts_with("containers/")) {
        return Err(damaged(REMOVED));
    }
    if containers.is_empty() {
        return Ok(());
    }
    client.delete(&containers)?;
    forget_removals(client, names)
}

/// From now on nothing is about to be removed. A list that stayed would be carried out again at the next takeover, and
/// another sleeper, which was to write a container before one of this number was there, may have written it since.
fn forget_removals(client: &Client, names: &mut Names) -> StorageResult<()> {
    let next = numbered(REMOVED, names.highest(REMOVED).unwrap_or(0) + 1);
    let object = roots::encode(b"");
    if client.create(&next, &object)?.is_none() {
        return Err(StorageError::new("create", &next, ErrorKind::AlreadyExists));
    }
    names.insert(&next, object.len() as u64);
    Ok(())
}

/// Writes the last object of the row `root` once more, under the next number; an empty one where there is none.
fn fence(client: &Client, names: &mut Names, root: &str) -> StorageResult<Bytes> {
    for _ in 0..TRIES {
        let last = names.highest(root);
        let object = match last {
            Some(last) => roots::read(client, &numbered(root, last))?,
            None => roots::encode(b""),
        };
        // A damaged one stays damaged, and keeps its place.
        let object = roots::decode(&object).map_or(object, |content| roots::encode(&content));
        let next = numbered(root, last.unwrap_or(0) + 1);
        let is_ours = client.create(&next, &object)?.is_some();
        names.insert(&next, object.len() as u64);
        if is_ours {
            return Ok(object);
        }
    }
    Err(StorageError::new("create", root, ErrorKind::AlreadyExists))
}

fn damaged(name: &str) -> StorageError {
    StorageError::new("read", name, Error::new(ErrorKind::InvalidData, "it is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use std::sync::Arc;

    #[test]
    fn a_list_is_read_back_and_what_is_not_in_it_does_not_count() {
        let mut ended = Ended::default();
        ended.0.insert(7, BTreeSet::from(["0000000001-aa".to_owned()]));
        ended.0.insert(9, BTreeSet::new());
        assert_eq!(Ended::decode(&ended.encode()), Some(ended.clone()));
        assert!(ended.counts("0000000001-aa", 7) && ended.counts("0000000001-aa", 8));
        assert!(!ended.counts("0000000002-bb", 7) && !ended.counts("0000000001-aa", 9));
        assert_eq!(Ended::decode(b"0000000001-aa\n"), None);
        assert_eq!(Ended::decode(b"lease x\n"), None);
    }

    /// Else its index would look damaged to the next writer.
    #[test]
    fn what_a_sleeper_wrote_between_two_looks_is_known_behind_them() {
        let store = Arc::new(InMemory::new());
        let client = Client::new(store.clone(), store, "", "s3://memory").unwrap();
        for lease in [1, 2] {
            client.put(&numbered(LEASE, lease), Bytes::new()).unwrap();
        }
        client.put(&numbered(STATE, 1), roots::encode(b"state")).unwrap();
        let mut names = Names::default();
        names.replace("", "", client.list("", BEHIND_CONTAINERS).unwrap());
        for late in ["index/run-2", "keys/slot"] {
            client.put(late, Bytes::from_static(b"late")).unwrap();
        }
        client.put(&numbered(STATE, 2), roots::encode(b"a state that names the run")).unwrap();
        settle(&client, &mut names, 2).unwrap();
        assert!(names.has("index/run-2") && names.has("keys/slot"));
        assert_eq!(names.highest(STATE), Some(3));
        assert!(Leases::of(&names).open == [1, 2] && read(&client, &names).unwrap().has(1));
    }

    /// It would disown what was acknowledged: a list without it says that it does not count.
    #[test]
    fn a_list_without_the_lease_of_who_asks_settles_nothing() {
        let store = Arc::new(InMemory::new());
        let client = Client::new(store.clone(), store, "", "s3://memory").unwrap();
        client.put(&numbered(LEASE, 1), Bytes::new()).unwrap();
        let mut names = Names::default();
        names.replace("", "", client.list("", BEHIND_CONTAINERS).unwrap());
        let refused = settle(&client, &mut names, 2).unwrap_err();
        assert!(refused.is_unreachable(), "{refused}");
        assert_eq!(client.list(ENDED, ENDED).unwrap().len(), 0);
    }
}
