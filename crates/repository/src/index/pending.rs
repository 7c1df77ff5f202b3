//! Pending snapshots: their manifests are in containers, and nobody was told yet that they exist. A writer that is
//! killed leaves them here. So a snapshot that is in a container, not in the list and not pending has lost its file.

use crate::snapshots::SnapshotRef;
use format::wire::Reader;
use ids::{ContainerNo, SnapshotId};

/// How many the state keeps: 32 KiB of it. Of more, the latest.
const PENDING_MAX: usize = 1 << 10;

/// A snapshot, and the container of its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingSnapshot {
    pub(crate) name: SnapshotRef,
    pub(crate) container: ContainerNo,
}

/// The pending snapshots, in the order in which their manifests were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending(Vec<PendingSnapshot>);

impl Pending {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `id` is pending.
    pub(crate) fn has(&self, id: &SnapshotId) -> bool {
        self.0.iter().any(|one| one.name.id == *id)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingSnapshot> {
        self.0.iter()
    }

    /// From now on `one` is pending.
    pub(crate) fn add(&mut self, one: PendingSnapshot) {
        self.remove(&one.name.id);
        self.0.push(one);
        let surplus = self.0.len().saturating_sub(PENDING_MAX);
        self.0.drain(..surplus);
    }

    /// `id` has its file, or was forgotten.
    pub(crate) fn remove(&mut self, id: &SnapshotId) {
        self.0.retain(|one| one.name.id != *id);
    }

    /// Appends the list to `out`: how many there are, then each.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u64).to_le_bytes());
        for PendingSnapshot { name, container } in &self.0 {
            out.extend_from_slice(&name.sequence.to_le_bytes());
            out.extend_from_slice(&container.0.to_le_bytes());
            out.extend_from_slice(&name.id.0);
        }
    }

    /// What [`Pending::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let count = usize::try_from(reader.u64().ok()?).ok().filter(|it| *it <= PENDING_MAX)?;
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let (sequence, container) = (reader.u64().ok()?, ContainerNo(reader.u64().ok()?));
            let id = SnapshotId(reader.array().ok()?);
            all.push(PendingSnapshot { name: SnapshotRef { sequence, id }, container });
        }
        Some(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(number: u64) -> PendingSnapshot {
        let mut id = [0; SnapshotId::LEN];
        id[..8].copy_from_slice(&number.to_le_bytes());
        let name = SnapshotRef { sequence: number, id: SnapshotId(id) };
        PendingSnapshot { name, container: ContainerNo(number + 1) }
    }

    #[test]
    fn the_latest_stay_and_are_read_back() {
        for count in [0, 1, PENDING_MAX as u64, PENDING_MAX as u64 + 1] {
            let mut pending = Pending::default();
            (0..count).for_each(|number| pending.add(snapshot(number)));
            assert_eq!(
                pending.has(&snapshot(0).name.id),
                (1..=PENDING_MAX as u64).contains(&count)
            );
            assert_eq!(pending.has(&snapshot(count - u64::from(count > 0)).name.id), count > 0);
            let mut bytes = Vec::new();
            pending.encode(&mut bytes);
            let mut reader = Reader::new(&bytes, "pending snapshots");
            assert_eq!(Pending::decode(&mut reader), Some(pending));
            assert!(reader.end().is_ok());
        }
        let above = (PENDING_MAX as u64 + 1).to_le_bytes();
        let bytes = [&above[..], &[0; 64 * (PENDING_MAX + 1)]].concat();
        assert_eq!(Pending::decode(&mut Reader::new(&bytes, "pending snapshots")), None);
    }

    #[test]
    fn each_is_there_once() {
        let mut pending = Pending::default();
        pending.add(snapshot(1));
        pending.add(PendingSnapshot { container: ContainerNo(9), ..snapshot(1) });
        assert_eq!(pending.iter().map(|one| one.container.0).collect::<Vec<_>>(), [9]);
        pending.remove(&snapshot(1).name.id);
        assert!(pending.is_empty());
    }
}
