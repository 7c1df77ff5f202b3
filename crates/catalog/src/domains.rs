//! Dedup domains.

use crate::audit::note;
use crate::error::found;
use crate::sql::{Row, Word, values};
use crate::{By, Catalog, Error, Result};
use api::Name;
use api::domains::{Dedup, Settings};
use api::enroll::KeyMode;

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: Name,
    /// Who knows its keys.
    pub keys: KeyMode,
    /// Id of its repository, hex; `None` while there is none.
    pub repository: Option<String>,
    /// The secret of the server's key slot, sealed; for managed domains.
    pub sealed: Option<Vec<u8>>,
    /// When it was created.
    pub made: i64,
    /// The storage server that stores it; `None` for the control server.
    pub storage: Option<Name>,
    /// The pool of this server in which it lies; `None` for the first one.
    pub pool: Option<Name>,
    /// Settings of its repository.
    pub settings: Settings,
}

const COLUMNS: &str = "name, keys, repository, sealed, made, storage, privacy, parity, pool, dedup";

fn domain(row: &Row) -> Result<Domain> {
    Ok(Domain {
        name: row.get::<Word<_>>(0)?.0,
        keys: row.get::<Word<_>>(1)?.0,
        repository: row.get(2)?,
        sealed: row.get(3)?,
        made: row.get(4)?,
        storage: row.get::<Option<Word<_>>>(5)?.map(|word| word.0),
        settings: Settings {
            privacy: row.get::<Word<_>>(6)?.0,
            parity_percent: row.get(7)?,
            dedup: row.get::<Word<_>>(9)?.0,
        },
        pool: row.get::<Option<Word<_>>>(8)?.map(|word| word.0),
    })
}

impl Catalog {
    /// All domains, by name.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn domains(&self) -> Result<Vec<Domain>> {
        self.look_long(|look| {
            look.rows(&format!("SELECT {COLUMNS} FROM domains ORDER BY name"), &[], domain)
        })
    }

    /// One domain, if it exists.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn domain(&self, name: &Name) -> Result<Option<Domain>> {
        self.look(|look| {
            let select = format!("SELECT {COLUMNS} FROM domains WHERE name = $1");
            look.row(&select, values![Word(name)], domain)
        })
    }

    /// Adds a domain. Its folder is its name.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Database`].
    pub fn add_domain(&self, by: By<'_>, new: &Domain) -> Result<()> {
        self.change(|change| {
            let added = change.execute(
                "INSERT INTO domains
                 (name, keys, folder, repository, sealed, made, storage, privacy, parity, pool, dedup)
                 VALUES ($1, $2, $1, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
                values![
                    Word(&new.name),
                    Word(new.keys),
                    &new.repository,
                    &new.sealed,
                    new.made,
                    new.storage.as_ref().map(Word),
                    Word(new.settings.privacy),
                    new.settings.parity_percent,
                    new.pool.as_ref().map(Word),
                    Word(new.settings.dedup),
                ],
            )?;
            if added == 0 {
                return Err(Error::Exists { what: "domain", name: new.name.to_string() });
            }
            let place = new.storage.as_ref().map(|storage| format!(", on {storage}"));
            let (keys, Settings { privacy, parity_percent, dedup }) = (new.keys, new.settings);
            let parity = match parity_percent {
                0 => String::new(),
                percent => format!(", {percent} % parity"),
            };
            let dedup = if dedup == Dedup::Off { ", no deduplication" } else { "" };
            let pool = new.pool.as_ref().map(|pool| format!(", in the pool {pool}"));
            let place = place.or(pool).unwrap_or_default();
            let detail = format!("{keys:?} keys, {privacy} privacy{parity}{dedup}{place}");
            note(change, by, "domain.add", new.name.as_str(), &detail)
        })
    }

    /// Removes a domain that no node has: what is known of it and of its snapshots, and grants. Jobs stay in the
    /// history.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Database`], also when a node has it.
    pub fn remove_domain(&self, by: By<'_>, name: &Name) -> Result<()> {
        self.change(|change| {
            for table in [
                "grants",
                "granted_keys",
                "old_keys",
                "removed_keys",
                "snapshots",
                "domain_upkeep",
                "upkeep_states",
            ] {
                let remove = format!("DELETE FROM {table} WHERE domain = $1");
                change.execute(&remove, values![Word(name)])?;
            }
            let remove = "DELETE FROM domains WHERE name = $1";
            found(change.execute(remove, values![Word(name)])?, "domain", name)?;
            note(change, by, "domain.remove", name.as_str(), "")
        })
    }

    /// Records that a domain lies in the pool `to` from now on; `None` is the first one.
    ///
    /// # Errors
    /// [`Error::Missing`] if it did not lie in `from`, [`Error::Database`].
    pub fn move_domain(
        &self,
        by: By<'_>,
        name: &Name,
        from: Option<&Name>,
        to: Option<&Name>,
    ) -> Result<()> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE domains SET pool = $3
                 WHERE name = $1 AND COALESCE(pool, '') = $2 AND storage IS NULL",
                values![Word(name), from.map_or("", Name::as_str), to.map(Word)],
            )?;
            found(rows, "domain", name)?;
            let named = |pool: Option<&Name>| pool.map_or("main", Name::as_str).to_owned();
            let detail = format!("from {} to {}", named(from), named(to));
            note(change, by, "domain.move", name.as_str(), &detail)
        })
    }

    /// Records that a domain that lay where `before` says lies where `after` says from now on.
    ///
    /// # Errors
    /// [`Error::Missing`] if it does not lie there any more, [`Error::Database`].
    pub fn place_domain(&self, by: By<'_>, before: &Domain, after: &Domain) -> Result<()> {
        let text = |name: &Option<Name>| name.as_ref().map_or("", Name::as_str).to_owned();
        let place = |domain: &Domain| match (&domain.storage, &domain.pool) {
            (Some(storage), _) => storage.to_string(),
            (None, pool) => pool.as_ref().map_or("main", Name::as_str).to_owned(),
        };
        self.change(|change| {
            let rows = change.execute(
                "UPDATE domains SET storage = $4, pool = $5
                 WHERE name = $1 AND COALESCE(storage, '') = $2 AND COALESCE(pool, '') = $3",
                values![
                    Word(&before.name),
                    text(&before.storage),
                    text(&before.pool),
                    after.storage.as_ref().map(Word),
                    after.pool.as_ref().map(Word),
                ],
            )?;
            found(rows, "domain", &before.name)?;
            let detail = format!("from {} to {}", place(before), place(after));
            note(change, by, "domain.place", before.name.as_str(), &detail)
        })
    }

    /// Records the repository of a domain, and the sealed secret of a managed one.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Database`].
    pub fn set_domain_repository(
        &self,
        name: &Name,
        repository: &str,
        sealed: Option<&Vec<u8>>,
    ) -> Result<()> {
        self.change(|change| {
            let rows = change.execute(
                "UPDATE domains SET repository = $2, sealed = $3 WHERE name = $1",
                values![Word(name), repository, sealed],
            )?;
            found(rows, "domain", name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BY, On, on_both};
    use api::domains::Privacy;

    fn a_domain_is_read_back_and_none_takes_its_name(on: On) {
        let (_folder, catalog) = on.catalog();
        let name: Name = "web".parse().unwrap();
        let (keys, sealed) = (KeyMode::Managed, Some(vec![1, 2]));
        let settings =
            Settings { privacy: Privacy::Hardened, parity_percent: 3, dedup: Dedup::Off };
        let (repository, storage, name_too) = (None, None, name.clone());
        let new = Domain {
            name: name_too,
            keys,
            repository,
            sealed,
            made: 5,
            storage,
            pool: Some("fast".parse().unwrap()),
            settings,
        };
        catalog.add_domain(BY, &new).unwrap();
        assert!(matches!(catalog.add_domain(BY, &new), Err(Error::Exists { .. })));
        catalog.set_domain_repository(&name, "ab", Some(&vec![3])).unwrap();
        let (repository, sealed) = (Some("ab".into()), Some(vec![3]));
        let stored = Domain { repository, sealed, ..new.clone() };
        assert_eq!(catalog.domain(&name).unwrap(), Some(stored.clone()));
        assert_eq!(catalog.domains().unwrap(), [stored]);
        assert_eq!(catalog.audit_verify().unwrap().total, 1, "what failed left no entry");
        let [fast, slow] = ["fast", "slow"].map(|pool| Some(pool.parse::<Name>().unwrap()));
        let to = |from: &Option<Name>, to: &Option<Name>| {
            catalog.move_domain(BY, &name, from.as_ref(), to.as_ref())
        };
        assert!(matches!(to(&None, &slow), Err(Error::Missing { .. })), "it does not lie there");
        to(&fast, &slow).unwrap();
        assert_eq!(catalog.domain(&name).unwrap().unwrap().pool, slow);
        to(&slow, &None).unwrap();
        assert_eq!(catalog.domain(&name).unwrap().unwrap().pool, None);
        assert_eq!(catalog.audit_verify().unwrap().total, 3, "what failed left no entry");
        catalog.remove_domain(BY, &name).unwrap();
        assert_eq!(catalog.domain(&name).unwrap(), None);
        assert!(matches!(catalog.remove_domain(BY, &name), Err(Error::Missing { .. })));
        assert_eq!(catalog.audit_verify().unwrap().total, 4, "what failed left no entry");
        catalog.add_domain(BY, &new).unwrap();
    }

    on_both![a_domain_is_read_back_and_none_takes_its_name,];
}
