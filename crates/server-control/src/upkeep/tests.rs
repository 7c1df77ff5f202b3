//! What is due when, and what a job leaves behind.

mod running;

use super::due::lines;
use serde_json::json;
use site::{Kind, Site};

const DAY: i64 = 86_400;
/// A Monday, at noon.
const MONDAY: i64 = 1_763_985_600;

fn site(objects: &[(Kind, &str, serde_json::Value)]) -> Site {
    let mut site = Site::default();
    objects.iter().for_each(|(kind, name, body)| site.set(*kind, name, body).unwrap());
    site
}

/// What each line does in the domain `web`.
fn done(site: &Site) -> Vec<String> {
    let lines = lines(site, &["web".to_owned()]);
    let of = |line: &super::Line| {
        let tasks: Vec<_> = line.part.upkeep.tasks.iter().map(|task| task.name()).collect();
        format!("{}: {}", line.key.upkeep, tasks.join(" "))
    };
    lines.iter().map(of).collect()
}

#[test]
fn what_nobody_declares_is_done_every_week() {
    let lines = lines(&Site::default(), &["web".to_owned()]);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let first = line.settle(None, MONDAY).unwrap();
    assert!(first.jobs.is_empty(), "a new schedule applies from now on");
    assert!(line.settle(Some(MONDAY), MONDAY + 5 * DAY).is_none());
    let due = line.settle(Some(MONDAY), MONDAY + 6 * DAY).unwrap();
    let tasks: Vec<_> = due.jobs.iter().map(|job| job.task.as_str()).collect();
    assert_eq!(tasks, ["reclaim", "check"]);
    assert!(line.settle(Some(due.settled), MONDAY + 6 * DAY).is_none(), "once");
}

#[test]
fn the_default_does_what_no_declared_one_does() {
    let nightly = (Kind::Schedule, "nightly", json!({"at": "01:00"}));
    let checks = json!({"tasks": ["check"], "schedules": ["nightly"], "domains": ["web"]});
    let declared = site(&[nightly.clone(), (Kind::Upkeep, "checks", checks)]);
    assert_eq!(done(&declared), ["checks: check", "default: reclaim"]);
    let by_hand = site(&[(Kind::Upkeep, "checks", json!({"tasks": ["check"]}))]);
    assert_eq!(done(&by_hand), ["default: reclaim check"], "by hand is not by itself");
    let other = json!({"tasks": ["check"], "schedules": ["nightly"], "domains": ["db"]});
    let other = site(&[nightly, (Kind::Upkeep, "checks", other)]);
    assert_eq!(done(&other), ["default: reclaim check"]);
    let off = site(&[(Kind::Upkeep, "default", json!({}))]);
    assert!(done(&off).is_empty(), "who declares a default without tasks wants none");
}

#[test]
fn a_job_of_a_window_ends_with_it() {
    let nights = json!({"every": "1 day", "window": "22:00-23:00"});
    let upkeep = json!({"tasks": ["reclaim"], "schedules": ["nights"]});
    let site = site(&[(Kind::Schedule, "nights", nights), (Kind::Upkeep, "default", upkeep)]);
    let lines = lines(&site, &["web".to_owned()]);
    let evening = MONDAY + 10 * 3600 + 60;
    let due = lines[0].settle(Some(MONDAY), evening).unwrap();
    assert_eq!(due.jobs[0].until, Some(MONDAY + 11 * 3600));
}

#[test]
fn an_upkeep_that_lets_snapshots_expire_takes_that_over_in_its_domains() {
    let nightly = (Kind::Schedule, "nightly", json!({"at": "01:00"}));
    let tasks =
        json!({"tasks": ["expire", "reclaim"], "schedules": ["nightly"], "domains": ["web"]});
    let declared = site(&[nightly, (Kind::Upkeep, "nights", tasks)]);
    assert_eq!(done(&declared), ["nights: expire reclaim", "default: check"]);
    assert!(declared.expires_by_schedule("web") && !declared.expires_by_schedule("db"));
    let by_hand = site(&[(Kind::Upkeep, "nights", json!({"tasks": ["expire"]}))]);
    assert!(!by_hand.expires_by_schedule("web") && !Site::default().expires_by_schedule("web"));
}

/// A copy in a bucket is read when somebody says so: reading may cost money.
#[test]
fn copies_in_directories_are_read_every_week_unless_something_else_is_declared() {
    let nightly = (Kind::Schedule, "nightly", json!({"at": "01:00"}));
    let copies = |more: &[(Kind, &str, serde_json::Value)], to: &str| {
        let copy = json!({"tasks": ["copy"], "to": to});
        done(&site(&[&[nightly.clone(), (Kind::Upkeep, "second", copy)], more].concat()))
    };
    let others = "default: reclaim check";
    assert_eq!(copies(&[], "/mnt/second"), ["second: check-copy", others]);
    assert_eq!(copies(&[], "s3://copies/x"), [others]);
    let reads = |to: &str, schedules: &[&str]| {
        let upkeep = json!({"tasks": ["check-copy"], "to": to, "schedules": schedules});
        [(Kind::Upkeep, "reads", upkeep)]
    };
    assert_eq!(
        copies(&reads("/mnt/second", &["nightly"]), "/mnt/second"),
        ["reads: check-copy", others]
    );
    assert_eq!(
        copies(&reads("/mnt/third", &["nightly"]), "/mnt/second"),
        ["second: check-copy", "reads: check-copy", others]
    );
    assert_eq!(copies(&reads("/mnt/second", &[]), "/mnt/second"), ["second: check-copy", others]);
    assert!(copies(&[(Kind::Upkeep, "default", json!({}))], "/mnt/second").is_empty());
    let whole =
        site::Upkeep { tasks: vec![site::UpkeepTask::CheckCopy], ..site::Upkeep::default() };
    assert_eq!(super::due::copy_sample(&whole), None, "who declares it says how much");
    assert_eq!(super::due::copy_sample(&site::Upkeep::default()), Some(site::Percent(500)));
}
