//! What an administrator declares: units, policies, retentions and the like, each as one JSON body. What they mean,
//! the catalog does not know.
//!
//! All objects together are the site. Each change of it, of one object or many, has a number, the version of the
//! site; the version of an object is that of the change that wrote it. Whoever changes something says on which version
//! that is based: an object that is good by itself may not fit what somebody else changed meanwhile.

use crate::audit::note;
use crate::error::found;
use crate::sql::{Json, Row, Sql, values};
use crate::{By, Catalog, Error, Result, settings};
use serde_json::Value;

/// An object as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its kind, such as `policy`.
    pub kind: String,
    /// Its name, of which there is one in each kind.
    pub name: String,
    /// The version of the site that wrote it.
    pub version: u64,
    /// When that was, in seconds since 1970.
    pub changed: i64,
    /// What was declared.
    pub body: Value,
}

/// All objects at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// How often they were changed: 0 where nobody ever declared anything.
    pub version: u64,
    /// By kind and name.
    pub objects: Vec<Object>,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What it is from now on; `None` removes it.
    pub body: Option<Value>,
    /// For the audit log: what differs.
    pub detail: String,
}

impl ObjectChange {
    /// Creates or replaces an object.
    pub fn put(kind: impl Into<String>, name: impl Into<String>, body: Value) -> Self {
        Self { kind: kind.into(), name: name.into(), body: Some(body), detail: String::new() }
    }

    /// Removes an object.
    pub fn remove(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into(), body: None, detail: String::new() }
    }

    /// Adds what differs, for the audit log.
    #[must_use]
    pub fn with_detail(self, detail: String) -> Self {
        Self { detail, ..self }
    }

    /// How the object is called where people read it.
    fn subject(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

impl Catalog {
    /// The version of the site.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn site_version(&self) -> Result<u64> {
        self.look(site_version)
    }

    /// All objects, with the version of the site that they are.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn objects(&self) -> Result<Objects> {
        // The version is read with the rows: a second statement might see a later one.
        let select = "SELECT kind, name, objects.version, changed, body, value FROM settings
             LEFT JOIN objects ON 1 = 1 WHERE key = $1 ORDER BY kind, name";
        self.look_long(|look| {
            let mut all = Objects::default();
            look.each(select, values![settings::SITE_VERSION], |row| {
                all.version = number(&row.get::<String>(5)?)?;
                if row.get::<Option<String>>(0)?.is_some() {
                    all.objects.push(object(row)?);
                }
                Ok(())
            })?;
            Ok(all)
        })
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn objects_of(&self, kind: &str) -> Result<Vec<Object>> {
        let select = "SELECT kind, name, version, changed, body FROM objects
             WHERE kind = $1 ORDER BY name";
        self.look(|look| look.rows(select, values![kind], object))
    }

    /// One object, if it exists.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn object(&self, kind: &str, name: &str) -> Result<Option<Object>> {
        let select = "SELECT kind, name, version, changed, body FROM objects
             WHERE kind = $1 AND name = $2";
        self.look(|look| look.row(select, values![kind, name], object))
    }

    /// Makes all `changes`, or none, of the site of version `expected`. Returns its next version.
    ///
    /// # Errors
    /// [`Error::ChangedSince`] when the site has another version; [`Error::Missing`] for an object to remove that does
    /// not exist; [`Error::Database`].
    pub fn change_objects(
        &self,
        by: By<'_>,
        expected: u64,
        changes: &[ObjectChange],
    ) -> Result<u64> {
        self.change(|change| {
            let found = site_version(change)?;
            if found != expected {
                return Err(Error::ChangedSince { expected, found });
            }
            let version = expected + 1;
            settings::set(change, settings::SITE_VERSION, &version.to_string())?;
            changes.iter().try_for_each(|one| make(change, by, version, one))?;
            Ok(version)
        })
    }
}

fn make(change: &Sql<'_>, by: By<'_>, version: u64, one: &ObjectChange) -> Result<()> {
    let subject = one.subject();
    let Some(body) = &one.body else {
        let delete = "DELETE FROM objects WHERE kind = $1 AND name = $2";
        found(change.execute(delete, values![one.kind, one.name])?, "object", &subject)?;
        return note(change, by, "object.remove", &subject, &one.detail);
    };
    let put = values![one.kind, one.name, version, by.now_secs, Json(body)];
    let update = "UPDATE objects SET version = $3, changed = $4, body = $5
         WHERE kind = $1 AND name = $2";
    if change.execute(update, put)? > 0 {
        return note(change, by, "object.change", &subject, &one.detail);
    }
    let insert = "INSERT INTO objects (kind, name, version, changed, body)
         VALUES ($1, $2, $3, $4, $5)";
    change.execute(insert, put)?;
    note(change, by, "object.create", &subject, &one.detail)
}

fn object(row: &Row) -> Result<Object> {
    Ok(Object {
        kind: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        changed: row.get(3)?,
        body: row.get::<Json<Value>>(4)?.0,
    })
}

fn site_version(look: &Sql<'_>) -> Result<u64> {
    settings::get(look, settings::SITE_VERSION)?.map_or(Ok(0), |text| number(&text))
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::database("the version of the site is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BY, On, on_both, run};
    use serde_json::json;

    fn put(kind: &str, name: &str, at: u32) -> ObjectChange {
        ObjectChange::put(kind, name, json!({ "at": at }))
    }

    fn names(catalog: &Catalog) -> Vec<(String, u64)> {
        let objects = catalog.objects().unwrap().objects;
        objects.into_iter().map(|it| (format!("{} {}", it.kind, it.name), it.version)).collect()
    }

    fn actions(catalog: &Catalog) -> Vec<(String, String)> {
        let entries = catalog.audit_entries(None, 9).unwrap();
        entries.into_iter().rev().map(|entry| (entry.action, entry.subject)).collect()
    }

    fn pair(action: &str, subject: &str) -> (String, String) {
        (action.to_owned(), subject.to_owned())
    }

    fn each_change_is_a_version_with_its_entries(on: On) {
        let (_folder, catalog) = on.catalog();
        assert_eq!(catalog.objects().unwrap(), Objects::default());
        let first = [put("unit", "a", 1), put("policy", "a", 2).with_detail("new".into())];
        assert_eq!(catalog.change_objects(BY, 0, &first).unwrap(), 1);
        assert_eq!(catalog.change_objects(BY, 1, &[put("unit", "a", 3)]).unwrap(), 2);
        let found = catalog.object("unit", "a").unwrap().unwrap();
        assert_eq!((found.version, found.changed), (2, BY.now_secs));
        assert_eq!(found.body, json!({"at": 3}));
        assert_eq!(names(&catalog), [("policy a".to_owned(), 1), ("unit a".to_owned(), 2)]);
        let remove = ObjectChange::remove("policy", "a");
        assert_eq!(catalog.change_objects(BY, 2, &[remove]).unwrap(), 3);
        assert_eq!(catalog.object("policy", "a").unwrap(), None);
        let expected = [
            pair("object.create", "unit a"),
            pair("object.create", "policy a"),
            pair("object.change", "unit a"),
            pair("object.remove", "policy a"),
        ];
        assert_eq!(actions(&catalog), expected);
        assert_eq!(catalog.audit_entries(Some(3), 1).unwrap()[0].detail, "new");
        assert_eq!(catalog.audit_verify().unwrap().broken_at, None);
    }

    fn the_second_of_two_writers_is_told_and_changes_nothing(on: On) {
        let (_folder, catalog) = on.catalog();
        let other = Catalog::open(catalog.location()).unwrap();
        catalog.change_objects(BY, 0, &[put("unit", "a", 1)]).unwrap();
        let seen = [catalog.objects().unwrap().version, other.objects().unwrap().version];
        assert_eq!(seen, [1, 1]);
        other.change_objects(BY, 1, &[put("unit", "b", 2)]).unwrap();
        let refused = catalog.change_objects(BY, 1, &[put("unit", "a", 3)]).unwrap_err();
        assert!(matches!(refused, Error::ChangedSince { expected: 1, found: 2 }), "{refused}");
        assert!(refused.to_string().contains("changed since"), "{refused}");
        assert_eq!(catalog.object("unit", "a").unwrap().unwrap().body, json!({"at": 1}));
        assert_eq!(actions(&catalog).len(), 2);
    }

    /// All at once: each version is one change, and none is lost.
    fn of_writers_at_the_same_time_one_wins_each_version(on: On) {
        let (_folder, catalog) = on.catalog();
        std::thread::scope(|scope| {
            for writer in 0..4_u32 {
                let location = catalog.location();
                scope.spawn(move || {
                    let catalog = Catalog::open(location).unwrap();
                    for at in 0..5 {
                        let change = [put("unit", &format!("of-{writer}-{at}"), at)];
                        loop {
                            let version = catalog.site_version().unwrap();
                            match catalog.change_objects(BY, version, &change) {
                                Err(Error::ChangedSince { .. }) => {}
                                done => break done.map(drop).unwrap(),
                            }
                        }
                    }
                });
            }
        });
        let mut versions: Vec<_> =
            names(&catalog).into_iter().map(|(_, version)| version).collect();
        versions.sort_unstable();
        assert_eq!(versions, (1..=20).collect::<Vec<_>>());
        assert_eq!(catalog.site_version().unwrap(), 20);
    }

    fn a_change_that_fails_undoes_all_of_them(on: On) {
        let (_folder, catalog) = on.catalog();
        let changes = [put("unit", "a", 1), ObjectChange::remove("unit", "b")];
        let refused = catalog.change_objects(BY, 0, &changes).unwrap_err();
        assert_eq!(refused.to_string(), "there is no object 'unit b'");
        assert_eq!(catalog.objects().unwrap(), Objects::default());
        assert!(actions(&catalog).is_empty());
    }

    fn a_version_is_never_given_again(on: On) {
        let (_folder, catalog) = on.catalog();
        catalog.change_objects(BY, 0, &[put("unit", "a", 1)]).unwrap();
        catalog.change_objects(BY, 1, &[ObjectChange::remove("unit", "a")]).unwrap();
        assert_eq!(catalog.objects().unwrap(), Objects { version: 2, objects: vec![] });
        catalog.change_objects(BY, 2, &[put("unit", "a", 1)]).unwrap();
        assert_eq!(catalog.object("unit", "a").unwrap().unwrap().version, 3);
    }

    fn a_body_that_is_damaged_is_an_error_and_not_another_body(on: On) {
        let (_folder, catalog) = on.catalog();
        catalog.change_objects(BY, 0, &[put("unit", "a", 1)]).unwrap();
        run(&catalog, "UPDATE objects SET body = '{\"at\": '");
        assert!(matches!(catalog.objects(), Err(Error::Database { .. })));
        run(&catalog, "UPDATE settings SET value = 'x' WHERE key = 'site-version'");
        assert!(matches!(catalog.site_version(), Err(Error::Database { .. })));
    }

    on_both![
        each_change_is_a_version_with_its_entries,
        the_second_of_two_writers_is_told_and_changes_nothing,
        of_writers_at_the_same_time_one_wins_each_version,
        a_change_that_fails_undoes_all_of_them,
        a_version_is_never_given_again,
        a_body_that_is_damaged_is_an_error_and_not_another_body,
    ];
}
