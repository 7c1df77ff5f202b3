//! What does not fit together in a site.

mod objects;
mod policy;
mod words;

use crate::near::near;
use crate::{Kind, Site, check_name};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// More problems than this are not listed.
pub const PROBLEMS_MAX: usize = 100;
/// The most entries of a list.
pub const LIST_MAX: usize = 1000;
/// The longest text, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;

/// The time zone of a name, if the machine knows it.
pub type Zones<'a> = &'a dyn Fn(&str) -> Option<TimeZone>;

/// What exists outside of the site. What is not given is not asked for.
#[derive(Clone, Copy, Default)]
pub struct Known<'a> {
    /// The nodes that are enrolled.
    pub nodes: Option<&'a BTreeSet<String>>,
    /// The domains.
    pub domains: Option<&'a BTreeSet<String>>,
    /// The pools of the control server.
    pub pools: Option<&'a BTreeSet<String>>,
    /// The storage servers.
    pub storage_servers: Option<&'a BTreeSet<String>>,
    /// The time zones.
    pub zones: Option<Zones<'a>>,
    /// Whether nobody who carries out the site can read tags: they are sealed.
    pub are_tags_sealed: bool,
}

impl fmt::Debug for Known<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, domains, pools, storage_servers, zones, are_tags_sealed } = self;
        let mut shown = formatter.debug_struct("Known");
        shown.field("nodes", nodes).field("domains", domains);
        shown.field("pools", pools).field("storage_servers", storage_servers);
        shown.field("zones", &zones.is_some()).field("are_tags_sealed", are_tags_sealed).finish()
    }
}

/// Something that cannot be meant so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Kind of the object.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The key in it, and in its tables and lists; an entry of a list is its position from 0 on. Empty
    /// for the object as a whole.
    pub key: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: ", self.kind, self.name)?;
        if !self.key.is_empty() {
            write!(formatter, "{}: ", self.key.join("."))?;
        }
        write!(formatter, "{}; {}", self.message, self.fix)
    }
}

impl Site {
    /// What does not fit together, or does not exist; the first [`PROBLEMS_MAX`].
    pub fn check(&self, known: &Known<'_>) -> Vec<Problem> {
        let (cycles, mut problems) = (self.cycles(), Vec::new());
        for (kind, name) in self.objects() {
            let problems = &mut problems;
            let mut checker = Checker { site: self, known, cycles: &cycles, kind, name, problems };
            checker.lengths();
            checker.object();
            if problems.len() >= PROBLEMS_MAX {
                break;
            }
        }
        problems.truncate(PROBLEMS_MAX);
        problems
    }
}

/// Looks at one object, and notes what is wrong.
struct Checker<'a> {
    site: &'a Site,
    known: &'a Known<'a>,
    /// [`Site::cycles`].
    cycles: &'a BTreeMap<&'a str, usize>,
    kind: Kind,
    name: &'a str,
    problems: &'a mut Vec<Problem>,
}

impl Checker<'_> {
    fn note(&mut self, key: &[&str], message: impl Into<String>, fix: impl Into<String>) {
        let key = key.iter().map(|part| (*part).to_owned()).collect();
        let (message, fix) = (message.into(), fix.into());
        let name = self.name.to_owned();
        self.problems.push(Problem { kind: self.kind, name, key, message, fix });
    }

    /// Notes an error that says after a semicolon what to write instead.
    fn note_error(&mut self, key: &[&str], error: impl fmt::Display) {
        let text = error.to_string();
        let (message, fix) = text.split_once("; ").unwrap_or((&text, "correct it"));
        self.note(key, message, fix);
    }

    fn object(&mut self) {
        let name = self.name;
        match self.kind {
            Kind::Unit => self.unit(&self.site.units[name]),
            Kind::Retention => self.retention(&self.site.retentions[name]),
            Kind::Schedule => self.zone(&self.site.schedules[name].zone.0),
            Kind::Node => self.node(&self.site.nodes[name]),
            Kind::Group => self.group(&self.site.groups[name]),
            Kind::Policy => self.policy(&self.site.policies[name]),
            Kind::Hold => self.hold(&self.site.holds[name]),
            Kind::Upkeep => self.upkeep(&self.site.upkeeps[name]),
            Kind::Quota => self.quota(&self.site.quotas[name]),
        }
    }

    /// Lists and texts of the object are of a possible length.
    fn lengths(&mut self) {
        let Some(body) = self.site.body(self.kind, self.name) else { return };
        let mut next = vec![(Vec::new(), &body)];
        while let Some((path, value)) = next.pop() {
            let at: Vec<&str> = path.iter().map(String::as_str).collect();
            let inner = |part: String| [&path[..], &[part]].concat();
            match value {
                Value::Array(list) if list.len() > LIST_MAX => {
                    let message =
                        format!("the list has {} entries, more than {LIST_MAX}", list.len());
                    self.note(&at, message, "divide it");
                }
                Value::Array(list) => {
                    next.extend(
                        list.iter().enumerate().map(|(at, it)| (inner(at.to_string()), it)),
                    );
                }
                Value::Object(table) if table.len() > LIST_MAX => {
                    let message =
                        format!("the table has {} keys, more than {LIST_MAX}", table.len());
                    self.note(&at, message, "divide it");
                }
                Value::Object(table) => {
                    next.extend(table.iter().map(|(key, it)| (inner(key.clone()), it)));
                }
                Value::String(text) if text.len() > TEXT_BYTES_MAX => {
                    let message = format!("the text has more than {TEXT_BYTES_MAX} bytes");
                    self.note(&at, message, "shorten it");
                }
                _ => {}
            }
        }
    }

    /// Each of these names is one of those that exist, and none is there twice.
    fn each_is_in(&mut self, key: &str, names: &[String], what: &str, all: Option<&Names<'_>>) {
        let mut seen = BTreeSet::new();
        for (at, name) in names.iter().take(LIST_MAX).enumerate() {
            let at = at.to_string();
            if !seen.insert(name) {
                self.note(&[key, &at], format!("'{name}' is there twice"), "remove one of the two");
            } else if let Some(all) = all {
                self.is_in(&[key, &at], name, what, all);
            }
        }
    }

    /// The name is one of those that exist.
    fn is_in(&mut self, key: &[&str], name: &str, what: &str, all: &Names<'_>) {
        if !all.contains(name) {
            let fix = match near(name, all.iter()) {
                Some(near) => format!("did you mean '{near}'? Else {}", all.fix(name)),
                None => all.fix(name),
            };
            self.note(key, format!("there is no {what} '{name}'"), fix);
        }
    }

    fn is_declared(&mut self, key: &[&str], name: &str, kind: Kind) {
        let site = self.site;
        self.is_in(key, name, kind.name(), &Names::Declared(site, kind));
    }

    fn are_declared(&mut self, key: &str, names: &[String], kind: Kind) {
        let site = self.site;
        self.each_is_in(key, names, kind.name(), Some(&Names::Declared(site, kind)));
    }

    fn are_nodes(&mut self, key: &str, names: &[String]) {
        let known = self.known.nodes.map(Names::Nodes);
        self.each_is_in(key, names, "node", known.as_ref());
    }

    fn zone(&mut self, zone: &str) {
        if self.known.zones.is_some_and(|zones| zones(zone).is_none()) {
            let message = format!("there is no time zone '{zone}'");
            self.note(&["zone"], message, "write a name such as \"Europe/Berlin\" or \"UTC\"");
        }
    }

    fn name(&mut self, key: &[&str], name: &str) {
        if let Err(error) = check_name(name) {
            self.note_error(key, error);
        }
    }

    fn reason(&mut self, key: &[&str], reason: &str) {
        if reason.trim().is_empty() {
            let fix = "write for whoever asks in a year: reason = \"moves to Berlin\"";
            self.note(key, "the reason is empty", fix);
        }
    }
}

/// Names that exist, wherever they come from.
enum Names<'a> {
    Declared(&'a Site, Kind),
    Nodes(&'a BTreeSet<String>),
    Domains(&'a BTreeSet<String>),
    Pools(&'a BTreeSet<String>),
    StorageServers(&'a BTreeSet<String>),
}

impl Names<'_> {
    fn contains(&self, name: &str) -> bool {
        match self {
            Self::Declared(site, kind) => site.contains(*kind, name),
            Self::Nodes(names)
            | Self::Domains(names)
            | Self::Pools(names)
            | Self::StorageServers(names) => names.contains(name),
        }
    }

    fn iter(&self) -> Vec<&str> {
        match self {
            Self::Declared(site, kind) => site.names(*kind),
            Self::Nodes(names)
            | Self::Domains(names)
            | Self::Pools(names)
            | Self::StorageServers(names) => names.iter().map(String::as_str).collect(),
        }
    }

    /// How a name would come to exist.
    fn fix(&self, name: &str) -> String {
        match self {
            Self::Declared(_, kind) => format!("declare it: [{kind}.{name}]"),
            Self::Nodes(_) => format!("enroll it: icecore server token {name}"),
            Self::Domains(_) => format!("create it: icecore server token NODE --domain {name}"),
            Self::Pools(_) => format!("add it: icecore server pool add {name} PLACE"),
            Self::StorageServers(_) => format!("enroll it: icecore server token {name} --storage"),
        }
    }
}
