//! Objects one by one.

use crate::{BodyError, Compression, Kind, MAIN_SOURCE, Policy, Site};
use serde_json::{Value, json};

fn set(kind: Kind, body: Value) -> Result<Value, BodyError> {
    let mut site = Site::default();
    site.set(kind, "x", &body)?;
    Ok(site.body(kind, "x").unwrap())
}

#[test]
fn a_body_that_is_set_is_the_body_that_is_shown() {
    let bodies = [
        (Kind::Unit, json!({"max_jobs": 2, "domains": ["a"]})),
        (Kind::Group, json!({"nodes": ["a"], "labels": {"role": "db"}, "groups": ["y"]})),
        (
            Kind::Node,
            json!({"labels": {"role": "db"}, "paused": {"until": "2026-12-31", "reason": "moves"}}),
        ),
        (Kind::Hold, json!({"node": "a", "until": "2026-12-31T00:00:00Z", "reason": "court"})),
        (Kind::Upkeep, json!({"tasks": ["check"], "sample": "5%", "max_waste": "5%"})),
        (Kind::Quota, json!({"bytes": "2T", "domains": ["a"], "groups": ["g"]})),
        (
            Kind::Retention,
            json!({"zone": "UTC", "class": {"standard": {"keep_last": 3, "trash": "7 days"}}}),
        ),
    ];
    for (kind, body) in bodies {
        assert_eq!(set(kind, body.clone()).unwrap(), body);
    }
    let policy = json!({
        "type": "files", "priority": 50, "compression": "auto", "change_detection": "standard",
        "options": {"threads": {"value": 4, "force": true}},
    });
    assert_eq!(set(Kind::Policy, policy.clone()).unwrap(), policy);
    assert_eq!(
        set(Kind::Policy, json!({"options": {"threads": {"value": 4, "force": true}}})).unwrap(),
        policy
    );
}

#[test]
fn a_level_is_a_number_or_auto() {
    let level = |value: Value| {
        set(Kind::Policy, json!({"compression": value})).map(|body| body["compression"].clone())
    };
    assert_eq!(level(json!(-7)).unwrap(), json!(-7));
    assert_eq!(level(json!("auto")).unwrap(), json!("auto"));
    assert!(level(json!("fast")).is_err() && level(json!(true)).is_err());
    assert_eq!(Policy::default().compression, Compression::Auto);
}

#[test]
fn unknown_keys_and_names_that_cannot_be_are_refused() {
    for kind in Kind::ALL {
        let error = set(kind, json!({"reason": "r", "shade": 1})).unwrap_err().to_string();
        assert!(error.contains("unknown field"), "{kind}: {error}");
    }
    let error = Site::default().set(Kind::Unit, "A", &json!({})).unwrap_err();
    assert!(matches!(error, BodyError::Name(_)));
}

#[test]
fn sources_have_names_and_all_that_they_leave_out() {
    let mut site = Site::default();
    let body = json!({"paths": ["/etc"], "excludes": ["*.tmp"],
        "source": {"home": {"paths": ["/home"], "excludes": ["cache"]}}});
    site.set(Kind::Policy, "x", &body).unwrap();
    let sources = site.policies["x"].sources();
    let names: Vec<_> = sources.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [MAIN_SOURCE, "home"]);
    assert_eq!(sources[1].1.excludes, ["*.tmp", "cache"]);
    assert!(site.remove(Kind::Policy, "x") && !site.remove(Kind::Policy, "x"));
    assert!(site.is_empty());
}
