//! `icecore forget`.

mod keep;

use super::groups::{self, parse_groups};
use super::snapshots::short_id;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::terminal::Paint;
use crate::wait::Wait;
use crate::{escape, time, units};
use api::enroll::KeyMode;
use format::entry::Time;
use ids::SnapshotId;
use keep::KeepFlags;
use pipeline::UnlockedRepository;
use pipeline::manifest::Snapshot;
use pipeline::retention::{Group, GroupBy, GroupKey, RetentionDecision, RetentionPolicy};
use serde::Serialize;
use std::collections::BTreeMap;
use store::SnapshotRef;

const EXAMPLES: &str = "Examples:
  icecore forget --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run
  icecore forget --keep-last 3 --node web-1
  icecore forget --keep-within 30d --keep-within-monthly 1y --keep-tag release
  icecore forget --keep-daily 30 --group-by node,tags --dry-run
  icecore forget --profile work --prune --wait 10m
  icecore forget 3fa9c1d2
  icecore forget --damaged 3fa9c1d2   (snapshots that `icecore check` reports as unreadable)

The rules apply to each source (node and paths) separately, or to each group of --group-by. The newest \
complete snapshot of each is always kept, and the oldest while a rule that counts has not kept as many as it may. \
Without rules on the command line, `keep` of the config file \
applies, to snapshots of this node only and, if the file or the profile names paths, only to those of exactly these \
paths; --node or --path chooses others. To free the space afterwards: `icecore reclaim`, or --prune.

On a node of a server, forget needs a domain with client keys, a full key, and the administrator's \
permission: icecore server allow-forget NODE.";

/// Digits of an id that are required when the snapshot cannot be read.
const ID_DIGITS_MIN: usize = 8;

/// Remove snapshots: named ones, or those that no keep rule keeps.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Forget {
    /// Snapshots to forget.
    #[arg(value_name = "SNAP")]
    snapshots: Vec<String>,
    #[command(flatten)]
    keep: KeepFlags,
    #[command(flatten)]
    filter: Filter,
    /// Apply the rules to groups of `source` (node and paths), `node`, `paths` or `tags`, joined by commas. With `node`
    /// alone, backups of different paths compete with each other [default: source].
    #[arg(long, value_name = "WHAT", value_parser = parse_groups, conflicts_with = "snapshots")]
    group_by: Option<GroupBy>,
    /// Forget snapshots that can no longer be read, by their ids.
    #[arg(long, requires = "snapshots")]
    damaged: bool,
    /// Show what would be kept, and why, and what would be removed; change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Free the space afterwards, as `icecore reclaim` does. Only on the machine that holds the repository.
    #[arg(long, conflicts_with = "dry_run")]
    prune: bool,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Serialize)]
struct Decided<'a> {
    snapshot_id: String,
    time: String,
    node: &'a str,
    paths: &'a [String],
    tags: &'a [String],
    action: &'static str,
    reasons: &'a [String],
    /// What the snapshots of its group have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupKey<'a>>,
}

impl<'a> Decided<'a> {
    fn new(snapshot: &'a Snapshot, reasons: &'a [String], by: Option<GroupBy>) -> Self {
        let (body, time) = (&snapshot.body, time::json(snapshot.time()));
        let action = if reasons.is_empty() { "remove" } else { "keep" };
        Self {
            snapshot_id: snapshot.id().to_string(),
            time,
            node: &body.node,
            paths: &body.paths,
            tags: &body.tags,
            action,
            reasons,
            group: by.map(|by| by.key(snapshot)),
        }
    }
}

#[derive(Serialize)]
struct Count {
    kept: usize,
    removed: usize,
    dry_run: bool,
}

/// The same, and what came back.
#[derive(Serialize)]
struct Pruned {
    #[serde(flatten)]
    count: Count,
    reclaimed: pipeline::reclaim::ReclaimReport,
}

/// A policy, whose snapshots it is for, and what it looks at together.
struct Wanted {
    policy: RetentionPolicy,
    filter: Filter,
    by: GroupBy,
}

/// What will happen to snapshots; printed after it has happened.
#[derive(Default)]
struct Plan {
    kept: usize,
    removed: Vec<SnapshotRef>,
    /// The filter took no snapshot.
    is_of_none: bool,
    /// What the policy looked at together.
    by: Option<GroupBy>,
    lines: Vec<PlanLine>,
}

/// A line of the plan.
enum PlanLine {
    /// Above the decisions about a group.
    Group(String),
    Decided(Box<Snapshot>, Vec<String>),
    Unread(String),
}

impl PlanLine {
    fn show(&self, context: &Context, by: Option<GroupBy>) -> Result<()> {
        match self {
            Self::Group(text) | Self::Unread(text) => context.out.line(text),
            Self::Decided(snapshot, reasons) => show(context, snapshot, reasons, by),
        }
    }
}

/// Snapshots that a server keeps whatever is typed, and why.
pub(crate) type Kept = BTreeMap<SnapshotId, String>;

impl Forget {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let wanted = self.wanted(context)?;
        self.check(&wanted.policy)?;
        self.refuse_from_afar(context)?;
        let repository = context.open()?;
        let reclaim = match context.remote() {
            Some(remote) => {
                format!(" on the server: icecore server reclaim {}", remote.names().1)
            }
            None => ": icecore reclaim (or use --prune)".to_owned(),
        };
        self.forget(context, (&repository, &Kept::new()), &wanted, &reclaim)
    }

    /// The same in a repository of a server, some of whose snapshots are kept whatever is typed; the config file is of
    /// this machine's own backups, and says nothing here.
    pub(crate) fn run_in(
        &self,
        context: &Context,
        open: impl FnOnce() -> Result<(UnlockedRepository, Kept)>,
        reclaim: &str,
    ) -> Result<Code> {
        let wanted = self.typed();
        self.check(&wanted.policy)?;
        let (repository, kept) = open()?;
        self.forget(context, (&repository, &kept), &wanted, reclaim)
    }

    /// What a node cannot do is said before anything is done.
    fn refuse_from_afar(&self, context: &Context) -> Result<()> {
        let Some(node) = context.node()? else { return Ok(()) };
        let own = &node.identity.agent;
        let domain = context.global.server.domain.as_deref().unwrap_or(own.domain.as_str());
        if own.keys == KeyMode::Managed && domain == own.domain.as_str() {
            let message = format!(
                "the server manages the keys of the domain '{domain}': this machine has no key that can forget"
            );
            return Err(Failure::new(Code::NotAllowed, message).hint(format!(
                "On the server: icecore server forget {domain} --keep-daily 7 --keep-weekly 5 --dry-run"
            )));
        }
        if self.prune {
            let message = "--prune works only on the machine that holds the repository; nothing was forgotten";
            return Err(Failure::new(Code::NotAllowed, message).hint(format!(
                "Leave out --prune, and free the space on the server: icecore server reclaim {domain}"
            )));
        }
        Ok(())
    }

    fn forget(
        &self,
        context: &Context,
        (repository, kept): (&UnlockedRepository, &Kept),
        wanted: &Wanted,
        reclaim: &str,
    ) -> Result<Code> {
        let plan = if self.snapshots.is_empty() {
            by_policy(context, (repository, kept), wanted)?
        } else {
            self.by_name(context, repository)?
        };
        refuse_kept(&plan, kept)?;
        let refused = repository.refuse_other_nodes(&plan.removed);
        refused.map_err(|error| context.failure(error))?;
        if self.dry_run {
            refuse_locked(context, repository, &plan)?;
        } else {
            let forgotten = self.wait.patiently(context, || repository.forget(&plan.removed));
            let forgotten = forgotten.map_err(|error| context.failure(error))?;
            let gone = (plan.removed.len() as u64).saturating_sub(forgotten);
            if gone > 0 {
                let gone = units::many(gone, "snapshot");
                context.out.note(&format!("{gone} had been forgotten already"));
            }
        }
        // Only now: what could not be removed was not.
        plan.lines.iter().try_for_each(|line| line.show(context, plan.by))?;
        self.sum_up(context, repository, &plan, reclaim)
    }

    fn sum_up(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
        plan: &Plan,
        reclaim: &str,
    ) -> Result<Code> {
        let removed = plan.removed.len();
        let count = Count { kept: plan.kept, removed, dry_run: self.dry_run };
        let what = units::many(removed as u64, "snapshot");
        context.out.line(&match (self.dry_run, removed) {
            (_, 0) if plan.is_of_none => "Nothing to forget: no snapshot was chosen.".to_owned(),
            (_, 0) => "Nothing to forget: all snapshots stay.".to_owned(),
            (true, _) => format!("Would forget {what}. Nothing was removed (--dry-run)."),
            (false, _) if self.prune => format!("Forgot {what}."),
            (false, _) => format!("Forgot {what}. To free the space{reclaim}"),
        })?;
        if !self.prune {
            return context.out.summary(Code::Complete, &count);
        }
        let reclaimed = super::reclaim::all(context, repository, self.wait)?;
        context.out.summary(Code::Complete, &Pruned { count, reclaimed })
    }

    /// What the command line says.
    fn typed(&self) -> Wanted {
        let by = self.group_by.unwrap_or(GroupBy::SOURCE);
        Wanted { policy: self.keep.policy(), filter: self.filter.clone(), by }
    }

    /// What the command line says; without a rule there, what the config file keeps of what is backed up by it.
    fn wanted(&self, context: &Context) -> Result<Wanted> {
        let typed = self.typed();
        let Some(keep) = &context.profile.keep else { return Ok(typed) };
        if !typed.policy.is_empty() || !self.snapshots.is_empty() {
            return Ok(typed);
        }
        let wrong = |reason| {
            Failure::usage(format!("`keep` in the config file: {reason}"))
                .hint("For example: keep = { daily = 7, weekly = 5, group-by = \"node,tags\" }")
        };
        let by = keep.group_by.as_deref().map(parse_groups).transpose().map_err(wrong)?;
        Ok(Wanted {
            policy: KeepFlags::of(keep).map_err(wrong)?.policy(),
            filter: self.filter_of_profile(context)?,
            by: self.group_by.or(by).unwrap_or(GroupBy::SOURCE),
        })
    }

    /// Whose snapshots were named by --node or --path; else those of the source that a backup by the config file makes
    /// here, and no others that have its paths among their own.
    fn filter_of_profile(&self, context: &Context) -> Result<Filter> {
        let typed = self.filter.clone();
        if typed.node.is_some() || !typed.paths.is_empty() {
            return Ok(typed);
        }
        let node = super::backup::node_name(None, context)?;
        let exactly = super::backup::paths_of_file(context)?;
        Ok(Filter { node: Some(node), exactly, ..typed })
    }

    /// Never deletes all for want of a policy.
    fn check(&self, policy: &RetentionPolicy) -> Result<()> {
        let example = "For example: icecore forget --keep-daily 7 --keep-weekly 5 --dry-run";
        match (self.snapshots.is_empty(), policy.is_empty()) {
            (true, true) => {
                Err(Failure::usage("give keep rules or snapshots; nothing was forgotten")
                    .hint(example))
            }
            (false, false) => {
                Err(Failure::usage("keep rules and named snapshots cannot be combined")
                    .hint(example))
            }
            _ => Ok(()),
        }
    }

    /// Snapshots by nothing but the ids that their files are named by.
    fn by_id(&self, context: &Context, repository: &UnlockedRepository) -> Result<Plan> {
        let all = repository.store.snapshots().map_err(|error| context.failure(error.into()))?;
        let mut plan = Plan::default();
        for text in &self.snapshots {
            let is_meant = |name: &&SnapshotRef| name.id.begins_with(text);
            let meant: Vec<_> = all.iter().filter(is_meant).copied().collect();
            // One that is gone without a word is forgotten by its whole id.
            let gone = SnapshotId::from_hex(text).map(|id| SnapshotRef { sequence: 0, id });
            let name = match (&meant[..], gone) {
                ([name], _) => *name,
                ([], Some(name)) => name,
                _ => return Err(ambiguous(text, meant.len())),
            };
            if text.len() < ID_DIGITS_MIN {
                return Err(Failure::usage(format!(
                    "'{text}' is too short for the id of a damaged snapshot: give at least {ID_DIGITS_MIN} digits"
                )));
            }
            if !plan.removed.contains(&name) {
                plan.removed.push(name);
                let what = if meant.is_empty() { "has no file any more" } else { "not read" };
                plan.lines.push(PlanLine::Unread(format!("  remove  {}  ({what})", name.id)));
            }
        }
        Ok(plan)
    }

    fn by_name(&self, context: &Context, repository: &UnlockedRepository) -> Result<Plan> {
        if self.damaged {
            return self.by_id(context, repository);
        }
        let mut plan = Plan::default();
        for text in &self.snapshots {
            let (name, snapshot) = context.to_forget(repository, text, &self.filter)?;
            if plan.removed.contains(&name) {
                continue;
            }
            plan.removed.push(name);
            plan.lines.push(match snapshot {
                Ok(snapshot) => PlanLine::Decided(Box::new(snapshot), Vec::new()),
                Err(error) => PlanLine::Unread(format!("  remove  {}  {error}", name.id)),
            });
        }
        Ok(plan)
    }
}

fn by_policy(
    context: &Context,
    (repository, kept): (&UnlockedRepository, &Kept),
    Wanted { policy, filter, by }: &Wanted,
) -> Result<Plan> {
    let all = context.snapshots(repository)?.0;
    let unmet = filter.unmet(&all).filter(|_| filter.is_any());
    if let Some(unmet) = &unmet {
        context.out.note(&format!("{unmet}. All of them: icecore snapshots"));
    }
    let takes = |snapshot: &Snapshot| filter.takes(snapshot);
    let groups = repository.decide(*by, policy, &all, &takes, &time::calendar);
    let mut groups = groups.map_err(|error| context.failure(error))?;
    refuse_to_empty(&groups)?;
    for decision in groups.iter_mut().flat_map(|group| &mut group.decisions) {
        decision.reasons.extend(kept.get(&decision.snapshot.id()).cloned());
    }
    // Behind what the server says: it names the lock, too.
    keep_what_is_locked(context, repository, &mut groups)?;
    let mut plan = Plan { by: Some(*by), is_of_none: unmet.is_some(), ..Plan::default() };
    for group in &groups {
        let removed = group.decisions.iter().filter(|decision| decision.reasons.is_empty()).count();
        plan.lines.push(PlanLine::Group(format!(
            "{}: keep {}, remove {}",
            name(&group.key),
            units::count((group.decisions.len() - removed) as u64),
            units::count(removed as u64)
        )));
        for RetentionDecision { snapshot, reasons } in &group.decisions {
            plan.removed.extend(reasons.is_empty().then_some(snapshot.name));
            plan.lines.push(PlanLine::Decided(Box::new((*snapshot).clone()), reasons.clone()));
        }
    }
    let met: usize = groups.iter().map(|group| group.decisions.len()).sum();
    plan.kept = met - plan.removed.len();
    Ok(plan)
}

/// What would be refused stays, and says why.
fn keep_what_is_locked(
    context: &Context,
    repository: &UnlockedRepository,
    groups: &mut [Group<'_>],
) -> Result<()> {
    let decisions = || groups.iter().flat_map(|group| &group.decisions);
    let removed = decisions().filter(|decision| decision.reasons.is_empty());
    let removed: Vec<_> = removed.map(|decision| decision.snapshot).collect();
    let locked = repository.locked(&removed).map_err(|error| context.failure(error))?;
    for decision in groups.iter_mut().flat_map(|group| &mut group.decisions) {
        if let Some((_, secs)) = locked.iter().find(|(name, _)| *name == decision.snapshot.name) {
            let until = time::json(Time { secs: *secs, nanos: 0 });
            decision.reasons.push(format!("locked until {until}"));
        }
    }
    Ok(())
}

/// What a server keeps, whoever names it.
fn refuse_kept(plan: &Plan, kept: &Kept) -> Result<()> {
    let named = plan.removed.iter().find_map(|name| kept.get_key_value(&name.id));
    let Some((id, why)) = named else { return Ok(()) };
    let message = format!("the snapshot {id} stays: {why}");
    Err(Failure::new(Code::NotAllowed, message)
        .hint("What keeps each snapshot: icecore server snapshot list"))
}

/// As the repository would refuse it. What a policy removes is not locked.
fn refuse_locked(context: &Context, repository: &UnlockedRepository, plan: &Plan) -> Result<()> {
    let named = plan.lines.iter().filter_map(|line| match line {
        PlanLine::Decided(snapshot, reasons) if reasons.is_empty() => Some(&**snapshot),
        _ => None,
    });
    let locked = repository.locked(&named.collect::<Vec<_>>());
    let locked = locked.map_err(|error| context.failure(error))?;
    let Some((name, secs)) = locked.first() else { return Ok(()) };
    let until = time::json(Time { secs: *secs, nanos: 0 });
    let text = format!("snapshot {} is locked until {until}", name.id);
    Err(context.failure(pipeline::Error::Repository(store::Error::Locked(text))))
}

/// Its paths and its node.
fn source_of(snapshot: &Snapshot) -> String {
    let (node, paths) = (Some(&*snapshot.body.node), Some(&*snapshot.body.paths));
    name(&GroupKey { node, paths, tags: None })
}

fn ambiguous(text: &str, count: usize) -> Failure {
    let message = format!("{count} snapshots have an id that begins with '{text}'");
    Failure::new(Code::Failed, message).hint("To see the ids of damaged snapshots: icecore check")
}

/// A source as it always was named, another group by what makes it.
fn name(key: &GroupKey<'_>) -> String {
    match key {
        GroupKey { node: Some(node), paths: Some(paths), tags: None } => {
            let paths: Vec<_> = paths.iter().map(|path| escape::text(path)).collect();
            format!("{} of {}", paths.join(" "), escape::text(node))
        }
        key => escape::text(&groups::name(key)),
    }
}

/// A tag that nothing has, and a source loses all: a mistake, not a wish.
fn refuse_to_empty(groups: &[Group<'_>]) -> Result<()> {
    let Some(group) = groups.iter().find(|group| group.loses_all()) else { return Ok(()) };
    let failure = Failure::usage(format!(
        "the rules would keep nothing of {}; nothing was forgotten",
        name(&group.key)
    ));
    Err(failure.hint("Keep at least one: --keep-last 1. To forget all: icecore forget SNAP..."))
}

fn show(
    context: &Context,
    snapshot: &Snapshot,
    reasons: &[String],
    by: Option<GroupBy>,
) -> Result<()> {
    let row = || {
        let sign = if reasons.is_empty() {
            context.out.paint(Paint::Red, "remove")
        } else {
            context.out.paint(Paint::Green, "keep  ")
        };
        let tags: Vec<_> =
            snapshot.body.tags.iter().map(|tag| format!("[{}]", escape::text(tag))).collect();
        // A group says that above it.
        let of = if by.is_some() { String::new() } else { source_of(snapshot) };
        let (id, time, reasons) =
            (short_id(snapshot), time::show(snapshot.time()), reasons.join(" · "));
        let text = format!("  {sign}  {id}  {time}  {of}{reasons}  {}", tags.join(" "));
        text.trim_end().to_owned()
    };
    if context.out.quiet && !context.out.json {
        return Ok(());
    }
    Failure::ignore_broken_pipe(context.out.item(
        "decision",
        &Decided::new(snapshot, reasons, by),
        row,
    ))
}
