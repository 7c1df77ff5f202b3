//! A node forgets from afar: only when the administrator said so, only with a full key, and only what is its own unless
//! all was allowed. Somebody has stolen such a node, and speaks to the server packet by packet.

mod rig;

use crate::hostile::raw::{self, Raw};
use api::enroll::{KeyMode, Role};
use api::nodes::{ForgetPermission, ForgetScope};
use api::sites::{ApplySite, SiteChange};
use api::status::Done;
use format::record::RecordKind;
use ids::{KeyId, SnapshotId};
use protocol::Packet;
use protocol::fault::Code;
use protocol::packet::PathBytes;
use rig::{
    FULL, Forged, READ_WRITE, REMOVED, Vault, WRITER, backed_up, backed_up_often, forgotten,
    opened, ring,
};
use std::path::PathBuf;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_forgets_when_it_may_and_what_it_may() {
    let vault = Vault::set().await;
    let [one, two] = [backed_up(&vault.db).await, backed_up(&vault.db).await];
    let other = backed_up(&vault.peer).await;
    let said = forgotten(&vault.db, FULL, &[one]).await.unwrap_err();
    assert!(said.contains("may not forget"), "{said}");
    assert_eq!(vault.listed().len(), 3);
    assert_eq!(vault.audit().await, [], "what was refused was not done");

    vault.allow("db", ForgetScope::Own).await;
    let said = forgotten(&vault.db, FULL, &[two, other]).await.unwrap_err();
    assert!(said.contains("its own snapshots"), "{said}");
    assert_eq!(vault.listed().len(), 3, "of two that may not both go none goes");
    assert_eq!(forgotten(&vault.db, FULL, &[one]).await, Ok(1));
    assert_eq!(vault.listed().len(), 2);
    let said = forgotten(&vault.peer, FULL, &[other]).await.unwrap_err();
    assert!(said.contains("may not forget"), "the right is of one node: {said}");

    vault.allow("db", ForgetScope::Domain).await;
    assert_eq!(forgotten(&vault.db, FULL, &[other, one]).await, Ok(1), "one was forgotten before");
    assert_eq!(vault.listed().len(), 1);
    let named = |name: repository::snapshots::SnapshotRef| {
        ("node db".to_owned(), format!("1: {}", name.id))
    };
    assert_eq!(vault.audit().await, [named(other), named(one)]);

    vault.allow("db", ForgetScope::None).await;
    assert!(forgotten(&vault.db, FULL, &[two]).await.is_err());
    let db = vault.db.clone();
    let check = move || {
        let archive = opened(&db, FULL);
        pipeline::manifest::ManifestReader::new(&archive).unwrap().read(two).map(drop)
    };
    tokio::task::spawn_blocking(check).await.unwrap().unwrap();
}

/// One of them is held: it alone stays, however many are named at once.
#[tokio::test(flavor = "multi_thread")]
async fn more_than_an_entry_of_the_audit_log_names_are_asked_for_one_by_one() {
    let vault = Vault::set().await;
    let held = backed_up(&vault.db).await;
    let others = backed_up_often(&vault.db, 66).await;
    vault.allow("db", ForgetScope::Own).await;
    let text = format!("[hold.case]\nsnapshot = \"{}\"\nreason = \"court\"\n", held.id);
    let site = ApplySite { text, version: None, dry_run: false };
    let _: SiteChange = vault.server.admin().post("/site", &site).await.unwrap();
    let all = [&others[..], &[held]].concat();
    let said = forgotten(&vault.db, FULL, &all).await.unwrap_err();
    assert!(said.contains(&held.id.to_string()), "{said}");
    assert_eq!((vault.listed().len(), vault.audit().await), (67, vec![]));
    assert_eq!(forgotten(&vault.db, FULL, &others).await, Ok(66));
    assert_eq!(vault.listed().len(), 1);
    let (_, entry) = vault.audit().await.remove(0);
    assert!(entry.starts_with("66: ") && entry.ends_with(" and 2 more"), "{entry}");
    assert_eq!(entry.split(' ').count(), 1 + 64 + 3, "{entry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tombstone_removes_anything_but_one_of_a_full_key_in_use() {
    let vault = Vault::set().await;
    let name = backed_up(&vault.db).await;
    vault.allow("db", ForgetScope::Domain).await;
    let (full, full_ring) = ring(&vault.db, FULL).await;
    let (before, containers) = (vault.listed(), vault.containers());
    let mut raw = Raw::opened(&vault.db).await;
    let repository = vault.repository;
    for secret in [WRITER, READ_WRITE, REMOVED] {
        let (own, ring) = ring(&vault.db, secret).await;
        for writer in [own, full, KeyId([0; 8])] {
            let forged = Forged { ring: &ring, writer, repository, names: vec![name.id] };
            raw.is_refused(&forged.packet(), Code::NotAllowed).await;
        }
    }
    let good = Forged { ring: &full_ring, writer: full, repository, names: vec![name.id] };
    // Of another repository.
    let elsewhere = Forged { repository: [1; 16], names: vec![name.id], ..good };
    raw.is_refused(&elsewhere.packet(), Code::NotAllowed).await;
    let good = Forged { repository, ..elsewhere };
    // Another name than was signed.
    let mut other = good.clear();
    other[8] ^= 1;
    let tombstone = RecordKind::Tombstone;
    raw.is_refused(&good.packet_of(tombstone, &other), Code::NotAllowed).await;
    // None, a part of one, and more than any may have.
    for names in [vec![], vec![name.id; 4097]] {
        let forged = Forged { names, ..Forged { names: vec![], ..good } };
        raw.is_refused(&forged.packet(), Code::Damaged).await;
    }
    let good = Forged { ring: &full_ring, writer: full, repository, names: vec![name.id] };
    let clear = good.clear();
    for length in [0, 8, 63, 64, 71, 72, 80, clear.len() - 1] {
        raw.is_refused(&good.packet_of(tombstone, &clear[..length]), Code::Damaged).await;
    }
    raw.is_refused(&good.packet_of(RecordKind::Manifest, &clear), Code::Damaged).await;
    let Packet::Forget { session, tombstone } = good.packet() else { panic!() };
    for at in (0..tombstone.len()).step_by(5) {
        let mut flipped = tombstone.clone();
        flipped[at] ^= 4;
        let packet = Packet::Forget { session: session.clone(), tombstone: flipped };
        raw.is_refused(&packet, Code::Damaged).await;
    }
    for session in [vec![], session.0[1..].to_vec(), tombstone.clone()] {
        let packet = Packet::Forget { session: PathBytes(session), tombstone: tombstone.clone() };
        raw.is_refused(&packet, Code::Damaged).await;
    }
    assert_eq!((vault.listed(), vault.containers()), (before, containers));
    assert_eq!(vault.audit().await, []);
    // And that one does.
    assert_eq!(raw.ask(&good.packet()).await, Packet::Forgotten { count: 1 });
    assert_eq!(vault.listed(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_that_is_shown_again_does_nothing_more() {
    let vault = Vault::set().await;
    let [one, _] = [backed_up(&vault.db).await, backed_up(&vault.db).await];
    vault.allow("db", ForgetScope::Own).await;
    let (writer, ring) = ring(&vault.db, FULL).await;
    let repository = vault.repository;
    let old = Forged { ring: &ring, writer, repository, names: vec![one.id] }.packet();
    let mut raw = Raw::opened(&vault.db).await;
    assert_eq!(raw.ask(&old).await, Packet::Forgotten { count: 1 });
    let (left, containers) = (vault.listed(), vault.containers());
    for _ in 0..3 {
        assert_eq!(raw.ask(&old).await, Packet::Forgotten { count: 0 });
    }
    let unknown = vec![SnapshotId([7; 16]); 9];
    let unknown = Forged { ring: &ring, writer, repository, names: unknown }.packet();
    assert_eq!(raw.ask(&unknown).await, Packet::Forgotten { count: 0 });
    assert_eq!((vault.listed(), vault.containers()), (left, containers), "nothing is written");
    assert_eq!(vault.audit().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_domain_and_no_domain_of_the_server_forgets() {
    let vault = Vault::set().await;
    let name = backed_up(&vault.db).await;
    let admin = vault.server.admin();
    let web = vault.server.node("web", "web", Role::Full).await;
    let writer = vault.server.node_with("writer", "vault", Role::WriteOnly, KeyMode::Client).await;
    for node in ["web", "writer"] {
        let may = ForgetPermission { scope: ForgetScope::Own };
        let path = format!("/nodes/{node}/forget");
        let said = admin.post::<Done>(&path, &may).await.unwrap_err().to_string();
        assert!(said.contains("no node may forget") || said.contains("write-only"), "{said}");
    }
    web.write("file", b"content");
    let own = web.backup().await;
    let (key, keys) = ring(&vault.db, FULL).await;
    let forged = |names| Forged { ring: &keys, writer: key, repository: vault.repository, names };
    // A full key of another domain is none of this one.
    let mut raw = Raw::opened(&web).await;
    raw.is_refused(&forged(vec![own.id]).packet(), Code::NotAllowed).await;
    let mut raw = Raw::opened(&writer).await;
    raw.is_refused(&forged(vec![name.id]).packet(), Code::NotAllowed).await;
    // Who was granted the domain reads it, and no more.
    let grant = api::domains::Grant {
        node: "web".parse().unwrap(),
        domain: "vault".parse().unwrap(),
        until: None,
    };
    let _: Done = admin.post("/grants", &grant).await.unwrap();
    let mut raw = Raw::greeted(&web).await;
    assert!(matches!(raw.ask(&raw::open("vault")).await, Packet::Opened { .. }));
    raw.is_refused(&forged(vec![name.id]).packet(), Code::NotAllowed).await;
    assert_eq!(vault.listed().len(), 1);
    assert_eq!(vault.audit().await, []);
}

/// What was allowed to a machine was not allowed to the one that takes its name.
#[tokio::test(flavor = "multi_thread")]
async fn the_forget_permission_ends_with_the_enrollment() {
    let vault = Vault::set().await;
    vault.allow("db", ForgetScope::Domain).await;
    let scope = async || {
        let nodes: api::nodes::Nodes = vault.server.admin().get("/nodes").await.unwrap();
        nodes.nodes.into_iter().find(|node| node.name.as_str() == "db").unwrap().forget
    };
    assert_eq!(scope().await, ForgetScope::Domain);
    std::fs::rename(vault.server.folder("db"), vault.server.folder("old db")).unwrap();
    std::fs::remove_dir_all(vault.server.folder("source of db")).unwrap();
    vault.server.node_with("db", "vault", Role::Full, KeyMode::Client).await;
    assert_eq!(scope().await, ForgetScope::None);
}

/// A crash after each step: nothing is half forgotten, and the same command ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_while_it_forgets_is_asked_again() {
    let vault = Vault::set().await;
    let [one, two] = [backed_up(&vault.db).await, backed_up(&vault.db).await];
    backed_up(&vault.db).await;
    vault.allow("db", ForgetScope::Own).await;
    let before = vault.server.snapshots("vault");
    assert_eq!(forgotten(&vault.db, FULL, &[one, two]).await, Ok(2));
    // The tombstone is durable, and of the files all, or one, are there still.
    let put_back = |files: &[(PathBuf, Vec<u8>)]| {
        files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    };
    for left in [&before[..2], &before[1..2]] {
        put_back(left);
        let listed = vault.listed().len();
        let done = forgotten(&vault.db, FULL, &[one, two]).await;
        assert_eq!(done, Ok(left.len() as u64), "of {listed}");
        assert_eq!(vault.listed().len(), 1);
    }
    // What is forgotten stays so when the list of snapshots is rebuilt from the containers.
    let folder = vault.server.folder("data/pool/domains/vault");
    let rebuilt = move || {
        let storage = repository::local::LocalStorage::open(&folder).unwrap();
        let secret = crypto::SlotSecret::Recovery(FULL);
        pipeline::rebuild::run(std::sync::Arc::new(storage), secret, false).unwrap().snapshots
    };
    assert_eq!(tokio::task::spawn_blocking(rebuilt).await.unwrap(), 1);
}

/// A command on the server's machine has the repository: the node is told so, and nothing is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn who_forgets_while_another_process_writes_is_told_to_wait() {
    let vault = Vault::set().await;
    let one = backed_up(&vault.db).await;
    vault.allow("db", ForgetScope::Own).await;
    let (writer, ring) = ring(&vault.db, FULL).await;
    let folder = vault.server.folder("data/pool/domains/vault");
    let storage = repository::local::LocalStorage::open(&folder).unwrap();
    let other = repository::Repository::open(std::sync::Arc::new(storage)).unwrap();
    let mut lease = None;
    // The session of the backup has its lease until it has ended.
    for _ in 0..100 {
        lease = other.lease("a command").ok();
        if lease.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let lease = lease.expect("the backup has ended");
    let forget = Forged { ring: &ring, writer, repository: vault.repository, names: vec![one.id] };
    let mut raw = Raw::opened(&vault.db).await;
    let said = raw.is_refused(&forget.packet(), Code::InUse).await;
    assert!(said.contains("a command"), "{said}");
    assert_eq!(vault.listed().len(), 1);
    drop(lease);
    assert_eq!(raw.ask(&forget.packet()).await, Packet::Forgotten { count: 1 });
    assert_eq!(vault.audit().await.len(), 1, "what has to wait is not noted each time");
}
