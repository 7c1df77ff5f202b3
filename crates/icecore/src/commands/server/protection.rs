//! `icecore server protection`.

use super::{ago, when, word};
use crate::clock_advice::advised;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Table, flexible, left};
use crate::terminal::Paint;
use crate::{escape, units};
use api::Name;
use api::protection::{Protection as Shown, ProtectionState, SourceProtection};
use serde::Serialize;
use std::collections::BTreeMap;

/// Show how well each source is backed up, the worst first.
///
/// Each source of each policy and node, nodes that no policy covers, and policies without nodes. Nothing is left out:
/// what nobody knows anything of is unprotected.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server protection\n  icecore server protection --state unprotected\n  icecore server protection --policy daily --json\n\nExit codes for monitoring, of what is shown:\n  0   everything is protected, new or paused\n  19  something is unprotected\n  20  nothing is, but something is at risk or has no promise"
)]
pub(crate) struct Protection {
    /// Only this node.
    #[arg(long, value_name = "NODE")]
    node: Option<Name>,
    /// Only this policy.
    #[arg(long, value_name = "POLICY")]
    policy: Option<Name>,
    /// Only sources in this state.
    #[arg(long, value_name = "STATE", value_parser = ["protected", "paused", "new", "no-promise", "at-risk", "unprotected"])]
    state: Option<String>,
}

#[derive(Serialize)]
struct Counts {
    sources: usize,
    #[serde(flatten)]
    states: BTreeMap<String, usize>,
}

impl Protection {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let Shown { sources, doubt, .. } = reach.get(&self.path())?;
        sources.iter().try_for_each(|one| context.out.record("source", one))?;
        table(&sources).print(&context.out)?;
        let counts = Counts { sources: sources.len(), states: count(&sources) };
        context.out.line(&last_line(&counts))?;
        if let Some(doubt) = doubt {
            let doubt = advised(&doubt, "icecore server clock confirm");
            let what = format!("ages are in doubt: {doubt}");
            context.out.note(&escape::text(&what));
        }
        context.out.summary(code(&sources), &counts)
    }

    /// Names and words: nothing that would need to be escaped.
    fn path(&self) -> String {
        let text = |name: &Option<Name>| name.as_ref().map(ToString::to_string);
        let words = [
            ("node", text(&self.node)),
            ("policy", text(&self.policy)),
            ("state", self.state.clone()),
        ];
        let words = words.into_iter().filter_map(|(key, word)| Some(format!("{key}={}", word?)));
        format!("/protection?{}", words.collect::<Vec<_>>().join("&"))
    }
}

/// The code for monitoring.
fn code(sources: &[SourceProtection]) -> Code {
    use ProtectionState as State;
    match sources.iter().map(|one| one.state).max() {
        Some(State::Unprotected) => Code::Unprotected,
        Some(State::AtRisk | State::NoPromise) => Code::AtRisk,
        Some(State::Protected | State::Paused | State::New) | None => Code::Complete,
    }
}

fn count(sources: &[SourceProtection]) -> BTreeMap<String, usize> {
    let of = |state| sources.iter().filter(|one| one.state == state).count();
    ProtectionState::ALL.iter().map(|state| (word(state), of(*state))).collect()
}

fn last_line(counts: &Counts) -> String {
    if counts.sources == 0 {
        return "There is nothing to protect. To add a node: icecore server token NODE".to_owned();
    }
    let states = ProtectionState::ALL.iter().map(word).map(|state| (counts.states[&state], state));
    let parts = states.filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts
        .map(|(count, state)| format!("{} {}", units::count(count as u64), state.replace('-', " ")))
        .collect();
    parts.join(" · ")
}

fn table(sources: &[SourceProtection]) -> Table {
    let mut table = Table::new(&[
        left("NODE"),
        left("POLICY"),
        left("SOURCE"),
        left("STATE"),
        left("LAST COMPLETE"),
        left("PROMISE"),
        left("KEPT UNTIL"),
        flexible("WHY"),
    ]);
    for one in sources {
        let text = |text: &Option<String>| escape::text(text.as_deref().unwrap_or("-"));
        table.row([
            text(&one.node),
            text(&one.policy),
            source(one),
            word(&one.state).replace('-', " "),
            ago(one.last_complete),
            one.promise_secs.map_or_else(|| "none".to_owned(), |secs| units::duration(secs as f64)),
            one.kept_until.map_or_else(String::new, when),
            escape::text(&why(one)),
        ]);
        match one.state {
            ProtectionState::Unprotected => table.paint(3, Paint::Red),
            ProtectionState::AtRisk | ProtectionState::NoPromise => table.paint(3, Paint::Yellow),
            ProtectionState::Protected => table.paint(3, Paint::Green),
            ProtectionState::Paused | ProtectionState::New => {}
        }
    }
    table
}

/// The source, and its class if it is not the usual one.
fn source(one: &SourceProtection) -> String {
    let class = one.class.as_ref().map_or_else(String::new, |class| format!(" class {class}"));
    escape::text(&format!("{}{class}", one.source.as_deref().unwrap_or("-")))
}

fn why(one: &SourceProtection) -> String {
    let mut parts = vec![one.reason.clone()];
    parts.extend(one.paused_until.map(|until| format!("until {}", when(until))));
    let is_bad = matches!(one.state, ProtectionState::AtRisk | ProtectionState::Unprotected);
    let last = one.last_run.as_ref().filter(|_| is_bad);
    let last = last.filter(|last| last.state != api::jobs::JobState::Complete);
    parts.extend(last.map(|last| {
        let error = last.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        format!("job {} {}{error}", last.job, word(&last.state))
    }));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}
