//! What helps a reclaim that found no room. To forget more does not: reclaim itself needs room, since it copies what
//! is used of a container before it removes it, one container after the other.

use crate::context::Context;
use crate::failure::quoted;
use ids::ContainerNo;
use pipeline::UnlockedRepository;
use repository::storage::Storage;
use repository::{Repository, container};

const MIB: u64 = 1 << 20;
/// The new index is written before the old one is removed: 24 bytes for each row, 4 for what is beside them.
const BYTES_PER_ROW: u64 = 28;
/// Lease, a record that is sealed anew, and what the file system takes for files and directories: 4 MiB.
const BESIDE_BYTES: u64 = 4 * MIB;

/// What to do, in a sentence that ends before the next command.
pub(super) fn advice(context: &Context, repository: &UnlockedRepository) -> Option<String> {
    let repository = repository.local().ok()?;
    let storage = repository.storage();
    if !storage.has_limited_space() {
        return Some("Raise the quota of the storage".to_owned());
    }
    let (needed, free) = (needed(repository)?, storage.free_bytes().ok()? / MIB);
    let place = quoted(&context.location());
    Some(match free >= needed {
        // Bytes are not what is short.
        true => format!(
            "{free} MiB are free there, which is enough: see whether inodes (df -i {place}) or a quota end it, and raise them"
        ),
        false => format!(
            "Reclaim copies what is used of a container before it removes it, so it needs room, too: have {needed} MiB free on the file system that holds the repository (now {free} MiB: df -h {place}). Remove something else there, or enlarge it"
        ),
    })
}

/// MiB that are enough for each container. What is freed of one stays for the next.
fn needed(repository: &Repository) -> Option<u64> {
    let storage = &**repository.storage();
    let files = container::list(storage, ContainerNo(0)).ok()?.into_iter();
    let largest = files.filter_map(|file| length(storage, file.number)).max()?;
    let index = repository.index().entries().saturating_mul(BYTES_PER_ROW);
    Some(largest.saturating_add(index).saturating_add(BESIDE_BYTES).div_ceil(MIB))
}

/// `None` for one that is not there, or cannot be asked.
fn length(storage: &dyn Storage, number: ContainerNo) -> Option<u64> {
    storage.open(&container::name(number)).and_then(|file| file.length()).ok()
}
