//! Random sites, snapshots, failures, restarts and clocks: whatever happens, the real catalog leads to what the pure
//! rules say of what the repository has, and nothing else is ever deleted.

use super::rig::{DAY, Fail, NOW, Rig};
use crate::sites::zone;
use ::retention::{Facts, State, Trashed, TrashedBy};
use clock::{Doubt, Reading};
use ids::SnapshotId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::Random;

/// Runs in `make test`; more with `ICECORE_RETENTION_RUNS`.
const RUNS: u64 = 100;
const STEPS: usize = 25;

/// The server, and what is expected of its trash.
struct Model {
    rig: Rig,
    random: Random,
    now: i64,
    trash: BTreeMap<SnapshotId, Trashed>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let rig = Rig::new(&["web"]);
        let mut random = Random::new(seed);
        let model = |rig: Rig, random| Self { rig, random, now: NOW, trash: BTreeMap::new() };
        let class = class(&mut random);
        rig.put("retention", "r", json!({"class": {"standard": class}}));
        rig.put("policy", "policy", json!({"paths": ["/"], "retention": "r"}));
        model(rig, random)
    }

    fn step(&mut self) {
        self.now += self.random.below(5 * DAY as u64) as i64;
        match self.random.below(12) {
            0..=3 => self.receive(),
            4 => self.rig.restart(),
            5 => self.change_site(),
            6 => self.lose_catalog(),
            7 => self.name_one(),
            8 => self.in_doubt(),
            9 => self.fail(),
            _ => self.expire(),
        }
    }

    fn receive(&mut self) {
        for _ in 0..=self.random.below(3) {
            let random = &mut self.random;
            let (lock, partial) = (random.one_in(6), random.one_in(5));
            let (unknown, suspect) = (random.one_in(12), random.one_in(12));
            let (node, until) = (random.below(2), self.now + random.below(60 * DAY as u64) as i64);
            let id = self.rig.receive("web", self.now).id;
            let mut domains = self.rig.store.domains.lock();
            let all = domains.get_mut("web").unwrap();
            let one = all.iter_mut().find(|one| one.id == id).unwrap();
            one.node = format!("node-{node}");
            one.locked_until_secs = lock.then_some(until);
            one.is_partial = partial;
            one.suspect = suspect.then(|| "doubted".to_owned());
            if unknown {
                one.policy = "gone".to_owned();
            }
        }
        self.rig.retention().has_changed("web");
    }

    fn change_site(&mut self) {
        match self.random.below(3) {
            0 => self.rig.put("hold", "h", json!({"reason": "x", "node": "node-0"})),
            1 if self.rig.parts().catalog.object("hold", "h").unwrap().is_some() => {
                self.rig.remove("hold", "h");
            }
            _ => {
                let class = class(&mut self.random);
                let zone = if self.random.one_in(3) { "Europe/Berlin" } else { "UTC" };
                let name = if self.random.one_in(3) { "renamed" } else { "standard" };
                self.rig.put("retention", "r", json!({"zone": zone, "class": {name: class}}));
            }
        }
    }

    /// The rows are gone, or an old copy is used.
    fn lose_catalog(&mut self) {
        let ids: Vec<_> = self.rig.known("web").iter().map(|one| one.id).collect();
        self.rig.parts().catalog.drop_snapshots("web", &ids).unwrap();
        self.rig.restart();
        self.trash.clear();
    }

    fn name_one(&mut self) {
        let all = self.stored();
        let Some(one) = all.get(self.random.below(all.len().max(1) as u64) as usize) else {
            return;
        };
        // By the clock of the machine, which is later than all that happens here.
        let named = super::named(&[one.id.to_string()], false);
        if self.random.one_in(2) {
            self.rig.retention().undelete_named("admin", &named).unwrap();
        } else {
            self.rig.retention().delete_named("admin", &named).unwrap();
        }
        let known = self.rig.known("web");
        self.trash = known.iter().filter_map(|one| Some((one.id, one.trashed?))).collect();
    }

    fn stored(&self) -> Vec<Facts> {
        self.rig.store.domains.lock().get("web").cloned().unwrap_or_default()
    }

    /// What the pure rules say of what the repository has.
    fn verdicts(&self, now: Reading) -> Vec<(Facts, State)> {
        let stored = self.rig.retention().sites.stored().unwrap();
        let with_trash = |one: Facts| Facts { trashed: self.trash.get(&one.id).copied(), ..one };
        let facts: Vec<_> =
            self.stored().into_iter().map(|one| stored.site.bound(with_trash(one))).collect();
        let verdicts = stored.site.rules(&zone).unwrap().evaluate(&facts, now);
        facts.into_iter().zip(verdicts.into_iter().map(|verdict| verdict.state)).collect()
    }

    /// An expiry that nothing disturbs does exactly what they say.
    fn expire(&mut self) {
        let now = Reading::certain(self.now);
        let expected = self.verdicts(now);
        let done = self.rig.expire(self.now);
        assert_eq!((&done.error, done.refused.len()), (&None, 0));
        let gone = ids(&expected, |_, state| state == State::Expired);
        assert_eq!(done.expired.iter().cloned().collect::<BTreeSet<_>>(), gone);
        self.carry_out(&expected);
        let left: BTreeSet<_> = self.stored().iter().map(|one| one.id.to_string()).collect();
        let stay = ids(&expected, |_, state| state != State::Expired);
        assert_eq!(left, stay, "and nothing else goes");
        self.same_trash();
    }

    fn carry_out(&mut self, expected: &[(Facts, State)]) {
        for (one, state) in expected {
            match state {
                State::Expired => drop(self.trash.remove(&one.id)),
                State::Trash { since_secs, .. } => {
                    let new = Trashed { since_secs: *since_secs, by: TrashedBy::Rules };
                    self.trash.entry(one.id).or_insert(new);
                }
                _ => self.trash.retain(|id, it| *id != one.id || it.by != TrashedBy::Rules),
            }
        }
    }

    fn same_trash(&self) {
        let known = self.rig.known("web");
        let trash: BTreeMap<_, _> =
            known.iter().filter_map(|one| Some((one.id, one.trashed?))).collect();
        assert_eq!(trash, self.trash);
    }

    /// While the clock is in doubt nothing goes, however late it says that it is.
    fn in_doubt(&mut self) {
        let now = Reading { secs: self.now + 4000 * DAY, doubt: Some(Doubt::Fast(4000 * DAY)) };
        let before = self.stored();
        let expected = self.verdicts(now);
        self.rig.expire_at(now);
        assert_eq!(self.stored(), before);
        self.carry_out(&expected);
        self.same_trash();
    }

    /// An expiry that fails somewhere deletes nothing that it should not, and its repetition completes it.
    fn fail(&mut self) {
        let at = self.random.below(4) as usize;
        self.rig.fail([Fail::Names, Fail::Facts, Fail::BeforeExpiry, Fail::AfterExpiry][at]);
        let now = Reading::certain(self.now);
        let may_go = ids(&self.verdicts(now), |_, state| state == State::Expired);
        let before: BTreeSet<_> = self.stored().iter().map(|one| one.id.to_string()).collect();
        self.rig.expire(self.now);
        let after: BTreeSet<_> = self.stored().iter().map(|one| one.id.to_string()).collect();
        assert!(before.difference(&after).all(|id| may_go.contains(id)));
        if self.random.one_in(2) {
            self.rig.restart();
        }
        self.rig.fail_no_more();
        let left: BTreeSet<_> = self.stored().iter().map(|one| one.id).collect();
        self.trash.retain(|id, _| left.contains(id));
        self.expire();
    }
}

fn ids(of: &[(Facts, State)], which: impl Fn(&Facts, State) -> bool) -> BTreeSet<String> {
    of.iter().filter(|(one, state)| which(one, *state)).map(|(one, _)| one.id.to_string()).collect()
}

fn class(random: &mut Random) -> Value {
    let trash = ["1 hour", "3 days", "2 weeks"][random.below(3) as usize];
    let mut class = match random.below(4) {
        0 => json!({"keep_last": 1 + random.below(4)}),
        1 => json!({"keep_daily": 1 + random.below(5), "keep_weekly": random.below(3)}),
        2 => json!({"keep_within": "10 days", "minimum_versions": random.below(3)}),
        _ => json!({"versions": {"exists": 1 + random.below(3), "retain_extra": "9 days"}}),
    };
    class["trash"] = json!(trash);
    if random.one_in(4) {
        class["immutable"] = json!("20 days");
    }
    class
}

#[test]
fn whatever_happens_only_what_the_rules_let_go_goes() {
    let runs = std::env::var("ICECORE_RETENTION_RUNS").ok().and_then(|text| text.parse().ok());
    for seed in 0..runs.unwrap_or(RUNS) {
        let told = std::panic::AssertUnwindSafe(|| {
            let mut model = Model::new(seed);
            (0..STEPS).for_each(|_| model.step());
            model.expire();
        });
        if let Err(why) = std::panic::catch_unwind(told) {
            println!("seed {seed}");
            std::panic::resume_unwind(why);
        }
    }
}
