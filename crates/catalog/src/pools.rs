//! The pools of a server.

use crate::audit::note;
use crate::sql::{Row, Word, values};
use crate::{By, Catalog, Result};
use api::Name;
use api::pools::PoolState;

/// A pool. The first one of a server is in the catalog once somebody has changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: Name,
    /// Its directory, as the administrator gave it.
    pub path: String,
    /// What it is used for.
    pub state: PoolState,
    /// When it was added.
    pub made: i64,
}

const SELECT: &str = "SELECT name, path, state, made FROM pools";

fn pool(row: &Row) -> Result<Pool> {
    Ok(Pool {
        name: row.get::<Word<_>>(0)?.0,
        path: row.get(1)?,
        state: row.get::<Word<_>>(2)?.0,
        made: row.get(3)?,
    })
}

impl Catalog {
    /// All pools, by name.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn pools(&self) -> Result<Vec<Pool>> {
        self.look(|look| look.rows(&format!("{SELECT} ORDER BY name"), &[], pool))
    }

    /// Adds a pool, or notes that it lies elsewhere now.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn put_pool(&self, by: By<'_>, new: &Pool) -> Result<()> {
        self.change(|change| {
            change.execute(
                "INSERT INTO pools (name, path, state, made) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (name) DO UPDATE SET path = excluded.path",
                values![Word(&new.name), &new.path, Word(new.state), new.made],
            )?;
            note(change, by, "pool.add", new.name.as_str(), &new.path)
        })
    }

    /// Forgets a pool. Domains that lay in it keep its name.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn remove_pool(&self, by: By<'_>, name: &Name, is_lost: bool) -> Result<()> {
        self.change(|change| {
            change.execute("DELETE FROM pools WHERE name = $1", values![Word(name)])?;
            let detail = if is_lost { "it is lost" } else { "" };
            note(change, by, "pool.remove", name.as_str(), detail)
        })
    }

    /// Changes the state of a pool, which is `known` or in the catalog.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn set_pool_state(&self, by: By<'_>, known: &Pool, state: PoolState) -> Result<()> {
        self.change(|change| {
            change.execute(
                "INSERT INTO pools (name, path, state, made) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (name) DO UPDATE SET state = excluded.state",
                values![Word(&known.name), &known.path, Word(state), known.made],
            )?;
            note(change, by, "pool.state", known.name.as_str(), &state.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BY, On, on_both};

    fn a_pool_is_read_back_with_its_state(on: On) {
        let (_folder, catalog) = on.catalog();
        let [fast, main]: [Name; 2] = ["fast", "main"].map(|name| name.parse().unwrap());
        let path = "/mnt/fast".to_owned();
        let new = Pool { name: fast, path, state: PoolState::Online, made: 5 };
        catalog.put_pool(BY, &new).unwrap();
        catalog.set_pool_state(BY, &new, PoolState::Draining).unwrap();
        let moved = Pool { path: "/mnt/other".into(), ..new.clone() };
        catalog.put_pool(BY, &moved).unwrap();
        let first = Pool { name: main, path: "pool".into(), state: PoolState::Online, made: 0 };
        catalog.set_pool_state(BY, &first, PoolState::ReadOnly).unwrap();
        let drained = Pool { state: PoolState::Draining, ..moved };
        assert_eq!(
            catalog.pools().unwrap(),
            [drained, Pool { state: PoolState::ReadOnly, ..first }]
        );
        catalog.remove_pool(BY, &new.name, true).unwrap();
        assert_eq!(catalog.pools().unwrap().len(), 1);
        assert_eq!(catalog.audit_verify().unwrap().total, 5);
    }

    on_both![a_pool_is_read_back_with_its_state,];
}
