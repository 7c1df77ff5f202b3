//! What an administrator sees of what nodes do, and what is left of a node that was revoked: nothing that runs.

use crate::hostile::raw::{Raw, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::enroll::Role;
use api::jobs::{Job, JobState, Jobs};
use api::status::Done;
use pipeline::manifest::ManifestReader;
use protocol::Packet;
use remote::Purpose;
use repository::Repository;
use repository::local::LocalStorage;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn jobs(server: &Whole) -> Vec<Job> {
    server.admin().get::<Jobs>("/jobs").await.unwrap().jobs
}

/// The newest job of this kind, once it has ended.
async fn ended(server: &Whole, kind: &str) -> Job {
    let begun = Instant::now();
    loop {
        let found = jobs(server).await.into_iter().find(|job| job.kind == kind);
        if let Some(job) = found.filter(|job| job.state != JobState::Running) {
            return job;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no {kind} ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn revoke(server: &Whole, node: &str) {
    let path = format!("/nodes/{node}/revoke");
    let _: Done = server.admin().post(&path, &()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_revocation_returns_nothing_of_the_node_runs_and_the_lease_is_free() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let mut raw = Raw::opened(&web).await;
    let (_, ring) = stolen_keys(&web, &mut raw).await;
    raw.begin(&sealer(&ring)).await;
    // Another session that lost its node: it would wait for a quarter of an hour.
    let mut gone = Raw::opened(&web).await;
    gone.begin(&sealer(&ring)).await;
    drop(gone);
    let mut restore = Raw::greeted(&web).await;
    restore.ask(&Packet::Open { domain: String::new(), purpose: Purpose::Restore }).await;
    assert_eq!(jobs(&server).await.len(), 3);
    revoke(&server, "web").await;
    assert!(server.shared.sessions.is_empty(), "a session is left");
    for job in jobs(&server).await {
        assert_eq!(job.state, JobState::Failed, "{job:?}");
        assert_eq!(job.error.as_deref(), Some("the node was revoked"));
    }
    let folder = server.folder("data/pool/domains/web");
    let here = Repository::open(Arc::new(LocalStorage::open(&folder).unwrap())).unwrap();
    assert!(here.lease("a command on this machine").is_ok(), "the lease is held");
}

/// Reads the root page of the newest snapshot, as `purpose`; how many bytes came.
async fn read(machine: &Machine, purpose: Purpose) -> u64 {
    let machine = machine.clone();
    let read = move || {
        let archive = machine.archive(purpose);
        let name = archive.store.snapshots().unwrap().pop().unwrap();
        let snapshot = ManifestReader::new(&archive).unwrap().read(name).unwrap();
        let mut record = Vec::new();
        archive.store.fetch(&snapshot.head.root, &mut record).unwrap();
        record.len() as u64
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_without_a_job_is_seen_with_what_was_read() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    web.write("secret", b"what a thief would like");
    web.backup().await;
    let bytes = read(&web, Purpose::Read).await;
    let job = ended(&server, "read").await;
    assert_eq!((job.node.as_str(), job.domain.as_str()), ("web", "web"));
    assert_eq!(job.state, JobState::Complete);
    assert!(job.progress.bytes >= bytes && job.progress.objects >= 1, "{job:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_reads_pages_of_the_last_snapshot_is_one_job() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    for round in 0..3u8 {
        web.write("file", &[round; 100]);
        web.backup().await;
    }
    let kinds: Vec<_> = jobs(&server).await.into_iter().map(|job| job.kind).collect();
    assert_eq!(kinds, ["backup"; 3]);
}
