//! `icecore options`.

use super::backup::Backup;
use crate::client_options::resolve::Effective;
use crate::client_options::table::Kind;
use crate::client_options::{Candidate, Layer};
use crate::codes::Code;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use crate::node::policy::Received;
use crate::profile::Profile;
use crate::table::{Table, flexible, left};
use crate::units;
use api::options::OptionReport;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;

/// Show every client option: its value, where the value comes from, and what it overrides.
///
/// Takes the flags of `icecore backup`, and shows what they would change.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore options\n  icecore options --set --profile work\n  icecore options --compression 9 --json\n\nThe first of these is in effect: forced by the server, command line, environment (ICECORE_ and the name in capitals; lists have one value per line), profile of the config file, config file, suggested by the server, default. Patterns to exclude add up."
)]
pub(crate) struct Options {
    /// Show only options that are set somewhere.
    #[arg(long = "set")]
    only_set: bool,
    /// On a node of a server: ask the server first. Otherwise its last reply is used.
    #[arg(long)]
    pub(super) refresh: bool,
    #[command(flatten)]
    backup: Backup,
}

/// A value that is in effect, or was overridden, as JSON shows it.
#[derive(Serialize)]
struct Said<'a> {
    origin: &'static str,
    place: &'a str,
    /// Missing for a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
}

/// An option, as JSON shows it.
#[derive(Serialize)]
struct Shown<'a> {
    option: &'static str,
    variable: String,
    default: &'static str,
    origin: &'static str,
    effective: Vec<Said<'a>>,
    overridden: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct Count {
    options: usize,
    set: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_file: Option<String>,
    /// Options of the server that this node ignores.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<OptionReport>,
}

impl Options {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        // What a backup would refuse is refused here, too.
        context.resolved.apply_to(&mut self.backup.clone())?;
        let out = &context.out;
        let all: Vec<_> = context.resolved.iter().collect();
        let set = all.iter().filter(|one| is_set(one)).count();
        let shown: Vec<_> = all.iter().filter(|one| !self.only_set || is_set(one)).collect();
        shown.iter().try_for_each(|one| out.record("option", &json(one)))?;
        let mut table = table(&shown);
        if let Some(kept) = Kept::of(&context.profile) {
            out.record("option", &kept.json())?;
            table.row(kept.row());
        } else if !self.only_set {
            table.row(["keep", "nothing said", "default", ""].map(str::to_owned));
        }
        table.print(out)?;
        let config_file = context.profile.file.as_ref().map(|file| file.display().to_string());
        out.line(&format!(
            "{set} of {} are set; config file: {}",
            units::many(all.len() as u64, "option"),
            config_file.as_deref().map_or("none".into(), escape::text)
        ))?;
        let report = tell_ignored(context)?;
        out.summary(Code::Complete, &Count { options: all.len(), set, config_file, report })
    }
}

/// What `forget` and `run` keep: only the config file says it, so it is no client option of a backup.
struct Kept {
    origin: &'static str,
    place: String,
    rules: Vec<String>,
}

impl Kept {
    fn of(profile: &Profile) -> Option<Self> {
        let rules = profile.keep.as_ref()?.words();
        let layer = if profile.keep_is_of_profile { Layer::Profile } else { Layer::File };
        let place = profile.file.as_ref()?.display().to_string();
        Some(Self { origin: layer.name(), place, rules })
    }

    fn row(&self) -> [String; 4] {
        let rules = escape::text(&self.rules.join(" "));
        ["keep".to_owned(), rules, escape::text(&self.place), String::new()]
    }

    fn json(&self) -> ShownKept<'_> {
        let Self { origin, place, rules } = self;
        let origin = *origin;
        let said = Said { origin, place, values: Some(rules.clone()) };
        ShownKept { option: "keep", default: "none", origin: self.origin, effective: [said] }
    }
}

/// The same as JSON shows it: no variable sets it.
#[derive(Serialize)]
struct ShownKept<'a> {
    option: &'static str,
    default: &'static str,
    origin: &'static str,
    effective: [Said<'a>; 1],
}

/// Options of the server that this node ignores.
fn tell_ignored(context: &Context) -> Result<Option<OptionReport>> {
    if context.node()?.is_none() {
        return Ok(None);
    }
    let received = Received::load(&context.agent_folder());
    for (name, policies) in received.disputed() {
        let policies = policies.join(" and ");
        context.out.remark(&format!(
            "{name}: {policies} say different things, so it is in effect only in their own backups"
        ));
    }
    let report = received.report().clone();
    for name in &report.own {
        context.out.remark(&format!("{name}: the server sets it, but allow.toml keeps it (`own`)"));
    }
    for (name, why) in &report.refused {
        context.out.remark(&format!("{name}: the server sets it, but it is ignored: {why}"));
    }
    Ok(Some(report))
}

/// Whether anybody said anything about it.
fn is_set(effective: &Effective) -> bool {
    !effective.chosen.is_empty() || !effective.overridden.is_empty()
}

fn table(shown: &[&&Effective]) -> Table {
    let columns = [left("OPTION"), flexible("VALUE"), flexible("FROM"), flexible("OVERRIDES")];
    let mut table = Table::new(&columns);
    for effective in shown {
        let places = effective.chosen.iter().map(|candidate| escape::text(&candidate.place));
        let places: Vec<_> = places.collect();
        let from = if places.is_empty() { "default".to_owned() } else { places.join(", ") };
        let lost = effective.overridden.iter().map(|candidate| overridden(effective, candidate));
        let lost: Vec<_> = lost.collect();
        table.row([effective.row.name.to_owned(), value(effective), from, lost.join(", ")]);
    }
    table
}

/// The value for people.
fn value(effective: &Effective) -> String {
    match effective.chosen.as_slice() {
        [] => effective.row.default.to_owned(),
        chosen => {
            let texts: Vec<_> = chosen.iter().map(|candidate| text(effective, candidate)).collect();
            texts.join(" ")
        }
    }
}

fn overridden(effective: &Effective, candidate: &Candidate) -> String {
    format!("{} ({})", text(effective, candidate), escape::text(&candidate.place))
}

fn text(effective: &Effective, candidate: &Candidate) -> String {
    match values(effective, candidate) {
        None => "not shown".to_owned(),
        Some(values) if values.is_empty() => "none".to_owned(),
        Some(values) => values.join(" "),
    }
}

/// Nobody's password is shown.
fn values(effective: &Effective, candidate: &Candidate) -> Option<Vec<String>> {
    let shown = || candidate.values.iter().map(|value| escape::escape(value.as_bytes())).collect();
    (effective.row.kind != Kind::Secret).then(shown)
}

fn json(effective: &Effective) -> Shown<'_> {
    Shown {
        option: effective.row.name,
        variable: effective.row.variable(),
        default: effective.row.default,
        origin: effective.chosen.last().map_or(Layer::Default, |candidate| candidate.layer).name(),
        effective: effective.chosen.iter().map(|one| said_by(effective, one)).collect(),
        overridden: effective.overridden.iter().map(|one| said_by(effective, one)).collect(),
    }
}

fn said_by<'a>(effective: &Effective, candidate: &'a Candidate) -> Said<'a> {
    let (origin, place) = (candidate.layer.name(), candidate.place.as_str());
    Said { origin, place, values: values(effective, candidate) }
}
