//! Files: what is read, what is refused and how, and that nothing is lost between the two.

use jiff::tz::TimeZone;
use site::file::{self, FILE_BYTES_MAX, Mistake};
use site::{Kind, Known, LIST_MAX, OBJECTS_MAX, PROBLEMS_MAX, Plan, Site, TEXT_BYTES_MAX};
use std::collections::BTreeSet;

/// A site in which every key is set.
const FULL: &str = include_str!("full.toml");

fn refused(text: &str) -> Vec<Mistake> {
    file::read(text).unwrap_err()
}

/// The first mistake of a text.
fn first(text: &str) -> (usize, usize, String) {
    let mistake = refused(text).swap_remove(0);
    (mistake.line, mistake.column, format!("{}; {}", mistake.message, mistake.fix))
}

fn zone(name: &str) -> Option<TimeZone> {
    ["UTC", "Europe/Berlin"].contains(&name).then_some(TimeZone::UTC)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_export_is_read_as_the_same_site() {
    let site = file::read(FULL).unwrap();
    assert_eq!(site.len(), 16);
    let text = file::write(&site);
    let again = file::read(&text).unwrap();
    assert_eq!(again, site);
    assert!(Plan::between(&site, &again).is_empty());
    assert_eq!(file::write(&again), text);
    assert_eq!(file::read("").unwrap(), Site::default());
}

/// What the catalog stores is what the file says, object by object.
#[test]
fn a_site_of_bodies_is_the_site_of_the_file() {
    let site = file::read(FULL).unwrap();
    let mut again = Site::default();
    for (kind, name) in site.objects() {
        again.set(kind, name, &site.body(kind, name).unwrap()).unwrap();
    }
    assert_eq!(again, site);
}

/// Files, line and column of their first mistake, and what is said.
const MISTAKES: &[(&str, usize, usize, &str)] = &[
    (
        "[unit.a]\nmax_jbos = 1",
        2,
        1,
        "unit a: there is no key 'max_jbos' here; did you mean 'max_jobs'?",
    ),
    (
        "[unit.a]\nmax_jobs = -1",
        2,
        12,
        "unit a: the number -1 is not possible here; write a number from 0 to 4294967295",
    ),
    (
        "[unit.a]\nmax_jobs = 0",
        2,
        12,
        "unit a: 0 jobs at once are not possible; write a number from 1 to 10000",
    ),
    (
        "[unit.a]\npool = \"x\"\non = \"y\"",
        3,
        6,
        "pool and on exclude each other; remove one of the two",
    ),
    ("[unit.a]\n[unit.a]", 2, 7, "duplicate key; remove one of the two"),
    ("[unit.A]", 1, 7, "'A' is not a valid name; use 1 to 63 of a-z"),
    ("[polcy.a]", 1, 2, "there is no kind 'polcy'; did you mean [policy.NAME]?"),
    ("unit = 1", 1, 1, "'unit' is not a value; write a table: [unit.NAME]"),
    ("[policy]\na = 1", 2, 1, "policy a is not a value; write a table: [policy.NAME]"),
    ("[hold.a]\nnode = \"b\"", 1, 1, "hold a: the key 'reason' is missing; add reason = …"),
    ("[hold.a]\nreason = \"x\"\nuntil = 2026-01-01", 3, 9, "write"),
    ("[hold.a]\nreason = \"x\"\nsnapshot = \"12\"", 3, 12, "write all 32 digits"),
    (
        "[schedule.a]\nevery = \"1 day\"",
        1,
        11,
        "schedule a: every has no window, so no run would ever start; add window",
    ),
    ("[schedule.a]\nwindow = \"22:00-22:00\"", 2, 10, "never opens"),
    ("[retention.a.class.b]\nkeep_daly = 1", 2, 1, "did you mean 'keep_daily'?"),
    ("[retention.a.class.b]", 1, 1, "the class keeps nothing; set keep_last"),
    ("[retention.a]\nclass = {}", 1, 12, "it has no class"),
    (
        "[group.a]\ngroups = [\"b\"]\n[group.b]\ngroups = [\"a\"]",
        4,
        11,
        "the group 'b' contains itself; remove this group",
    ),
    ("[group.a]\nnodes = [\"x\", \"x\"]", 2, 15, "'x' is there twice; remove one of the two"),
    ("[policy.a]\npaths = [\"/\"]\npriority = 101", 3, 12, "write a number from 0 to 100"),
    (
        "[policy.a]\npaths = [\"/\"]\ncompression = 20",
        3,
        15,
        "write \"auto\" or a level from -7 to 19",
    ),
    ("[policy.a]\npaths = [\"/\"]\ncompression = \"x\"", 3, 15, "write \"auto\" or a level"),
    (
        "[policy.a]\npaths = [\"/\"]\nunit = \"disk\"\n[unit.disc]",
        3,
        8,
        "there is no unit 'disk'; did you mean 'disc'?",
    ),
    (
        "[policy.a]\npaths = [\"/\"]\nschedules = [\"x\"]",
        3,
        14,
        "there is no schedule 'x'; declare it: [schedule.x]",
    ),
    (
        "[policy.a]\npaths = [\"/\"]\nretention = \"x\"",
        3,
        13,
        "there is no retention 'x'; declare it",
    ),
    ("[policy.a]\npaths = [\"etc\"]", 2, 10, "'etc' is no whole path; write the whole path"),
    (
        "[policy.a]\npaths = [\"/\"]\nexcludes = [\"a\", \"[b\"]",
        3,
        18,
        "'[b' has a '[' without ']'",
    ),
    (
        "[policy.a]\npaths = [\"/\"]\npromise = \"0 days\"",
        3,
        11,
        "write a span from \"1 minute\" to \"10 years\"",
    ),
    ("[policy.a]", 1, 9, "it backs up nothing; write paths"),
    ("[policy.a]\ntype = \"strem\"", 2, 8, "there is no word 'strem' here; did you mean 'stream'?"),
    (
        "[policy.a]\npaths = [\"/\"]\nclass = \"x\"",
        3,
        9,
        "'x' is a class of no retention; write retention",
    ),
    (
        "[policy.a]\ntype = \"stream\"\n[policy.a.source.x]\nstream = \"s\"\n[policy.a.source.y]\nstream = \"s\"",
        6,
        10,
        "'y' backs up the same stream as 'x'; remove one",
    ),
    ("[node.a]\npaused = { reason = \" \" }", 2, 21, "the reason is empty"),
    ("[node.a]\noptions = { x = { value = 1.5 } }", 2, 27, "write a text, a number, true, false"),
    ("a b", 1, 3, ""),
];

#[test]
fn a_mistake_names_its_line_and_the_fix() {
    let mut wrong = Vec::new();
    for &(text, line, column, expected) in MISTAKES {
        let found = first(text);
        let is_right = (found.0, found.1) == (line, column) && found.2.contains(expected);
        if !is_right {
            wrong.push(format!("{text}\n  {found:?}\n  not ({line}, {column}, {expected:?})"));
        }
    }
    assert_eq!(wrong.join("\n"), "");
}

#[test]
fn a_server_refuses_rules_that_need_tags_and_one_machine_takes_them() {
    let site = "[retention.r.class.standard]\nkeep_last = 1\nkeep_tags = [[\"release\"]]\n";
    assert!(file::read(site).is_ok());
    let known = Known { are_tags_sealed: true, ..Known::default() };
    let told = file::read_with(site, &known).unwrap_err();
    assert_eq!((told.len(), told[0].line), (1, 3), "{told:?}");
    assert!(told[0].to_string().contains("a server cannot read tags"), "{}", told[0]);
    assert!(file::read_with("[retention.r.class.standard]\nkeep_last = 1\n", &known).is_ok());
}

/// One look at the file mends all of it.
#[test]
fn all_mistakes_are_told_in_the_order_of_lines() {
    let text = "[unit.a]\nmax_jobs = \"x\"\n\n[hold.b]\n\n[schedule.c]\nat = \"25:00\"\n";
    let lines: Vec<_> = refused(text).iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [2, 4, 7]);
}

#[test]
fn what_the_server_does_not_know_is_refused() {
    let site = "[unit.a]\ndomains = [\"x\"]\n[unit.b]\non = \"disk-2\"\n[unit.c]\npool = \"fats\"\n[unit.d]\non = \"any\"\n[node.n]\n[group.g]\nnodes = [\"m\"]\n[schedule.s]\nzone = \"Mars\"\n";
    assert!(file::read(site).is_ok());
    let (nodes, domains) = (names(&["n", "mm"]), names(&["y"]));
    let (pools, storage_servers) = (names(&["main", "fast"]), names(&[]));
    let known = Known {
        nodes: Some(&nodes),
        domains: Some(&domains),
        pools: Some(&pools),
        storage_servers: Some(&storage_servers),
        zones: Some(&zone),
        ..Known::default()
    };
    let told = file::read_with(site, &known).unwrap_err();
    let told: Vec<_> = told.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "line 2, column 12: unit a: there is no domain 'x'; create it: icecore server token NODE --domain x",
            "line 4, column 6: unit b: there is no storage server 'disk-2'; enroll it: icecore server token disk-2 --storage",
            "line 6, column 8: unit c: there is no pool 'fats'; did you mean 'fast'? Else add it: icecore server pool add fats PLACE",
            "line 11, column 10: group g: there is no node 'm'; did you mean 'mm'? Else enroll it: icecore server token m",
            "line 13, column 8: schedule s: there is no time zone 'Mars'; write a name such as \"Europe/Berlin\" or \"UTC\"",
        ]
    );
    let nodes = names(&["web-01", "web-02", "db-1"]);
    let domains = names(&["shared"]);
    let known = Known {
        nodes: Some(&nodes),
        domains: Some(&domains),
        zones: Some(&zone),
        ..Known::default()
    };
    assert_eq!(file::read_with(FULL, &known).unwrap(), file::read(FULL).unwrap());
}

#[test]
fn columns_count_characters() {
    assert_eq!(first("[hold.a]\nreason = \"Umzug nach Köln\"\nuntil = 1 # ü").0, 3);
    let (line, column, _) = first("[policy.a]\npaths = [\"/ä\", \"ö\"]");
    assert_eq!((line, column), (2, 16));
}

#[test]
fn files_lists_texts_and_numbers_of_objects_are_bounded() {
    let of_length = |length: usize| format!("#{}", " ".repeat(length - 1));
    assert!(file::read(&of_length(FILE_BYTES_MAX)).is_ok());
    assert!(first(&of_length(FILE_BYTES_MAX + 1)).2.contains("divide the site"));

    let list = |count: usize| {
        let names: Vec<_> = (0..count).map(|at| format!("\"n{at}\"")).collect();
        format!("[group.a]\nnodes = [{}]", names.join(","))
    };
    assert!(file::read(&list(LIST_MAX)).is_ok());
    assert!(first(&list(LIST_MAX + 1)).2.contains("more than 1000; divide it"));

    let text = |length: usize| format!("[hold.a]\nreason = \"{}\"", "x".repeat(length));
    assert!(file::read(&text(TEXT_BYTES_MAX)).is_ok());
    assert!(first(&text(TEXT_BYTES_MAX + 1)).2.contains("shorten it"));

    let objects = |count: usize| (0..count).map(|at| format!("[unit.u{at}]\n")).collect::<String>();
    assert_eq!(file::read(&objects(OBJECTS_MAX)).unwrap().len(), OBJECTS_MAX);
    assert!(first(&objects(OBJECTS_MAX + 1)).2.contains("at most 10000 objects"));
    let mut site = file::read(&objects(OBJECTS_MAX)).unwrap();
    assert!(site.set(Kind::Unit, "u1", &serde_json::json!({"max_jobs": 2})).is_ok());
    assert!(site.set(Kind::Unit, "more", &serde_json::json!({})).is_err());

    let wrong = (0..PROBLEMS_MAX + 50).map(|at| format!("[hold.h{at}]\n")).collect::<String>();
    assert_eq!(refused(&wrong).len(), PROBLEMS_MAX);
}

/// A chain of groups as long as a site can have ends in a cycle: neither recursion nor patience ends.
#[test]
fn a_long_chain_of_groups_is_looked_at_once() {
    let group = |at: usize| format!("[group.g{at}]\ngroups = [\"g{}\"]\n", (at + 1) % OBJECTS_MAX);
    let text: String = (0..OBJECTS_MAX).map(group).collect();
    let mistakes = refused(&text);
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert!(mistakes[0].message.contains("contains itself"));
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("[node.a]\nlabels = {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(!refused(&text).is_empty());
}

const REFERENCE: &str = include_str!("../../../docs/SITE.md");

#[test]
fn the_example_of_the_reference_is_a_site() {
    let example = REFERENCE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(file::read(example.unwrap()).unwrap().len(), 7);
}

/// Keys below a policy's `options` and a node's `labels` are words of administrators.
#[test]
fn the_reference_names_every_key() {
    let site = file::read(FULL).unwrap();
    let mut missing = BTreeSet::new();
    for (kind, name) in site.objects() {
        let mut next = vec![site.body(kind, name).unwrap()];
        while let Some(serde_json::Value::Object(table)) = next.pop() {
            for (key, value) in table {
                let is_told = REFERENCE.contains(&format!("`{key}`"));
                missing.extend((!is_told).then(|| format!("{kind}: {key}")));
                let named = ["class", "source"].contains(&key.as_str());
                match value {
                    serde_json::Value::Object(inner) if named => next.extend(inner.into_values()),
                    _ if ["options", "labels"].contains(&key.as_str()) => {}
                    table @ serde_json::Value::Object(_) => next.push(table),
                    _ => {}
                }
            }
        }
    }
    assert_eq!(missing, BTreeSet::new());
}
