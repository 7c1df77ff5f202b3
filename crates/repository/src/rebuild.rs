//! Making the index and the list of snapshots from the containers alone, and settling what an
//! interrupted session left behind.

use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::container::{self, Found, part_name};
use crate::index::prefix_of;
use crate::index::run::{Prefix, RunReader};
use crate::lease::Lease;
use crate::session::{add_runs, remove_runs, write_run};
use crate::{Error, Repository, Result};
use format::container::Row;
use format::record::{self, RecordKind};
use ids::{ContainerNo, Place};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Settles what the last writer left: finished containers go into the index, unfinished ones are
/// saved as far as their records are good. So an interrupted backup costs nothing twice.
pub(crate) fn recover(repository: &Repository, lease: &Lease) -> Result<()> {
    let index = repository.index();
    let left = container::list(&*repository.storage, index.state.first_unknown())?;
    if left.is_empty() {
        return remove_strays(repository);
    }
    let last = left.iter().map(|file| file.number.0).max().unwrap_or_default();
    repository.next_container.fetch_max(last + 1, Ordering::Relaxed);
    let mut placed = FxHashMap::default();
    for file in left {
        settle(repository, lease, file, &mut placed)?;
    }
    let mut state = index.state.clone();
    state.next_container = repository.next_container.load(Ordering::Relaxed);
    if !placed.is_empty() {
        let name = format!("index/spill-recovery-{:x}", lease.generation());
        write_run(&*repository.storage, &name, &mut placed)?;
        let run = Arc::new(RunReader::open(&*repository.storage, &name)?);
        add_runs(&*repository.storage, &index, &mut state, vec![run], Some)?;
    }
    let old = index.state.runs.clone();
    repository.publish_index(state.clone())?;
    remove_runs(&*repository.storage, old.iter().filter(|run| !state.runs.contains(run)))?;
    remove_strays(repository)
}

/// Removes files in `index` that the state does not name: they are of sessions that died.
fn remove_strays(repository: &Repository) -> Result<()> {
    let index = repository.index();
    let named = |name: &str| index.state.runs.iter().any(|run| crate::index::run_name(*run).ends_with(name));
    for name in repository.storage.list("index")? {
        if (name.starts_with("run-") || name.starts_with("spill-")) && !named(&name) {
            repository.storage.remove(&format!("index/{name}"))?;
        }
    }
    Ok(())
}

fn settle(
    repository: &Repository,
    lease: &Lease,
    file: Found,
    placed: &mut FxHashMap<Prefix, Place>,
) -> Result<()> {
    if file.finished {
        let reader = ContainerReader::open(&*repository.storage, file.number)?;
        return index_container(&reader, placed);
    }
    let reader = ContainerReader::open_part(&*repository.storage, file.number)?;
    let rows = reader.walk(|_, _| ())?.rows;
    if rows.iter().any(|row| row.is(RecordKind::Data) || row.is(RecordKind::Pages)) {
        let number = save(repository, lease, &reader, &rows)?;
        index_container(&ContainerReader::open(&*repository.storage, number)?, placed)?;
    }
    Ok(repository.storage.remove(&part_name(file.number))?)
}

/// Copies the good records of an unfinished container to a finished one.
fn save(
    repository: &Repository,
    lease: &Lease,
    source: &ContainerReader,
    rows: &[Row],
) -> Result<ContainerNo> {
    let number = repository.allocate_container();
    let header = repository.container_header(number, lease);
    let mut writer = ContainerWriter::create(&*repository.storage, header)?;
    let mut buffer = Vec::new();
    for row in rows {
        let place = Place { container: source.number(), offset: row.offset, length: row.length };
        source.read(place, &mut buffer)?;
        let record = record::verify(&buffer).map_err(|reason| Error::damaged("container", reason))?;
        // A manifest here was never acknowledged, and what it needs may be lost.
        if record.header.kind != RecordKind::Manifest {
            writer.append(record.header.kind, &[&buffer])?;
        }
    }
    writer.sync()?;
    writer.publish(&*repository.storage)
}

/// Adds every object of a container to `placed`. Falls back to walking it when its footer is
/// damaged.
pub(crate) fn index_container(
    reader: &ContainerReader,
    placed: &mut FxHashMap<Prefix, Place>,
) -> Result<()> {
    let Ok(rows) = reader.rows() else { return index_damaged(reader, placed) };
    for row in rows {
        if !row.is(RecordKind::Data) && !row.is(RecordKind::Pages) {
            continue;
        }
        let Ok(associated) = reader.associated(&row) else { return index_damaged(reader, placed) };
        let place = Place { container: reader.number(), offset: row.offset, length: row.length };
        let ids = record::head_only(&associated).and_then(|record| record::object_ids(&record));
        let Ok(ids) = ids else { return index_damaged(reader, placed) };
        placed.extend(ids.iter().map(|id| (prefix_of(id), place)));
    }
    Ok(())
}

fn index_damaged(reader: &ContainerReader, placed: &mut FxHashMap<Prefix, Place>) -> Result<()> {
    reader.walk(|place, record| {
        let ids = record::object_ids(record).unwrap_or_default();
        placed.extend(ids.iter().map(|id| (prefix_of(id), place)));
    })?;
    Ok(())
}
