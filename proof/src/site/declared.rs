//! What is declared: units, schedules, groups and twenty policies, no two of one kind.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Nodes are dealt out to so many parts; each policy takes one of them.
pub(super) const PARTS: usize = 10;
/// The policy that comes and goes.
pub(super) const GONE: &str = "gone";

/// Units and their slots.
pub(super) const UNITS: [(&str, usize); 4] = [("fast", 8), ("disk", 4), ("tape", 2), ("slow", 1)];
/// Slots that an administrator adds now and then.
pub(super) const MORE_SLOTS: usize = 2;

/// Schedules by period, in seconds, and what else they say.
pub(super) const PERIODS: [(&str, i64, &str); 6] = [
    ("minute", 60, ""),
    ("skip", 60, "missed = \"skip\""),
    ("two", 120, "retry = { times = 2, after = \"5 seconds\", at_most = \"20 seconds\" }"),
    ("three", 180, "jitter = \"30 seconds\""),
    ("since", 240, "level = \"catch-up\"\nsince = \"2026-01-01\""),
    ("five", 300, "level = \"complete\"\nzone = \"Europe/Berlin\""),
];

/// A policy: name, unit, priority, schedules, and the rest; `{}` is the folder of each node.
type Row = (&'static str, &'static str, u32, &'static [&'static str], &'static str);

const POLICIES: [Row; 20] = [
    ("plain", "fast", 50, &["two"], "paths = [\"{}/data\"]"),
    ("excludes", "disk", 50, &["two", "five"], "paths = [\"{}/data\"]\nexcludes = [\"*.tmp\"]"),
    ("logs", "tape", 50, &["three"], "paths = [\"{}/log\"]"),
    ("whole", "slow", 50, &["five"], "paths = [\"{}\"]"),
    ("often", "fast", 70, &["minute"], "paths = [\"{}/log\"]\ncompression = 9"),
    (
        "inodes",
        "disk",
        30,
        &["three"],
        "paths = [\"{}/data\"]\nchange_detection = \"ignore-inode\"",
    ),
    (
        "full",
        "slow",
        70,
        &["five"],
        "paths = [\"{}/big\"]\nchange_detection = \"full\"\noptions = { limit-read = { value = \"400K\", force = true } }",
    ),
    (
        "hooks",
        "fast",
        50,
        &["two"],
        "paths = [\"{}/data\"]\nhooks = { pre = \"note\", post = \"note\" }",
    ),
    (
        "sick",
        "disk",
        50,
        &["two"],
        "paths = [\"{}/log\"]\nhooks = { pre = \"sick\", on_failure = \"note\" }",
    ),
    (
        "dumps",
        "tape",
        50,
        &["three"],
        "type = \"stream\"\n[policy.dumps.source.shop]\nstream = \"shop\"",
    ),
    ("changed", "disk", 60, &["since"], "paths = [\"{}/log\"]"),
    (
        "classes",
        "fast",
        40,
        &["five"],
        "paths = [\"{}/data\", \"{}/log\"]\nretention = \"all\"\nclass = \"long\"\n[[policy.classes.classes]]\ninclude = [\"{}/log/**\"]\nclass = \"short\"",
    ),
    (
        "sources",
        "disk",
        50,
        &["two"],
        "[policy.sources.source.one]\npaths = [\"{}/data/file-0\"]\n[policy.sources.source.two]\npaths = [\"{}/data/file-1\"]",
    ),
    ("aged", "tape", 50, &["age"], "paths = [\"{}/data/file-2\"]"),
    ("hand", "slow", 50, &[], "paths = [\"{}/log\", \"{}/data\"]"),
    ("missing", "fast", 50, &["three"], "paths = [\"{}/data\", \"{}/none\"]"),
    ("skipped", "disk", 50, &["skip"], "paths = [\"{}/data/file-3\"]"),
    ("everywhere", "disk", 20, &["five"], "paths = [\"{}/data/file-4\"]\ngroups = [\"every\"]"),
    (GONE, "fast", 50, &["minute"], "paths = [\"{}/log/one.log\"]"),
    (
        "throttled",
        "tape",
        90,
        &["three"],
        "paths = [\"{}/big\", \"{}/log\"]\nchange_detection = \"full\"\noptions = { limit-read = { value = \"200K\", force = true } }",
    ),
];

/// A site as it is at some moment.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) nodes: usize,
    /// What each node calls its own folder.
    pub(super) folder: String,
    pub(super) has_gone: bool,
    pub(super) has_more_slots: bool,
    /// Whether runs start by themselves.
    pub(super) is_scheduled: bool,
}

/// The name of the node `number`.
pub(super) fn name(number: usize) -> String {
    format!("node-{number:03}")
}

/// The policies that are started by hand, too.
pub(super) fn policies() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|row| row.0)
}

/// The period of a schedule; none of the one by age.
pub(super) fn period(schedule: &str) -> Option<i64> {
    PERIODS.iter().find(|row| row.0 == schedule).map(|row| row.1)
}

impl Declared {
    /// How many jobs each unit runs at once.
    pub(super) fn slots(&self) -> BTreeMap<&'static str, usize> {
        let more = if self.has_more_slots { MORE_SLOTS } else { 0 };
        UNITS.iter().map(|(name, slots)| (*name, slots + more)).collect()
    }

    /// As a file.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, slots) in self.slots() {
            line(&mut text, format_args!("[unit.{name}]\nmax_jobs = {slots}\n"));
        }
        for (name, secs, more) in PERIODS {
            let every = format!("every = \"{} minutes\"\nwindow = \"always\"", secs / 60);
            line(&mut text, format_args!("[schedule.{name}]\n{every}\n{more}\n"));
        }
        text.push_str("[schedule.age]\nolder_than = \"1 minute\"\n");
        text.push_str("[retention.all.class.long]\nkeep_last = \"all\"\n");
        text.push_str("[retention.all.class.short]\nkeep_last = \"all\"\n");
        text.push_str("[group.every]\nall = true\n");
        for part in 0..PARTS {
            line(&mut text, format_args!("[group.part-{part}]\nlabels = {{ part = \"p{part}\" }}"));
            line(&mut text, format_args!("[group.around-{part}]\ngroups = [\"part-{part}\"]"));
        }
        for number in 0..self.nodes {
            let (name, part) = (name(number), number % PARTS);
            line(&mut text, format_args!("[node.{name}]\nlabels = {{ part = \"p{part}\" }}"));
        }
        let wanted = POLICIES.iter().enumerate().filter(|(_, row)| self.has_gone || row.0 != GONE);
        wanted.for_each(|(number, row)| self.policy(&mut text, number, row));
        text
    }

    fn policy(&self, text: &mut String, number: usize, row: &Row) {
        let (name, unit, priority, schedules, rest) = row;
        let schedules = if self.is_scheduled { *schedules } else { &[] };
        line(text, format_args!("[policy.{name}]\nunit = \"{unit}\"\npriority = {priority}"));
        line(text, format_args!("schedules = {schedules:?}"));
        if !rest.contains("groups =") {
            line(text, format_args!("{}", self.members(number)));
        }
        line(text, format_args!("{}", rest.replace("{}", &self.folder)));
    }

    /// The nodes of a policy: by label, by group, by a group of a group, or by name.
    fn members(&self, policy: usize) -> String {
        let part = policy % PARTS;
        let names: Vec<_> = (part..self.nodes).step_by(PARTS).map(name).collect();
        match policy % 4 {
            1 => format!("groups = [\"part-{part}\"]"),
            2 => format!("groups = [\"around-{part}\"]"),
            3 if !names.is_empty() => format!("nodes = {names:?}"),
            _ => format!("labels = {{ part = \"p{part}\" }}"),
        }
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{arguments}");
}
