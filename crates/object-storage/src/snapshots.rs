//! Snapshot files: which objects they are, and which of them count.

use crate::names::{DIRECTORY_MARK, ENDED, SNAPSHOTS, parse_snapshot};
use crate::storage::{ObjectStorage, State};
use crate::takeover::{self, Ended};
use bytes::Bytes;
use repository::storage::{StorageError, StorageResult};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::Duration;

/// Larger ones are read when they are opened: 64 KiB.
const EXPECTED_BYTES_MAX: u64 = 64 << 10;

impl ObjectStorage {
    /// The objects of the snapshot file `name`, of all leases, those first that count least.
    pub(crate) fn snapshot_objects(&self, name: &str) -> StorageResult<Vec<String>> {
        let start = format!("{name}.");
        let of_it = |state: &State| {
            let objects = state.names.starting_with(&start);
            let is_it =
                |object: &&str| parse_snapshot(object).is_some_and(|(file, _)| file == name);
            objects.filter(is_it).map(str::to_owned).collect::<Vec<_>>()
        };
        let state = self.shared.state.lock();
        let (known, is_exact) = (of_it(&state), state.held.is_some());
        drop(state);
        if is_exact || !known.is_empty() { Ok(known) } else { Ok(of_it(&*self.look(SNAPSHOTS)?)) }
    }

    pub(crate) fn open_snapshot(&self, name: &str) -> StorageResult<Bytes> {
        let object = self.snapshot_object(name)?;
        let bytes = self.shared.get_small(&object);
        bytes.map_err(|error| StorageError::new("open", name, error.source))
    }

    /// The object that counts of the snapshot file `name`.
    pub(crate) fn snapshot_object(&self, name: &str) -> StorageResult<String> {
        let absent = || StorageError::new("open", name, ErrorKind::NotFound);
        let mut objects = self.snapshot_objects(name)?;
        let known = self.shared.state.lock().ended.as_ref().map(|(_, ended)| ended.clone());
        let ended = known.map_or_else(|| self.ended(), Ok)?;
        let counts = |object: &String| {
            parse_snapshot(object)
                .and_then(|(file, lease)| Some((file.strip_prefix("snapshots/")?, lease)))
                .is_some_and(|(file, lease)| ended.counts(file, lease))
        };
        let at = objects.iter().rposition(counts).ok_or_else(absent)?;
        Ok(objects.swap_remove(at))
    }

    /// Reads small objects of snapshots at once, for who opens them next. What fails here is told then.
    pub(crate) fn expect_snapshots(&self, names: &[String]) {
        let objects = names.iter().filter_map(|name| self.snapshot_object(name).ok());
        let objects: Vec<_> = objects.filter(|object| self.is_worth_expecting(object)).collect();
        if objects.len() < 2 {
            return;
        }
        let read = self.shared.client.get_all(&objects);
        let mut expected = HashMap::new();
        for (object, bytes) in objects.into_iter().zip(read) {
            if let Ok(bytes) = bytes {
                expected.insert(object, bytes);
            }
        }
        self.shared.state.lock().expected = expected;
    }

    fn is_worth_expecting(&self, object: &str) -> bool {
        let state = self.shared.state.lock();
        state.names.length(object).is_some_and(|length| length <= EXPECTED_BYTES_MAX)
            && !state.recent.iter().any(|(recent, _)| recent == object)
            && !state.kept_of(object).has(object)
    }

    /// Which snapshots count of leases that did not end.
    fn ended(&self) -> StorageResult<Ended> {
        self.ended_in(&mut *self.look(ENDED)?)
    }

    /// The same by the names that `state` has.
    fn ended_in(&self, state: &mut State) -> StorageResult<Ended> {
        let last = state.names.highest(ENDED).unwrap_or(0);
        if let Some((number, ended)) = &state.ended
            && *number == last
        {
            return Ok(ended.clone());
        }
        let ended = takeover::read(self.client(), &state.names)?;
        state.ended = Some((last, ended.clone()));
        Ok(ended)
    }

    /// The snapshot files that count; with `age`, as they were at most so long ago, and with what this process has done
    /// since.
    pub(crate) fn list_snapshots(&self, age: Option<Duration>) -> StorageResult<Vec<String>> {
        let state = self.shared.state.lock();
        let is_known = age.is_some_and(|age| state.is_fresh("", age));
        drop(state);
        let mut state = match is_known {
            true => self.shared.state.lock(),
            false => self.look_at_all([ENDED, SNAPSHOTS])?,
        };
        let ended = self.ended_in(&mut state)?;
        let objects = state.names.below(SNAPSHOTS).filter_map(parse_snapshot);
        let files = objects.filter(|(file, lease)| ended.counts(file, *lease));
        let mut files: Vec<_> = files.map(|(file, _)| file.to_owned()).collect();
        files.dedup();
        if files.is_empty() && !state.names.has(&format!("{SNAPSHOTS}/{DIRECTORY_MARK}")) {
            return Err(StorageError::new("list", SNAPSHOTS, ErrorKind::NotFound));
        }
        Ok(files)
    }
}
