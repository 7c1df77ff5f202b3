//! Servers measure the way to each other, and may do nothing else on it.

use super::{enroll, govern_data, greeting, new_token, node, on_disk, refused, say, start};
use crate::rig::Rig;
use access::storage_server::StorageIdentity;
use api::status::Done;
use protocol::Packet;
use protocol::packet::{PathBytes, Purpose};

/// What a storage server may say to the control server, once it was greeted.
fn measuring() -> [Packet; 3] {
    [Packet::GetNoise { bytes: 0 }, Packet::SendNoise { noise: vec![1; 1000] }, Packet::Ping {}]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_measures_the_route_to_the_control_server_and_opens_nothing_there() {
    let rig = Rig::start().await;
    start(&rig).await;
    let port = govern_data(&rig).await;
    for new in [on_disk("web"), new_token("here")] {
        node(&rig, new).await;
    }
    let disk = StorageIdentity::load(&rig.folder("disk")).unwrap();
    let tls = || disk.tls(protocol::ALPN).unwrap();
    let [hello, _] = greeting("");
    let words = [std::slice::from_ref(&hello), &measuring()].concat();
    let answers = say(port, tls(), &words).await;
    let kinds: Vec<_> = answers.iter().map(Packet::name).collect();
    assert_eq!(kinds, ["Welcome", "Done", "Stored", "Pong"]);
    for domain in ["", "web", "here", "storage:disk", "disk"] {
        for &purpose in Purpose::ALL {
            let open = Packet::Open { domain: domain.into(), purpose };
            let answers = say(port, tls(), &[hello.clone(), open]).await;
            assert!(refused(&answers[1]), "'{domain}' for {purpose:?}: {answers:?}");
        }
    }
    let attach = Packet::Attach { session: [0; 16], secret: [0; 16], stream: 0 };
    let answers = say(port, tls(), &[hello.clone(), attach]).await;
    assert!(matches!(answers[1], Packet::Fault { code: 15, .. }), "{answers:?}");
    let init =
        Packet::Init { config: PathBytes(Vec::new()), slots: Vec::new(), key_list: Vec::new() };
    let answers = say(port, tls(), &[hello.clone(), init]).await;
    assert!(matches!(answers[1], Packet::Fault { code: 1, .. }), "out of its time: {answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_storage_server_measures_nothing_and_one_that_does_is_cut_off() {
    let rig = Rig::start().await;
    let folder = enroll(&rig, "disk").await;
    let port = govern_data(&rig).await;
    let tls = StorageIdentity::load(&folder).unwrap().tls(protocol::ALPN).unwrap();
    let [hello, _] = greeting("");
    let mut open = super::connect(port, tls.clone()).await;
    assert_eq!(super::ask(&mut open, &hello).await.unwrap().name(), "Welcome");
    let _: Done = rig.admin().post("/storage-servers/disk/revoke", &()).await.unwrap();
    let answer = super::ask(&mut open, &Packet::Ping {}).await.unwrap();
    assert!(matches!(answer, Packet::Fault { code: 4, .. }), "{answer:?}");
    let answers = say(port, tls, &[hello]).await;
    assert!(refused(&answers[0]), "{answers:?}");
}
