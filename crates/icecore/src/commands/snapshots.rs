//! `icecore snapshots`.

use super::groups::{self, parse_groups};
use crate::codes::Code;
use crate::context::{Context, Unread};
use crate::failure::{Failure, Result};
use crate::out::Paint;
use crate::{escape, time, units};
use client::effective_time::{self, EffectiveTime};
use client::manifest::Snapshot;
use client::retention::GroupBy;
use repository::snapshots::SnapshotRef;
use serde::Serialize;
use std::collections::BTreeMap;

/// List the snapshots.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore snapshots\n  icecore snapshots --node web-1 --tag daily --json\n  icecore snapshots --latest 1\n  icecore snapshots --group-by node"
)]
pub(crate) struct Snapshots {
    #[command(flatten)]
    filter: Filter,
    /// Only the newest N of each group.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    latest: Option<u32>,
    /// What makes a group: source (node and paths), node, paths and tags, joined by commas [default with --latest: node,paths].
    #[arg(long, value_name = "WHAT", value_parser = parse_groups)]
    group_by: Option<GroupBy>,
}

/// Which snapshots are meant.
#[derive(clap::Args, Debug, Default, Clone)]
pub(crate) struct Filter {
    /// Only of this node.
    #[arg(long, alias = "host", value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Only with this tag; given several times: with all of them.
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Only of this path.
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<String>,
}

impl Filter {
    /// Whether it asks for anything.
    pub(crate) fn is_any(&self) -> bool {
        self.node.is_some() || !self.tags.is_empty() || !self.paths.is_empty()
    }

    /// Whether `snapshot` is meant.
    pub(crate) fn takes(&self, snapshot: &Snapshot) -> bool {
        let body = &snapshot.body;
        self.node.as_ref().is_none_or(|node| *node == body.node)
            && self.tags.iter().all(|tag| body.tags.contains(tag))
            && self.paths.iter().all(|path| is_among(path, &body.paths))
    }
}

/// As it was typed (streams have names), or as `backup` would have taken it.
fn is_among(typed: &str, paths: &[String]) -> bool {
    let taken = super::backup::absolute(typed.as_ref()).map(|path| escape::escape(&path));
    paths.iter().any(|path| path == typed || taken.as_ref().is_ok_and(|taken| path == taken))
}

/// A snapshot as JSON shows it.
#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    pub(crate) snapshot_id: String,
    time: String,
    node: &'a str,
    paths: &'a [String],
    tags: &'a [String],
    partial: bool,
    program: &'a str,
    objects: u64,
    bytes: u64,
    bytes_stored: u64,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let (body, report) = (&snapshot.body, &snapshot.body.report);
        Self {
            snapshot_id: snapshot.id().to_string(),
            time: time::json(snapshot.time()),
            node: &body.node,
            paths: &body.paths,
            tags: &body.tags,
            partial: body.partial,
            program: &body.program,
            objects: report.objects_inspected,
            bytes: report.bytes_inspected,
            bytes_stored: report.bytes_transferred,
        }
    }
}

/// A snapshot that does not count.
#[derive(Serialize)]
struct Unusable {
    snapshot_id: String,
    is_trusted: bool,
    reason: String,
}

impl Unusable {
    fn new((name, error): &Unread) -> Self {
        let (is_trusted, reason) = match error {
            client::Error::Untrusted { why, .. } => (false, why.clone()),
            _ => (true, error.to_string()),
        };
        Self { snapshot_id: name.id.to_string(), is_trusted, reason }
    }

    fn row(&self, context: &Context) -> String {
        let what = if self.is_trusted { "cannot be read" } else { "not trusted" };
        let id: String = self.snapshot_id.chars().take(8).collect();
        let reason = escape::text(&self.reason);
        format!("{id:<10}{}", context.out.paint(Paint::Red, &format!("{what}: {reason}")))
    }
}

/// A snapshot whose time contradicts the order in which snapshots were made.
#[derive(Serialize)]
struct Odd {
    snapshot_id: String,
    reason: String,
}

fn suspects(all: &[Snapshot], now_secs: i64) -> Vec<(SnapshotRef, Odd)> {
    let heads: Vec<_> =
        all.iter().map(|snapshot| (snapshot.head, snapshot.receipt.clone())).collect();
    let both = all.iter().zip(effective_time::effective_times(&heads, now_secs));
    let odd = both.filter_map(|(snapshot, effective)| match effective {
        EffectiveTime::Known(_) => None,
        EffectiveTime::Suspect(reason) => {
            let snapshot_id = snapshot.id().to_string();
            Some((snapshot.name, Odd { snapshot_id, reason }))
        }
    });
    odd.collect()
}

/// What to fall back on where the newest snapshot of a source is partial.
fn last_complete(all: &[Snapshot]) -> Vec<String> {
    let mut newest: BTreeMap<_, (&Snapshot, Option<&Snapshot>)> = BTreeMap::new();
    for snapshot in all {
        let (last, complete) = newest.entry(snapshot.head.source.0).or_insert((snapshot, None));
        *last = snapshot;
        *complete = Some(snapshot).filter(|it| !it.body.partial).or(*complete);
    }
    let partial = newest.into_values().filter(|(last, _)| last.body.partial);
    let text = |(last, complete): (&Snapshot, Option<&Snapshot>)| {
        let what = match complete {
            Some(complete) => {
                format!("{} of {}", short_id(complete), time::show(complete.time()))
            }
            None => "none".to_owned(),
        };
        let node = escape::text(&last.body.node);
        format!("{} of {node} is partial; the last complete one: {what}", short_id(last))
    };
    partial.map(text).collect()
}

#[derive(Serialize)]
struct Count {
    snapshots: usize,
    damaged: usize,
}

impl Snapshots {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let archive = context.open()?;
        let (mut all, unread) = context.listed(&archive)?;
        let odd = suspects(&all, archive.now_secs());
        all.retain(|snapshot| self.filter.takes(snapshot));
        let groups = groups::groups(self.group_by.unwrap_or_default(), &all, self.latest);
        context.out.line(&heading())?;
        for (name, snapshots) in &groups {
            if self.group_by.is_some() {
                context.out.line(&format!("{}:", escape::text(name)))?;
            }
            let told = snapshots.iter().try_for_each(|snapshot| {
                context.out.item("snapshot", &Shown::new(snapshot), || row(context, snapshot))
            });
            Failure::heard_or_not(told)?;
        }
        let shown: usize = groups.iter().map(|(_, snapshots)| snapshots.len()).sum();
        let told = unread.iter().map(Unusable::new).try_for_each(|unusable| {
            context.out.item("unusable", &unusable, || unusable.row(context))
        });
        Failure::heard_or_not(told)?;
        let is_listed = |(name, _): &&(SnapshotRef, Odd)| all.iter().any(|it| it.name == *name);
        let told = odd.iter().filter(is_listed).try_for_each(|(_, odd)| {
            let text = || format!("{} is suspect: {}", &odd.snapshot_id[..8], odd.reason);
            context.out.item("suspect", odd, text)
        });
        Failure::heard_or_not(told)?;
        last_complete(&all).iter().try_for_each(|line| context.out.line(line))?;
        context.out.line(&units::many(shown as u64, "snapshot"))?;
        let damaged = unread.len();
        let code = if damaged > 0 { Code::Damage } else { Code::Complete };
        context.out.summary(code, &Count { snapshots: shown, damaged })
    }
}

fn heading() -> String {
    format!(
        "{:<10}{:<21}{:<16}{:>12}{:>12}  {}",
        "ID", "Time", "Node", "Objects", "Size", "Paths and tags"
    )
}

/// A snapshot as people see it.
pub(crate) fn row(context: &Context, snapshot: &Snapshot) -> String {
    let (body, report) = (&snapshot.body, &snapshot.body.report);
    let mut what: Vec<_> = body.paths.iter().map(|path| escape::text(path)).collect();
    what.extend(body.tags.iter().map(|tag| format!("[{}]", escape::text(tag))));
    if body.partial {
        what.push(context.out.paint(Paint::Yellow, "partial"));
    }
    format!(
        "{:<10}{:<21}{:<16}{:>12}{:>12}  {}",
        short_id(snapshot),
        time::show(snapshot.time()),
        escape::text(&body.node),
        units::count(report.objects_inspected),
        units::bytes(report.bytes_inspected),
        what.join(" ")
    )
}

/// Enough digits to name a snapshot.
pub(crate) fn short_id(snapshot: &Snapshot) -> String {
    snapshot.id().to_string().chars().take(8).collect()
}
