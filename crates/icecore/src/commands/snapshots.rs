//! `icecore snapshots`.

use super::groups::{self, parse_groups};
use crate::codes::Code;
use crate::context::{Context, Unread};
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::table::{Table, flexible, left, right};
use crate::terminal::Paint;
use crate::{escape, time, units};
use format::entry::Time;
use pipeline::effective_time::{self, EffectiveTime};
use pipeline::manifest::Snapshot;
use pipeline::retention::GroupBy;
use serde::Serialize;
use std::collections::BTreeMap;
use store::SnapshotRef;

/// Paths of a snapshot that the table shows.
const PATHS_MAX: usize = 5;

/// List snapshots.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore snapshots\n  icecore snapshots --node web-1 --tag daily --json\n  icecore snapshots --latest 1\n  icecore snapshots -l\n  icecore snapshots --group-by node"
)]
pub(crate) struct Snapshots {
    #[command(flatten)]
    filter: Filter,
    /// Only the newest N snapshots of each group.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    latest: Option<u32>,
    /// Also show the policy and class of each snapshot, and until when it is locked, as its server signed.
    #[arg(short = 'l', long)]
    long: bool,
    /// Group snapshots by `source` (node and paths), `node`, `paths` or `tags`, joined by commas [default with
    /// --latest: source].
    #[arg(long, value_name = "WHAT", value_parser = parse_groups)]
    group_by: Option<GroupBy>,
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
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    wanted: Option<WantedBy<'a>>,
    /// Until then nobody can remove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    locked_until: Option<String>,
}

/// The policy that wanted a snapshot, as its server says.
#[derive(Serialize)]
struct WantedBy<'a> {
    policy: &'a str,
    source: &'a str,
    class: &'a str,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let (body, report) = (&snapshot.body, &snapshot.body.report);
        let labels = snapshot.receipt.labels();
        let wanted = labels.filter(|labels| !labels.policy.is_empty()).map(|labels| WantedBy {
            policy: &labels.policy,
            source: &labels.source,
            class: &labels.class,
        });
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
            wanted,
            locked_until: lock_end(snapshot).map(time::json),
        }
    }
}

/// When the lock of a snapshot ends, or ended.
fn lock_end(snapshot: &Snapshot) -> Option<Time> {
    let lock = snapshot.receipt.labels()?.lock?;
    Some(Time { secs: lock.until_secs, nanos: 0 })
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
            pipeline::Error::Untrusted { why, .. } => (false, why.clone()),
            _ => (true, error.to_string()),
        };
        Self { snapshot_id: name.id.to_string(), is_trusted, reason }
    }

    fn row(&self, context: &Context) -> String {
        let what = if self.is_trusted { "cannot be read" } else { "untrusted" };
        let id: String = self.snapshot_id.chars().take(8).collect();
        let reason = escape::text(&self.reason);
        format!("{id:<10}{}", context.out.paint(Paint::Red, &format!("{what}: {reason}")))
    }
}

/// A snapshot whose time contradicts the order in which snapshots were made.
#[derive(Serialize)]
struct Suspect {
    snapshot_id: String,
    reason: String,
}

fn suspects(all: &[Snapshot], now_secs: i64) -> Vec<(SnapshotRef, Suspect)> {
    let heads: Vec<_> =
        all.iter().map(|snapshot| (snapshot.head, snapshot.receipt.clone())).collect();
    let both = all.iter().zip(effective_time::effective_times(&heads, now_secs));
    let suspects = both.filter_map(|(snapshot, effective)| match effective {
        EffectiveTime::Known(_) => None,
        EffectiveTime::Suspect(reason) => {
            let snapshot_id = snapshot.id().to_string();
            Some((snapshot.name, Suspect { snapshot_id, reason }))
        }
    });
    suspects.collect()
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
        let node = escape::text(&last.body.node);
        let what = match complete {
            Some(complete) => format!(
                "The last complete one of this source: {} of {}",
                short_id(complete),
                time::show(complete.time())
            ),
            None => "There is no complete one of this source.".to_owned(),
        };
        format!("{} of {node} is partial. {what}", short_id(last))
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
        let repository = context.open_to_read()?;
        let (mut all, unread) = context.listed(&repository)?;
        let now_secs = repository.now_secs();
        let suspects = suspects(&all, now_secs);
        all.retain(|snapshot| self.filter.takes(snapshot));
        let groups = groups::groups(self.group_by.unwrap_or_default(), &all, self.latest);
        for (name, snapshots) in &groups {
            if self.group_by.is_some() {
                context.out.line(&format!("{}:", escape::text(name)))?;
            }
            Failure::ignore_broken_pipe(self.list(context, snapshots))?;
        }
        let printed = unread.iter().map(Unusable::new).try_for_each(|unusable| {
            context.out.item("unusable", &unusable, || unusable.row(context))
        });
        Failure::ignore_broken_pipe(printed)?;
        let is_listed = |(name, _): &&(SnapshotRef, Suspect)| all.iter().any(|it| it.name == *name);
        let printed = suspects.iter().filter(is_listed).try_for_each(|(_, suspect)| {
            let text = || format!("{} is suspect: {}", &suspect.snapshot_id[..8], suspect.reason);
            context.out.item("suspect", suspect, text)
        });
        Failure::ignore_broken_pipe(printed)?;
        last_complete(&all).iter().try_for_each(|line| context.out.line(line))?;
        let shown: Vec<_> = groups.iter().flat_map(|(_, snapshots)| snapshots).copied().collect();
        let damaged = unread.len();
        context.out.line(&self.footer(&shown, damaged, now_secs))?;
        let code = if damaged > 0 { Code::Damage } else { Code::Complete };
        context.out.summary(code, &Count { snapshots: shown.len(), damaged })
    }

    fn footer(&self, shown: &[&Snapshot], damaged: usize, now_secs: i64) -> String {
        let ago = |time: i64| units::ago(now_secs - time);
        let times = || shown.iter().map(|snapshot| snapshot.time().secs);
        match shown {
            [] if damaged > 0 => format!(
                "{} cannot be read or trusted, and no other one matches. To see what can be done: icecore check",
                units::many(damaged as u64, "snapshot")
            ),
            [] if self.filter.is_any() => {
                "No snapshot matches. All of them: icecore snapshots".into()
            }
            [] => "There are no snapshots. To make one: icecore backup PATH. If there were some: icecore check".into(),
            [one] => format!("1 snapshot, made {}", ago(one.time().secs)),
            // In the order in which they were made; a clock may have been wrong meanwhile.
            [first, ..] => format!(
                "{} · newest {} · oldest {}",
                units::many(shown.len() as u64, "snapshot"),
                ago(times().max().unwrap_or(first.time().secs)),
                ago(times().min().unwrap_or(first.time().secs))
            ),
        }
    }
}

impl Snapshots {
    /// Snapshots as people see them: a table.
    fn list(&self, context: &Context, snapshots: &[&Snapshot]) -> Result<()> {
        let mut columns = vec![
            left("ID"),
            left("TIME"),
            left("NODE"),
            flexible("PATHS"),
            right("OBJECTS"),
            right("SIZE"),
            right("STORED"),
            flexible("TAGS"),
        ];
        if self.long {
            columns.extend([left("POLICY"), left("CLASS"), left("LOCKED UNTIL")]);
        }
        let mut table = Table::new(&columns);
        for snapshot in snapshots {
            context.out.record("snapshot", &Shown::new(snapshot))?;
            let (body, report) = (&snapshot.body, &snapshot.body.report);
            let words =
                |words: &[String]| words.iter().map(|word| escape::text(word)).collect::<Vec<_>>();
            let partial = body.partial.then(|| "partial".to_owned());
            let tags: Vec<_> = partial.into_iter().chain(words(&body.tags)).collect();
            let mut row = vec![
                short_id(snapshot),
                time::show(snapshot.time()),
                escape::text(&body.node),
                shown_paths(&body.paths),
                units::count(report.objects_inspected),
                units::bytes(report.bytes_inspected),
                units::bytes(report.bytes_transferred),
                tags.join(" · "),
            ];
            if self.long {
                row.extend(long(snapshot));
            }
            table.row(row);
            if body.partial {
                table.paint(7, Paint::Yellow);
            }
        }
        table.print(&context.out)
    }
}

/// The first paths, and how many more there are.
fn shown_paths(paths: &[String]) -> String {
    let first = paths.iter().take(PATHS_MAX).map(|path| escape::text(path));
    let more = paths.len().saturating_sub(PATHS_MAX) as u64;
    let more = (more > 0).then(|| format!("and {} more", units::count(more)));
    first.chain(more).collect::<Vec<_>>().join(" ")
}

/// Policy, class and lock.
fn long(snapshot: &Snapshot) -> [String; 3] {
    let labels = snapshot.receipt.labels();
    let [policy, class] = [labels.map(|it| &it.policy), labels.map(|it| &it.class)]
        .map(|word| word.map_or_else(String::new, |word| escape::text(word)));
    [policy, class, lock_end(snapshot).map(time::show).unwrap_or_default()]
}

/// Enough digits to name a snapshot.
pub(crate) fn short_id(snapshot: &Snapshot) -> String {
    snapshot.id().to_string().chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_paths_the_first_are_shown_and_the_rest_counted() {
        let paths = |count: usize| (0..count).map(|at| format!("/{at}")).collect::<Vec<_>>();
        assert_eq!(shown_paths(&paths(5)), "/0 /1 /2 /3 /4");
        assert_eq!(shown_paths(&paths(5000)), "/0 /1 /2 /3 /4 and 4,995 more");
    }
}
