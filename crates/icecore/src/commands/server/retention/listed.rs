//! Snapshots in lists, with what becomes of each.

use crate::clock_advice::advised;
use crate::commands::server::{ago, when, word};
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Table, flexible, left};
use crate::terminal::Paint;
use crate::{escape, units};
use api::retention::{RetainedSnapshot, RetainedSnapshots, SnapshotState};

/// Digits of an id that are shown.
const ID_DIGITS: usize = 8;

/// The beginning of an id.
pub(super) fn short(id: &str) -> String {
    escape::text(&id.chars().take(ID_DIGITS).collect::<String>())
}

/// Prints a table of them.
pub(super) fn table(snapshots: &[RetainedSnapshot], context: &Context) -> Result<()> {
    let mut table = Table::new(&[
        left("ID"),
        left("RECEIVED"),
        left("NODE"),
        left("POLICY"),
        left("SOURCE"),
        left("STATE"),
        flexible("UNTIL"),
    ]);
    for one in snapshots {
        context.out.record("snapshot", one)?;
        let partial = if one.is_partial { " · partial" } else { "" };
        table.row([
            short(&one.id),
            format!("{}{partial}", when(one.received)),
            escape::text(&one.node),
            if one.policy.is_empty() { "-".to_owned() } else { escape::text(&one.policy) },
            escape::text(&one.source),
            word(&one.state),
            until(one),
        ]);
        if matches!(one.state, SnapshotState::Trash | SnapshotState::Expired) {
            table.paint(5, Paint::Yellow);
        }
    }
    table.print(&context.out)
}

/// What ends the state, in a line.
fn until(one: &RetainedSnapshot) -> String {
    match (one.state, one.until, one.reasons.as_slice()) {
        (SnapshotState::Expired, ..) => "the next expiry".to_owned(),
        (SnapshotState::Trash, Some(until), _) => format!("deleted after {}", when(until)),
        (SnapshotState::Locked, Some(until), _) => when(until),
        (_, _, [only]) => escape::text(&format!("{}: {}", only.why, only.until)),
        (_, Some(until), [_, ..]) => when(until),
        (_, _, reasons) => units::many(reasons.len() as u64, "reason"),
    }
}

/// A snapshot with every reason, in lines.
pub(super) fn explained(one: &RetainedSnapshot, context: &Context) -> Result<()> {
    let series = match one.policy.as_str() {
        "" => "no policy".to_owned(),
        policy => format!("policy {policy}, source {}, class {}", one.source, one.class),
    };
    let head = format!(
        "{}  {}  {} of {} ({series})",
        short(&one.id),
        word(&one.state),
        when(one.received),
        if one.node.is_empty() { "an unknown node" } else { &one.node },
    );
    context.out.print(&escape::text(&head))?;
    for reason in &one.reasons {
        context.out.print(&escape::text(&format!("          {}: {}", reason.why, reason.until)))?;
    }
    match (one.state, one.until) {
        (SnapshotState::Trash, Some(until)) => {
            let by = if one.is_named { "by name" } else { "by the rules" };
            let since = ago(one.trashed.or(Some(jiff::Timestamp::now().as_second())));
            let line = format!("in the trash {by} since {since}: deleted after {}", when(until));
            context.out.print(&format!("          {line}"))
        }
        (SnapshotState::Expired, _) => {
            context.out.print("          nothing keeps it: deleted by the next expiry")
        }
        _ => Ok(()),
    }
}

/// What keeps everything from going, and what could not be read.
pub(super) fn doubts(found: &RetainedSnapshots, context: &Context) {
    if let Some(doubt) = &found.doubt {
        let doubt = advised(doubt, "icecore server clock confirm");
        context.out.note(&escape::text(&format!("nothing expires while {doubt}")));
    }
    for one in &found.unread {
        let line = format!(
            "the domain {} cannot be read: {}; nothing in it expires",
            one.domain, one.error
        );
        context.out.note(&escape::text(&line));
    }
}
