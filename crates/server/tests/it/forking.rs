//! Somebody copied the folder of a node: two machines have one certificate, and both renew from it.

use crate::rig::{Rig, new_token};
use access::enroll::enroll;
use access::renew::renew;
use access::storage_server;
use api::enroll::{RenewReply, RenewRequest};
use api::nodes::Nodes;
use api::status::{Audit, Status};
use api::storage_servers::{IssuedStorageServerToken, NewStorageServerToken, StorageServers};
use server_contract::access_control::AccessControl;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server with the node `web`, and a copy of the node's folder.
async fn copied() -> (Rig, PathBuf, PathBuf) {
    let rig = Rig::start().await;
    let token = rig.token(new_token("web")).await;
    let (honest, thief) = (rig.folder("web"), rig.folder("thief"));
    enroll(&rig.url, &token.token, &honest, false).await.unwrap();
    copy(&honest, &thief);
    (rig, honest, thief)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

async fn is_stopped(rig: &Rig, folders: &[&Path]) {
    for folder in folders {
        assert!(renew(folder).await.is_err(), "{} goes on", folder.display());
        // Whoever complains first may have the wrong machine: nobody revoked it.
        let refused = rig.control.admit(&rig.peer(folder)).unwrap_err();
        assert!(refused.message.contains("two machines have shown"), "{refused:?}");
        assert!(refused.hint.contains("icecore server token web"), "{refused:?}");
    }
    let nodes: Nodes = rig.admin().get("/nodes").await.unwrap();
    assert!(nodes.nodes[0].revoked && nodes.nodes[0].alarm.is_some());
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert_eq!(status.alarms, 1);
    let audit: Audit = rig.admin().get("/audit").await.unwrap();
    assert!(audit.entries.iter().any(|entry| entry.action == "certificate.fork"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thief_that_renews_first_and_uses_it_is_found_when_the_node_renews() {
    let (rig, honest, thief) = copied().await;
    renew(&thief).await.unwrap();
    rig.control.admit(&rig.peer(&thief)).unwrap();
    assert!(renew(&honest).await.is_err());
    is_stopped(&rig, &[&honest, &thief]).await;
    // Whose machine it is shows a new token, and the alarm ends.
    let token = rig.token(new_token("web")).await;
    enroll(&rig.url, &token.token, &honest, true).await.unwrap();
    renew(&honest).await.unwrap();
    assert!(rig.control.admit(&rig.peer(&thief)).is_err(), "the thief stays out");
    let nodes: Nodes = rig.admin().get("/nodes").await.unwrap();
    assert_eq!(nodes.nodes[0].alarm, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thief_that_renews_after_the_node_is_found_at_once() {
    let (rig, honest, thief) = copied().await;
    renew(&honest).await.unwrap();
    rig.control.admit(&rig.peer(&honest)).unwrap();
    assert!(renew(&thief).await.is_err());
    is_stopped(&rig, &[&honest, &thief]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thief_that_has_not_used_its_certificate_yet_is_found_when_it_does() {
    let (rig, honest, thief) = copied().await;
    renew(&thief).await.unwrap();
    renew(&honest).await.unwrap();
    rig.control.admit(&rig.peer(&honest)).unwrap();
    assert!(rig.control.admit(&rig.peer(&thief)).is_err());
    is_stopped(&rig, &[&honest, &thief]).await;
}

/// The answer was lost: the node has the key that it asked for, and not the certificate.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_lost_is_given_again_and_is_no_fork() {
    let (rig, honest, _) = copied().await;
    let before = std::fs::read(honest.join("node.pem")).unwrap();
    // What is written is in the way, as a full disk would be: the server has answered all the same.
    std::fs::create_dir(honest.join("node.pem.part")).unwrap();
    for _ in 0..3 {
        assert!(renew(&honest).await.is_err());
        assert_eq!(std::fs::read(honest.join("node.pem")).unwrap(), before);
    }
    std::fs::remove_dir(honest.join("node.pem.part")).unwrap();
    renew(&honest).await.unwrap();
    renew(&honest).await.unwrap();
    rig.control.admit(&rig.peer(&honest)).unwrap();
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert_eq!(status.alarms, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_one_machine_renew_one_after_the_other() {
    let (rig, honest, _) = copied().await;
    let all = (0..6).map(|_| {
        let folder = honest.clone();
        tokio::spawn(async move { renew(&folder).await.map(drop) })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }
    rig.control.admit(&rig.peer(&honest)).unwrap();
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert_eq!(status.alarms, 0);
}

/// What the thief has opens nothing any more, and nobody waits a minute for that.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_node_that_was_copied_goes_at_once() {
    let (rig, honest, thief) = copied().await;
    let keys = rig.folder("data/pool/domains/web/keys");
    let slots = || {
        let files = std::fs::read_dir(&keys).unwrap().map(|file| file.unwrap().file_name());
        files.filter(|name| name.len() == 16).count()
    };
    let before = slots();
    renew(&honest).await.unwrap();
    rig.control.admit(&rig.peer(&honest)).unwrap();
    assert!(renew(&thief).await.is_err());
    let due = rig.control.housekeeping_is_due();
    tokio::time::timeout(Duration::from_secs(30), due).await.expect("not in a minute");
    let control = rig.control.clone();
    tokio::task::spawn_blocking(move || control.housekeeping()).await.unwrap();
    assert_eq!(slots(), before - 1);
}

/// A server with the storage server `disk`, and a copy of its folder.
async fn copied_storage() -> (Rig, PathBuf, PathBuf) {
    let rig = Rig::start().await;
    let (honest, thief) = (rig.folder("disk"), rig.folder("thief"));
    enroll_storage_server(&rig, &honest).await;
    copy(&honest, &thief);
    (rig, honest, thief)
}

async fn enroll_storage_server(rig: &Rig, folder: &Path) {
    let new = NewStorageServerToken { storage: "disk".parse().unwrap(), valid_secs: None };
    let made: IssuedStorageServerToken =
        rig.admin().post("/storage-server-tokens", &new).await.unwrap();
    let names = ["127.0.0.1".to_owned()];
    let listen = "127.0.0.1:0".parse().unwrap();
    let machine = storage_server::Machine { listen, names: &names, pool_of: None };
    storage_server::enroll(&rig.url, &made.token, folder, machine, true).await.unwrap();
}

/// It asks something, whatever comes of it: its certificate is shown.
async fn show(folder: &Path) -> bool {
    let asked = api::storage_servers::NodeConnection {
        serial: "00".into(),
        node: "nobody".parse().unwrap(),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let client = storage_server::StorageIdentity::load(folder).unwrap().client().unwrap();
    let answer =
        client.post::<api::storage_servers::AdmitReply>("/storage-server/admit", &asked).await;
    let said = answer.unwrap_err().to_string();
    assert!(said.contains("storage server") || said.contains("was not issued here"), "{said}");
    said.contains("was not issued here")
}

async fn storage_is_stopped(rig: &Rig, folders: &[&Path]) {
    for folder in folders {
        assert!(storage_server::renew(folder).await.is_err(), "{} goes on", folder.display());
        assert!(!show(folder).await, "{} is let in", folder.display());
    }
    let found: StorageServers = rig.admin().get("/storage-servers").await.unwrap();
    assert!(found.storage_servers[0].revoked && found.storage_servers[0].alarm.is_some());
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert_eq!(status.alarms, 1);
    let audit: Audit = rig.admin().get("/audit").await.unwrap();
    assert!(audit.entries.iter().any(|entry| entry.action == "storage.fork"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thief_of_a_storage_server_that_renews_first_is_found_when_that_one_renews() {
    let (rig, honest, thief) = copied_storage().await;
    storage_server::renew(&thief).await.unwrap();
    assert!(show(&thief).await);
    assert!(storage_server::renew(&honest).await.is_err());
    storage_is_stopped(&rig, &[&honest, &thief]).await;
    // Whose machine it is shows a new token, and the alarm ends.
    enroll_storage_server(&rig, &honest).await;
    storage_server::renew(&honest).await.unwrap();
    assert!(show(&honest).await && !show(&thief).await, "the thief stays out");
    let found: StorageServers = rig.admin().get("/storage-servers").await.unwrap();
    assert_eq!(found.storage_servers[0].alarm, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thief_of_a_storage_server_that_renews_later_is_found_at_once() {
    let (rig, honest, thief) = copied_storage().await;
    storage_server::renew(&honest).await.unwrap();
    assert!(show(&honest).await);
    assert!(storage_server::renew(&thief).await.is_err());
    storage_is_stopped(&rig, &[&honest, &thief]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_a_storage_server_that_was_replaced_unseen_is_nobodys() {
    let (rig, honest, thief) = copied_storage().await;
    storage_server::renew(&thief).await.unwrap();
    storage_server::renew(&honest).await.unwrap();
    assert!(show(&honest).await);
    assert!(!show(&thief).await);
    storage_is_stopped(&rig, &[&honest, &thief]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_storage_server_lost_is_given_again_and_is_no_fork() {
    let (rig, honest, _) = copied_storage().await;
    std::fs::create_dir(honest.join("storage.pem.part")).unwrap();
    for _ in 0..3 {
        assert!(storage_server::renew(&honest).await.is_err());
        assert!(show(&honest).await, "what it has is good until the next one is shown");
    }
    std::fs::remove_dir(honest.join("storage.pem.part")).unwrap();
    for _ in 0..3 {
        storage_server::renew(&honest).await.unwrap();
        assert!(show(&honest).await);
    }
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert_eq!(status.alarms, 0);
}

/// Its own certificate is for itself: with it nobody renews that of a node, nor the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_renews_no_node() {
    let (rig, honest, _) = copied_storage().await;
    let key = pki::NodeKey::generate().unwrap();
    let request = RenewRequest { request: key.request_pem, version: "1".into() };
    let client = storage_server::StorageIdentity::load(&honest).unwrap().client().unwrap();
    assert!(client.post::<RenewReply>("/renew", &request).await.is_err());
    let token = rig.token(new_token("web")).await;
    let web = rig.folder("web");
    enroll(&rig.url, &token.token, &web, false).await.unwrap();
    let client = access::Client::of(&access::Identity::load(&web).unwrap()).unwrap();
    assert!(client.post::<RenewReply>("/storage-server/renew", &request).await.is_err());
    let status: Status = rig.admin().get("/status").await.unwrap();
    assert_eq!(status.alarms, 0);
}
