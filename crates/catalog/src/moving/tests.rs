//! From each database to the other, and moves that are interrupted or go to the wrong place.

use super::*;
use crate::objects::ObjectChange;
use crate::testing::{BY, On, on_both, run};
use crate::tests::{begin, fill};
use api::domains::Grant;
use api::limits::Limit;

const fn other(on: On) -> On {
    match on {
        On::Sqlite => On::Postgres,
        On::Postgres => On::Sqlite,
    }
}

/// A catalog with rows in many tables, and a number that was given to a row that is gone.
fn full(on: On) -> (tempfile::TempDir, Location) {
    let (folder, catalog) = on.catalog();
    fill(&catalog);
    let [web, db] = ["web", "db"].map(|name| name.parse().unwrap());
    catalog.add_grant(BY, &Grant { node: web, domain: db, until: None }).unwrap();
    let limit: Limit = serde_json::from_str(r#"{"up": 5, "down": 6}"#).unwrap();
    catalog.add_limit(BY, &limit).unwrap();
    let policy =
        |name| ObjectChange::put("policy", name, serde_json::json!({"paths": ["/\u{e9}"]}));
    catalog.change_objects(BY, 0, &["b", "a"].map(policy)).unwrap();
    (0..450).for_each(|begun| assert!(begin(&catalog, "w\u{e9}b", begun) > 0));
    run(&catalog, "DELETE FROM jobs WHERE id = 450");
    (folder, catalog.location().clone())
}

/// All rows of all tables but those that a move adds.
fn rows(catalog: &Catalog) -> Vec<Vec<Row>> {
    let all = |table: &Table| {
        let marks = match table.name {
            "settings" => " WHERE key NOT IN ('moved-to', 'copied')",
            "audit" => " WHERE action <> 'catalog.move'",
            _ => "",
        };
        catalog.look(|look| {
            let columns = look.backend(|backend| backend.columns(table.name))?.join(", ");
            let select =
                format!("SELECT {columns} FROM {}{marks} ORDER BY {}", table.name, table.key);
            look.rows(&select, &[], |row| Ok(row.clone()))
        })
    };
    TABLES.iter().map(|table| all(table).unwrap()).collect()
}

fn all_moves_and_goes_on_there(on: On) {
    let (_from_folder, from) = full(on);
    let (_to_folder, to) = other(on).location();
    let before = rows(&Catalog::open(&from).unwrap());
    let moved = Catalog::move_to(&from, &to, BY).unwrap();
    assert!(moved.rows.contains(&("jobs", 449)), "{moved:?}");
    assert!(moved.rows.contains(&("objects", 2)), "{moved:?}");
    let catalog = Catalog::open(&to).unwrap();
    assert_eq!(rows(&catalog), before);
    assert_eq!(catalog.audit_verify().unwrap().broken_at, None);
    assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].action, "catalog.move");
    assert_eq!(begin(&catalog, "web", 1), 451, "a number is never given again");
    assert!(catalog.serve().is_ok());
}

fn a_catalog_that_was_moved_says_where_it_is(on: On) {
    let (_from_folder, from) = full(on);
    let (_to_folder, to) = other(on).location();
    Catalog::move_to(&from, &to, BY).unwrap();
    let refused = Catalog::open(&from).err().unwrap();
    assert!(refused.to_string().contains(&to.to_string()), "{refused}");
    let again = Catalog::move_to(&from, &to, BY).unwrap();
    assert!(again.rows.is_empty(), "it is there");
    let (_else_folder, elsewhere) = on.location();
    assert!(matches!(Catalog::move_to(&from, &elsewhere, BY), Err(Error::Moved { .. })));
}

fn it_moves_back_and_is_the_same(on: On) {
    let (_from_folder, from) = full(on);
    let (_to_folder, to) = other(on).location();
    let (_back_folder, back) = on.location();
    let before = rows(&Catalog::open(&from).unwrap());
    Catalog::move_to(&from, &to, BY).unwrap();
    Catalog::move_to(&to, &back, BY).unwrap();
    let catalog = Catalog::open(&back).unwrap();
    assert_eq!(rows(&catalog), before);
    assert_eq!(catalog.audit_verify().unwrap().broken_at, None);
}

/// The target is committed, and the old catalog does not know it yet.
fn a_move_that_was_interrupted_is_completed(on: On) {
    let (_from_folder, from) = full(on);
    let (_to_folder, to) = other(on).location();
    let source = Catalog::open(&from).unwrap();
    source.look(|look| copy_for_test(look, &to, &from)).unwrap();
    drop(source);
    let moved = Catalog::move_to(&from, &to, BY).unwrap();
    assert!(moved.rows.is_empty());
    assert!(matches!(Catalog::open(&from), Err(Error::Moved { .. })));
    assert!(Catalog::open(&to).is_ok());
}

fn copy_for_test(look: &Sql<'_>, to: &Location, from: &Location) -> Result<()> {
    let mut target = connect(to, Purpose::Write)?;
    copy(look, &mut *target, to, (from, BY)).map(drop)
}

fn an_old_copy_is_not_taken_for_the_catalog(on: On) {
    let (_from_folder, from) = full(on);
    let (_to_folder, to) = other(on).location();
    let source = Catalog::open(&from).unwrap();
    source.look(|look| copy_for_test(look, &to, &from)).unwrap();
    source.audit_note(BY, "test", "later", "").unwrap();
    drop(source);
    assert!(matches!(Catalog::move_to(&from, &to, BY), Err(Error::Target { .. })));
    assert!(Catalog::open(&from).is_ok(), "nothing was changed");
}

fn nothing_moves_into_another_catalog_or_under_a_server(on: On) {
    let (_from_folder, from) = full(on);
    let (_to_folder, taken) = other(on).catalog();
    let to = taken.location();
    assert!(matches!(Catalog::move_to(&from, to, BY), Err(Error::Target { .. })));
    assert!(taken.audit_entries(None, 1).unwrap().is_empty());
    let server = Catalog::open(&from).unwrap();
    server.serve().unwrap();
    let (_free_folder, free) = other(on).location();
    assert!(matches!(Catalog::move_to(&from, &free, BY), Err(Error::Serving { .. })));
    server.audit_note(BY, "test", "it works on", "").unwrap();
}

/// "Empty this one" would be the end of the catalog.
fn a_catalog_is_not_moved_to_where_it_lies(on: On) {
    let (_folder, place) = full(on);
    let before = rows(&Catalog::open(&place).unwrap());
    let refused = Catalog::move_to(&place, &place, BY).unwrap_err();
    assert!(matches!(refused, Error::Target { .. }), "{refused}");
    let refused = refused.to_string();
    assert!(refused.contains("lies there already") && !refused.contains("empty"), "{refused}");
    let catalog = Catalog::open(&place).unwrap();
    assert_eq!(rows(&catalog), before);
}

/// A new and empty catalog in its place would let nobody in, and nobody would know why.
#[test]
fn a_file_that_somebody_named_is_made_by_a_move_only() {
    let folder = tempfile::tempdir().unwrap();
    let default = Location::file(folder.path().join("catalog.sqlite"));
    drop(Catalog::open(&default).unwrap());
    let named = Location::parse("named.sqlite", folder.path()).unwrap();
    let path = folder.path().join("named.sqlite");
    let refused = Catalog::open(&named).err().unwrap().to_string();
    assert!(refused.contains("named.sqlite") && refused.contains("does not exist"), "{refused}");
    assert!(Catalog::move_to(&named, &default, BY).is_err());
    assert!(!path.exists());
    Catalog::move_to(&default, &named, BY).unwrap();
    drop(Catalog::open(&named).unwrap());
}

/// What was written is read again, and compared with what was read.
fn a_table_that_would_differ_ends_the_move(on: On) {
    let (_from_folder, from) = full(on);
    let (_to_folder, to) = other(on).location();
    let source = Catalog::open(&from).unwrap();
    let limits = TABLES.iter().find(|table| table.name == "limits").unwrap();
    let filled = source.look_long(|look| {
        let mut target = connect(&to, Purpose::Write)?;
        target.begin(false)?;
        schema::create(&mut *target)?;
        target.execute("INSERT INTO limits (id, rule) VALUES (77, '{}')", &[])?;
        fill_table(look, &mut *target, (limits, &to))
    });
    assert!(matches!(filled, Err(Error::Target { .. })), "{filled:?}");
}

on_both![
    all_moves_and_goes_on_there,
    a_catalog_that_was_moved_says_where_it_is,
    it_moves_back_and_is_the_same,
    a_move_that_was_interrupted_is_completed,
    an_old_copy_is_not_taken_for_the_catalog,
    nothing_moves_into_another_catalog_or_under_a_server,
    a_catalog_is_not_moved_to_where_it_lies,
    a_table_that_would_differ_ends_the_move,
];
