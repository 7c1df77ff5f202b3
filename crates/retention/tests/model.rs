//! Random policies, snapshots and events against a second implementation that follows the
//! definitions word by word: for each snapshot it looks at all others. `ICECORE_MODEL_RUNS` sets how
//! many runs there are.

use clock::{Doubt, Reading, Span, Unit};
use ids::{ObjectId, SnapshotId};
use jiff::tz::TimeZone;
use retention::{
    Class, Facts, Hold, Keep, Retention, Rules, State, Trash, Trashed, TrashedBy, Versions,
};
use std::collections::BTreeSet;
use testkit::Random;
use testkit::calendar::{self, DAY, ZONES, Zone};

/// What happens to the snapshots of one policy with two classes.
struct World {
    random: Random,
    zone: &'static Zone,
    classes: [Class; 2],
    holds: Vec<Hold>,
    present: Vec<Facts>,
    now: i64,
    number: u64,
    is_coarse: bool,
}

#[test]
fn nothing_is_expired_early_or_kept_late_whatever_happens() {
    let mut expired = 0;
    for seed in testkit::seeds(5000) {
        expired += World::new(seed).live(40, seed);
    }
    assert!(expired > 0, "nothing ever expired: the test sees nothing");
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let zone = random.pick(&ZONES);
        let classes = [class(&mut random), class(&mut random)];
        // Around a change of the clocks, in half of the runs.
        let year = 2024 + random.signed(4);
        let begin = calendar::days(year, *random.pick(&[3, 4, 10, 11, 1, 7]), 1) * DAY;
        let (holds, present, is_coarse) = (Vec::new(), Vec::new(), random.one_in(2));
        Self { random, zone, classes, holds, present, now: begin, number: 0, is_coarse }
    }

    /// Returns how many snapshots expired.
    fn live(&mut self, steps: u32, seed: u64) -> usize {
        let mut expired = 0;
        for step in 0..steps {
            self.now += self.pause();
            match self.random.below(16) {
                0..=8 => self.receive(),
                9 => self.name(),
                10 => self.hold(),
                11 => self.change_policy(),
                12 => self.delete_source(),
                _ => expired += self.expire(&format!("seed {seed}, step {step}")),
            }
        }
        expired
    }

    fn pause(&mut self) -> i64 {
        let scale = *self.random.pick(&[600, 4 * 3600, DAY, 3 * DAY, 20 * DAY]);
        let pause = self.random.signed(scale);
        // Whole hours meet the ends of spans exactly.
        if self.is_coarse { pause / 3600 * 3600 } else { pause }
    }

    fn receive(&mut self) {
        for _ in 0..=self.random.below(4) {
            let pause = self.random.signed(3) * self.random.signed(5000);
            self.now += if self.is_coarse { pause / 3600 * 3600 } else { pause };
            self.number += 1;
            let one = self.made();
            self.present.push(one);
        }
    }

    fn made(&mut self) -> Facts {
        let random = &mut self.random;
        let mut id = SnapshotId([random.below(256) as u8; 16]);
        id.0[..8].copy_from_slice(&random.below(u64::MAX).to_be_bytes());
        let suspect = random.one_in(12).then(|| "doubted".to_owned());
        let tags = if random.one_in(6) { vec!["a".to_owned(), "b".to_owned()] } else { Vec::new() };
        let lock = self.now + random.signed(720) * 3600;
        Facts {
            id,
            number: self.number,
            node: random.pick(&["web", "db"]).to_string(),
            source: "/".into(),
            policy: if random.one_in(40) { "gone" } else { "site" }.into(),
            class: random.pick(&["a", "a", "b"]).to_string(),
            received_secs: self.now + i64::from(random.one_in(40)) * 9 * DAY,
            is_partial: random.one_in(5),
            suspect,
            tags: (!random.one_in(5)).then_some(tags),
            locked_until_secs: random.one_in(10).then_some(lock),
            paths: (!random.one_in(6)).then(|| ObjectId([random.below(2) as u8; ObjectId::LEN])),
            has_deleted_objects: *random.pick(&[None, Some(true), Some(false), Some(false)]),
            source_deleted_secs: None,
            trashed: None,
        }
    }

    fn name(&mut self) {
        let (since_secs, count) = (self.now, self.present.len());
        let by = *self.random.pick(&[TrashedBy::Name, TrashedBy::NameAtOnce]);
        if let Some(at) =
            self.random.below(count as u64 + 1).try_into().ok().filter(|at| *at < count)
        {
            let at: usize = at;
            self.present[at].trashed = Some(Trashed { since_secs, by });
        }
    }

    fn hold(&mut self) {
        if self.random.one_in(2) {
            self.holds.clear();
        }
        let node = self.random.one_in(2).then(|| "web".to_owned());
        let class = self.random.one_in(2).then(|| "b".to_owned());
        let until_secs = self.random.one_in(2).then_some(self.now + 3 * DAY);
        self.holds.push(Hold { name: "h".into(), node, class, until_secs, ..Hold::default() });
    }

    fn change_policy(&mut self) {
        let changed = class(&mut self.random);
        self.classes[self.random.below(2) as usize] = changed;
    }

    fn delete_source(&mut self) {
        let is_back = self.random.one_in(3);
        let since = (!is_back).then_some(self.now);
        for one in self.present.iter_mut().filter(|one| one.node == "db") {
            one.source_deleted_secs = since;
        }
    }

    /// Compares what the rules say with the model, then carries out as much as a crash leaves time
    /// for. Returns how many expired.
    fn expire(&mut self, context: &str) -> usize {
        let doubt = self.random.one_in(5).then_some(Doubt::Fast(1));
        let verdicts = self.rules().evaluate(&self.present, Reading { secs: self.now, doubt });
        for (one, verdict) in self.present.iter().zip(&verdicts) {
            let expected = self.state(one, doubt.is_some());
            assert_eq!(
                verdict.state, expected,
                "{context}: {one:?}, {verdict:?}, {:?}",
                self.classes
            );
            let leaves = matches!(verdict.state, State::Trash { .. } | State::Expired);
            assert!(leaves || !verdict.reasons.is_empty(), "{context}: kept without a reason");
        }
        let crash = if self.random.one_in(4) { self.random.below(9) as usize } else { usize::MAX };
        let mut states = verdicts.iter().map(|verdict| verdict.state).enumerate();
        let before = self.present.len();
        self.present.retain_mut(|one| match states.next() {
            Some((at, State::Expired)) => at >= crash,
            Some((at, State::Trash { since_secs, .. })) if at < crash => {
                let by = one.trashed.map_or(TrashedBy::Rules, |trashed| trashed.by);
                one.trashed = Some(Trashed { since_secs, by });
                true
            }
            // What is kept comes back, unless it was named.
            Some((at, _)) if at < crash => {
                one.trashed = one.trashed.filter(|_| one.is_named());
                true
            }
            _ => true,
        });
        before - self.present.len()
    }

    fn rules(&self) -> Rules {
        let [a, b] = self.classes.clone();
        let classes = [("a".to_owned(), a), ("b".to_owned(), b)].into();
        let retention = Retention { zone: String::new(), classes };
        let zone = TimeZone::posix(self.zone.posix).unwrap();
        let rules = Rules::default().policy("site", retention, zone);
        self.holds.iter().fold(rules, |rules, hold| rules.hold(hold.clone()))
    }
}

/// The model.
impl World {
    fn class_of(&self, one: &Facts) -> Option<&Class> {
        let at = usize::from(one.class == "b");
        (one.policy == "site").then(|| &self.classes[at])
    }

    fn state(&self, one: &Facts, is_doubtful: bool) -> State {
        let class = self.class_of(one);
        let by_class = class
            .and_then(|class| class.immutable)
            .map(|span| one.received_secs + span.secs() as i64);
        let locked = one.locked_until_secs.unwrap_or(i64::MIN).max(by_class.unwrap_or(i64::MIN));
        if locked > self.now {
            return State::Locked { until_secs: locked };
        }
        if self.holds.iter().any(|hold| self.holds_it(hold, one)) {
            return State::Held;
        }
        if !one.is_named() && self.is_kept(one) {
            return State::Kept;
        }
        self.leaves(one, class, is_doubtful)
    }

    fn leaves(&self, one: &Facts, class: Option<&Class>, is_doubtful: bool) -> State {
        let period = class.map_or(7 * DAY, |class| class.trash.0.secs() as i64);
        let trash = |since_secs: i64| State::Trash { since_secs, until_secs: since_secs + period };
        match one.trashed {
            None if is_doubtful => State::Kept,
            None => trash(self.now),
            Some(trashed) if is_doubtful => trash(trashed.since_secs),
            Some(Trashed { by: TrashedBy::NameAtOnce, .. }) => State::Expired,
            Some(trashed) if trashed.since_secs + period <= self.now => State::Expired,
            Some(trashed) => trash(trashed.since_secs),
        }
    }

    fn holds_it(&self, hold: &Hold, one: &Facts) -> bool {
        hold.node.as_ref().is_none_or(|node| *node == one.node)
            && hold.class.as_ref().is_none_or(|class| *class == one.class)
            && hold.until_secs.is_none_or(|until| until > self.now)
    }

    fn is_doubted(&self, one: &Facts) -> bool {
        one.suspect.is_some() || one.received_secs > self.now
    }

    fn is_kept(&self, one: &Facts) -> bool {
        let Some(class) = self.class_of(one) else { return true };
        if self.is_doubted(one) {
            return true;
        }
        let is_alike = |other: &&Facts| {
            (&other.node, &other.policy, &other.class) == (&one.node, &one.policy, &one.class)
        };
        let counts = |other: &&Facts| !other.is_named() && !self.is_doubted(other);
        let mut all: Vec<&Facts> = self.present.iter().filter(is_alike).filter(counts).collect();
        all.sort_by_key(|other| {
            (-other.received_secs, u64::MAX - other.number, std::cmp::Reverse(other.id))
        });
        let deleted = all[0].source_deleted_secs.filter(|since| *since >= all[0].received_secs);
        let pool: Vec<&Facts> =
            all.into_iter().filter(|other| one.is_partial || !other.is_partial).collect();
        let at = pool.iter().position(|other| other.id == one.id).unwrap();
        if let (Some(versions), Some(since)) = (&class.versions, deleted) {
            return self.is_version(versions, &pool, at, Some(since));
        }
        self.is_kept_by_rule(class, &pool, at)
            || class.versions.is_some_and(|versions| self.is_version(&versions, &pool, at, None))
            || (!one.is_partial && at < class.minimum_versions.max(1) as usize)
            || self.is_newest_of_paths(&pool, one)
    }

    /// What has no paths counts for none.
    fn is_newest_of_paths(&self, pool: &[&Facts], one: &Facts) -> bool {
        let complete = || pool.iter().filter(|other| !other.is_partial);
        let of_these = complete().find(|other| other.paths == one.paths);
        one.paths.is_some() && of_these.is_some_and(|other| other.id == one.id)
    }

    fn is_kept_by_rule(&self, class: &Class, pool: &[&Facts], at: usize) -> bool {
        let one = pool[at];
        let age = pool[0].received_secs - one.received_secs;
        let is_near = |span: Option<Span>| span.is_some_and(|span| age <= span.secs() as i64);
        let fits = |tags: &Vec<String>| {
            tags.iter().all(|tag| one.tags.as_ref().is_none_or(|has| has.contains(tag)))
        };
        let rules = [
            (class.keep_hourly, class.keep_within_hourly, 0),
            (class.keep_daily, class.keep_within_daily, 1),
            (class.keep_weekly, class.keep_within_weekly, 2),
            (class.keep_monthly, class.keep_within_monthly, 3),
            (class.keep_yearly, class.keep_within_yearly, 4),
        ];
        is_among(class.keep_last, at)
            || is_near(class.keep_within)
            || class.keep_tags.iter().any(fits)
            || rules.into_iter().any(|(count, span, period)| {
                let of = |other: &&Facts| self.period(period, other.received_secs);
                let newer: BTreeSet<_> = pool[..at].iter().map(of).collect();
                let every: BTreeSet<_> = pool.iter().map(of).collect();
                let is_newest = !newer.contains(&of(&one));
                (is_newest && (is_among(count, newer.len()) || is_near(span)))
                    || (at + 1 == pool.len() && is_among(count, every.len()))
            })
    }

    fn is_version(
        &self,
        rules: &Versions,
        pool: &[&Facts],
        at: usize,
        deleted: Option<i64>,
    ) -> bool {
        let lasts = |since: i64, span: Option<Span>| {
            span.is_none_or(|span| self.now < since + span.secs() as i64)
        };
        if at == 0 {
            return deleted
                .is_none_or(|since| rules.deleted != Some(0) && lasts(since, rules.retain_only));
        }
        let since = pool[at - 1].received_secs;
        let count = if deleted.is_some() { rules.deleted } else { rules.exists };
        let has_last_of_files = pool[at].has_deleted_objects != Some(false)
            && rules.deleted != Some(0)
            && rules.retain_only.is_some();
        (count.is_none_or(|count| at < count as usize) && lasts(since, rules.retain_extra))
            || (has_last_of_files && lasts(since, rules.retain_only))
    }

    fn period(&self, which: u32, secs: i64) -> (i64, i64) {
        let (day, second) = calendar::shown(self.zone, secs);
        let (year, month, _) = calendar::date(day);
        match which {
            0 => (day, second / 3600),
            1 => (day, 0),
            2 => (day - calendar::weekday(day), 0),
            3 => (year, month),
            _ => (year, 0),
        }
    }
}

fn is_among(keep: Keep, number: usize) -> bool {
    match keep {
        Keep::None => false,
        Keep::Newest(count) => number < count as usize,
        Keep::All => true,
    }
}

/// A random class that can be meant.
fn class(random: &mut Random) -> Class {
    loop {
        let class = any_class(random);
        if class.check().is_ok() {
            return class;
        }
    }
}

fn any_class(random: &mut Random) -> Class {
    fn keep(random: &mut Random) -> Keep {
        match random.below(8) {
            0..=4 => Keep::None,
            5 => Keep::All,
            _ => Keep::Newest(random.below(6) as u32),
        }
    }
    fn span(random: &mut Random) -> Option<Span> {
        let unit = *random.pick(&[Unit::Hour, Unit::Day, Unit::Day, Unit::Week]);
        random.one_in(4).then(|| Span::new(random.below(30) as u32, unit))
    }
    let count = |random: &mut Random| random.one_in(2).then(|| random.below(4) as u32);
    Class {
        keep_last: keep(random),
        keep_hourly: keep(random),
        keep_daily: keep(random),
        keep_weekly: keep(random),
        keep_monthly: keep(random),
        keep_yearly: keep(random),
        keep_within: span(random),
        keep_within_hourly: span(random),
        keep_within_daily: span(random),
        keep_within_weekly: span(random),
        keep_within_monthly: span(random),
        keep_within_yearly: span(random),
        keep_tags: if random.one_in(6) { vec![vec!["b".into()]] } else { Vec::new() },
        minimum_versions: random.below(4) as u32 / 2 * 2,
        trash: Trash(span(random).unwrap_or(Span::new(2, Unit::Day))),
        immutable: if random.one_in(3) { span(random) } else { None },
        versions: random.one_in(3).then(|| Versions {
            exists: count(random),
            deleted: count(random),
            retain_extra: span(random),
            retain_only: span(random),
        }),
    }
}
