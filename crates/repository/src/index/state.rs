//! `index/state`: which runs are the index, and which numbers were given out. Replaced as a
//! whole, so that a reader sees one moment.

use super::interrupted::Interrupted;
use super::pending::Pending;
use crate::guard::{Guard, guarded};
use crate::storage::{Storage, read_checked};
use crate::{Error, Result};
use format::wire::{Reader, checksum};
use ids::ContainerNo;

const NAME: &str = "index/state";
const MAGIC: [u8; 8] = *b"ICESTAT1";
/// Of a state that lists interrupted containers, too.
const MAGIC_INTERRUPTED: [u8; 8] = *b"ICESTAT2";
/// Of a state that lists both, of which the first may be empty.
const MAGIC_PENDING: [u8; 8] = *b"ICESTAT3";
const MAGICS: [[u8; 8]; 3] = [MAGIC, MAGIC_INTERRUPTED, MAGIC_PENDING];
const BYTES_MAX: usize = 1 << 20;

/// What the state file says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// Containers below this number are in the index; no container of this number or above was
    /// ever named by a snapshot.
    pub(crate) next_container: ContainerNoOrZero,
    /// Number for the next run.
    pub(crate) next_run: u64,
    /// Number for the next snapshot.
    pub(crate) next_snapshot: u64,
    /// Rises whenever something may have been lost: who builds on a snapshot of an earlier epoch
    /// looks whether what it cites is still there.
    pub(crate) damage_epoch: u64,
    /// Numbers of the runs, oldest first.
    pub(crate) runs: Vec<u64>,
    /// Containers of sessions that run or were interrupted.
    pub(crate) interrupted: Interrupted,
    /// Snapshots that may have no file yet.
    pub(crate) pending: Pending,
}

/// A container number as the state counts it.
pub(crate) type ContainerNoOrZero = u64;

impl State {
    /// Reads the state.
    pub(crate) fn read(storage: &dyn Storage) -> Result<Self> {
        let damaged = || Error::IndexDamaged { name: NAME.into() };
        let decode = |bytes: Vec<u8>| {
            Self::decode(&bytes).ok_or(format::Error::Invalid { what: "state of the index" })
        };
        read_checked(storage, NAME, BYTES_MAX, decode).map_err(|error| match error {
            Error::Damaged { .. } => damaged(),
            error => error,
        })
    }

    /// Whether nothing was ever stored, as far as the state says.
    pub(crate) fn has_stored_nothing(storage: &dyn Storage) -> bool {
        match Self::read(storage) {
            _ if !guarded(Guard::InitListing) => true,
            Ok(state) => state.next_container <= 1 && state.next_snapshot <= 1,
            Err(Error::Storage(error)) => error.is_not_found(),
            Err(_) => false,
        }
    }

    /// Durably replaces the state.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] where the storage can tell that another writer has replaced it.
    pub(crate) fn write(&self, storage: &dyn Storage) -> Result<()> {
        match storage.put(NAME, &self.encode()) {
            Err(error) if error.already_exists() => {
                Err(Error::LeaseLost { holder: "another process".into() })
            }
            put => Ok(put?),
        }
    }

    /// The number of a container that is newer than all the state knows.
    pub(crate) fn first_unknown(&self) -> ContainerNo {
        ContainerNo(self.next_container)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = self.magic().to_vec();
        for value in [self.next_container, self.next_run, self.next_snapshot, self.damage_epoch] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&(self.runs.len() as u64).to_le_bytes());
        self.runs.iter().for_each(|run| out.extend_from_slice(&run.to_le_bytes()));
        if !(self.interrupted.is_empty() && self.pending.is_empty()) {
            self.interrupted.encode(&mut out);
        }
        if !self.pending.is_empty() {
            self.pending.encode(&mut out);
        }
        let sum = checksum(&[&out]);
        out.extend_from_slice(&sum);
        out
    }

    fn magic(&self) -> [u8; 8] {
        match (self.pending.is_empty(), self.interrupted.is_empty()) {
            (false, _) => MAGIC_PENDING,
            (true, false) => MAGIC_INTERRUPTED,
            (true, true) => MAGIC,
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<16>()?;
        if checksum(&[body]) != *sum {
            return None;
        }
        let mut reader = Reader::new(body, "index state");
        let magic = reader.array().ok().filter(|it| MAGICS.contains(it))?;
        let next_container = reader.u64().ok()?;
        let (next_run, next_snapshot) = (reader.u64().ok()?, reader.u64().ok()?);
        let damage_epoch = reader.u64().ok()?;
        let count = reader.u64().ok()?;
        let runs = (0..count).map(|_| reader.u64().ok()).collect::<Option<_>>()?;
        let (mut interrupted, mut pending) = Default::default();
        if magic != MAGIC {
            interrupted = Interrupted::decode(&mut reader)?;
        }
        if magic == MAGIC_PENDING {
            pending = Pending::decode(&mut reader)?;
        }
        reader.end().ok()?;
        let state = Self {
            next_container,
            next_run,
            next_snapshot,
            damage_epoch,
            runs,
            interrupted,
            pending,
        };
        // Each list is there only if the magic says so.
        (state.magic() == magic).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::pending::PendingSnapshot;
    use crate::snapshots::SnapshotRef;
    use ids::SnapshotId;

    #[test]
    fn a_state_is_read_back_and_flips_are_found() {
        let mut state = State {
            next_container: 5,
            next_run: 3,
            next_snapshot: 9,
            damage_epoch: 1,
            runs: vec![1, 2],
            ..State::default()
        };
        is_read_back(&state);
        assert_eq!(state.encode()[..8], MAGIC, "as before there was such a list");
        let name = SnapshotRef { sequence: 8, id: SnapshotId([9; SnapshotId::LEN]) };
        let pending = PendingSnapshot { name, container: ContainerNo(4) };
        let mut none_interrupted = state.clone();
        none_interrupted.pending.add(pending);
        is_read_back(&none_interrupted);
        state.interrupted.keep(&[2, 3, 7].into_iter().map(ContainerNo).collect());
        assert_eq!(state.encode()[..8], MAGIC_INTERRUPTED, "as before there were pending ones");
        is_read_back(&state);
        state.pending.add(pending);
        is_read_back(&state);
    }

    fn is_read_back(state: &State) {
        let bytes = state.encode();
        assert_eq!(State::decode(&bytes).as_ref(), Some(state));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(State::decode(&damaged), None);
        }
    }
}
