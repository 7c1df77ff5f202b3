//! A source stays with its node when an administrator tags its newest snapshot, or makes one, with the server's key;
//! and when the node enrolls again.

use crate::hostile::server::{Quiet, options};
use crate::owners::{Forger, Scene, is_made};
use crypto::SlotSecret;
use ids::ObjectId;
use pipeline::UnlockedRepository;
use pipeline::backup::{self, Progress};
use pipeline::manifest::ManifestReader;
use pipeline::tags::TagChange;
use protocol::Packet;
use repository::local::LocalStorage;
use repository::snapshots::SnapshotRef;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Does `work` where the repository of the domain lies, with the server's own key.
async fn with_the_servers_key<T: Send + 'static>(
    scene: &Scene,
    work: impl FnOnce(&UnlockedRepository) -> T + Send + 'static,
) -> T {
    let data = scene.server.folder("data");
    let there = move || {
        let domain = "team".parse().unwrap();
        let (folder, secret) = server_control::offline::open_to_forget(&data, &domain).unwrap();
        let storage = Arc::new(LocalStorage::open(&folder).unwrap());
        work(&UnlockedRepository::open(storage, SlotSecret::Recovery(*secret)).unwrap())
    };
    tokio::task::spawn_blocking(there).await.unwrap()
}

/// A session that has just ended may hold the lease for a moment.
fn once_free<T>(work: impl Fn() -> pipeline::Result<T>) -> T {
    let begun = Instant::now();
    loop {
        match work() {
            Err(pipeline::Error::Repository(store::Error::InUse { .. }))
                if begun.elapsed() < Duration::from_secs(60) =>
            {
                std::thread::sleep(Duration::from_millis(100));
            }
            done => return done.unwrap(),
        }
    }
}

async fn tag(scene: &Scene, name: SnapshotRef) {
    with_the_servers_key(scene, move |archive| {
        let snapshot = ManifestReader::new(archive).unwrap().read(name).unwrap();
        let change = TagChange { add: vec!["kept".into()], remove: Vec::new() };
        once_free(|| pipeline::tags::change(archive, &snapshot, &change)).unwrap();
    })
    .await;
}

/// A backup of `web` that an administrator makes on the server.
async fn administrators_backup(scene: &Scene) {
    let source = scene.web.source.clone();
    with_the_servers_key(scene, move |archive| {
        let options = options(&source, "web");
        once_free(|| backup::run(archive, &options, &Progress::default(), &Quiet));
    })
    .await;
}

/// Whether `db` may publish for `source`.
async fn db_may_take(scene: &Scene, source: ObjectId) -> bool {
    let mut forger = Forger::new(&scene.db).await;
    forger.root = scene.server.newest_head("team").root;
    let is_made = is_made(&forger.commit_for(source).await);
    // An open session would keep administrators away.
    let finish = Packet::Finish { is_complete: false, report: Vec::new() };
    assert!(matches!(forger.raw.ask(&finish).await, Packet::Done {}));
    is_made
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_stays_with_its_node_when_its_newest_snapshot_is_tagged() {
    let scene = Scene::set().await;
    let first = scene.web.backup().await;
    let source = scene.newest_source();
    let number = first.sequence;
    tag(&scene, first).await;
    assert_eq!(scene.server.newest_head("team").original, Some((first.id, number)));
    assert!(!db_may_take(&scene, source).await);
    scene.web.write("file", b"later");
    let name = scene.web.backup().await;
    assert_eq!(scene.web.restored(name, "file").await, b"later");
    // Whoever is gone has nothing, tagged or not.
    tag(&scene, name).await;
    scene.revoke("web").await;
    assert!(db_may_take(&scene, source).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_administrator_makes_leaves_a_source_with_its_node() {
    let scene = Scene::set().await;
    administrators_backup(&scene).await;
    let source = scene.newest_source();
    assert!(db_may_take(&scene, source).await, "no node made anything of it");
    let scene = Scene::set().await;
    scene.web.backup().await;
    let source = scene.newest_source();
    administrators_backup(&scene).await;
    assert_eq!(scene.newest_source(), source);
    assert!(!db_may_take(&scene, source).await);
    scene.web.backup().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_the_source_of_a_node_that_enrolled_again() {
    let scene = Scene::set().await;
    let name = scene.web.backup().await;
    let source = scene.newest_source();
    let web = scene.enrolled_again(&scene.web).await;
    assert!(!db_may_take(&scene, source).await);
    tag(&scene, name).await;
    assert!(!db_may_take(&scene, source).await);
    web.backup().await;
    assert_eq!(scene.newest_source(), source);
}
