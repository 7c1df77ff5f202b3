//! A server whose repositories are in memory, and fail where a test wants it.

use crate::open::Parts;
use crate::retention::Retention;
use crate::retention::facts::UNREAD;
use crate::retention::repositories::SnapshotStore;
use crate::sites::Sites;
use crate::{Error, Result};
use ::retention::Facts;
use api::Name;
use api::jobs::JobPlan;
use api::retention::{DomainExpiry, Expire, Expiry};
use api::sites::{PutObject, SiteChange};
use catalog::objects::ObjectChange;
use clock::Reading;
use ids::SnapshotId;
use parking_lot::Mutex;
use repository::snapshots::SnapshotRef;
use serde_json::{Value, json};
use server_contract::Expired;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(in crate::retention) const DAY: i64 = 86_400;
/// 2026-06-01 00:00 UTC: in the past, so that the clock of the machine is later.
pub(in crate::retention) const NOW: i64 = 20_605 * DAY;

/// Where the store fails next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retention) enum Fail {
    /// When names are listed.
    Names,
    /// When snapshots are read.
    Facts,
    /// Before anything is deleted.
    BeforeExpiry,
    /// After everything was deleted.
    AfterExpiry,
    /// Nothing: by its own clock everything is locked.
    Locked,
}

/// The repositories.
#[derive(Default)]
pub(in crate::retention) struct Store {
    pub(in crate::retention) domains: Mutex<BTreeMap<String, Vec<Facts>>>,
    fail: Mutex<Option<Fail>>,
}

impl Store {
    fn fails(&self, at: Fail) -> Result<()> {
        let mut fail = self.fail.lock();
        if *fail == Some(at) {
            *fail = None;
            return Err(Error::Usage("the store fails".to_owned()));
        }
        Ok(())
    }
}

impl SnapshotStore for Store {
    fn names(&self, domain: &Name) -> Result<Vec<SnapshotRef>> {
        self.fails(Fail::Names)?;
        let domains = self.domains.lock();
        let all = domains.get(domain.as_str()).map(Vec::as_slice).unwrap_or_default();
        Ok(all.iter().map(|one| SnapshotRef { sequence: one.number, id: one.id }).collect())
    }

    fn facts(&self, domain: &Name, names: &[SnapshotRef]) -> Result<Vec<Facts>> {
        self.fails(Fail::Facts)?;
        let ids: BTreeSet<_> = names.iter().map(|name| name.id).collect();
        let domains = self.domains.lock();
        let all = domains.get(domain.as_str()).map(Vec::as_slice).unwrap_or_default();
        Ok(all.iter().filter(|one| ids.contains(&one.id)).cloned().collect())
    }

    /// As the engine does it: what is locked stays, and in doubt everything.
    fn expire(&self, domain: &Name, ids: &[SnapshotId], now: Reading) -> Result<Expired> {
        self.fails(Fail::BeforeExpiry)?;
        let is_all_locked = self.fails(Fail::Locked).is_err();
        let mut domains = self.domains.lock();
        let all = domains.entry(domain.to_string()).or_default();
        let mut expired = Expired::default();
        for id in ids {
            let is_locked = |one: &&Facts| one.id == *id && one.locked_until_secs > Some(now.secs);
            match all.iter().find(is_locked).is_some() || is_all_locked || now.doubt.is_some() {
                true => expired.refused.push((*id, "locked".to_owned())),
                false => expired.removed.push(*id),
            }
        }
        all.retain(|one| !expired.removed.contains(&one.id));
        drop(domains);
        self.fails(Fail::AfterExpiry)?;
        Ok(expired)
    }
}

/// A server.
pub(in crate::retention) struct Rig {
    folder: tempfile::TempDir,
    pub(in crate::retention) store: Arc<Store>,
    open: Option<(Parts, Retention)>,
}

impl Rig {
    pub(in crate::retention) fn new(domains: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut rig = Self { folder, store: Arc::default(), open: None };
        rig.restart();
        domains.iter().for_each(|domain| rig.add_domain(domain));
        rig
    }

    /// The server is killed and started again.
    pub(in crate::retention) fn restart(&mut self) {
        drop(self.open.take());
        let parts = Parts::open(self.folder.path(), &[]).unwrap();
        let retention = Retention::over(&parts, Arc::new(Sites::new(&parts)), self.store.clone());
        self.open = Some((parts, retention));
    }

    /// The server finds nothing that says how new its catalog is, and doubts it.
    pub(in crate::retention) fn lose_mark(&mut self) {
        std::fs::remove_file(self.folder.path().join("catalog-mark")).unwrap();
        self.restart();
    }

    pub(in crate::retention) fn parts(&self) -> &Parts {
        &self.open.as_ref().unwrap().0
    }

    pub(in crate::retention) fn retention(&self) -> &Retention {
        &self.open.as_ref().unwrap().1
    }

    fn add_domain(&self, name: &str) {
        let name: Name = name.parse().unwrap();
        let keys = api::enroll::KeyMode::Client;
        let (repository, sealed, storage, settings) = Default::default();
        let made = 0;
        let new = catalog::domains::Domain {
            name,
            keys,
            repository,
            sealed,
            made,
            storage,
            pool: None,
            settings,
        };
        self.parts().catalog.add_domain(crate::by("test"), &new).unwrap();
    }

    /// A policy with the class `standard`, whose rules are these lines.
    pub(in crate::retention) fn declare(&self, class: &str) {
        let class: Value = toml_value(class);
        self.put("retention", "r", json!({"class": {"standard": class}}));
        self.put("policy", "policy", json!({"paths": ["/"], "retention": "r"}));
    }

    pub(in crate::retention) fn put(&self, kind: &str, name: &str, body: Value) {
        let catalog = &self.parts().catalog;
        let version = catalog.site_version().unwrap();
        let change = [ObjectChange::put(kind, name, body)];
        catalog.change_objects(crate::by("test"), version, &change).unwrap();
    }

    pub(in crate::retention) fn remove(&self, kind: &str, name: &str) {
        let catalog = &self.parts().catalog;
        let version = catalog.site_version().unwrap();
        let change = [ObjectChange::remove(kind, name)];
        catalog.change_objects(crate::by("test"), version, &change).unwrap();
    }

    /// What a change through the site would do.
    pub(in crate::retention) fn put_dry(&self, kind: &str, name: &str, body: Value) -> SiteChange {
        let kind = kind.parse().unwrap();
        let put = |sites: &Sites| {
            let version = sites.object(kind, name).ok().map(|object| object.version);
            sites.put("admin", (kind, name), &PutObject { version, body, dry_run: true })
        };
        self.retention().change_site(put).unwrap()
    }

    /// A complete snapshot of the policy.
    pub(in crate::retention) fn receive(&self, domain: &str, received_secs: i64) -> Facts {
        let mut domains = self.store.domains.lock();
        let all = domains.entry(domain.to_owned()).or_default();
        let number = all.last().map_or(1, |last| last.number + 1);
        all.push(snapshot(domain, number, received_secs));
        all.last().unwrap().clone()
    }

    /// So many, of a hundred nodes, one each hour.
    pub(in crate::retention) fn receive_many(&self, domain: &str, count: usize) {
        let one = |at: usize| {
            let received = NOW - (count - at) as i64 * 900;
            Facts {
                node: format!("node-{}", at % 100),
                ..snapshot(domain, at as u64 + 1, received)
            }
        };
        self.store.domains.lock().insert(domain.to_owned(), (0..count).map(one).collect());
    }

    pub(in crate::retention) fn change(
        &self,
        domain: &str,
        at: usize,
        change: impl FnOnce(&mut Facts),
    ) {
        change(&mut self.store.domains.lock().get_mut(domain).unwrap()[at]);
        let ids: Vec<_> = self.known(domain).iter().map(|one| one.id).collect();
        let is_unread = self.known(domain).iter().any(|one| one.suspect.as_deref() == Some(UNREAD));
        // A receipt never changes: what is known of it is read only once.
        if !is_unread {
            self.parts().snapshots.note(domain, &[], &ids).unwrap();
        }
        self.retention().has_changed(domain);
    }

    pub(in crate::retention) fn lock(&self, domain: &str, at: usize, until_secs: i64) {
        self.change(domain, at, |one| one.locked_until_secs = Some(until_secs));
    }

    pub(in crate::retention) fn fail(&self, at: Fail) {
        *self.store.fail.lock() = Some(at);
    }

    pub(in crate::retention) fn fail_no_more(&self) {
        *self.store.fail.lock() = None;
    }

    pub(in crate::retention) fn stored(&self, domain: &str) -> usize {
        self.store.domains.lock()[domain].len()
    }

    /// What the catalog knows.
    pub(in crate::retention) fn known(&self, domain: &str) -> Vec<Facts> {
        self.parts().catalog.snapshots_of(domain).unwrap()
    }

    pub(in crate::retention) fn known_id(&self, domain: &str, at: usize) -> String {
        self.store.domains.lock()[domain][at].id.to_string()
    }

    pub(in crate::retention) fn expire_at(&self, now: Reading) -> Expiry {
        self.retention().expire(crate::by("server"), &Expire::default(), now).unwrap()
    }

    /// The report of the first domain.
    pub(in crate::retention) fn expire(&self, now_secs: i64) -> DomainExpiry {
        self.expire_at(Reading::certain(now_secs)).domains.remove(0)
    }

    /// What was done to snapshots, oldest first.
    pub(in crate::retention) fn actions(&self) -> Vec<String> {
        let entries = self.parts().catalog.audit_entries(None, 100).unwrap();
        let actions = entries.into_iter().rev().map(|entry| entry.action);
        actions.filter(|action| action.starts_with("snapshot.")).collect()
    }

    /// A job of a policy.
    pub(in crate::retention) fn queue(&self, policy: &str) -> u64 {
        let plan = JobPlan {
            policy: policy.to_owned(),
            schedule: None,
            source: "/".to_owned(),
            source_name: "main".to_owned(),
            class: "standard".to_owned(),
            unit: "default".to_owned(),
            priority: 50,
            due: NOW,
            until: None,
            attempt: 1,
            late: false,
            runs: 1,
        };
        let node: Name = "web".parse().unwrap();
        let task = api::commands::NewBackup::of(node, vec!["/".to_owned()]);
        let task = api::commands::Task::Backup(task);
        let (node, domain) = ("web".to_owned(), "web".to_owned());
        let run = catalog::schedules::NewRun { node, domain, plan, task };
        self.parts().catalog.queue_run(crate::by("test"), &run).unwrap().unwrap()
    }
}

fn snapshot(domain: &str, number: u64, received_secs: i64) -> Facts {
    let mut id = SnapshotId([0; 16]);
    id.0[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id.0[15] = domain.as_bytes()[0];
    Facts {
        id,
        number,
        node: "node".to_owned(),
        source: "main".to_owned(),
        policy: "policy".to_owned(),
        class: "standard".to_owned(),
        received_secs,
        is_partial: false,
        suspect: None,
        tags: None,
        locked_until_secs: None,
        paths: None,
        has_deleted_objects: None,
        source_deleted_secs: None,
        trashed: None,
    }
}

/// Lines of a class, as JSON.
fn toml_value(class: &str) -> Value {
    let text = format!("[retention.r.class.standard]\n{class}\n");
    let site = site::file::read(&text).unwrap();
    serde_json::to_value(&site.retentions["r"].classes["standard"]).unwrap()
}
