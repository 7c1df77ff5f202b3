//! Two administrators at one instant: each change is made once, and whoever comes second is told.

use crate::rig::{Rig, new_token};
use access::{Client, Error};
use api::jobs::{Job, JobPriority, JobState, RetriedJob, StartPolicy, StartedPolicy};
use api::sites::{ApplySite, SiteChange, SiteObject};
use api::status::{Audit, Done};
use serde_json::json;

/// Often enough that either comes first.
const ROUNDS: usize = 12;
const SITE: &str = "[policy.etc]\nnodes = [\"web\"]\npaths = [\"/etc\"]\n";

/// A server with a policy for a node whose agent is away: jobs wait.
async fn with_policy() -> (Rig, [Client; 2]) {
    let rig = Rig::start().await;
    let made = rig.token(new_token("web")).await;
    access::enroll::enroll(&rig.url, &made.token, &rig.folder("web"), false).await.unwrap();
    let both = [rig.admin(), rig.admin()];
    let site = ApplySite { text: SITE.to_owned(), version: None, dry_run: false };
    let _: SiteChange = both[0].post("/site", &site).await.unwrap();
    (rig, both)
}

/// What the server answers to both, who ask at once: one is refused, for this reason.
fn one_is_told<T>(answers: (Result<T, Error>, Result<T, Error>), why: &str) -> T {
    let (done, failure) = match answers {
        (Ok(done), Err(Error::Server(failure))) | (Err(Error::Server(failure)), Ok(done)) => {
            (done, failure)
        }
        (Ok(_), Ok(_)) => panic!("both were told that they did it"),
        (Err(one), Err(other)) => panic!("nobody did it: {one}, {other}"),
        (Err(error), _) | (_, Err(error)) => panic!("no answer: {error}"),
    };
    assert!(failure.message.contains(why), "{failure:?}");
    done
}

async fn start(admin: &Client) -> Option<u64> {
    let started: StartedPolicy =
        admin.post("/policies/etc/start", &StartPolicy::default()).await.unwrap();
    started.jobs[0].job
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_change_the_same_object_at_once_one_is_told() {
    let (_rig, [one, other]) = with_policy().await;
    for round in 0..ROUNDS {
        let object: SiteObject = one.get("/objects/policy/etc").await.unwrap();
        let body = |who: &str| {
            let paths = [format!("/etc/{who}-{round}")];
            json!({"version": object.version, "body": {"nodes": ["web"], "paths": paths}})
        };
        let (first, second) = (body("one"), body("other"));
        let answers = tokio::join!(
            one.put::<serde_json::Value>("/objects/policy/etc", &first),
            other.put::<serde_json::Value>("/objects/policy/etc", &second)
        );
        let is_first = answers.0.is_ok();
        one_is_told(answers, "changed");
        let now: SiteObject = one.get("/objects/policy/etc").await.unwrap();
        let wanted = if is_first { first } else { second };
        assert_eq!(
            now.body["paths"], wanted["body"]["paths"],
            "what was answered is what is there"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_apply_a_site_that_they_saw_one_is_told() {
    let (_rig, [one, other]) = with_policy().await;
    for round in 0..ROUNDS {
        let seen: api::sites::SiteFile = one.get("/site").await.unwrap();
        let site = |who: &str| ApplySite {
            text: SITE.replace("/etc", &format!("/etc/{who}-{round}")),
            version: Some(seen.version),
            dry_run: false,
        };
        let (first, second) = (site("one"), site("other"));
        let answers = tokio::join!(
            one.post::<SiteChange>("/site", &first),
            other.post::<SiteChange>("/site", &second)
        );
        let wanted = if answers.0.is_ok() { first } else { second };
        let done = one_is_told(answers, "changed");
        let now: api::sites::SiteFile = one.get("/site").await.unwrap();
        assert_eq!(now.version, done.version);
        let path = wanted.text.lines().last().unwrap();
        assert!(now.text.contains(path), "{path}: {}", now.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_do_the_same_to_a_job_at_once_one_is_told() {
    let (rig, [one, other]) = with_policy().await;
    for _ in 0..ROUNDS {
        let (first, second) = tokio::join!(start(&one), start(&other));
        assert!(first.is_some() != second.is_some(), "one job: {first:?}, {second:?}");
        let job = first.or(second).unwrap();
        for (word, why) in [("suspend", "suspended already"), ("resume", "is not suspended")] {
            let path = format!("/jobs/{job}/{word}");
            let answers =
                tokio::join!(one.post::<Done>(&path, &()), other.post::<Done>(&path, &()));
            one_is_told(answers, why);
        }
        let path = format!("/jobs/{job}/cancel");
        let answers = tokio::join!(one.post::<Done>(&path, &()), other.post::<Done>(&path, &()));
        one_is_told(answers, "has ended already");
        let path = format!("/jobs/{job}/retry");
        let answers =
            tokio::join!(one.post::<RetriedJob>(&path, &()), other.post::<RetriedJob>(&path, &()));
        let again = one_is_told(answers, "already has a job").job;

        // A priority comes before the end of the job, or its sender is told.
        let (path, priority) = (format!("/jobs/{again}/priority"), JobPriority { priority: 90 });
        let cancel = format!("/jobs/{again}/cancel");
        let (set, cancelled) =
            tokio::join!(one.post::<Done>(&path, &priority), other.post::<Done>(&cancel, &()));
        cancelled.unwrap();
        let ended: Job = one.get(&format!("/jobs/{again}")).await.unwrap();
        assert_eq!(ended.state, JobState::Cancelled);
        let priority = ended.plan.unwrap().priority;
        assert_eq!(priority == 90, set.is_ok(), "{priority}, {set:?}");
    }
    let audit: Audit = rig.admin().get("/audit").await.unwrap();
    assert_eq!(audit.broken_at, None);
    let cancels = audit.entries.iter().filter(|entry| entry.action == "job.cancel").count();
    assert_eq!(cancels, 2 * ROUNDS, "who was refused did nothing");
}
