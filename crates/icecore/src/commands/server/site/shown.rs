//! What a change does, as people read it.

use crate::codes::Code;
use crate::commands::server::{when, word};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::terminal::Paint;
use crate::{escape, units};
use api::retention::{EffectKind, SnapshotEffects};
use api::sites::{KeyChange, ObjectAction, ObjectChange, SiteChange};
use serde_json::Value;
use std::io::IsTerminal;

/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 200;

/// Snapshots that are listed before somebody says yes.
const SNAPSHOTS_SHOWN: usize = 20;

/// Makes a change, or only shows it. If snapshots go then, somebody says yes to that first.
pub(super) fn confirmed(
    [is_dry_run, yes]: [bool; 2],
    change_with: impl Fn(bool) -> Result<SiteChange>,
    context: &Context,
) -> Result<Code> {
    let plan = change_with(true)?;
    if is_dry_run {
        return change(&plan, context);
    }
    let going = going(&plan);
    if going > 0 && !yes {
        let snapshots = units::many(going, "snapshot");
        let message = format!("{snapshots} would go: nothing was changed");
        let question = format!("Let {snapshots} go?");
        ask(&plan, &message, &question, context)?;
    }
    change(&change_with(false)?, context)
}

/// Asks on a terminal; elsewhere somebody must have said yes before.
pub(super) fn ask(
    plan: &SiteChange,
    message: &str,
    question: &str,
    context: &Context,
) -> Result<()> {
    let is_watched = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_watched || context.out.json {
        let hint = "To see what goes: --dry-run. To let it go: --yes";
        return Err(Failure::usage(message).hint(hint));
    }
    lines(plan, context)?;
    context.out.flush()?;
    if crate::secret::confirm(question)? {
        return Ok(());
    }
    Err(Failure::new(Code::Failed, "not confirmed: nothing was changed"))
}

/// How many snapshots are not kept any more.
pub(super) fn going(plan: &SiteChange) -> u64 {
    plan.snapshots.as_ref().map_or(0, SnapshotEffects::going)
}

/// What a change does to snapshots: how many of each policy, and those that go.
fn effects(of: &SnapshotEffects, context: &Context) -> Result<()> {
    for policy in &of.policies {
        let words = [
            (policy.goes, "go"),
            (policy.stays, "stay"),
            (policy.otherwise, "are kept for other reasons or another time"),
        ];
        let parts = words.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> =
            parts.map(|(count, word)| format!("{} {word}", units::count(*count))).collect();
        let of = match policy.policy.as_str() {
            "" => "snapshots of no policy".to_owned(),
            name => format!("snapshots of the policy {name}"),
        };
        let line = format!("{of}: {}", parts.join(", "));
        context.out.print(&escape::text(&line))?;
    }
    let goes = of.snapshots.iter().filter(|one| one.effect == EffectKind::Goes);
    let all = goes.clone().count();
    for one in goes.take(SNAPSHOTS_SHOWN) {
        let id: String = one.id.chars().take(8).collect();
        let (time, before) = (when(one.received), word(&one.before));
        let line = format!("  goes    {id}  {time}  {} {}  (was {before})", one.node, one.source);
        context.out.print(&escape::text(&line))?;
    }
    if all > SNAPSHOTS_SHOWN {
        let more = all - SNAPSHOTS_SHOWN;
        context.out.print(&format!("  and {more} more; all that are told: --json"))?;
    }
    Ok(())
}

/// Prints the change and the last line.
pub(super) fn change(change: &SiteChange, context: &Context) -> Result<Code> {
    lines(change, context)?;
    context.out.line(&sum(change))?;
    for warning in &change.warnings {
        let fix = warning.fix.as_deref().map_or_else(String::new, |fix| format!("; {fix}"));
        context.out.note(&format!("warning: {}{fix}", warning.message));
    }
    context.out.summary(Code::Complete, change)
}

/// Each object with its keys.
pub(super) fn lines(change: &SiteChange, context: &Context) -> Result<()> {
    for object in &change.changes {
        let (word, paint) = match object.action {
            ObjectAction::Created => ("create", Paint::Green),
            ObjectAction::Changed => ("change", Paint::Yellow),
            ObjectAction::Removed => ("remove", Paint::Red),
        };
        let name = escape::text(&format!("{} {}", object.kind, object.name));
        context.out.print(&format!("{}  {name}", context.out.paint(paint, word)))?;
        keys(object).iter().try_for_each(|line| context.out.print(line))?;
    }
    change.snapshots.iter().try_for_each(|of| effects(of, context))
}

fn keys(object: &ObjectChange) -> Vec<String> {
    let longest = object.keys.iter().map(|key| key.key.chars().count()).max().unwrap_or(0);
    let line = |key: &KeyChange| {
        let value = match (&key.old, &key.new) {
            (None, Some(new)) => value(new),
            (Some(old), None) => format!("{} -> not set", value(old)),
            (old, new) => format!("{} -> {}", optional(old), optional(new)),
        };
        format!("          {:<longest$}  {value}", escape::text(&key.key))
    };
    object.keys.iter().map(line).collect()
}

fn optional(of: &Option<Value>) -> String {
    of.as_ref().map_or_else(|| "not set".to_owned(), value)
}

/// A value: texts without quotes, lists with commas.
pub(super) fn value(of: &Value) -> String {
    let text = match of {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(value).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let shown: String = text.chars().take(VALUE_CHARS_MAX).collect();
    let cut = if shown.len() < text.len() { "…" } else { "" };
    escape::text(&format!("{shown}{cut}"))
}

/// `2 created, 1 changed.`
fn sum(change: &SiteChange) -> String {
    let count = |action: ObjectAction| {
        change.changes.iter().filter(|object| object.action == action).count() as u64
    };
    let words = [
        (count(ObjectAction::Created), "created"),
        (count(ObjectAction::Changed), "changed"),
        (count(ObjectAction::Removed), "removed"),
    ];
    let parts = words.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> =
        parts.map(|(count, word)| format!("{} {word}", units::count(*count))).collect();
    match (parts.is_empty(), change.dry_run) {
        (true, _) => {
            format!("Nothing changes: the site is as declared (version {}).", change.version)
        }
        (false, true) => {
            format!("Would be: {}. Nothing was changed (--dry-run).", parts.join(", "))
        }
        (false, false) => format!("{}; the site has version {}.", parts.join(", "), change.version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_stand_below_each_other_with_old_and_new_values() {
        let key = |key: &str, old: Option<Value>, new: Option<Value>| KeyChange {
            key: key.into(),
            old,
            new,
        };
        let object = ObjectChange {
            kind: "policy".into(),
            name: "web".into(),
            action: ObjectAction::Changed,
            keys: vec![
                key("paths", Some(json!(["/a"])), Some(json!(["/a", "/b"]))),
                key("unit", Some(json!("slow")), None),
                key("promise", None, Some(json!("26h"))),
            ],
        };
        let expected = [
            "          paths    /a -> /a, /b",
            "          unit     slow -> not set",
            "          promise  26h",
        ];
        assert_eq!(keys(&object), expected);
    }

    #[test]
    fn values_of_others_move_no_terminal_and_fill_no_screen() {
        assert!(!value(&json!("\u{1b}[2J")).contains('\u{1b}'));
        assert_eq!(value(&json!("x".repeat(VALUE_CHARS_MAX))).chars().count(), VALUE_CHARS_MAX);
        assert!(value(&json!("x".repeat(VALUE_CHARS_MAX + 1))).ends_with('…'));
    }
}
