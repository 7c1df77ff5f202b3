//! What an administrator declares: a file that is applied and exported, and objects one by one.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran};
use access::{Admin, blocking};
use api::sites::{PutObject, SiteChange};
use serde_json::{Value, json};

const SITE: &str = r#"# The servers of the shop
[unit.fast]
max_jobs = 8

[retention.standard.class.standard]
keep_daily = 14

[schedule.nightly]
at = "22:00"
zone = "Europe/Berlin"

[node.web]
labels = { role = "web" }

[group.web]
labels = { role = "web" }

[policy.web]
groups = ["web"]
paths = ["/etc", "/srv"]
unit = "fast"
schedules = ["nightly"]
retention = "standard"
promise = "26 hours"

[hold.case-17]
node = "web"
reason = "lawsuit 17"
"#;

/// A server with the node `web`.
fn with_node(machine: &Machine) -> crate::administration::Running {
    let server = start(machine);
    let [url, token] = token(machine, &["web"]);
    agent(machine, "agent", &["enroll", &url, &token]).ends(0);
    server
}

/// Applies the text.
fn apply(machine: &Machine, text: &str, flags: &[&str]) -> Ran {
    let file = machine.path("site.toml");
    std::fs::write(&file, text).unwrap();
    let words: Vec<_> = ["apply", file.to_str().unwrap()].iter().chain(flags).copied().collect();
    govern(machine, &words)
}

/// `ACTION KIND NAME` of each change.
fn changes(ran: &Ran) -> Vec<String> {
    let summary = ran.last();
    let word = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
    let line = |change: &Value| {
        format!("{} {} {}", word(change, "action"), word(change, "kind"), word(change, "name"))
    };
    summary["changes"].as_array().unwrap().iter().map(line).collect()
}

fn export(machine: &Machine) -> String {
    govern(machine, &["export"]).ends(0).text()
}

#[test]
fn a_file_is_applied_and_its_export_changes_nothing() {
    let machine = Machine::bare();
    let server = with_node(&machine);
    let planned = apply(&machine, SITE, &["--dry-run"]).ends(0).text();
    assert!(planned.contains("create  policy web\n"), "{planned}");
    assert!(planned.contains("Would be: 7 created. Nothing was changed (--dry-run)."), "{planned}");
    assert_eq!(export(&machine), "");
    let done = apply(&machine, SITE, &["--json"]).ends(0);
    let expected = [
        "created unit fast",
        "created retention standard",
        "created schedule nightly",
        "created node web",
        "created group web",
        "created policy web",
        "created hold case-17",
    ];
    assert_eq!(changes(&done), expected);
    assert_eq!(done.last()["version"], 1);
    let exported = export(&machine);
    for text in [SITE, &exported] {
        let again = apply(&machine, text, &[]).ends(0).text();
        assert_eq!(again, "Nothing changes: the site is as declared (version 1).\n");
    }
    drop(server);
    let _server = start(&machine);
    assert_eq!(export(&machine), exported, "a server that was killed knows it still");
    let audit = govern(&machine, &["audit", "--json"]).ends(0).lines();
    let created = audit.iter().filter(|line| line["action"] == "object.create");
    assert_eq!(created.count(), 7);
}

#[test]
fn a_change_shows_old_and_new_values_and_what_goes_is_confirmed() {
    let machine = Machine::bare();
    let _server = with_node(&machine);
    apply(&machine, SITE, &[]).ends(0);
    let other = SITE.replace("max_jobs = 8", "max_jobs = 9").replace("[hold.case-17]", "[hold.b]");
    let refused = apply(&machine, &other, &[]).ends(2);
    assert!(refused.stderr.contains("does not have 1 object of the site"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    let done = apply(&machine, &other, &["--yes"]).ends(0).text();
    assert!(done.contains("change  unit fast\n          max_jobs  8 -> 9\n"), "{done}");
    assert!(done.contains("remove  hold case-17\n"), "{done}");
    assert!(done.contains("1 created, 1 changed, 1 removed; the site has version 2."), "{done}");
}

#[test]
fn mistakes_are_named_with_their_lines_and_change_nothing() {
    let machine = Machine::bare();
    let _server = with_node(&machine);
    let wrong = SITE.replace("max_jobs", "max_job").replace("\"Europe/Berlin\"", "\"Europe/Bonn\"");
    let refused = apply(&machine, &wrong, &[]).ends(2);
    assert!(refused.stderr.contains("line 3: "), "{}", refused.stderr);
    assert!(refused.stderr.contains("max_jobs"), "the fix: {}", refused.stderr);
    let wrong = SITE.replace("\"fast\"", "\"fats\"").replace("node = \"web\"", "node = \"wep\"");
    let refused = apply(&machine, &wrong, &["--json"]).ends(2).last();
    let lines = [0, 1].map(|at| refused["mistakes"][at]["line"].as_u64());
    assert_eq!(lines, [Some(21), Some(27)], "all at once: {refused}");
    let wrong =
        SITE.replace("node = \"web\"", "node = \"wep\"").replace("Europe/Berlin", "Europe/Bonn");
    let refused = apply(&machine, &wrong, &[]).ends(2);
    for place in ["line 10: ", "line 27: "] {
        assert!(refused.stderr.contains(place), "{place} {}", refused.stderr);
    }
    assert_eq!(apply(&machine, &wrong, &["--json"]).ends(2).last()["mistakes"][0]["line"], 10);
    assert_eq!(export(&machine), "");
}

#[test]
fn objects_are_created_changed_and_removed_one_by_one() {
    let machine = Machine::bare();
    let _server = with_node(&machine);
    let run = |words: &[&str]| govern(&machine, words);
    run(&["unit", "create", "fast", "--set", "max_jobs=8"]).ends(0);
    let created = run(&[
        "policy",
        "create",
        "web",
        "--set",
        "paths=[\"/etc\"]",
        "--set",
        "unit=fast",
        "--set",
        "nodes=[\"web\"]",
        "--json",
    ]);
    assert_eq!(changes(&created.ends(0)), ["created policy web"]);
    run(&["node", "create", "web", "--set", "labels.role=web"]).ends(0);
    let listed = run(&["policy", "list", "--json"]).ends(0).lines();
    assert_eq!((&listed[0]["name"], &listed[0]["version"]), (&"web".into(), &2.into()));
    let changed = run(&["policy", "change", "web", "--set", "promise=26 hours"]).ends(0).text();
    assert!(changed.contains("change  policy web\n          promise  26 hours\n"), "{changed}");
    let shown = run(&["policy", "show", "web"]).ends(0).text();
    assert!(shown.contains("[policy.web]") && shown.contains("paths = [\"/etc\"]"), "{shown}");
    let file = machine.path("web.toml");
    std::fs::write(&file, &shown).unwrap();
    let same = run(&["policy", "change", "web", "--from", file.to_str().unwrap()]).ends(0).text();
    assert!(same.starts_with("Nothing changes"), "{same}");
    std::fs::write(&file, "max_jobs = 9\n").unwrap();
    let keys = run(&["unit", "change", "fast", "--from", file.to_str().unwrap()]).ends(0).text();
    assert!(keys.contains("max_jobs  8 -> 9"), "{keys}");
    let refused = run(&["unit", "remove", "fast"]).ends(2);
    assert!(
        refused.stderr.contains("the unit 'fast' is needed by the policy web"),
        "{}",
        refused.stderr
    );
    run(&["policy", "change", "web", "--unset", "unit"]).ends(0);
    let dry = run(&["unit", "remove", "fast", "--dry-run"]).ends(0).text();
    assert!(dry.contains("Would be: 1 removed."), "{dry}");
    run(&["unit", "remove", "fast"]).ends(0);
    let missing = run(&["unit", "show", "fast"]).ends(1);
    assert!(missing.stderr.contains("icecore server unit list"), "{}", missing.stderr);
    let exists = run(&["policy", "create", "web", "--set", "paths=[\"/\"]"]).ends(1);
    assert!(exists.stderr.contains("exists already"), "{}", exists.stderr);
    run(&["policy", "change", "web"]).ends(2);
    run(&["policy", "show", "../web"]).ends(2);
}

/// What a program does that read the object before somebody else changed it.
#[test]
fn the_second_of_two_writers_is_told() {
    let machine = Machine::bare();
    let _server = with_node(&machine);
    govern(&machine, &["unit", "create", "fast", "--set", "max_jobs=8"]).ends(0);
    let admin = Admin { data: Some(machine.path("data")), server: None, ca: None };
    let put = |jobs: u32| {
        let body = json!({ "max_jobs": jobs });
        let new = PutObject { version: Some(1), body, dry_run: false };
        let client = admin.client().unwrap();
        blocking::wait(client.put::<SiteChange>("/objects/unit/fast", &new))
    };
    assert_eq!(put(9).unwrap().version, 2);
    let refused = put(10).unwrap_err().to_string();
    assert_eq!(refused, "the unit 'fast' was changed since: it has version 2 now, not 1");
    let listed = govern(&machine, &["unit", "list", "--json"]).ends(0).lines();
    assert_eq!(listed[0]["body"]["max_jobs"], 9);
}

#[test]
fn labels_that_are_set_replace_those_before_and_a_policy_without_nodes_is_told() {
    let machine = Machine::bare();
    let _server = with_node(&machine);
    let run = |words: &[&str]| govern(&machine, words).ends(0).stderr;
    run(&["node", "create", "web", "--set", "labels.role=web"]);
    let paths = "paths=[\"/etc\"]";
    let said =
        run(&["policy", "create", "lab", "--set", paths, "--set", "labels={place = \"lab\"}"]);
    assert!(said.contains("the policy 'lab' backs up nothing"), "{said}");
    let said = run(&["policy", "change", "lab", "--set", "labels={role = \"web\"}"]);
    assert!(!said.contains("backs up nothing"), "{said}");
    let shown = govern(&machine, &["policy", "show", "lab"]).ends(0).text();
    assert!(shown.contains("role = \"web\"") && !shown.contains("place"), "{shown}");
    let said = run(&["policy", "change", "lab", "--set", "labels.place=lab"]);
    assert!(said.contains("backs up nothing"), "{said}");
}
