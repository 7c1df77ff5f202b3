//! Receipts: what a server says of the snapshots that it takes, and what readers make of it. A node of a
//! domain speaks for no other one, and chooses no time.

use crate::hostile::raw::{Raw, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::enroll::Role;
use clock::{Doubt, Reading};
use crypto::{Signer, SlotSecret};
use format::manifest::{Head, MANIFEST_CONTEXT};
use format::receipt::{RECEIPT_CONTEXT, Receipt};
use format::record::RecordKind;
use ids::SnapshotId;
use pipeline::check::{self, CheckOptions};
use pipeline::manifest::{ManifestBody, ManifestReader, Snapshot, source_id};
use pipeline::progress::Progress;
use pipeline::receipts::ReceiptStatus;
use pipeline::retention::{self, CalendarTime, Keep, RetentionPolicy};
use pipeline::select::{self, SelectBy, SnapshotFilter, SnapshotSelector};
use pipeline::{Error, UnlockedRepository};
use protocol::Packet;
use remote::{Purpose, Remote};
use repository::Repository;
use repository::local::LocalStorage;
use repository::receipts::ReceiptKey;
use repository::received::RepositoryElsewhere;
use repository::snapshots::SnapshotRef;
use seal::{BlockCompressor, Level};
use server_contract::{Expired, Repositories};
use server_data::domains::Domains;
use server_data::receipts::Receipts;
use std::sync::Arc;

const DAY: i64 = 86_400;
const NOW: i64 = 20_000 * DAY;

struct Scene {
    server: Whole,
    web: Machine,
    db: Machine,
}

impl Scene {
    async fn set() -> Self {
        let server = Whole::start().await;
        let web = server.node("web", "team", Role::Full).await;
        let db = server.node("db", "team", Role::Full).await;
        web.write("file", b"of web");
        db.write("file", b"of db");
        Self { server, web, db }
    }

    /// Does `work` with the repository as `db` sees it.
    async fn seen<T: Send + 'static>(
        &self,
        work: impl FnOnce(&UnlockedRepository) -> T + Send + 'static,
    ) -> T {
        let machine = self.db.clone();
        let seen = move || work(&machine.archive(Purpose::Read));
        tokio::task::spawn_blocking(seen).await.unwrap()
    }

    /// Does `work` where the repository lies, with the key of `db`.
    async fn there<T: Send + 'static>(
        &self,
        work: impl FnOnce(&UnlockedRepository) -> T + Send + 'static,
    ) -> T {
        self.there_as(&self.db, work).await
    }

    /// The same with the key of `machine`.
    async fn there_as<T: Send + 'static>(
        &self,
        machine: &Machine,
        work: impl FnOnce(&UnlockedRepository) -> T + Send + 'static,
    ) -> T {
        let folder = self.server.folder("data/pool/domains/team");
        let secret = machine.identity.slot_secret.clone().unwrap();
        let there = move || {
            let storage = Arc::new(LocalStorage::open(&folder).unwrap());
            work(&UnlockedRepository::open(storage, SlotSecret::Recovery(*secret)).unwrap())
        };
        tokio::task::spawn_blocking(there).await.unwrap()
    }

    /// A snapshot that `web` makes packet by packet: with the tree of one of its own, signed for its own
    /// source, and what else it likes.
    async fn forged(&self, own: SnapshotRef, body: ManifestBody, time_secs: i64) -> SnapshotRef {
        let (root, source) = self
            .seen(move |archive| {
                let own = read(archive, own).unwrap();
                (own.head.root, source_id(archive, &own.body.node, &own.body.paths))
            })
            .await;
        let mut raw = Raw::opened(&self.web).await;
        let (writer, ring) = stolen_keys(&self.web, &mut raw).await;
        let sealer = sealer(&ring);
        raw.begin(&sealer).await;
        let text = self.web.identity.agent.repository.clone().unwrap();
        let repository = data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
        let bytes = serde_json::to_vec(&body).unwrap();
        let head = Head {
            sequence: raw.number().await,
            source,
            source_sequence: 2,
            previous: SnapshotId([0; 16]),
            time_secs,
            time_nanos: 0,
            root,
            level: 0,
            body: ring.writer.ids.page_id(0x81, &[root], &bytes),
            writer,
            flags: 0,
            original: None,
        };
        let unsigned = head.encode();
        let message = [MANIFEST_CONTEXT, &repository, &unsigned].concat();
        let clear = [&unsigned[..], &ring.writer.sign(&message).unwrap()].concat();
        let packer = &mut BlockCompressor::new(Level::Fixed(1)).unwrap();
        let manifest = sealer.seal_single(RecordKind::Manifest, &clear, &bytes, packer).unwrap();
        match raw.ask(&Packet::Commit { manifest: manifest.to_bytes() }).await {
            Packet::Committed { name, .. } => SnapshotRef { sequence: name.sequence, id: name.id },
            other => panic!("{other:?}"),
        }
    }
}

fn read(archive: &UnlockedRepository, name: SnapshotRef) -> pipeline::Result<Snapshot> {
    ManifestReader::new(archive)?.read(name)
}

fn why_not(archive: &UnlockedRepository, name: SnapshotRef) -> String {
    match read(archive, name) {
        Err(Error::Untrusted { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

fn latest_of(archive: &UnlockedRepository, node: &str) -> SnapshotRef {
    let selector = SnapshotSelector { by: SelectBy::Latest(0), node: Some(node.into()) };
    select::find(archive, &selector, SnapshotFilter::ANY, &mut |_| ()).unwrap().snapshot.name
}

/// What `policy` forgets.
fn forgotten(archive: &UnlockedRepository, policy: &RetentionPolicy) -> Vec<SnapshotRef> {
    let all = ManifestReader::new(archive).unwrap().all(|_, _| ()).unwrap();
    let days = |secs: i64| secs.div_euclid(DAY);
    let calendar = |time: format::entry::Time| CalendarTime {
        year: (days(time.secs) / 365) as i32,
        month: 1,
        day: (days(time.secs) % 365 % 250) as u8,
        hour: 0,
        week: (0, 0),
    };
    let groups = retention::apply(policy, &all, &|_| true, &calendar, archive.now_secs());
    let decisions = groups.iter().flat_map(|group| &group.decisions);
    let gone = decisions.filter(|decision| decision.reasons.is_empty());
    gone.map(|decision| decision.snapshot.name).collect()
}

fn body_of(node: &str, path: &str) -> ManifestBody {
    ManifestBody { node: node.into(), paths: vec![path.into()], ..ManifestBody::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_snapshot_gets_a_receipt_with_the_name_of_its_node_and_the_servers_time() {
    let scene = Scene::set().await;
    let name = scene.web.backup().await;
    let (received, now) =
        scene.seen(move |archive| (read(archive, name).unwrap().receipt, archive.now_secs())).await;
    let ReceiptStatus::Valid { node, times: Some((begun, at)), .. } = received else {
        panic!("{received:?}")
    };
    assert_eq!(node, "web");
    assert!(begun <= at && (now - at.secs).abs() < 600, "{begun:?} {at:?} {now}");
}

/// The server has no key of the domain. What it says of it is signed, and readers take it for a word of its own.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_lets_expire_is_gone_on_purpose_and_no_rebuild_brings_it_back() {
    let scene = Scene::set().await;
    let (first, second) = (scene.web.backup().await, scene.web.backup().await);
    let data = scene.server.folder("data");
    let expire = move || {
        let receipts = Receipts::open(&data).unwrap();
        let (domains, folder) =
            (Domains::new(Some(Arc::new(receipts))), data.join("pool/domains/team"));
        let doubtful = Reading { secs: NOW, doubt: Some(Doubt::Fast(DAY)) };
        let nothing = domains.expire(&folder, &[first.id], doubtful).unwrap();
        assert_eq!((nothing.removed.len(), nothing.refused.len()), (0, 1), "{nothing:?}");
        let unknown = SnapshotId([9; 16]);
        for _ in 0..2 {
            let ids = [first.id, unknown];
            let done = domains.expire(&folder, &ids, Reading::certain(NOW)).unwrap();
            assert_eq!(done, Expired { removed: ids.to_vec(), refused: Vec::new() });
        }
        let known = domains.received(&folder, &[first, second]).unwrap();
        assert!(known[0].is_err(), "{known:?}");
        assert_eq!(known[1].as_ref().unwrap().receipt.as_ref().unwrap().node, "web");
        let nobody = Domains::default().expire(&folder, &[second.id], Reading::certain(NOW));
        assert!(matches!(nobody, Err(repository::Error::NoReceiptKey)), "{nobody:?}");
    };
    tokio::task::spawn_blocking(expire).await.unwrap();
    let checked = |archive: &UnlockedRepository| {
        let options = CheckOptions { read_data_percent: None, threads: 1, repair: false };
        let report = check::run(archive, &options, &Progress::default()).unwrap();
        (report.damages.len(), report.expired)
    };
    assert_eq!(scene.there(checked).await, (0, 1));
    let (folder, secret) = (
        scene.server.folder("data/pool/domains/team"),
        scene.db.identity.slot_secret.clone().unwrap(),
    );
    let rebuild = move || {
        let storage = Arc::new(LocalStorage::open(&folder).unwrap());
        let report = pipeline::rebuild::run(storage, SlotSecret::Recovery(*secret), false).unwrap();
        (report.snapshots, report.snapshots_restored)
    };
    assert_eq!(tokio::task::spawn_blocking(rebuild).await.unwrap(), (1, 0));
    assert_eq!(scene.there(checked).await, (0, 1));
    // Whose key nobody knows has let nothing expire.
    std::fs::remove_file(scene.server.folder("data/pool/domains/team/receipts")).unwrap();
    assert_eq!(scene.there(checked).await.1, 0);
}

/// `backup --node db` of a plain client. The server cannot look inside, and says who sent it.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_in_the_name_of_another_node_counts_for_nothing() {
    let scene = Scene::set().await;
    let fake = scene.web.backup_as("db").await;
    scene
        .seen(move |archive| {
            assert!(why_not(archive, fake).contains("received it from 'web'"));
            let selector = SnapshotSelector { by: SelectBy::Latest(0), node: Some("db".into()) };
            let found = select::find(archive, &selector, SnapshotFilter::ANY, &mut |_| ());
            assert!(matches!(found, Err(Error::SnapshotNotFound(_))), "{found:?}");
        })
        .await;
}

/// A client that signs for a source of its own, and says inside that it is another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_client_takes_no_place_of_another_nodes_snapshots() {
    let scene = Scene::set().await;
    let real = scene.db.backup().await;
    let own = scene.web.backup().await;
    let fake = scene.forged(own, body_of("db", "/tree"), 1).await;
    scene
        .there(move |archive| {
            assert!(
                why_not(archive, fake).contains("another source")
                    || why_not(archive, fake).contains("received it from")
            );
            assert_eq!(latest_of(archive, "db"), real);
            let policy = RetentionPolicy { last: Keep::Newest(1), ..RetentionPolicy::default() };
            assert_eq!(forgotten(archive, &policy), []);
            let checked = pipeline::check::run(archive, &Default::default(), &Default::default());
            let damages = checked.unwrap().damages;
            assert!(damages.iter().any(|damage| damage.what.contains("untrusted")), "{damages:?}");
            archive.forget(&[fake]).unwrap();
            let checked = pipeline::check::run(archive, &Default::default(), &Default::default());
            assert_eq!(checked.unwrap().damages, []);
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn back_dated_snapshots_are_suspect_by_the_servers_receipt() {
    let scene = Scene::set().await;
    let own = scene.web.backup().await;
    let now = scene.seen(|archive| archive.now_secs()).await;
    for day in [3, 2, -3] {
        scene.forged(own, body_of("web", "/tree"), now - day * DAY).await;
    }
    scene
        .there(|archive| {
            let policy = RetentionPolicy {
                daily: Keep::Newest(1),
                last: Keep::Newest(1),
                ..RetentionPolicy::default()
            };
            assert_eq!(
                forgotten(archive, &policy),
                [],
                "suspect snapshots stay, and push none out"
            );
            let all =
                ManifestReader::new(archive).unwrap().all(|_, error| panic!("{error}")).unwrap();
            let heads: Vec<_> = all.iter().map(|one| (one.head, one.receipt.clone())).collect();
            let times = pipeline::effective_time::effective_times(&heads, archive.now_secs());
            let dated = times.iter().filter(|effective| effective.time().is_some());
            assert_eq!((times.len(), dated.count()), (4, 1), "{times:?}");
        })
        .await;
}

/// Tags are changed where the repository lies: the receipt of the original goes with the snapshot. It is
/// there again after the file was lost, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_outlives_new_tags_and_a_rebuild() {
    let scene = Scene::set().await;
    let name = scene.web.backup().await;
    let folder = scene.server.folder("data/pool/domains/team");
    let secret = scene.web.identity.slot_secret.clone().unwrap();
    // A key that is bound to another node would make a snapshot that nobody trusts.
    scene
        .there(move |archive| {
            let before = read(archive, name).unwrap();
            let change = pipeline::tags::TagChange { add: vec!["mine".into()], remove: Vec::new() };
            let refused = pipeline::tags::change(archive, &before, &change);
            assert!(matches!(refused, Err(Error::BoundKey { .. })), "{refused:?}");
        })
        .await;
    scene
        .there_as(&scene.web, move |archive| {
            let before = read(archive, name).unwrap();
            let change = pipeline::tags::TagChange { add: vec!["kept".into()], remove: Vec::new() };
            let anew = pipeline::tags::change(archive, &before, &change).unwrap().unwrap();
            let after = read(archive, anew).unwrap();
            assert_eq!(
                (after.receipt.clone(), &after.body.tags[..]),
                (before.receipt, &["kept".to_owned()][..])
            );
            assert_eq!(pipeline::effective_time::creation_order(&after.head).0, name.sequence);
            for file in std::fs::read_dir(folder.join("snapshots")).unwrap() {
                std::fs::remove_file(file.unwrap().path()).unwrap();
            }
            let storage = Arc::new(LocalStorage::open(&folder).unwrap());
            let report = pipeline::rebuild::run(storage, SlotSecret::Recovery(*secret), false);
            assert_eq!(report.unwrap().snapshots, 1);
            assert_eq!(read(archive, anew).unwrap().receipt, after.receipt);
        })
        .await;
}

/// When the list of receipt keys is lost, none is trusted: snapshots with a receipt are suspect.
#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_of_an_unknown_key_holds_its_snapshot_back() {
    let scene = Scene::set().await;
    let name = scene.web.backup().await;
    std::fs::remove_file(scene.server.folder("data/pool/domains/team/receipts")).unwrap();
    scene
        .there(move |archive| {
            assert_eq!(read(archive, name).unwrap().receipt, ReceiptStatus::Untrusted)
        })
        .await;
    // The server writes it anew with its next receipt.
    scene.web.backup().await;
    scene
        .there(move |archive| {
            assert!(matches!(read(archive, name).unwrap().receipt, ReceiptStatus::Valid { .. }));
        })
        .await;
}

/// Who can write the files of a repository, and has a key that signs snapshots, names a key for receipts of its own and
/// dates what it likes. A node that remembers the server's keys believes the server, not the files.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_receipts_that_the_files_name_dates_nothing_for_a_node_that_knows_its_server() {
    let scene = Scene::set().await;
    let name = scene.web.backup().await;
    let known = scene.told_keys().await;
    assert_eq!(known.len(), 1, "that of the server");
    let evil = Signer::from_seed([9; 32]);
    scene.dates(name, &evil, 1_000_000_000).await;
    let told = scene.told_keys().await;
    assert_eq!((told[0], told[1..].to_vec()), (known[0], vec![*evil.public().as_bytes()]));
    // Who knows nothing believes what it is told at first, which is why nodes remember it.
    let received = scene.received(name, None).await;
    assert!(
        matches!(received, ReceiptStatus::Valid { times: Some((_, at)), .. } if at.secs == 1_000_000_000),
        "{received:?}"
    );
    assert_eq!(scene.received(name, Some(known)).await, ReceiptStatus::Untrusted);
}

/// A control server reads what lies on a storage server over the network.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_of_a_snapshot_elsewhere_is_believed_as_where_it_lies() {
    let scene = Scene::set().await;
    let name = scene.web.backup().await;
    let folder = scene.server.folder("data/pool/domains/team");
    let read = move || {
        let repository = Repository::open(Arc::new(LocalStorage::open(&folder).unwrap())).unwrap();
        repository.verify_with(crypto::is_signed);
        let stored = repository.snapshot(name).unwrap();
        let here = repository.received(name).unwrap();
        assert!(here.receipt.is_some(), "{here:?}");
        let there = RepositoryElsewhere {
            repository: repository.config().repository,
            keys: repository.receipt_keys().unwrap(),
            verifier: crypto::is_signed,
        };
        assert_eq!(there.received(&stored), here);
        let stranger = RepositoryElsewhere { keys: vec![[9; 32]], ..there.clone() };
        assert_eq!(stranger.received(&stored).receipt, None);
        let other = ids::RepositoryId([9; 16]);
        let other = RepositoryElsewhere { repository: other, ..there };
        assert_eq!(other.received(&stored).receipt, None);
    };
    tokio::task::spawn_blocking(read).await.unwrap();
}

impl Scene {
    /// The keys for receipts that the server tells `db`.
    async fn told_keys(&self) -> Vec<ReceiptKey> {
        let target = self.db.target();
        let told =
            move || Remote::connect(&target, Purpose::Read).unwrap().server_receipt_keys().to_vec();
        tokio::task::spawn_blocking(told).await.unwrap()
    }

    /// What `db` makes of the receipt of a snapshot, when it believes these keys.
    async fn received(&self, name: SnapshotRef, keys: Option<Vec<ReceiptKey>>) -> ReceiptStatus {
        let machine = self.db.clone();
        let received = move || {
            let remote = Remote::connect(&machine.target(), Purpose::Read).unwrap();
            if let Some(keys) = keys {
                remote.trust_receipt_keys(keys);
            }
            let secret = machine.identity.slot_secret.clone().unwrap();
            let archive =
                UnlockedRepository::open_store(remote, SlotSecret::Recovery(*secret)).unwrap();
            read(&archive, name).unwrap().receipt
        };
        tokio::task::spawn_blocking(received).await.unwrap()
    }

    /// Gives the snapshot another receipt, of a key that the files then name.
    async fn dates(&self, name: SnapshotRef, signer: &Signer, secs: i64) {
        let folder = self.server.folder("data/pool/domains/team");
        let key = *signer.public().as_bytes();
        let storage = Arc::new(LocalStorage::open(&folder).unwrap());
        let repository = Repository::open(storage).unwrap();
        let lease = repository.lease("evil").unwrap();
        repository.add_receipt_key(&lease, key).unwrap();
        let stored = repository.snapshot(name).unwrap();
        let clear = stored.receipt.clone().unwrap();
        let receipt = Receipt {
            begun_secs: secs,
            received_secs: secs,
            key,
            ..Receipt::decode(&clear).unwrap().0
        };
        let unsigned = receipt.encode();
        let message = [RECEIPT_CONTEXT, &repository.config().repository.0, &unsigned].concat();
        let forged = [&unsigned[..], &signer.sign(&message)].concat();
        let session = format::record::split(&stored.record).unwrap().header.session;
        let record = |clear: &[u8]| format::receipt::record(session, clear).unwrap().to_bytes();
        let (file, bytes) = self.server.snapshots("team").pop().unwrap();
        let kept = bytes.len() - record(&clear).len();
        std::fs::write(file, [&bytes[..kept], &record(&forged)].concat()).unwrap();
    }
}
