//! Units, retentions, nodes, groups, upkeep, quotas and holds.

use super::{Checker, Names};
use crate::{Group, Hold, Kind, Node, Percent, Quota, Retention, Unit, Upkeep, UpkeepTask};
use ids::SnapshotId;

impl Checker<'_> {
    pub(super) fn unit(&mut self, unit: &Unit) {
        if !(1..=Unit::MAX_JOBS_MAX).contains(&unit.max_jobs) {
            let message = format!("{} jobs at once are not possible", unit.max_jobs);
            let fix = format!("write a number from 1 to {}", Unit::MAX_JOBS_MAX);
            self.note(&["max_jobs"], message, fix);
        }
        let known = self.known.domains.map(Names::Domains);
        self.each_is_in("domains", &unit.domains, "domain", known.as_ref());
        self.place(unit);
    }

    /// Where new domains of its nodes lie.
    fn place(&mut self, unit: &Unit) {
        if unit.pool.is_some() && unit.on.is_some() {
            let message = "pool and on exclude each other";
            self.note(&["on"], message, "remove one of the two");
        }
        if let (Some(pool), Some(known)) = (&unit.pool, self.known.pools) {
            self.is_in(&["pool"], pool, "pool", &Names::Pools(known));
        }
        let on = unit.on.as_ref().filter(|on| *on != Unit::ANY);
        if let (Some(on), Some(known)) = (on, self.known.storage_servers) {
            self.is_in(&["on"], on, "storage server", &Names::StorageServers(known));
        }
    }

    pub(super) fn retention(&mut self, retention: &Retention) {
        self.zone(&retention.zone);
        self.table("class", retention.classes.len());
        if retention.classes.is_empty() {
            let fix = format!("declare one: [retention.{}.class.standard]", self.name);
            self.note(&[], "it has no class, so it says nothing", fix);
        }
        for (name, class) in &retention.classes {
            self.name(&["class", name], name);
            if self.known.are_tags_sealed && !class.keep_tags.is_empty() {
                let message =
                    "a server cannot read tags, which are sealed: the class would keep everything";
                let fix =
                    "leave keep_tags out; to keep single snapshots: icecore server hold create";
                self.note(&["class", name, "keep_tags"], message, fix);
            }
        }
    }

    pub(super) fn node(&mut self, node: &Node) {
        if let Some(known) = self.known.nodes {
            self.is_in(&[], self.name, "node", &Names::Nodes(known));
        }
        self.labels(&node.labels);
        self.options(&node.options);
        if let Some(paused) = &node.paused {
            self.reason(&["paused", "reason"], &paused.reason);
        }
    }

    pub(super) fn group(&mut self, group: &Group) {
        self.are_nodes("nodes", &group.nodes);
        self.labels(&group.labels);
        self.are_declared("groups", &group.groups, Kind::Group);
        if let Some(at) = self.cycles.get(self.name) {
            let message = format!("the group '{}' contains itself", self.name);
            let fix = "remove this group, or the reference that leads back to it";
            self.note(&["groups", &at.to_string()], message, fix);
        }
    }

    pub(super) fn upkeep(&mut self, upkeep: &Upkeep) {
        let known = self.known.domains.map(Names::Domains);
        self.each_is_in("domains", &upkeep.domains, "domain", known.as_ref());
        self.are_declared("schedules", &upkeep.schedules, Kind::Schedule);
        let twice = |at: &usize| upkeep.tasks[..*at].contains(&upkeep.tasks[*at]);
        if let Some(at) = (0..upkeep.tasks.len()).find(twice) {
            let message = format!("'{}' is there twice", upkeep.tasks[at]);
            self.note(&["tasks", &at.to_string()], message, "remove one of the two");
        }
        self.copies(upkeep);
        if upkeep.sample == Some(Percent(0)) {
            let fix = "write a share such as \"5%\", or remove \"check\" from tasks";
            self.note(&["sample"], "a check of nothing finds nothing", fix);
        }
    }

    /// Copies need a place, and a place needs copies.
    fn copies(&mut self, upkeep: &Upkeep) {
        let does_copy = upkeep.tasks.contains(&UpkeepTask::Copy);
        let has_copy = upkeep.tasks.iter().any(|task| task.is_of_copy());
        match &upkeep.to {
            None if has_copy => {
                let fix = "name a directory or a bucket: to = \"/mnt/second\", to = \"s3://BUCKET/PREFIX\"";
                self.note(&["tasks"], "a copy needs a place", fix);
            }
            Some(_) if !has_copy => {
                let fix = "add \"copy\" to tasks, or remove this line";
                self.note(&["to"], "nothing is copied there", fix);
            }
            Some(to) if !to.starts_with('/') && !is_bucket(to) => {
                let fix =
                    "write the whole path: to = \"/mnt/second\", or to = \"s3://BUCKET/PREFIX\"";
                self.note(&["to"], format!("'{to}' is not a whole path"), fix);
            }
            _ => {}
        }
        if upkeep.keep_expired.is_some() && !does_copy {
            let fix = "add \"copy\" to tasks, or remove this line";
            self.note(&["keep_expired"], "there are no copies that could keep anything", fix);
        }
        if let Some(name) = &upkeep.retention {
            self.is_declared(&["retention"], name, Kind::Retention);
        }
        if upkeep.retention.is_some() && !does_copy {
            let fix = "add \"copy\" to tasks, or remove this line";
            self.note(&["retention"], "there are no copies that could keep anything", fix);
        }
        if upkeep.object_lock.is_some() && !upkeep.to.as_deref().is_some_and(is_bucket) {
            let fix = "copy to a bucket, to = \"s3://BUCKET/PREFIX\"; for directories there is the lock helper";
            self.note(&["object_lock"], "only buckets have Object Lock", fix);
        }
        self.chosen(upkeep, does_copy);
    }

    /// What is copied, where that is not all.
    fn chosen(&mut self, upkeep: &Upkeep, does_copy: bool) {
        self.are_declared("policies", &upkeep.policies, Kind::Policy);
        for (key, names) in [("policies", &upkeep.policies), ("classes", &upkeep.classes)] {
            if !names.is_empty() && !does_copy {
                let fix = "add \"copy\" to tasks, or remove this line";
                self.note(&[key], "nothing is copied, so nothing is chosen", fix);
            }
        }
        for (at, class) in upkeep.classes.iter().enumerate() {
            if self.has_class(class) {
                continue;
            }
            let message = format!("no retention has a class '{class}'");
            let fix = "name a class of a retention: icecore server retention list";
            self.note(&["classes", &at.to_string()], message, fix);
        }
    }

    fn has_class(&self, class: &str) -> bool {
        self.site.retentions.values().any(|retention| retention.classes.contains_key(class))
    }

    pub(super) fn quota(&mut self, quota: &Quota) {
        let known = self.known.domains.map(Names::Domains);
        self.each_is_in("domains", &quota.domains, "domain", known.as_ref());
        self.are_nodes("nodes", &quota.nodes);
        self.are_declared("groups", &quota.groups, Kind::Group);
        if quota.is_of_nothing() {
            let fix = "name domains, nodes or groups: nodes = [\"web-01\"]";
            self.note(&[], "it names nothing, so it limits nothing", fix);
        }
    }

    pub(super) fn hold(&mut self, hold: &Hold) {
        self.reason(&["reason"], &hold.reason);
        if let (Some(name), Some(known)) = (&hold.node, self.known.nodes) {
            self.is_in(&["node"], name, "node", &Names::Nodes(known));
        }
        if let Some(name) = &hold.policy {
            self.is_declared(&["policy"], name, Kind::Policy);
        }
        let is_wrong = |id: &&String| SnapshotId::from_hex(id).is_none();
        if let Some(id) = hold.snapshot.as_ref().filter(is_wrong) {
            let message = format!("'{id}' is not the id of a snapshot");
            self.note(&["snapshot"], message, "write all 32 digits: icecore snapshots --json");
        }
    }
}

/// Whether it is the address of a bucket, without credentials. Whether there is one, the storage says.
fn is_bucket(to: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let name = to.strip_prefix("s3://").and_then(|rest| rest.split('/').next());
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_name))
}
