//! What is refused, and who is told.

use super::*;
use crate::Control;
use api::sites::ObjectAction;
use serde_json::{Value, json};
use std::sync::Arc;

struct Server {
    _place: tempfile::TempDir,
    control: Arc<Control>,
}

fn server() -> Server {
    let place = tempfile::tempdir().unwrap();
    let control = Control::open(place.path(), &[]).unwrap();
    Server { _place: place, control }
}

impl Server {
    fn put(&self, kind: Kind, name: &str, version: Option<u64>, body: Value) -> Result<SiteChange> {
        self.control.sites.put("admin", (kind, name), &PutObject { version, body, dry_run: false })
    }

    fn apply(&self, text: &str, version: Option<u64>, dry_run: bool) -> Result<SiteChange> {
        let file = ApplySite { text: text.to_owned(), version, dry_run };
        self.control.sites.apply("admin", &file)
    }

    fn export(&self) -> SiteFile {
        self.control.sites.export().unwrap()
    }

    /// The actions of the newest entries of the audit log, newest first.
    fn actions(&self, count: u32) -> Vec<String> {
        let entries = self.control.catalog.audit_entries(None, count).unwrap();
        entries.into_iter().map(|entry| entry.action).collect()
    }
}

const FILE: &str = r#"
[unit.fast]
max_jobs = 8

[group.web]
labels = { role = "web" }

[policy.files]
unit = "fast"
groups = ["web"]
paths = ["/etc"]
"#;

fn mistakes<T: std::fmt::Debug>(result: Result<T>) -> Vec<Mistake> {
    match result {
        Err(Error::Mistakes(mistakes)) => mistakes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_applied_once_and_its_export_changes_nothing() {
    let server = server();
    let planned = server.apply(FILE, None, true).unwrap();
    assert_eq!((planned.version, planned.changes.len()), (0, 3));
    assert!(server.export().text.is_empty(), "a dry run changes nothing");
    let done = server.apply(FILE, Some(0), false).unwrap();
    assert_eq!((done.version, &done.changes), (1, &planned.changes));
    assert_eq!(server.actions(4)[..3], ["object.create"; 3]);
    let export = server.export();
    for text in [FILE, &export.text] {
        let again = server.apply(text, None, false).unwrap();
        assert_eq!((again.version, again.changes.len()), (1, 0));
    }
    assert_eq!(server.export(), export);
    let all = server.control.sites.objects(Kind::Policy).unwrap().objects;
    assert_eq!((all.len(), all[0].version, &all[0].body["unit"]), (1, 1, &json!("fast")));
}

#[test]
fn what_a_file_does_not_have_is_removed() {
    let server = server();
    server.apply(FILE, None, false).unwrap();
    let less = server.apply("[unit.slow]\nmax_jobs = 1\n", None, false).unwrap();
    let actions: Vec<_> = less.changes.iter().map(|it| (it.action, it.name.as_str())).collect();
    let expected = [
        (ObjectAction::Created, "slow"),
        (ObjectAction::Removed, "files"),
        (ObjectAction::Removed, "web"),
        (ObjectAction::Removed, "fast"),
    ];
    assert_eq!(actions, expected);
    assert_eq!(server.actions(4)[..3], ["object.remove"; 3]);
}

#[test]
fn the_second_of_two_writers_is_told() {
    let server = server();
    server.apply(FILE, None, false).unwrap();
    let planned = server.apply("", None, true).unwrap();
    let unit =
        |version, jobs: u32| server.put(Kind::Unit, "fast", version, json!({"max_jobs": jobs}));
    assert_eq!(unit(Some(1), 9).unwrap().version, 2);
    let refused = unit(Some(1), 10).unwrap_err();
    assert!(matches!(refused, Error::ChangedSince { expected: 1, found: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("the unit 'fast' was changed since"), "{refused}");
    let refused = server.apply("", Some(planned.version), false).unwrap_err();
    assert!(matches!(refused, Error::ChangedSince { expected: 1, found: 2, .. }), "{refused}");
    let refused = unit(None, 10).unwrap_err();
    assert!(refused.to_string().contains("exists already"), "{refused}");
    let seen = RemoveObject { version: 2, dry_run: false };
    let other = server.put(Kind::Unit, "other", None, json!({})).unwrap();
    assert_eq!(other.version, 3);
    let policy = server.control.sites.object(Kind::Policy, "files").unwrap();
    assert_eq!(policy.version, 1, "a change of another object is none of this one");
    let seen_policy = RemoveObject { version: 1, dry_run: false };
    server.control.sites.remove("admin", (Kind::Policy, "files"), &seen_policy).unwrap();
    server.control.sites.remove("admin", (Kind::Unit, "fast"), &seen).unwrap();
    let refused = unit(Some(2), 1).unwrap_err();
    assert!(refused.to_string().contains("there is no declared unit 'fast'"), "{refused}");
}

#[test]
fn what_another_object_needs_cannot_be_removed() {
    let server = server();
    server.apply(FILE, None, false).unwrap();
    let seen = RemoveObject { version: 1, dry_run: false };
    let refused = mistakes(server.control.sites.remove("admin", (Kind::Unit, "fast"), &seen));
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].message, "the unit 'fast' is needed by the policy files");
    let fix = refused[0].fix.as_deref().unwrap();
    assert!(fix.ends_with("icecore server policy change files"), "{fix}");
    assert_eq!(server.export().version, 1);
}

#[test]
fn a_mistake_in_a_file_has_its_line_and_what_to_write_instead() {
    let server = server();
    let refused = mistakes(server.apply("[unit.a]\nmax_job = 8\n", None, false));
    assert_eq!(refused[0].line, Some(2));
    assert!(refused[0].fix.as_deref().unwrap().contains("max_jobs"), "{refused:?}");
    let nobody = "[policy.a]\npaths = [\"/etc\"]\nnodes = [\"nobody\"]\n";
    let refused = mistakes(server.apply(nobody, None, false));
    assert_eq!((refused.len(), refused[0].line), (1, Some(3)), "{refused:?}");
    assert!(refused[0].message.contains("'nobody'"), "{refused:?}");
    let body = json!({"max_jobs": "many"});
    assert_eq!(mistakes(server.put(Kind::Unit, "a", None, body)).len(), 1);
    assert_eq!(mistakes(server.put(Kind::Unit, "A", None, json!({}))).len(), 1);
    assert_eq!(server.export().version, 0);
}

/// The node was enrolled when the policy was declared; it is not the fault of who changes something else.
#[test]
fn what_was_wrong_before_is_told_and_keeps_nobody_from_other_changes() {
    let server = server();
    let policy = json!({"paths": ["/etc"], "nodes": ["gone"]});
    let put = catalog::objects::ObjectChange::put("policy", "old", policy.clone());
    server.control.catalog.change_objects(by("test"), 0, &[put]).unwrap();
    let done = server.put(Kind::Unit, "fast", None, json!({})).unwrap();
    assert_eq!((done.version, done.warnings.len()), (2, 1), "{:?}", done.warnings);
    assert!(done.warnings[0].message.contains("'gone'"));
    let export = server.export();
    let again = server.apply(&export.text, None, false).unwrap();
    assert_eq!((again.changes.len(), again.warnings.len()), (0, 1));
    let refused = mistakes(server.put(Kind::Policy, "new", None, policy));
    assert!(refused[0].message.contains("policy new"), "{refused:?}");
    let more = format!("{}\n[policy.new]\npaths = [\"/\"]\nnodes = [\"gone\"]\n", export.text);
    let refused = mistakes(server.apply(&more, None, false));
    assert_eq!(refused.len(), 1, "only the new one: {refused:?}");
    assert!(refused[0].line.is_some() && refused[0].message.contains("policy new"), "{refused:?}");
}

#[test]
fn an_object_of_another_version_of_the_program_is_named_and_not_lost() {
    let server = server();
    let put = |kind, body| catalog::objects::ObjectChange::put(kind, "a", body);
    let catalog = &server.control.catalog;
    catalog.change_objects(by("test"), 0, &[put("unit", json!({"later": 1}))]).unwrap();
    let refused = server.put(Kind::Unit, "b", None, json!({})).unwrap_err();
    assert!(refused.to_string().contains("unit a"), "{refused}");
    catalog
        .change_objects(by("test"), 1, &[put("unit", json!({})), put("tape", json!({}))])
        .unwrap();
    let refused = server.put(Kind::Unit, "b", None, json!({})).unwrap_err();
    assert!(refused.to_string().contains("tape a"), "{refused}");
    assert_eq!(catalog.site_version().unwrap(), 2);
}

/// As two commands beside each other do; the same as another program that uses the catalog.
#[test]
fn changes_of_different_objects_at_once_are_all_made() {
    let server = server();
    let Sites { catalog, pools, snapshots, clock, gate, forgets, .. } = &*server.control.sites;
    let (catalog, pools, snapshots) = (catalog.clone(), pools.clone(), snapshots.clone());
    let (clock, gate, read) = (clock.clone(), gate.clone(), Mutex::default());
    let forgets = forgets.clone();
    let other = Sites { catalog, pools, read, snapshots, clock, gate, forgets };
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let sites = if writer == 0 { &other } else { &*server.control.sites };
            scope.spawn(move || {
                for number in 0..5 {
                    let new = PutObject { version: None, body: json!({}), dry_run: false };
                    let name = format!("u{writer}-{number}");
                    while let Err(error) = sites.put("admin", (Kind::Unit, &name), &new) {
                        let is_late =
                            matches!(error, Error::Catalog(catalog::Error::ChangedSince { .. }));
                        assert!(is_late, "{error}");
                    }
                }
            });
        }
    });
    assert_eq!(server.export().version, 15);
    assert_eq!(server.control.sites.objects(Kind::Unit).unwrap().objects.len(), 15);
}
