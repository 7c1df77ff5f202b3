//! Policies.

use super::Checker;
use crate::{
    Compression, DEFAULT_CLASS, DEFAULT_UNIT, Kind, MAIN_SOURCE, Policy, PolicyType, Source,
};
use clock::{Span, Unit};
use std::collections::BTreeMap;

impl Checker<'_> {
    pub(super) fn policy(&mut self, policy: &Policy) {
        self.where_to(policy);
        self.are_declared("groups", &policy.groups, Kind::Group);
        self.are_nodes("nodes", &policy.nodes);
        self.labels(&policy.labels);
        self.are_declared("schedules", &policy.schedules, Kind::Schedule);
        self.options(&policy.options);
        self.sources(policy);
        self.classes(policy);
        self.promise(policy.promise);
        let hooks = &policy.hooks;
        let named = [("pre", &hooks.pre), ("post", &hooks.post), ("on_failure", &hooks.on_failure)];
        for (key, name) in named {
            name.iter().for_each(|name| self.name(&["hooks", key], name));
        }
    }

    fn where_to(&mut self, policy: &Policy) {
        if policy.unit() != DEFAULT_UNIT {
            self.is_declared(&["unit"], policy.unit(), Kind::Unit);
        }
        if policy.priority > Policy::PRIORITY_MAX {
            let message = format!("the priority {} is not possible", policy.priority);
            let fix = format!("write a number from 0 to {}", Policy::PRIORITY_MAX);
            self.note(&["priority"], message, fix);
        }
        if let Compression::Level(level) = policy.compression
            && !Policy::LEVELS.contains(&level)
        {
            let fix = "write \"auto\" or a level from -7 to 19";
            self.note(&["compression"], format!("there is no level {level}"), fix);
        }
    }

    fn sources(&mut self, policy: &Policy) {
        self.table("source", policy.sources.len());
        self.patterns(&["excludes"], &policy.excludes);
        self.paths(&["paths"], &policy.paths);
        if policy.paths.is_empty() && policy.sources.is_empty() {
            let fix = match policy.kind {
                PolicyType::Files => "write paths = [\"/etc\", \"/home\"]".to_owned(),
                PolicyType::Stream => {
                    format!("declare a source: [policy.{}.source.NAME]", self.name)
                }
            };
            self.note(&[], "it backs up nothing", fix);
        }
        if policy.kind == PolicyType::Stream && !policy.paths.is_empty() {
            let fix = "remove paths, or write type = \"files\"";
            self.note(&["paths"], "a policy of type stream has no paths", fix);
        }
        for (name, source) in &policy.sources {
            self.source(policy, name, source);
        }
        self.streams_differ(policy);
    }

    /// Streams are told apart by their programs: two of one program would share snapshots, jobs and protection.
    fn streams_differ(&mut self, policy: &Policy) {
        let mut known = BTreeMap::new();
        for (name, source) in &policy.sources {
            let Some(stream) = &source.stream else { continue };
            let Some(other) = known.insert(stream, name) else { continue };
            let message = format!("'{name}' backs up the same stream as '{other}'");
            let fix = "remove one, or list the program under a second name in streams.toml";
            self.note(&["source", name, "stream"], message, fix);
        }
    }

    fn source(&mut self, policy: &Policy, name: &str, source: &Source) {
        let key = ["source", name];
        self.name(&key, name);
        if name == MAIN_SOURCE && !policy.paths.is_empty() {
            let message = format!("'{MAIN_SOURCE}' is the source of the policy's own paths");
            self.note(&key, message, "choose another name");
        }
        self.paths(&["source", name, "paths"], &source.paths);
        self.patterns(&["source", name, "excludes"], &source.excludes);
        if let Some(stream) = &source.stream {
            self.name(&["source", name, "stream"], stream);
        }
        match (policy.kind, source.paths.is_empty(), &source.stream) {
            (PolicyType::Files, false, None) | (PolicyType::Stream, true, Some(_)) => {}
            (PolicyType::Files, ..) => {
                let fix = "write its paths, and no stream; streams are for type = \"stream\"";
                self.note(&key, "a source of files has paths", fix);
            }
            (PolicyType::Stream, ..) => {
                let fix =
                    "write stream = \"NAME\", a program of the agent's own list, and no paths";
                self.note(&key, "a source of a stream has a program", fix);
            }
        }
    }

    /// Each class that is named is one of the retention.
    fn classes(&mut self, policy: &Policy) {
        if let Some(name) = &policy.retention {
            self.is_declared(&["retention"], name, Kind::Retention);
        }
        match &policy.class {
            Some(class) => self.class(policy, &["class"], class),
            None => self.usual_class(policy),
        }
        for (at, rule) in policy.classes.iter().enumerate() {
            let at = at.to_string();
            self.class(policy, &["classes", &at, "class"], &rule.class);
            self.path_patterns(&["classes", &at, "include"], &rule.include);
            if rule.include.is_empty() {
                let fix = "write include = [\"/var/log/**\"], or remove the rule";
                self.note(&["classes", &at], "the rule fits no path", fix);
            }
        }
    }

    /// A policy that names no class has one nevertheless.
    fn usual_class(&mut self, policy: &Policy) {
        let retention = policy.retention.as_ref().and_then(|name| self.site.retentions.get(name));
        let Some(retention) = retention else { return };
        let class = self.site.class_of(policy);
        if !retention.classes.is_empty() && !retention.classes.contains_key(class) {
            let names: Vec<&str> = retention.classes.keys().map(String::as_str).collect();
            let message =
                format!("the retention has several classes, and none is '{DEFAULT_CLASS}'");
            self.note(
                &["retention"],
                message,
                format!("write class = one of {}", names.join(", ")),
            );
        }
    }

    fn class(&mut self, policy: &Policy, key: &[&str], class: &str) {
        let Some(wanted) = &policy.retention else {
            let fix = "write retention = \"NAME\"";
            return self.note(key, format!("'{class}' is a class of no retention"), fix);
        };
        let Some(retention) = self.site.retentions.get(wanted) else { return };
        if !retention.classes.contains_key(class) {
            let message = format!("the retention '{wanted}' has no class '{class}'");
            self.note(key, message, format!("declare it: [retention.{wanted}.class.{class}]"));
        }
    }

    fn promise(&mut self, promise: Option<Span>) {
        let (least, most) = (Span::new(1, Unit::Minute), Span::new(10, Unit::Year));
        let is_possible = |span: Span| (least.secs()..=most.secs()).contains(&span.secs());
        if let Some(span) = promise.filter(|span| !is_possible(*span)) {
            let fix = format!("write a span from \"{least}\" to \"{most}\"");
            self.note(&["promise"], format!("nobody can promise \"{span}\""), fix);
        }
    }
}
