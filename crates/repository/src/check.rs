//! Scrub: reads containers and says what is damaged, without any key.

use crate::container::read::ContainerReader;
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::{Repository, Result};
use format::container::Row;
use ids::{ContainerNo, ObjectId, Place};

/// What is wrong with one container.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The container.
    pub container: ContainerNo,
    /// Offset and length in bytes of what is damaged; `None` when it is the container as a whole.
    pub range: Option<(u64, u64)>,
    /// What is wrong.
    pub reason: String,
}

/// Opens a container and reads its list of records; falls back on walking it when the list is
/// damaged, which is damage too.
pub fn open(
    repository: &Repository,
    number: ContainerNo,
    damages: &mut Vec<Damage>,
) -> Option<(ContainerReader, Vec<Row>)> {
    let whole = |reason: String| Damage { container: number, range: None, reason };
    let reader = match ContainerReader::open(&*repository.storage, number) {
        Ok(reader) => reader,
        Err(error) => {
            damages.push(whole(error.to_string()));
            return None;
        }
    };
    if let Err(error) = reader.header(repository.config.repository) {
        damages.push(whole(error.to_string()));
    }
    match reader.rows() {
        Ok(rows) => Some((reader, rows)),
        Err(error) => {
            damages.push(whole(error.to_string()));
            let walk = reader.walk(|_, _| ());
            walk.ok().map(|walk| (reader, walk.rows))
        }
    }
}

/// Which of the sorted `prefixes` the index does not have, in one pass over both.
pub fn missing(repository: &Repository, wanted: &[Wanted]) -> Result<Vec<Wanted>> {
    let mut left = wanted.iter().peekable();
    let mut missing = Vec::new();
    repository.index().visit(|row| {
        while let Some(gone) = left.next_if(|want| want.0 < row.prefix) {
            missing.push(*gone);
        }
        while left.next_if(|want| want.0 == row.prefix).is_some() {}
        Ok(())
    })?;
    missing.extend(left);
    Ok(missing)
}

/// The objects of the index of which `is_lost` says, by the place that the index gives, that they
/// are not there.
pub fn lost_objects(
    repository: &Repository,
    is_lost: impl Fn(Place, Wanted) -> bool,
) -> Result<Vec<Wanted>> {
    let mut objects = Vec::new();
    repository.index().visit(|row| {
        let wanted = Wanted(row.prefix);
        objects.extend(is_lost(row.place, wanted).then_some(wanted));
        Ok(())
    })?;
    Ok(objects)
}

/// The beginning of an id that somebody looks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wanted(pub(crate) Prefix);

impl Wanted {
    /// Looks for `id`.
    pub fn new(id: &ObjectId) -> Self {
        Self(prefix_of(id))
    }
}

/// The numbers of all containers that the index names, sorted.
pub fn containers_in_index(repository: &Repository) -> Result<Vec<ContainerNo>> {
    let mut numbers = std::collections::BTreeSet::new();
    repository.index().visit(|row| {
        numbers.insert(row.place.container);
        Ok(())
    })?;
    Ok(numbers.into_iter().collect())
}
