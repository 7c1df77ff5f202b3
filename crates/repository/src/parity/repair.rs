//! Writing a container that has rotted as it was. The old file stays until the new one is durable
//! and every record in it is good; then the new one takes its name. Both have the same bytes
//! wherever the old one was not damaged, so readers need not know.

use super::encode::Encoder;
use super::healed::HealedFile;
use super::inspect::{ShardDamage, inspect};
use super::locate::ParitySection;
use crate::container::read::ContainerReader;
use crate::container::{self, healed_name, name};
use crate::lease::Lease;
use crate::storage::{FileReader, FileWriter};
use crate::{Error, Repository, Result};
use ids::ContainerNo;
use std::sync::Arc;

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// The result of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairOutcome {
    /// The container was intact.
    Intact,
    /// It is repaired: its bytes are those that were written.
    Repaired(ShardDamage),
    /// More is damaged than parity can heal; it was not changed.
    BeyondRepair(ShardDamage),
}

/// Repairs the container `number`, if it is damaged and parity can heal it.
///
/// # Errors
/// [`Error::InUse`] while a reclaim runs: a repair must not bring back what that removes.
pub fn repair(
    repository: &Repository,
    lease: &Lease,
    number: ContainerNo,
) -> Result<RepairOutcome> {
    let only = repository.reclaiming.try_lock();
    if only.is_none() {
        return Err(Error::InUse { holder: "a reclaim of this process".into() });
    }
    let percent = repository.config.parity_percent();
    let reader = ContainerReader::open(&*repository.storage, number)?;
    let damage = inspect(&reader, percent)?;
    if damage.is_none() {
        return Ok(RepairOutcome::Intact);
    }
    let beside = healed_name(number);
    let source = if damage.groups_beyond_repair == 0 { source(&reader, percent)? } else { None };
    let is_written = match source {
        Some(source) => write_healed(repository, &source, number)?,
        None => false,
    };
    if !is_written {
        repository.storage.remove(&beside)?;
        return Ok(RepairOutcome::BeyondRepair(damage));
    }
    lease.verify()?;
    repository.storage.replace(&beside, &name(number))?;
    repository.close(&[number]);
    Ok(RepairOutcome::Repaired(damage))
}

/// What the repair writes.
struct Source {
    file: Arc<dyn FileReader>,
    /// Without parity.
    length: u64,
    percent: u32,
}

/// The container as it was, without its parity: healed, or as it lies when only the parity is lost.
fn source(reader: &ContainerReader, percent: u32) -> Result<Option<Source>> {
    let file = reader.file().clone();
    if let Some(ParitySection { geometry, .. }) = reader.parity()? {
        let (length, percent) = (geometry.protected(), geometry.percent());
        return Ok(Some(Source {
            file: Arc::new(HealedFile::new(file, geometry)),
            length,
            percent,
        }));
    }
    let length = match reader.rows() {
        Ok(_) => Some(reader.length()?),
        Err(_) => reader.end_by_records()?,
    };
    Ok(length.map(|length| Source { file, length, percent }))
}

/// Durably writes `source` and its parity beside the container `number`. `false` when what came
/// out is not whole: then it must not take anybody's place.
fn write_healed(repository: &Repository, source: &Source, number: ContainerNo) -> Result<bool> {
    let beside = healed_name(number);
    repository.storage.remove(&beside)?;
    let mut file = repository.storage.create(&beside)?;
    let written = copy(source, &mut *file).and_then(|is_copied| {
        let is_good = is_copied && is_whole(number, repository)?;
        if is_good {
            file.sync()?;
        }
        Ok(is_good)
    });
    if written.is_err() {
        // A full disk gets its space back; if this fails too, the next repair or reclaim does it.
        let _ = repository.storage.remove(&beside);
    }
    written
}

/// Copies `source` and adds its parity; `false` when it cannot be read to its end.
fn copy(source: &Source, file: &mut dyn FileWriter) -> Result<bool> {
    let (mut buffer, mut offset) = (Vec::new(), 0);
    let mut parity = Encoder::new(source.percent);
    while offset < source.length {
        buffer.resize(COPY_BYTES.min(source.length - offset) as usize, 0);
        if source.file.read_exact_at(&mut buffer, offset).is_err() {
            return Ok(false);
        }
        file.append(&[&buffer])?;
        parity.push(&buffer)?;
        offset += buffer.len() as u64;
    }
    parity.finish(|parts| Ok(file.append(parts)?))?;
    Ok(true)
}

/// Whether what was written is the container that it should be, and every record in it is good.
/// Header, records and footer are all there is, and each has a checksum of its own.
fn is_whole(number: ContainerNo, repository: &Repository) -> Result<bool> {
    let reader = ContainerReader::open_healed(&*repository.storage, number)?;
    if reader.header(repository.config.repository).is_err() {
        return Ok(false);
    }
    let Ok(rows) = reader.rows() else { return Ok(false) };
    let walk = reader.walk(|_, _| ())?;
    Ok(walk.damaged.is_empty() && walk.rows == rows)
}

/// Removes what a repair left that was interrupted.
pub fn remove_unfinished(repository: &Repository, lease: &Lease) -> Result<()> {
    for name in container::healed_left(&*repository.storage)? {
        lease.verify()?;
        repository.storage.remove(&name)?;
    }
    Ok(())
}
