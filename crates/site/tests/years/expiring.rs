//! Expiry beside what the words of the documentation promise.

use crate::declared::{self, Declared};
use crate::{Stored, World, YEARS};
use clock::Reading;
use retention::{Facts, Keep, State, Trashed, TrashedBy, Verdict};
use site::{Effect, EffectKind, Effects};
use std::collections::BTreeSet;
use testkit::calendar::{self, DAY};

/// A time server corrects a clock by minutes while nobody looks.
const SLACK_SECS: i64 = 2 * 600;

impl World {
    fn facts(&self) -> Vec<Facts> {
        self.stored.iter().map(|one| one.facts.clone()).collect()
    }

    /// As an expiry does, as far as a crash leaves it time.
    pub(crate) fn expire(&mut self) {
        let now = self.now();
        self.seen.doubts += usize::from(now.doubt.is_some());
        let verdicts = self.declared.rules().evaluate(&self.facts(), now);
        let all = self.stored.len() as u64 + 1;
        let crash =
            if self.random.one_in(6) { self.random.below(all) as usize } else { usize::MAX };
        let mut gone = BTreeSet::new();
        for (at, verdict) in verdicts.iter().enumerate().take(crash) {
            if verdict.state == State::Expired {
                self.may_go(at, &gone, now);
                gone.insert(at);
            } else {
                self.carry_out(at, verdict);
            }
        }
        self.seen.expired += gone.len();
        self.remove(&gone);
        let mut at = 0..;
        self.stored.retain(|_| !gone.contains(&at.next().unwrap_or_default()));
        if crash == usize::MAX && now.doubt.is_none() {
            self.nothing_is_late(now);
        }
    }

    /// What goes is removed from the repository, and its space reclaimed now and then.
    fn remove(&mut self, gone: &BTreeSet<usize>) {
        let Some(repository) = &mut self.repository else { return };
        let names: Vec<_> = gone.iter().filter_map(|at| self.stored[*at].name).collect();
        let mut done = repository.remove(&names);
        if self.random.one_in(8) {
            done = done.and_then(|()| repository.reclaim());
            self.seen.reclaimed += 1;
        }
        if self.random.one_in(300) {
            done = done.and_then(|()| repository.verify());
        }
        done.unwrap_or_else(|why| panic!("seed {}: {why}", self.seed));
    }

    /// At the end no chunk is lost of what is kept, and the repository has no other snapshots.
    pub(crate) fn the_repository_has_the_same(&mut self) {
        let Some(repository) = &mut self.repository else { return };
        repository.verify().unwrap_or_else(|why| panic!("seed {}: {why}", self.seed));
        let stored: BTreeSet<_> = self.stored.iter().filter_map(|one| one.name).collect();
        let kept: BTreeSet<_> = repository.kept().into_iter().collect();
        assert_eq!(stored, kept, "seed {}", self.seed);
    }

    fn carry_out(&mut self, at: usize, verdict: &Verdict) {
        let world_secs = self.world_secs;
        let one = &mut self.stored[at];
        self.seen.locked += usize::from(matches!(verdict.state, State::Locked { .. }));
        match verdict.state {
            State::Trash { since_secs, .. } => {
                let by = one.facts.trashed.map_or(TrashedBy::Rules, |trashed| trashed.by);
                one.facts.trashed = Some(Trashed { since_secs, by });
                one.trashed_secs.get_or_insert(world_secs);
            }
            _ if one.facts.trashed.is_some_and(|trashed| trashed.by == TrashedBy::Rules) => {
                (one.facts.trashed, one.trashed_secs) = (None, None);
                self.seen.came_back += 1;
            }
            _ => {}
        }
    }

    /// Nothing that is promised stands against the end of a snapshot.
    fn may_go(&self, at: usize, gone: &BTreeSet<usize>, now: Reading) {
        let Stored { facts, promised_secs, trashed_secs, .. } = &self.stored[at];
        let context = format!("seed {}: {facts:?} at {}", self.seed, self.world_secs);
        assert_eq!(now.doubt, None, "{context}: goes by a clock in doubt");
        assert!(facts.locked_until_secs.is_none_or(|until| until <= now.secs), "{context}: locked");
        assert!(!self.declared.holds(&facts.node, now.secs), "{context}: held");
        let slack = self.gained_at_most(facts);
        let is_over = self.world_secs + slack >= *promised_secs;
        assert!(is_over, "{context}: its lock ends {promised_secs} in truth");
        let Some(trashed) = facts.trashed else { panic!("{context}: was never in the trash") };
        let trash = self.declared.class().trash.0.signed_secs();
        if trashed.by != TrashedBy::NameAtOnce {
            assert!(trashed.since_secs + trash <= now.secs, "{context}: too early from the trash");
            let since = trashed_secs.unwrap_or(i64::MAX);
            let was_long = since + trash <= self.world_secs + slack;
            assert!(was_long, "{context}: too early from the trash in truth");
        }
        if trashed.by == TrashedBy::Rules {
            assert_eq!(facts.suspect, None, "{context}: goes although it is suspect");
            self.no_rule_keeps(at, gone, now, &context);
        }
    }

    /// What clocks may have gained since a snapshot was received: minutes, and with each start of the machine as much
    /// as a hostile clock can say that it was off.
    fn gained_at_most(&self, facts: &Facts) -> i64 {
        let starts = self.starts.iter().filter(|number| **number >= facts.number).count() as i64;
        if !self.is_hostile {
            return SLACK_SECS;
        }
        let drift = YEARS * 365 * DAY / 1000;
        SLACK_SECS + drift + starts * clock::OFF_SECS_MAX
    }

    /// The complete snapshots of a node that count, the newest first.
    fn counted(&self, node: &str, gone: &BTreeSet<usize>, now: Reading) -> Vec<(usize, &Facts)> {
        let all = self.stored.iter().map(|one| &one.facts).enumerate();
        let counts = |(at, one): &(usize, &Facts)| {
            let is_sure = one.suspect.is_none() && one.received_secs <= now.secs;
            one.node == node && is_sure && !one.is_named() && !one.is_partial && !gone.contains(at)
        };
        let mut counted: Vec<_> = all.filter(counts).collect();
        counted.sort_by_key(|(_, one)| std::cmp::Reverse((one.received_secs, one.number)));
        counted
    }

    /// By each rule of its own words: enough newer ones are there.
    fn no_rule_keeps(&self, at: usize, gone: &BTreeSet<usize>, now: Reading, context: &str) {
        let one = &self.stored[at].facts;
        let counted = self.counted(&one.node, gone, now);
        let is_newer =
            |other: &&Facts| (other.received_secs, other.number) > (one.received_secs, one.number);
        let newer: Vec<&Facts> = counted.iter().map(|(_, other)| *other).filter(is_newer).collect();
        let class = self.declared.class();
        assert!(one.is_partial || !newer.is_empty(), "{context}: the last complete one goes");
        let least = class.minimum_versions as usize;
        assert!(one.is_partial || newer.len() >= least, "{context}: one of {least} versions goes");
        if one.is_partial {
            return;
        }
        assert!(newer.len() >= number(class.keep_last), "{context}: keep_last");
        let within = class.keep_within.map_or(-1, clock::Span::signed_secs);
        assert!(newer[0].received_secs - one.received_secs > within, "{context}: keep_within");
        for (keep, period) in [
            (class.keep_daily, 0),
            (class.keep_weekly, 1),
            (class.keep_monthly, 2),
            (class.keep_yearly, 3),
        ] {
            let of = |secs: i64| of_period(&self.declared, period, secs);
            let periods: BTreeSet<_> = newer.iter().map(|other| of(other.received_secs)).collect();
            let is_newest_of_its = !periods.contains(&of(one.received_secs));
            let enough = periods.len() >= number(keep);
            assert!(enough || !is_newest_of_its, "{context}: {keep:?} of period {period}");
        }
    }

    /// After a whole expiry no more is kept than the rules ask for, and no trash is older than it may be.
    fn nothing_is_late(&self, now: Reading) {
        let (class, seed) = (self.declared.class(), self.seed);
        let trash = class.trash.0.signed_secs();
        let is_late = |one: &Facts| {
            one.trashed
                .is_some_and(|it| it.since_secs < now.secs && it.since_secs + trash <= now.secs)
        };
        for node in crate::NODES {
            let held = self.declared.holds(node, now.secs);
            let bound = |one: &&Facts| {
                let locked = one.locked_until_secs.is_some_and(|until| until > now.secs);
                let by_class = class.immutable.map_or(0, clock::Span::signed_secs);
                !locked && one.received_secs + by_class <= now.secs && !held
            };
            let counted = self.counted(node, &BTreeSet::new(), now);
            let free: Vec<&Facts> = counted.iter().map(|(_, one)| *one).filter(bound).collect();
            let late: Vec<_> = free.iter().filter(|one| is_late(one)).collect();
            assert!(late.is_empty(), "seed {seed}: still there at {}: {late:?}", now.secs);
            let kept = free.iter().filter(|one| one.trashed.is_none()).count();
            let most = self.kept_at_most(&counted);
            assert!(
                kept <= most,
                "seed {seed}: {kept} are kept of {node}, at most {most} are wanted"
            );
        }
    }

    fn kept_at_most(&self, counted: &[(usize, &Facts)]) -> usize {
        let class = self.declared.class();
        let keeps = [
            class.keep_last,
            class.keep_daily,
            class.keep_weekly,
            class.keep_monthly,
            class.keep_yearly,
        ];
        // A rule that is not used up keeps the oldest one of all too.
        let by_number: usize = keeps.into_iter().map(|keep| number(keep) + 1).sum();
        let newest = counted.first().map_or(0, |(_, one)| one.received_secs);
        let within = class.keep_within.map_or(-1, clock::Span::signed_secs);
        let is_near = |(_, one): &&(usize, &Facts)| newest - one.received_secs <= within;
        by_number + counted.iter().filter(is_near).count() + class.minimum_versions.max(1) as usize
    }

    /// The plan of a change says what then happens.
    pub(crate) fn change_retention(&mut self) {
        let changed = self.declared.with_other_retention(&mut self.random);
        let (now, facts) = (self.now(), self.facts());
        let sites = (&self.declared.site, &changed.site);
        let plan = Effects::new(sites, &declared::zones).unwrap().on(&facts, now);
        let after = changed.rules().evaluate(&facts, now);
        let before = self.declared.rules().evaluate(&facts, now);
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            let told = plan.iter().find(|effect: &&Effect| effect.at == at).map(|it| it.kind);
            let goes = is_kept(before) && !is_kept(after);
            let stays = !is_kept(before) && is_kept(after);
            assert_eq!(told == Some(EffectKind::Goes), goes, "seed {}: {:?}", self.seed, facts[at]);
            assert_eq!(told == Some(EffectKind::Stays), stays, "seed {}", self.seed);
            self.seen.predicted += usize::from(goes || stays);
        }
        self.declared = changed;
    }

    pub(crate) fn change_holds(&mut self) {
        let until = self.now().secs + self.random.signed(200 * DAY);
        self.declared = self.declared.with_other_hold(&mut self.random, until);
    }

    /// An administrator names a snapshot.
    pub(crate) fn name(&mut self) {
        let since_secs = self.now().secs;
        let by = *self.random.pick(&[TrashedBy::Name, TrashedBy::NameAtOnce]);
        let at = self.random.below(self.stored.len() as u64 + 1) as usize;
        let world_secs = self.world_secs;
        if let Some(one) = self.stored.get_mut(at) {
            one.facts.trashed = Some(Trashed { since_secs, by });
            one.trashed_secs = Some(world_secs);
        }
    }

    /// Says by name that a source is deleted, or that it was not.
    pub(crate) fn delete_source(&mut self) {
        let since = (!self.random.one_in(2)).then_some(self.now().secs);
        let node = *self.random.pick(&crate::NODES);
        let of_node = self.stored.iter_mut().filter(|one| one.facts.node == node);
        of_node.for_each(|one| one.facts.source_deleted_secs = since);
    }
}

fn is_kept(verdict: &Verdict) -> bool {
    !matches!(verdict.state, State::Trash { .. } | State::Expired)
}

fn number(keep: Keep) -> usize {
    match keep {
        Keep::None => 0,
        Keep::Newest(count) => count as usize,
        Keep::All => usize::MAX / 8,
    }
}

/// The day, week, month or year that the clock shows, by the second calendar.
fn of_period(declared: &Declared, period: u32, secs: i64) -> (i64, i64) {
    let (day, _) = calendar::shown(declared.zone, secs);
    let (year, month, _) = calendar::date(day);
    match period {
        0 => (day, 0),
        1 => (day - calendar::weekday(day), 0),
        2 => (year, month),
        _ => (year, 0),
    }
}
