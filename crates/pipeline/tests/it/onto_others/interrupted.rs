//! Restores that find what an interrupted one of the same has left.

use super::outcome::Outcome;
use super::seen::{Seen, look};
use super::shape::PATHS;
use super::{Case, Lab, cases, overwrites, runner};
use crate::testkit::build::set_mtime;
use crate::testkit::snapshot;
use ::restore::Overwrite;
use format::entry::Kind;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use store::SnapshotRef;

/// What an interruption did to a file that a restore had written.
#[derive(Clone, Copy, Debug)]
enum Harm {
    None,
    /// It has its name, and not all of its bytes.
    Begun,
    /// Its length and time were on the disk, its bytes were not.
    Zeros,
    Missing,
}

fn harms() -> impl Strategy<Value = Vec<Harm>> {
    let any =
        prop_oneof![Just(Harm::None), Just(Harm::Begun), Just(Harm::Zeros), Just(Harm::Missing)];
    proptest::collection::vec(any, PATHS.len())
}

impl Lab {
    /// Does to the target what may happen to what a restore has just written.
    fn harm(&self, outcome: &Outcome<'_>, harms: &[Harm]) -> BTreeSet<String> {
        let mut harmed = BTreeSet::new();
        for (path, harm) in PATHS.into_iter().zip(harms) {
            let (Some(entry), Some(seen)) =
                (outcome.entries.get(path), outcome.ran.after.get(path))
            else {
                continue;
            };
            let is_written = entry.kind() == Kind::File
                && seen.is(entry, &outcome.case.snapshot.0[path])
                && outcome.before.get(path) != Some(seen)
                && !seen.is_locked;
            let is_unlocked =
                path.rsplit_once('/').is_none_or(|it| !outcome.ran.after[it.0].is_locked);
            if is_written && is_unlocked && do_harm(&self.target().join(path), *harm, seen) {
                harmed.insert(path.to_owned());
            }
        }
        harmed
    }

    /// Leaves the marker of a restore that began when the test did.
    pub(super) fn mark(&self, case: &Case, name: SnapshotRef, begun: u64) {
        let id = snapshot(&self.repository, name).unwrap().id().to_string();
        let text = format!(
            "An icecore restore into this folder is under way or was cut short. Files changed since {begun} (seconds since 1970) may be incomplete; the next \nrestore into it that finishes repairs them and removes this file.\nRestored: {id}:{}\n",
            case.part().escape_ascii()
        );
        std::fs::write(self.target().join(".icecore-restore-1-5"), text).unwrap();
    }
}

/// Whether the content is another one now.
fn do_harm(path: &Path, harm: Harm, seen: &Seen) -> bool {
    match harm {
        Harm::None => {}
        Harm::Begun => std::fs::write(path, "").unwrap(),
        Harm::Zeros => {
            std::fs::write(path, vec![0; seen.content.len()]).unwrap();
            set_mtime(path, seen.time.0, 0);
        }
        Harm::Missing => std::fs::remove_file(path).unwrap(),
    }
    !matches!(harm, Harm::None) && !seen.content.is_empty()
}

fn check_interrupted(
    lab: &Lab,
    case: &Case,
    first: Overwrite,
    harms: &[Harm],
) -> Result<(), TestCaseError> {
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let name = lab.set(case);
    let (before, beside) = (look(&lab.target()), lab.beside());
    let began = case.with((first, case.delete));
    let ran = lab.run(&began, name, &began.options());
    let harmed = lab.harm(&Outcome::new(&began, &before, &ran), harms);
    lab.mark(case, name, begun);
    let mut before = look(&lab.target());
    let ran = lab.run(case, name, &case.options());
    prop_assert_eq!(lab.beside(), beside, "nothing outside of the target changes");
    before.retain(|path, _| !path.contains(".icecore"));
    let outcome = Outcome::new(case, &before, &ran);
    let held = outcome.others_stay();
    prop_assert!(held.is_ok(), "{}\n{:#?}\n{:?}", held.unwrap_err(), ran.lines, ran.report);
    for path in &harmed {
        let (entry, object) = (&outcome.entries[path], &case.snapshot.0[&**path]);
        let is_whole = ran.after.get(path).is_some_and(|after| after.is(entry, object));
        prop_assert!(
            is_whole || outcome.is_named(path),
            "{path} was harmed, and is neither whole nor named: {:?}\n{:#?}\n{:?}",
            ran.after.get(path),
            ran.lines,
            harms
        );
    }
    if matches!(case.overwrite, Overwrite::IfChanged | Overwrite::Always) {
        let held = outcome.all_came().and_then(|()| outcome.nothing_is_left());
        prop_assert!(held.is_ok(), "{}\n{:#?}\n{:?}", held.unwrap_err(), ran.lines, harms);
    }
    Ok(())
}

#[test]
fn what_an_interrupted_restore_left_is_made_whole_or_named() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("only root can lock files and give them to others");
    }
    let lab = Lab::new();
    let any = (cases(), overwrites(), harms());
    let tested =
        runner(600).run(&any, |(case, first, harms)| check_interrupted(&lab, &case, first, &harms));
    lab.clear();
    tested.unwrap();
}
