//! Whether the containers of the index are there, without reading them.

use crate::check::ContainerDamage;
use crate::{Error, Repository, Result, container};
use ids::ContainerNo;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What is known of the containers of the index.
#[derive(Clone, Debug, Default)]
pub struct Presence {
    /// How many the index names.
    pub containers: u64,
    /// Those that are not there, or end before a record that the index has of them.
    pub damages: Vec<ContainerDamage>,
}

/// Looks whether each container of the index is there, and is as long as the index says: lengths only of as many as it
/// can ask for within `lengths_within`, since each is a request to a disk or a bucket. Nobody may write meanwhile.
///
/// # Errors
/// When the storage cannot be read.
pub fn presence(repository: &Repository, lengths_within: Duration) -> Result<Presence> {
    let ends = ends(repository)?;
    let there = repository.current_containers()?.into_iter().filter(|file| file.finished);
    let there: BTreeSet<_> = there.map(|file| file.number).collect();
    let (begun, mut damages) = (Instant::now(), Vec::new());
    for (number, end) in &ends {
        let reason = match there.contains(number) {
            false => Some("is missing".to_owned()),
            true if begun.elapsed() > lengths_within => None,
            true => too_short(repository, *number, *end)?,
        };
        damages.extend(reason.map(|reason| ContainerDamage::of_container(*number, reason)));
    }
    Ok(Presence { containers: ends.len() as u64, damages })
}

/// The same where others may write meanwhile: a reclaim removes containers after the index has lost them. What is
/// missing or short counts only if it is so a second time, by the index as it is then.
///
/// # Errors
/// When the storage cannot be read.
pub fn presence_beside_others(
    repository: &Repository,
    lengths_within: Duration,
) -> Result<Presence> {
    let first = presence(repository, lengths_within)?;
    if first.damages.is_empty() {
        return Ok(first);
    }
    repository.refresh()?;
    let mut again = presence(repository, lengths_within)?;
    let was = |damage: &ContainerDamage| {
        first.damages.iter().any(|before| before.container == damage.container)
    };
    again.damages.retain(was);
    Ok(again)
}

/// Where the last record ends that the index has of each container.
fn ends(repository: &Repository) -> Result<BTreeMap<ContainerNo, u64>> {
    let mut ends = BTreeMap::new();
    repository.index().visit(|row| {
        let end = ends.entry(row.location.container).or_default();
        *end = u64::from(row.location.offset).saturating_add(row.location.length.into()).max(*end);
        Ok(())
    })?;
    Ok(ends)
}

fn too_short(repository: &Repository, number: ContainerNo, end: u64) -> Result<Option<String>> {
    let opened = repository.storage.open(&container::name(number));
    match opened.and_then(|file| file.length()) {
        Ok(length) if length >= end => Ok(None),
        Ok(length) => Ok(Some(format!("was cut short: it has {length} bytes of at least {end}"))),
        Err(error) if error.is_not_found() => Ok(Some("is missing".to_owned())),
        Err(error) => Err(Error::from(error)),
    }
}
