//! Scrub: reads containers and reports what is damaged, without a key.

use crate::container::read::ContainerReader;
use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::parity::{ShardDamage, inspect};
use crate::sorted_ids::Beside;
use crate::{Repository, Result};
use format::container::Row;
use ids::{ContainerNo, ObjectId, RecordLocation};

/// What is wrong with one container.
#[derive(Clone, Debug)]
pub struct ContainerDamage {
    /// The container.
    pub container: ContainerNo,
    /// Offset and length of the damage in bytes; `None` when it concerns the container as a whole.
    pub range: Option<(u64, u64)>,
    /// What is wrong.
    pub reason: String,
    /// Whether parity can heal it: nothing is lost, and a repair writes the container as it was.
    pub is_healable: bool,
}

/// A container that is open for a check, with its records.
pub struct OpenContainer {
    /// The container as it is stored.
    pub reader: ContainerReader,
    /// Its records.
    pub rows: Vec<Row>,
}

/// Opens a container and reads its list of records. When the list is damaged it reports that and searches the whole
/// container for records.
///
/// # Errors
/// When the storage cannot be reached; anything else is reported as damage.
pub fn open_container(
    repository: &Repository,
    number: ContainerNo,
    damages: &mut Vec<ContainerDamage>,
) -> Result<Option<OpenContainer>> {
    let whole = |reason: String| ContainerDamage::of_container(number, reason);
    let reader = match ContainerReader::open(&*repository.storage, number) {
        Ok(reader) => reader,
        Err(error) if error.is_unreachable() => return Err(error),
        Err(error) => {
            damages.push(whole(error.to_string()));
            return Ok(None);
        }
    };
    let name = repository.config.repository;
    // Only when something is wrong: it reads 8 MiB.
    let healed = || reader.healed().ok().flatten();
    if let Err(error) = reader.header(name) {
        if error.is_unreachable() {
            return Err(error);
        }
        let is_healable = healed().is_some_and(|healed| healed.header(name).is_ok());
        damages.push(ContainerDamage { is_healable, ..whole(error.to_string()) });
    }
    if repository.config.parity_percent() > 0 {
        let parity = reader.parity().ok().flatten();
        let ends_well = parity.is_some_and(|parity| parity.has_end);
        let is_healable = parity.is_some() || has_lost_only_parity(&reader);
        let reason = "the end of its parity is damaged".to_owned();
        damages.extend((!ends_well).then(|| ContainerDamage { is_healable, ..whole(reason) }));
    }
    let rows = reader.rows().or_else(|error| {
        if error.is_unreachable() {
            return Err(error);
        }
        let rows = healed().and_then(|healed| healed.rows().ok());
        let is_healable = rows.is_some()
            || repository.config.parity_percent() > 0 && has_lost_only_parity(&reader);
        damages.push(ContainerDamage { is_healable, ..whole(error.to_string()) });
        rows.map_or_else(|| reader.walk(|_, _| ()).map(|walk| walk.rows), Ok)
    });
    match rows {
        Err(error) if error.is_unreachable() => Err(error),
        rows => Ok(rows.ok().map(|rows| OpenContainer { reader, rows })),
    }
}

/// Whether the container is whole and its parity cannot be found.
fn has_lost_only_parity(reader: &ContainerReader) -> bool {
    matches!(reader.parity(), Ok(None))
        && (reader.rows().is_ok() || matches!(reader.end_by_records(), Ok(Some(_))))
}

/// Whether a repair writes the container as it was.
pub(crate) fn can_be_repaired(reader: &ContainerReader, damage: &ShardDamage) -> bool {
    match damage.has_no_parity {
        // One that was cut short has lost its parity, and its end with it.
        true => has_lost_only_parity(reader),
        false => damage.groups_beyond_repair == 0,
    }
}

/// Whether a repair takes the container for the one that its name says. Parity can be that of another one.
pub fn is_of_its_name(repository: &Repository, reader: &ContainerReader) -> bool {
    let says_so = |reader: &ContainerReader| reader.header(repository.config.repository).is_ok();
    says_so(reader) || reader.healed().ok().flatten().is_some_and(|healed| says_so(&healed))
}

/// Checks the shards and the parity of an open container, also those that no read has needed.
pub fn check_parity(
    repository: &Repository,
    reader: &ContainerReader,
) -> Result<Option<ContainerDamage>> {
    let number = reader.number();
    match inspect(reader, repository.config.parity_percent()) {
        Ok(damage) if damage.is_none() => Ok(None),
        Ok(damage) => {
            let is_healable =
                can_be_repaired(reader, &damage) && is_of_its_name(repository, reader);
            Ok(Some(ContainerDamage {
                is_healable,
                ..ContainerDamage::of_container(number, damage.to_string())
            }))
        }
        Err(error) if error.is_unreachable() => Err(error),
        Err(error) => Ok(Some(ContainerDamage::of_container(number, error.to_string()))),
    }
}

impl ContainerDamage {
    /// Damage to the container `number` as a whole.
    pub fn of_container(number: ContainerNo, reason: String) -> Self {
        Self { container: number, range: None, reason, is_healable: false }
    }
}

/// Those of `ids`, which come in order, that the index does not have. Reads the index once.
///
/// # Errors
/// That of `ids`; when the index cannot be read.
pub fn missing_ids(
    repository: &Repository,
    ids: impl Iterator<Item = Result<IdPrefix>>,
) -> Result<Vec<IdPrefix>> {
    let mut missing = Vec::new();
    let mut miss = |id| {
        missing.push(id);
        Ok(())
    };
    let mut wanted = Beside::new(ids)?;
    repository.index().visit(|row| wanted.has(&IdPrefix(row.prefix), &mut miss).map(drop))?;
    wanted.rest(miss)?;
    Ok(missing)
}

/// The objects of the index for whose location `is_lost` returns `true`.
pub fn lost_objects(
    repository: &Repository,
    is_lost: impl Fn(RecordLocation, IdPrefix) -> bool,
) -> Result<Vec<IdPrefix>> {
    let mut objects = Vec::new();
    repository.index().visit(|row| {
        let ids = IdPrefix(row.prefix);
        objects.extend(is_lost(row.location, ids).then_some(ids));
        Ok(())
    })?;
    Ok(objects)
}

/// The first bytes of an id, as the index keeps them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IdPrefix(pub(crate) Prefix);

impl IdPrefix {
    /// The prefix of `id`.
    pub fn new(id: &ObjectId) -> Self {
        Self(prefix_of(id))
    }
}

/// The numbers of all containers that the index names, sorted.
pub fn containers_in_index(repository: &Repository) -> Result<Vec<ContainerNo>> {
    let mut numbers = std::collections::BTreeSet::new();
    repository.index().visit(|row| {
        numbers.insert(row.location.container);
        Ok(())
    })?;
    Ok(numbers.into_iter().collect())
}
