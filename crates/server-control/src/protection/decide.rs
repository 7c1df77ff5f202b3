//! How well one source is backed up. Pure: all that decides comes in.

use api::jobs::JobState;
use api::protection::ProtectionState as State;

/// A promise of which less than this part is left will soon be broken: of 26 hours, 78 minutes.
const SOON: i64 = 20;
/// A backup that is later than now by more than this shows that the clock went back: its age is not known.
const CLOCK_SECS: i64 = 300;

/// What decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// That no backups are expected: until when, if it ends by itself, and why.
    pub(super) paused: Option<(Option<i64>, &'a str)>,
    pub(super) is_enrolled: bool,
    pub(super) is_revoked: bool,
    /// It is, because two machines have shown its certificates.
    pub(super) is_forked: bool,
    /// Its newest certificate has ended.
    pub(super) has_expired: bool,
    /// Its domain lies on this storage server, which is revoked.
    pub(super) cut_off_on: Option<&'a str>,
    pub(super) has_policy: bool,
    pub(super) promise_secs: Option<i64>,
    /// When it was first expected.
    pub(super) since_secs: Option<i64>,
    /// When its newest complete backup began. Partial ones, and those whose snapshot is suspect, do not count.
    pub(super) complete_secs: Option<i64>,
    /// Whether it ever had one.
    pub(super) had_backup: bool,
    /// When its last run ended, and how.
    pub(super) last: Option<(i64, JobState)>,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) state: State,
    /// For people.
    pub(super) reason: String,
    /// When the promise is broken, unless another backup comes before.
    pub(super) kept_until: Option<i64>,
    pub(super) paused_until: Option<i64>,
}

impl Verdict {
    fn new(state: State, reason: impl Into<String>) -> Self {
        Self { state, reason: reason.into(), kept_until: None, paused_until: None }
    }
}

/// The state of a source at a time.
pub(super) fn decide(facts: &Facts<'_>, now: i64) -> Verdict {
    if let Some((until, reason)) = facts.paused {
        return Verdict { paused_until: until, ..Verdict::new(State::Paused, reason) };
    }
    if !facts.is_enrolled {
        return Verdict::new(State::Unprotected, "the node is not enrolled");
    }
    if facts.is_forked {
        let reason = "two machines have shown its certificates, so both were stopped: enroll the right one again";
        return Verdict::new(State::Unprotected, reason);
    }
    if facts.is_revoked {
        let reason = "the node is revoked: enroll it again, remove it, or declare it paused";
        return Verdict::new(State::Unprotected, reason);
    }
    if facts.has_expired {
        let reason = "the certificate of the node has expired: enroll it again, remove it, or declare it paused";
        return Verdict::new(State::Unprotected, reason);
    }
    if let Some(storage) = facts.cut_off_on {
        let reason = format!(
            "its backups lie on the storage server '{storage}', which is revoked: nothing can be restored from there"
        );
        return Verdict::new(State::Unprotected, reason);
    }
    let mut verdict = match facts.complete_secs {
        Some(complete) => with_backup(facts, complete, now),
        None => without_backup(facts, now),
    };
    if !facts.has_policy {
        verdict.reason = format!("no policy covers the node; {}", verdict.reason);
    }
    verdict
}

/// What is new has as much time as its promise gives it. Without a promise nobody gave it any.
fn without_backup(facts: &Facts<'_>, now: i64) -> Verdict {
    if facts.had_backup {
        let reason = "the snapshots of its complete backups are gone, suspect or in the trash";
        return Verdict::new(State::Unprotected, reason);
    }
    let kept_until = facts.promise_secs.zip(facts.since_secs);
    let kept_until = kept_until.map(|(promise, since)| since.saturating_add(promise));
    let is_new = facts.since_secs.is_some_and(|since| since <= now.saturating_add(CLOCK_SECS));
    match kept_until {
        Some(until) if is_new && now <= until => {
            let new = Verdict::new(State::New, "it has no complete backup yet");
            Verdict { kept_until, ..new }
        }
        _ => Verdict::new(State::Unprotected, "it has no complete backup"),
    }
}

fn with_backup(facts: &Facts<'_>, complete: i64, now: i64) -> Verdict {
    let failed =
        facts.last.filter(|(ended, state)| *ended >= complete && *state != JobState::Complete);
    let kept_until = facts.promise_secs.map(|promise| complete.saturating_add(promise));
    let left = kept_until.map(|until| until.saturating_sub(now));
    let verdict = if complete > now.saturating_add(CLOCK_SECS) {
        let reason = "its newest complete backup lies in the future: the clock was set back";
        Verdict::new(State::AtRisk, reason)
    } else if left.is_some_and(|left| left < 0) {
        Verdict::new(State::Unprotected, "its newest complete backup is older than promised")
    } else if let Some((_, state)) = failed {
        Verdict::new(State::AtRisk, of_last(state))
    } else {
        match facts.promise_secs.zip(left) {
            Some((promise, left)) if left < promise / SOON => {
                Verdict::new(State::AtRisk, "the promise will soon be broken")
            }
            Some(_) => Verdict::new(State::Protected, ""),
            None => Verdict::new(State::NoPromise, "no promise says how old its backup may be"),
        }
    };
    Verdict { kept_until, ..verdict }
}

fn of_last(state: JobState) -> &'static str {
    match state {
        JobState::Partial => "its last backup is partial",
        JobState::Missed => "its last run was missed",
        JobState::Cancelled => "its last run was cancelled",
        JobState::Lost => "the node did not come back in its last run",
        _ => "its last run failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: i64 = 1000;
    const GOOD: Facts<'_> = Facts {
        paused: None,
        is_enrolled: true,
        is_revoked: false,
        is_forked: false,
        has_expired: false,
        cut_off_on: None,
        has_policy: true,
        promise_secs: Some(PROMISE),
        since_secs: Some(0),
        complete_secs: Some(10_000),
        had_backup: true,
        last: Some((10_100, JobState::Complete)),
    };

    fn state(facts: Facts<'_>, now: i64) -> State {
        decide(&facts, now).state
    }

    #[test]
    fn a_promise_is_kept_until_its_last_second_and_told_before() {
        let at = |age: i64| state(GOOD, 10_000 + age);
        assert_eq!(at(0), State::Protected);
        assert_eq!(at(PROMISE - PROMISE / SOON), State::Protected);
        assert_eq!(at(PROMISE - PROMISE / SOON + 1), State::AtRisk);
        assert_eq!(at(PROMISE), State::AtRisk);
        assert_eq!(at(PROMISE + 1), State::Unprotected);
        assert_eq!(decide(&GOOD, 10_000).kept_until, Some(11_000));
    }

    #[test]
    fn what_was_never_backed_up_is_new_as_long_as_its_promise_and_then_unprotected() {
        let none = Facts { complete_secs: None, since_secs: Some(500), last: None, ..GOOD };
        let new = Facts { had_backup: false, ..none };
        assert_eq!(state(new, 500), State::New);
        assert_eq!(state(new, 500 + PROMISE), State::New);
        assert_eq!(state(new, 501 + PROMISE), State::Unprotected);
        // Nothing makes it new that is missing or wrong.
        for wrong in [
            Facts { promise_secs: None, ..new },
            Facts { since_secs: None, ..new },
            Facts { since_secs: Some(9_000), ..new },
            Facts { had_backup: true, ..new },
        ] {
            assert_eq!(state(wrong, 600), State::Unprotected, "{wrong:?}");
        }
    }

    #[test]
    fn a_run_that_did_not_end_well_puts_at_risk_and_an_older_one_does_not() {
        for last in [JobState::Failed, JobState::Partial, JobState::Missed, JobState::Lost] {
            let bad = Facts { last: Some((10_200, last)), ..GOOD };
            assert_eq!(state(bad, 10_300), State::AtRisk, "{last:?}");
            assert_eq!(state(bad, 11_001), State::Unprotected, "{last:?}");
            let before = Facts { last: Some((9_000, last)), ..GOOD };
            assert_eq!(state(before, 10_300), State::Protected, "{last:?}");
        }
    }

    #[test]
    fn nobody_invents_a_promise() {
        let none = Facts { promise_secs: None, ..GOOD };
        assert_eq!(state(none, 10_001), State::NoPromise);
        assert_eq!(state(none, i64::MAX), State::NoPromise);
        assert_eq!(decide(&none, 10_001).kept_until, None);
        let failed = Facts { last: Some((10_200, JobState::Failed)), ..none };
        assert_eq!(state(failed, 10_300), State::AtRisk);
    }

    #[test]
    fn a_clock_that_was_set_back_protects_nothing() {
        assert_eq!(state(GOOD, 10_000 - CLOCK_SECS), State::Protected);
        assert_eq!(state(GOOD, 9_999 - CLOCK_SECS), State::AtRisk);
    }

    #[test]
    fn a_pause_says_its_reason_and_stands_above_everything() {
        let paused = Facts { paused: Some((Some(90_000), "it moves")), is_enrolled: false, ..GOOD };
        let verdict = decide(&paused, 50_000);
        assert_eq!((verdict.state, &*verdict.reason), (State::Paused, "it moves"));
        assert_eq!(verdict.paused_until, Some(90_000));
    }

    #[test]
    fn a_node_that_cannot_back_up_is_unprotected_whatever_it_has() {
        let forked = Facts { is_revoked: true, is_forked: true, ..GOOD };
        assert!(decide(&forked, 10_000).reason.contains("two machines"));
        let expired = Facts { has_expired: true, ..GOOD };
        assert!(decide(&expired, 10_000).reason.contains("has expired"));
        for facts in
            [Facts { is_enrolled: false, ..GOOD }, Facts { is_revoked: true, ..GOOD }, expired]
        {
            assert_eq!(state(facts, 10_000), State::Unprotected);
        }
        let uncovered = Facts { has_policy: false, promise_secs: None, ..GOOD };
        let verdict = decide(&uncovered, 10_000);
        assert_eq!(verdict.state, State::NoPromise);
        assert!(verdict.reason.starts_with("no policy covers"), "{}", verdict.reason);
    }
}
