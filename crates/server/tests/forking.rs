//! Somebody copied the folder of a node: two machines have one certificate, and both renew from it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod rig;

use access::enrol::enroll;
use access::renew::renew;
use api::nodes::Nodes;
use api::status::{Audit, Status};
use rig::{Rig, new_token};
use server::authority::Authority;
use std::path::{Path, PathBuf};

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
        assert!(rig.control.admit(&rig.peer(folder)).is_err());
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
