//! Versions of the tables: steps forward only, with a copy of the catalog before each. A step that was released never
//! changes.

mod copies;
mod dedup;
mod job_labels;
mod looking;
mod move_rates;
mod moves;
mod paths;
mod pools;
mod removed_keys;
mod schedules;
mod snapshots;
mod tables;
mod upkeep;

pub(crate) use tables::{TABLES, Table};

use crate::error::Failure;
use crate::location::Location;
use crate::settings;
use crate::sql::{Backend, Sql};
use crate::{Error, Result};

/// From version 0 on; the version is the number of steps.
pub(crate) const STEPS: &[&str] = &[
    tables::FIRST,
    tables::OBJECTS,
    tables::NODE_OPTIONS,
    schedules::STEP,
    job_labels::STEP,
    looking::STEP,
    snapshots::STEP,
    upkeep::STEP,
    pools::STEP,
    moves::STEP,
    move_rates::STEP,
    dedup::STEP,
    paths::STEP,
    copies::STEP,
    removed_keys::STEP,
];
/// Copies that are kept.
const COPIES: usize = 2;

/// Brings the catalog to the newest version of `steps`. While a server uses the catalog, or another
/// program changes it, it fails in a way that passes.
pub(crate) fn migrate(
    location: &Location,
    backend: &mut dyn Backend,
    steps: &[&str],
) -> Result<()> {
    if version(location, backend, steps)? == steps.len() {
        return Ok(());
    }
    if !backend.lock()? {
        // Perhaps another program that brings it to the newest version: that is soon done.
        let how = backend.how_to_free();
        let serving = Error::Serving { place: location.to_string(), how };
        return Err(Error::failed(Failure::Busy, serving));
    }
    let done = climb(location, backend, steps);
    backend.unlock()?;
    done
}

/// All missing steps, while nobody else makes one.
fn climb(location: &Location, backend: &mut dyn Backend, steps: &[&str]) -> Result<()> {
    let old = version(location, backend, steps)?;
    for at in old..steps.len() {
        // A new catalog holds nothing that could be lost.
        if old > 0 {
            backend.copy(at as u32, COPIES)?;
        }
        // The first step makes the table by which changes wait for each other.
        backend.begin(at > 0)?;
        let done = step(backend, steps, at).and_then(|()| backend.commit());
        done.inspect_err(|_| backend.rollback())?;
    }
    Ok(())
}

/// Makes all tables in an empty database, in the transaction that is open.
pub(crate) fn create(backend: &mut dyn Backend) -> Result<()> {
    (0..STEPS.len()).try_for_each(|at| step(backend, STEPS, at))
}

fn step(backend: &mut dyn Backend, steps: &[&str], at: usize) -> Result<()> {
    let types = backend.types().iter();
    let text =
        types.fold(steps[at].to_owned(), |text, (placeholder, of)| text.replace(placeholder, of));
    backend.batch(&text)?;
    let sql = Sql::on(backend);
    if at == 0 {
        settings::set(&sql, settings::ID, &settings::new_id()?)?;
    }
    settings::set(&sql, settings::VERSION, &(at + 1).to_string())
}

/// The number of steps that were made.
fn version(location: &Location, backend: &mut dyn Backend, steps: &[&str]) -> Result<usize> {
    let foreign = |why: &str| Error::Foreign { place: location.to_string(), why: why.to_owned() };
    let tables = backend.tables()?;
    if tables.is_empty() {
        return Ok(0);
    }
    if !tables.iter().any(|table| table == "settings") {
        return Err(foreign("it has other tables"));
    }
    let stored = settings::get(&Sql::on(backend), settings::VERSION)?;
    let found = stored.and_then(|text| text.parse().ok());
    let found: usize = found.ok_or_else(|| foreign("its version is not known"))?;
    if found > steps.len() {
        return Err(Error::Newer { found: found as u32, known: steps.len() as u32 });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
