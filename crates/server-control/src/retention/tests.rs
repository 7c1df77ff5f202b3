//! Retention through the real catalog, on repositories that a test holds in memory.

mod model;
mod older_catalog;
mod rig;

use super::*;
use crate::forget::ForgetPermissions;
use ::retention::Facts;
use api::retention::{Expire, NamedSnapshots, SnapshotFilter, SnapshotState};
use clock::{Doubt, Reading};
use ids::SnapshotId;
use parking_lot::Mutex;
use repositories::SnapshotStore;
use rig::{DAY, Fail, NOW, Rig};
use serde_json::json;

const KEEP_TWO: &str = "keep_last = 2\ntrash = \"7 days\"";

/// A server with a policy of these rules, and snapshots of this age in days.
fn rig(class: &str, ages: &[i64]) -> Rig {
    let rig = Rig::new(&["web"]);
    rig.declare(class);
    ages.iter().for_each(|age| drop(rig.receive("web", NOW - age * DAY)));
    rig
}

fn named(ids: &[String], now: bool) -> NamedSnapshots {
    NamedSnapshots { ids: ids.to_vec(), now, dry_run: false }
}

#[test]
fn what_nothing_keeps_goes_by_way_of_the_trash() {
    let rig = rig(KEEP_TWO, &[4, 3, 2, 1]);
    let first = rig.expire(NOW);
    assert_eq!((first.kept, first.trashed.len(), first.expired.len()), (2, 2, 0));
    assert_eq!(rig.stored("web"), 4, "the trash is still there");
    let again = rig.expire(NOW + 7 * DAY - 1);
    assert_eq!((again.trash, again.trashed.len(), again.expired.len()), (2, 0, 0));
    let last = rig.expire(NOW + 7 * DAY);
    assert_eq!((last.expired.len(), rig.stored("web")), (2, 2));
    assert_eq!(rig.expire(NOW + 4000 * DAY).expired.len(), 0, "what the rules keep stays");
    assert_eq!(rig.actions(), ["snapshot.trash", "snapshot.expire"]);
}

/// A window that closes ends it between two steps, and the next run does the rest.
#[test]
fn an_expiry_ends_with_its_window_and_goes_on_the_next_time() {
    let rig = rig(KEEP_TWO, &[]);
    rig.receive_many("web", 1_202);
    rig.expire(NOW);
    let steps = std::cell::Cell::new(0);
    let first_step = || steps.replace(steps.get() + 1) == 0;
    let later = Reading::certain(NOW + 8 * DAY);
    let by = crate::by("server");
    let (part, is_whole) = rig.retention().expire_while(by, "web", later, &first_step).unwrap();
    assert_eq!((part.expired.len(), is_whole, part.error), (500, false, None));
    let (rest, is_whole) = rig.retention().expire_while(by, "web", later, &|| true).unwrap();
    assert_eq!((rest.expired.len(), is_whole, rig.stored("web")), (502, true, 200));
}

#[test]
fn a_dry_run_says_the_same_and_changes_nothing() {
    let rig = rig(KEEP_TWO, &[4, 3, 2, 1]);
    let wanted = Expire { domain: None, dry_run: true };
    let told = rig.retention().expire(crate::by("admin"), &wanted, Reading::certain(NOW)).unwrap();
    assert_eq!(told.domains[0].trashed, rig.expire(NOW).trashed);
    assert_eq!(rig.actions(), ["snapshot.trash"]);
}

/// Killed before the repository has deleted anything, or after it has deleted everything.
#[test]
fn killed_between_catalog_and_repository_loses_nothing_and_doubles_nothing() {
    for fail in [Fail::BeforeExpiry, Fail::AfterExpiry] {
        let mut rig = rig(KEEP_TWO, &[4, 3, 2, 1]);
        rig.expire(NOW);
        rig.fail(fail);
        assert!(rig.expire(NOW + 8 * DAY).error.is_some());
        rig.restart();
        let after = rig.expire(NOW + 8 * DAY);
        let expected = if fail == Fail::BeforeExpiry { 2 } else { 0 };
        assert_eq!((after.expired.len(), after.kept, rig.stored("web")), (expected, 2, 2));
        assert_eq!(rig.known("web").len(), 2, "the catalog is what the repository has");
    }
}

#[test]
fn a_lost_catalog_is_filled_again_and_keeps_more_never_less() {
    let mut rig = rig(KEEP_TWO, &[4, 3, 2, 1]);
    rig.lock("web", 0, NOW + 90 * DAY);
    rig.expire(NOW);
    let before = rig.known("web");
    assert_eq!(before.iter().filter(|one| one.trashed.is_some()).count(), 1);
    let ids: Vec<_> = before.iter().map(|one| one.id).collect();
    rig.parts().catalog.drop_snapshots("web", &ids).unwrap();
    rig.restart();
    let listed = rig.retention().snapshots(&SnapshotFilter::default()).unwrap();
    assert_eq!((listed.total, listed.unread.len()), (4, 0));
    let without_trash: Vec<_> =
        before.into_iter().map(|one| Facts { trashed: None, ..one }).collect();
    assert_eq!(rig.known("web"), without_trash, "the same snapshots, with the same locks");
    let late = rig.expire(NOW + 30 * DAY);
    assert_eq!((late.trashed.len(), late.expired.len()), (1, 0), "its trash period begins anew");
}

/// Seen: after `icecore server forget`, which works without the running server, everything was still protected.
#[test]
fn what_was_forgotten_beside_the_server_is_known_no_more_at_its_next_look() {
    let rig = rig(KEEP_TWO, &[4, 3, 2, 1]);
    rig.retention().catch_up(None).unwrap();
    rig.store.domains.lock().get_mut("web").unwrap().truncate(1);
    rig.retention().catch_up(None).unwrap();
    assert_eq!(rig.known("web").len(), 4, "it was read a moment ago");
    rig.fail(Fail::Names);
    rig.retention().compare_names().unwrap();
    assert_eq!(rig.known("web").len(), 4, "what cannot be listed stays known");
    rig.retention().compare_names().unwrap();
    assert_eq!(rig.known("web").len(), 1);
    rig.receive("web", NOW);
    rig.retention().compare_names().unwrap();
    let listed = rig.retention().snapshots(&SnapshotFilter::default()).unwrap();
    assert_eq!(listed.total, 2, "what is new is read");
}

#[test]
fn in_doubt_nothing_goes() {
    let rig = rig(KEEP_TWO, &[4, 3, 2, 1]);
    let in_doubt = Reading { secs: NOW + 400 * DAY, doubt: Some(Doubt::Fast(400 * DAY)) };
    let told = rig.expire_at(in_doubt);
    assert!(told.doubt.unwrap().contains("ahead"));
    assert_eq!((told.domains[0].trashed.len(), told.domains[0].kept), (0, 4));
    rig.expire(NOW);
    assert_eq!(rig.expire_at(in_doubt).domains[0].expired.len(), 0, "not out of the trash either");
    let listed = rig.retention().snapshots(&SnapshotFilter::default()).unwrap();
    let first = named(&[listed.snapshots[0].id.clone()], true);
    rig.retention().delete_named("admin", &first).unwrap();
    assert_eq!(rig.stored("web"), 3, "by the clock of the machine, which nobody doubts");
}

#[test]
fn a_domain_that_cannot_be_read_keeps_no_other_from_expiring() {
    let rig = Rig::new(&["db", "web"]);
    rig.declare(KEEP_TWO);
    for domain in ["db", "web"] {
        (1..=4).for_each(|age| drop(rig.receive(domain, NOW - age * DAY)));
    }
    assert!(rig.retention().catch_up(None).unwrap().is_empty());
    rig.fail(Fail::Names);
    let told = rig.expire_at(Reading::certain(NOW));
    let [db, web] = &told.domains[..] else { panic!("{told:?}") };
    assert!(db.error.is_some() && db.trashed.is_empty());
    assert_eq!((web.error.as_ref(), web.trashed.len()), (None, 2));
}

#[test]
fn a_site_that_is_not_whole_lets_nothing_go() {
    let rig = rig(KEEP_TWO, &[4, 3, 2, 1]);
    rig.put("retention", "r", json!({"zone": "Mars", "class": {"standard": {"keep_last": 1}}}));
    let now = Reading::certain(NOW);
    let refused = rig.retention().expire(crate::by("admin"), &Expire::default(), now);
    assert!(refused.unwrap_err().to_string().contains("Mars"));
    assert!(rig.known("web").iter().all(|one| one.trashed.is_none()));
}

#[test]
fn what_is_damaged_by_hand_or_of_an_unknown_policy_stays() {
    let rig = rig(KEEP_TWO, &[9, 8, 7, 6, 5]);
    rig.change("web", 0, |one| one.suspect = Some(facts::UNREAD.to_owned()));
    rig.change("web", 1, |one| one.policy = String::new());
    rig.change("web", 2, |one| one.policy = "gone".to_owned());
    let told = rig.expire(NOW);
    assert_eq!((told.kept, told.trashed.len()), (5, 0));
    let filter = SnapshotFilter { policy: Some("none".to_owned()), ..Default::default() };
    let listed = rig.retention().snapshots(&filter).unwrap();
    assert_eq!(listed.snapshots[0].reasons[0].why, "no policy made it");
    // One that can be read again is judged again.
    rig.change("web", 0, |one| one.suspect = None);
    assert_eq!(rig.expire(NOW).trashed.len(), 1);
}

#[test]
fn what_is_named_goes_into_the_trash_and_comes_back_by_name_only() {
    let rig = rig("keep_last = \"all\"", &[3, 2, 1]);
    let all = rig.retention().snapshots(&SnapshotFilter::default()).unwrap().snapshots;
    let id = all[0].id.clone();
    let done = rig.retention().delete_named("admin", &named(&[id[..8].to_owned()], false)).unwrap();
    assert_eq!((done.snapshots[0].state, done.snapshots[0].is_named), (SnapshotState::Trash, true));
    assert_eq!(rig.expire(NOW).undeleted.len(), 0, "the rules would keep it");
    let back =
        rig.retention().undelete_named("admin", &named(std::slice::from_ref(&id), false)).unwrap();
    assert_eq!(back.snapshots[0].state, SnapshotState::Kept);
    let twice =
        rig.retention().undelete_named("admin", &named(std::slice::from_ref(&id), false)).unwrap();
    assert!(twice.refused[0].why.contains("trash"), "{twice:?}");
    let now =
        rig.retention().delete_named("admin", &named(std::slice::from_ref(&id), true)).unwrap();
    assert_eq!((now.deleted, rig.stored("web")), (vec![id], 2));
    let missing = rig.retention().delete_named("admin", &named(&["0badc0de".to_owned()], true));
    assert!(missing.unwrap_err().to_string().contains("0badc0de"));
}

#[test]
fn a_lock_and_a_hold_stand_above_a_name() {
    let rig = rig("keep_last = 1", &[3, 2, 1]);
    let far = crate::now_secs() + 90 * DAY;
    rig.lock("web", 0, far);
    let hold = json!({"reason": "court", "snapshot": rig.known_id("web", 1)});
    rig.put("hold", "case-17", hold);
    let ids: Vec<_> = (0..2).map(|at| rig.known_id("web", at)).collect();
    for now in [false, true] {
        let done = rig.retention().delete_named("admin", &named(&ids, now)).unwrap();
        let why: Vec<_> = done.refused.iter().map(|one| one.why.as_str()).collect();
        assert!(why[0].contains("locked until") && why[1].contains("case-17"), "{why:?}");
    }
    assert_eq!((rig.expire(NOW).kept, rig.stored("web")), (3, 3));
    rig.remove("hold", "case-17");
    assert_eq!(rig.expire(NOW).trashed, [ids[1].clone()]);
    // A hold that comes later brings back what the rules had let go.
    rig.put("hold", "case-18", json!({"reason": "court"}));
    assert_eq!(rig.expire(NOW + 365 * DAY).undeleted, [ids[1].clone()]);
}

/// The clock of the locks is another one than that of the catalog.
#[test]
fn what_the_repository_refuses_to_delete_at_once_does_not_lie_in_the_trash() {
    let rig = rig("keep_last = 9", &[3, 2, 1]);
    rig.expire(NOW);
    let id = rig.known_id("web", 2);
    rig.fail(Fail::Locked);
    let done =
        rig.retention().delete_named("admin", &named(std::slice::from_ref(&id), true)).unwrap();
    assert_eq!((done.refused.len(), done.deleted.len()), (1, 0));
    assert_eq!(done.snapshots[0].state, SnapshotState::Kept);
    assert!(rig.known("web").iter().all(|one| one.trashed.is_none()));
    assert_eq!((rig.expire(NOW + DAY).kept, rig.stored("web")), (3, 3), "it stays, as was said");
}

#[test]
fn the_last_complete_snapshot_of_a_source_goes_by_name_only() {
    let rig = rig("keep_within = \"1 day\"", &[400]);
    rig.receive("web", NOW);
    rig.change("web", 1, |one| one.is_partial = true);
    assert_eq!(rig.expire(NOW + 900 * DAY).kept, 2);
    let id = rig.known_id("web", 0);
    let done = rig.retention().delete_named("admin", &named(&[id], true)).unwrap();
    assert_eq!((done.deleted.len(), rig.stored("web")), (1, 1));
}

/// Somebody who can write to the catalog cannot let a snapshot go that its receipt would keep.
#[test]
fn what_the_catalog_says_of_a_snapshot_is_not_believed_when_it_goes() {
    let rig = rig("keep_last = 9", &[3, 2, 1]);
    rig.expire(NOW);
    let mut forged = rig.known("web")[0].clone();
    forged.policy = "policy".to_owned();
    forged.received_secs -= 5000 * DAY;
    rig.put("retention", "r", json!({"class": {"standard": {"keep_within": "300 days"}}}));
    rig.parts().snapshots.note("web", &[forged], &[]).unwrap();
    assert_eq!(rig.expire(NOW).trashed.len(), 1, "the trash can be undone");
    let told = rig.expire(NOW + 8 * DAY);
    assert_eq!((told.expired.len(), told.refused.len(), rig.stored("web")), (0, 1, 3));
    assert_eq!(rig.expire(NOW + 8 * DAY).undeleted.len(), 1, "and it comes back by itself");
}

/// Many backups of one node move no snapshot of another one, nor of another source.
#[test]
fn a_flood_of_one_node_pushes_out_none_of_another() {
    let rig = rig(KEEP_TWO, &[3, 2]);
    rig.change("web", 0, |one| one.node = "db".to_owned());
    (0..500).for_each(|at| drop(rig.receive("web", NOW - DAY + at)));
    let told = rig.expire(NOW);
    assert_eq!((told.kept, told.trashed.len()), (3, 499));
    assert!(rig.known("web").iter().any(|one| one.node == "db" && one.trashed.is_none()));
}

#[test]
fn a_deleted_source_is_ruled_by_its_versions() {
    let rig = rig("keep_last = 3\nversions = { deleted = 1, retain_only = \"30 days\" }", &[3, 2]);
    rig.retention().catch_up(None).unwrap();
    let of = ["node", "policy", "main"];
    assert!(rig.retention().delete_source("admin", ["node", "policy", "other"], true).is_err());
    assert!(rig.retention().delete_source("admin", of, false).is_err(), "it was not deleted");
    rig.retention().delete_source("admin", of, true).unwrap();
    let later = crate::now_secs() + 31 * DAY;
    assert_eq!(rig.expire(later).trashed.len(), 2);
    rig.retention().delete_source("admin", of, false).unwrap();
    assert_eq!(rig.expire(later).undeleted.len(), 2);
}

/// Times in milliseconds are told; they are judged with `ICECORE_CATALOG=all` only (`make catalog-speed`).
#[test]
fn a_hundred_thousand_snapshots_are_judged_in_200_ms() {
    let is_whole = std::env::var("ICECORE_CATALOG").is_ok_and(|what| what == "all");
    let count = if is_whole { 100_000 } else { 5_000 };
    let rig = rig("keep_daily = 14\nkeep_weekly = 8\nkeep_monthly = 12", &[]);
    rig.receive_many("web", count);
    rig.retention().catch_up(None).unwrap();
    let now = Reading::certain(NOW);
    let mut took: Vec<u128> = (0..5)
        .map(|_| {
            let begun = std::time::Instant::now();
            assert_eq!(rig.retention().judged(None, now).unwrap().len(), count);
            begun.elapsed().as_millis()
        })
        .collect();
    took.sort_unstable();
    println!("{count} snapshots judged in {} ms, at most {} ms", took[2], took[4]);
    assert!(!is_whole || took[2] < 200, "{took:?} ms");
}

#[test]
fn a_change_of_the_site_tells_which_snapshots_go() {
    let rig = rig("keep_last = 3", &[3, 2, 1]);
    let change = rig.put_dry("retention", "r", json!({"class": {"standard": {"keep_last": 1}}}));
    let effects = change.snapshots.unwrap();
    assert_eq!((effects.going(), effects.policies[0].policy.as_str()), (2, "policy"));
    assert_eq!(effects.snapshots[0].after, SnapshotState::Trash);
    assert!(rig.put_dry("unit", "slow", json!({"max_jobs": 1})).snapshots.is_none());
}

/// Something else happens once, when the names of a domain are listed: behind the look at the rules.
struct Meanwhile {
    store: Arc<rig::Store>,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl SnapshotStore for Meanwhile {
    fn names(&self, domain: &Name) -> Result<Vec<repository::snapshots::SnapshotRef>> {
        let happens = self.happens.lock().take();
        happens.into_iter().for_each(|it| it());
        self.store.names(domain)
    }

    fn facts(
        &self,
        domain: &Name,
        names: &[repository::snapshots::SnapshotRef],
    ) -> Result<Vec<Facts>> {
        self.store.facts(domain, names)
    }

    fn expire(
        &self,
        domain: &Name,
        ids: &[SnapshotId],
        now: Reading,
    ) -> Result<server_contract::Expired> {
        self.store.expire(domain, ids, now)
    }
}

/// The data plane forgets what a node was permitted to, and nobody tells an administrator that a hold keeps it.
#[test]
fn a_hold_that_is_declared_while_a_node_forgets_a_snapshot_is_not_said_to_keep_it() {
    let rig = Rig::new(&[]);
    crate::scheduler::tests::enroll(&rig.parts().catalog, "web");
    rig.declare("keep_last = 1\ntrash = \"900 days\"");
    [3, 2, 1].iter().for_each(|age| drop(rig.receive("web", NOW - age * DAY)));
    assert_eq!(rig.expire(NOW).trashed.len(), 2);
    let web: Name = "web".parse().unwrap();
    let scope = api::nodes::ForgetScope::Domain;
    rig.parts().catalog.allow_forget(crate::by("admin"), &web, scope).unwrap();
    let (sites, (send, told)) = (Sites::new(rig.parts()), std::sync::mpsc::channel());
    let held = move |sites: &Sites, name: &str| {
        let body = json!({"reason": "court"});
        let new = api::sites::PutObject { version: None, body, dry_run: false };
        sites.put("admin", (site::Kind::Hold, name), &new).unwrap().snapshots.map(|it| it.snapshots)
    };
    let happens = move || send.send(held(&sites, "case-17")).unwrap();
    let ForgetPermissions { catalog, mark, clock, permitted, .. } =
        &*rig.parts().forget_permissions;
    let (catalog, mark, clock) = (catalog.clone(), mark.clone(), clock.clone());
    let happens = Mutex::new(Some(Box::new(happens) as Box<dyn FnOnce() + Send>));
    let repositories = Arc::new(Meanwhile { store: rig.store.clone(), happens });
    let permitted = permitted.clone();
    let forgets = ForgetPermissions { catalog, mark, repositories, clock, permitted };
    let ids = [0, 1].map(|at| rig.known_id("web", at));
    let asked = |id: &String| api::storage_servers::ForgetRequest {
        serial: String::new(),
        node: web.clone(),
        domain: web.clone(),
        count: 1,
        ids: vec![id.clone()],
        are_own: false,
    };
    forgets.note(&asked(&ids[0])).unwrap();
    let kept: Vec<_> = told.recv().unwrap().unwrap().into_iter().map(|one| one.id).collect();
    assert!(!kept.contains(&ids[0]) && kept.contains(&ids[1]), "{kept:?}");
    assert!(forgets.note(&asked(&ids[1])).is_err(), "the hold keeps it");
    rig.remove("hold", "case-17");
    let kept = held(&Sites::new(rig.parts()), "case-18").unwrap();
    assert_eq!(kept.len(), 2, "what was refused is not being forgotten: {kept:?}");
    rig.remove("hold", "case-18");
    let late = std::thread::scope(|scope| {
        let alone = rig.parts().gate.enter();
        let late = scope.spawn(|| held(&Sites::new(rig.parts()), "case-19").unwrap());
        // Long enough to come to the gate: by then it knows what it would tell.
        std::thread::sleep(std::time::Duration::from_millis(300));
        forgets.note(&asked(&ids[1])).unwrap();
        drop(alone);
        late.join().unwrap()
    });
    assert!(late.iter().all(|one| one.id != ids[1]), "permitted before it was stored: {late:?}");
}

#[test]
fn the_days_to_come_are_those_that_expiry_makes() {
    let rig = rig("keep_last = 2\ntrash = \"2 days\"", &[3, 2, 1]);
    let told = rig.retention().simulate("policy", &Default::default()).unwrap();
    assert_eq!((told.days.len(), told.days[0].kept, told.days[0].trashed.len()), (365, 2, 1));
    assert_eq!(told.days.iter().map(|day| day.expired.len()).sum::<usize>(), 1);
    assert!(rig.retention().simulate("nobody", &Default::default()).is_err());
}

/// Of a node whose policy wants a lock, the receipt says so, by the site as it is then.
#[test]
fn labels_are_those_of_the_policy_of_a_job() {
    let rig = rig("keep_last = 1\nimmutable = \"30 days\"", &[]);
    let of = |job| rig.retention().labels(job).unwrap();
    assert_eq!(of(77), Default::default(), "a job that nobody planned");
    let job = rig.queue("policy");
    let labels = of(job);
    let words = [labels.policy.as_str(), &labels.source, &labels.class];
    assert_eq!((words, labels.lock_secs), (["policy", "main", "standard"], Some(30 * 86_400)));
}

#[test]
fn a_policy_that_is_removed_while_its_job_runs_unlocks_nothing() {
    let rig = rig("keep_last = 1\nimmutable = \"30 days\"", &[]);
    let of = |job| rig.retention().labels(job).unwrap().lock_secs;
    let (begun, not_begun) = (rig.queue("policy"), 999);
    assert_eq!(of(begun), Some(30 * 86_400), "as it was when the job began");
    rig.remove("policy", "policy");
    assert_eq!((of(begun), of(begun), of(not_begun)), (Some(30 * 86_400), Some(30 * 86_400), None));
}
