//! Expiry on a storage server, whatever the control server believes: its engine keeps the locks.

use super::{Asking, node, on_disk, start_asking};
use crate::hostile::server::Machine;
use crate::rig::Rig;
use api::retention::DomainExpiry;
use api::sites::{ApplySite, SiteChange};
use server::storage_server::{ControlServer, ControlServerError};
use server_data::domains::Domains;
use server_data::receipts::Receipts;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DAY: i64 = 86_400;
const SITE: &str = r#"
[retention.short.class.standard]
keep_last = 1
trash = "1 day"

[policy.daily]
nodes = ["web"]
paths = ["/tree"]
retention = "short"
"#;

/// Whatever a node backs up is of the policy, and locked for so long.
struct Labeling {
    asking: Asking,
    lock_secs: Arc<AtomicU64>,
}

impl ControlServer for Labeling {
    fn post(
        &self,
        path: &str,
        body: serde_json::Value,
    ) -> Result<serde_json::Value, ControlServerError> {
        if path != "/storage-server/labels" {
            return self.asking.post(path, body);
        }
        let lock_secs = Some(self.lock_secs.load(Ordering::SeqCst)).filter(|secs| *secs > 0);
        Ok(serde_json::json!({
            "is_known": true, "policy": "daily", "source": "main", "class": "standard",
            "lock_secs": lock_secs
        }))
    }
}

/// What the control server lets expire in the domain when its clock shows this.
async fn expired(rig: &Rig, now_secs: i64) -> DomainExpiry {
    let control = rig.control.clone();
    let expire = move || control.expire_at(now_secs).unwrap().domains.remove(0);
    tokio::task::spawn_blocking(expire).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_has_ended_for_the_control_server_alone_holds_and_no_other_snapshot_waits() {
    let rig = Rig::start().await;
    let receipts = Receipts::open(&rig.folder("data")).unwrap();
    rig.control.set_repositories(Arc::new(Domains::new(Some(Arc::new(receipts)))));
    let lock_secs = Arc::new(AtomicU64::new(30 * DAY as u64));
    let of_labels = lock_secs.clone();
    start_asking(&rig, |asking| Arc::new(Labeling { asking, lock_secs: of_labels })).await;
    let source = rig.folder("source of web");
    std::fs::create_dir(&source).unwrap();
    let web = Machine { identity: Arc::new(node(&rig, on_disk("web")).await), source };
    let site = ApplySite { text: SITE.to_owned(), version: None, dry_run: false };
    let _: SiteChange = rig.admin().post("/site", &site).await.unwrap();
    let mut ids = Vec::new();
    for (content, lock) in [("locked", 30 * DAY as u64), ("free", 0), ("newest", 0)] {
        lock_secs.store(lock, Ordering::SeqCst);
        web.write("file", content.as_bytes());
        ids.push(web.backup().await.id.to_string());
    }
    let now = jiff::Timestamp::now().as_second();
    let told = expired(&rig, now).await;
    assert_eq!((&told.error, &told.trashed[..]), (&None, &ids[1..2]), "{told:?}");
    // By the clock of the control server alone the lock has ended.
    let told = expired(&rig, now + 31 * DAY).await;
    assert_eq!((&told.trashed[..], &told.expired[..]), (&ids[..1], &ids[1..2]), "{told:?}");
    // One that can go is named beside the locked one, and goes.
    web.write("file", b"one more");
    web.backup().await;
    let told = expired(&rig, now + 31 * DAY).await;
    assert_eq!(told.trashed, ids[2..3], "{told:?}");
    let told = expired(&rig, now + 33 * DAY).await;
    assert_eq!(told.expired, ids[2..3], "{told:?}");
    assert_eq!(told.refused.len(), 1, "{told:?}");
    assert_eq!(told.refused[0].id, ids[0]);
    assert!(told.refused[0].why.contains("locked until"), "{told:?}");
    let stored = rig.folder("disk/pool/domains/web/snapshots");
    assert_eq!(std::fs::read_dir(stored).unwrap().count(), 2);
}

/// It holds a copy of another domain, whose receipts are good, and would have its snapshots expire by other rules.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_for_another_repository_than_that_of_the_domain() {
    let rig = Rig::start().await;
    let receipts = Receipts::open(&rig.folder("data")).unwrap();
    rig.control.set_repositories(Arc::new(Domains::new(Some(Arc::new(receipts)))));
    start_asking(&rig, |asking| {
        Arc::new(Labeling { asking, lock_secs: Arc::new(AtomicU64::new(0)) })
    })
    .await;
    let source = rig.folder("source of web");
    std::fs::create_dir(&source).unwrap();
    let web = Machine { identity: Arc::new(node(&rig, on_disk("web")).await), source };
    let site = ApplySite { text: SITE.to_owned(), version: None, dry_run: false };
    let _: SiteChange = rig.admin().post("/site", &site).await.unwrap();
    for content in ["one", "two"] {
        web.write("file", content.as_bytes());
        web.backup().await;
    }
    let location = catalog::Location::file(rig.folder("data/catalog.sqlite"));
    let catalog = catalog::Catalog::open(&location).unwrap();
    let name = "web".parse().unwrap();
    let domain = catalog.domain(&name).unwrap().unwrap();
    let other = "5a".repeat(16);
    catalog.set_domain_repository(&name, &other, domain.sealed.as_ref()).unwrap();
    let told = expired(&rig, jiff::Timestamp::now().as_second()).await;
    let error = told.error.unwrap();
    assert!(error.contains(&format!("in the place of {other}")), "{error}");
    assert!(told.trashed.is_empty() && told.expired.is_empty());
    // It is no other one.
    let known = domain.repository.unwrap();
    catalog.set_domain_repository(&name, &known, domain.sealed.as_ref()).unwrap();
    let told = expired(&rig, jiff::Timestamp::now().as_second()).await;
    assert_eq!((told.error, told.trashed.len()), (None, 1));
}
