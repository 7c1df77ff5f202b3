//! What a change of a site does to the snapshots that exist.

use crate::check::Zones;
use crate::{RulesError, Site};
use clock::Reading;
use retention::{Facts, Rules, State, Verdict};
use serde::Serialize;

/// A snapshot with which something else happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Its position among those that were given.
    pub at: usize,
    /// In a word.
    pub kind: EffectKind,
    /// What becomes of it as things are.
    pub before: Verdict,
    /// What becomes of it after the change.
    pub after: Verdict,
}

/// What a change does to a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// It was kept, and is not any more.
    Goes,
    /// It would have gone, and is kept.
    Stays,
    /// It goes sooner or later than it would have, or for another reason.
    Otherwise,
}

/// A change from one site to another, with the rules of both: made once for the snapshots of many domains.
pub struct Effects<'a> {
    old: (&'a Site, Rules),
    new: (&'a Site, Rules),
}

impl<'a> Effects<'a> {
    /// Of the change from `old` to `new`.
    ///
    /// # Errors
    /// [`RulesError`], if one of the sites does not fit together.
    pub fn new((old, new): (&'a Site, &'a Site), zones: Zones<'_>) -> Result<Self, RulesError> {
        Ok(Self { old: (old, old.rules(zones)?), new: (new, new.rules(zones)?) })
    }

    /// The snapshots with which something else happens, those that go first. Each of `snapshots` is of the class of its
    /// receipt; they must be all that exist of each series among them.
    pub fn on(&self, snapshots: &[Facts], now: Reading) -> Vec<Effect> {
        let verdicts = |(site, rules): &(&Site, Rules)| {
            let bound: Vec<Facts> = snapshots.iter().map(|one| site.bound(one.clone())).collect();
            rules.evaluate(&bound, now)
        };
        let both = verdicts(&self.old).into_iter().zip(verdicts(&self.new)).enumerate();
        let effect = |(at, (before, after)): (usize, (Verdict, Verdict))| {
            let kind = kind(&before, &after)?;
            Some(Effect { at, kind, before, after })
        };
        let mut all: Vec<Effect> = both.filter_map(effect).collect();
        all.sort_by_key(|effect| effect.kind);
        all
    }
}

fn kind(before: &Verdict, after: &Verdict) -> Option<EffectKind> {
    let is_kept =
        |verdict: &Verdict| !matches!(verdict.state, State::Trash { .. } | State::Expired);
    match (is_kept(before), is_kept(after)) {
        (true, false) => Some(EffectKind::Goes),
        (false, true) => Some(EffectKind::Stays),
        _ => (before != after).then_some(EffectKind::Otherwise),
    }
}
