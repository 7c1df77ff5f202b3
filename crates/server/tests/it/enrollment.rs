//! Enrollment over real TLS on loopback: from a token to a node, and out again.

use crate::rig::{Rig, new_token};
use access::{Client, Error, Identity};
use api::commands::NodeCommands;
use api::enroll::{EnrollRequest, IssuedToken, KeyMode, NewToken, Role};
use api::nodes::Nodes;
use server_contract::access_control::{AccessControl, Peer};
use std::net::Ipv4Addr;

fn status_of(error: Error) -> (String, String) {
    match error {
        Error::Server(failure) => (failure.name, failure.message),
        other => panic!("not an answer: {other}"),
    }
}

#[tokio::test]
async fn a_machine_becomes_a_node_renews_and_is_thrown_out() {
    let rig = Rig::start().await;
    let made = rig.token(new_token("web")).await;
    let agent = rig.folder("agent");
    let told = access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
    assert_eq!((told.node.as_str(), told.domain.as_str()), ("web", "web"));
    assert!(told.repository.is_some() && told.key.is_some());

    let identity = Identity::load(&agent).unwrap();
    let as_node = Client::of(&identity).unwrap();
    let commands: NodeCommands = as_node.get("/node/commands").await.unwrap();
    assert!(commands.commands.is_empty());

    let before = identity.certificate.serial.clone();
    access::renew::renew(&agent).await.unwrap();
    let renewed = Identity::load(&agent).unwrap();
    assert_ne!(renewed.certificate.serial, before);
    let as_renewed = Client::of(&renewed).unwrap();
    let _: NodeCommands = as_renewed.get("/node/commands").await.unwrap();
    let _: NodeCommands =
        as_node.get("/node/commands").await.expect("the last certificate is good until it ends");

    let nodes: Nodes = rig.admin().get("/nodes").await.unwrap();
    assert_eq!(nodes.nodes[0].address.as_deref(), Some("127.0.0.1"));
    let _: api::status::Done = rig.admin().post("/nodes/web/revoke", &()).await.unwrap();
    for client in [&as_node, &as_renewed] {
        let refused = client.get::<NodeCommands>("/node/commands").await.unwrap_err();
        assert_eq!(status_of(refused).1, "the node 'web' is revoked");
    }
}

#[tokio::test]
async fn the_slot_secret_of_an_enrollment_opens_the_repository() {
    let rig = Rig::start().await;
    for (node, role, reads) in [("full", Role::Full, true), ("half", Role::WriteOnly, false)] {
        let made = rig.token(NewToken { role: Some(role), ..new_token(node) }).await;
        let agent = rig.folder(node);
        access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
        let identity = Identity::load(&agent).unwrap();
        let peer = rig.peer(&agent);
        let admitted = rig.control.admit(&peer).unwrap();
        let access = rig.control.access(&admitted, None).unwrap();
        assert_eq!((access.may_write, access.may_read, access.may_init), (true, reads, false));
        let storage = repository::local::LocalStorage::open(&access.path).unwrap();
        let slots = repository::keys::key_slots(&storage).unwrap();
        let (_, slot) = slots.iter().find(|(id, _)| Some(id.0) == access.key).unwrap();
        let secret = crypto::SlotSecret::Recovery(*identity.slot_secret.unwrap());
        let (info, ring) = crypto::open_slot(slot, secret).unwrap();
        assert_eq!((info.label.as_str(), ring.reader.is_some()), (node, reads));
    }
}

#[tokio::test]
async fn a_domain_with_keys_of_its_nodes_has_no_repository_until_one_makes_it() {
    let rig = Rig::start().await;
    let made = rig.token(NewToken { keys: KeyMode::Client, ..new_token("own") }).await;
    let agent = rig.folder("agent");
    let told = access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
    assert_eq!((told.repository, told.key), (None, None));
    let admitted = rig.control.admit(&rig.peer(&agent)).unwrap();
    let access = rig.control.access(&admitted, None).unwrap();
    assert!(access.may_init && !access.path.exists());
    assert!(Identity::load(&agent).unwrap().slot_secret.is_none());
}

#[tokio::test]
async fn a_token_is_good_once_and_an_answer_that_was_lost_is_given_again() {
    let rig = Rig::start().await;
    let made = rig.token(new_token("web")).await;
    let agent = rig.folder("agent");
    let first = access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
    // Another machine with the same token.
    let other = rig.folder("other");
    let refused = access::enroll::enroll(&rig.url, &made.token, &other, false).await.unwrap_err();
    assert_eq!(status_of(refused).1, "the token is used already");
    assert!(matches!(Identity::load(&other), Err(Error::NotEnrolled { .. })));
    // The other machine finds the token used; the same request again is answered as before.
    let token = api::Token::parse(&made.token).unwrap();
    let tls = pki::client::pinned_config(&token.ca_fingerprint, pki::ALPN_HTTP).unwrap();
    let client = Client::new(rig.url.parse().unwrap(), tls.into());
    let made = rig.token(new_token("db")).await;
    let key = pki::NodeKey::generate().unwrap();
    let request = EnrollRequest {
        secret: api::Token::parse(&made.token).unwrap().secret_text(),
        request: key.request_pem,
        slot_secret: "00".repeat(32),
        version: "1".into(),
        privacy: Default::default(),
    };
    let one: api::enroll::EnrollReply = client.post("/enroll", &request).await.unwrap();
    let two: api::enroll::EnrollReply = client.post("/enroll", &request).await.unwrap();
    assert_eq!(one, two);
    assert_ne!(one.certificate, first.certificate);
}

#[tokio::test]
async fn a_token_that_ended_or_was_never_made_is_refused() {
    let rig = Rig::start().await;
    let made = rig.token(NewToken { valid_secs: Some(1), ..new_token("web") }).await;
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    let agent = rig.folder("agent");
    let refused = access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap_err();
    assert_eq!(status_of(refused).1, "the token is too old");
    let mut token = api::Token::parse(&made.token).unwrap();
    token.secret[0] ^= 1;
    let refused =
        access::enroll::enroll(&rig.url, &token.to_text(), &agent, false).await.unwrap_err();
    assert_eq!(status_of(refused).1, "the token is not known here");
    let typed = made.token.replace("ice1-", "ice1-a");
    let refused = access::enroll::enroll(&rig.url, &typed, &agent, false).await.unwrap_err();
    assert!(matches!(refused, Error::Token(_)));
}

#[tokio::test]
async fn who_stands_in_the_middle_gets_no_secret() {
    let (rig, middle) = (Rig::start().await, Rig::start().await);
    let made = rig.token(new_token("web")).await;
    let agent = rig.folder("agent");
    // The machine is led to another server, which has a good certificate of its own ca.
    let refused =
        access::enroll::enroll(&middle.url, &made.token, &agent, false).await.unwrap_err();
    assert!(matches!(refused, Error::Stranger { .. }), "{refused}");
    access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
    // A node that is led astray later does not harness either, and shows nobody else's server its certificate.
    let identity = Identity::load(&agent).unwrap();
    let client = Client::new(middle.url.parse().unwrap(), identity.tls(pki::ALPN_HTTP).unwrap());
    let refused = client.get::<NodeCommands>("/node/commands").await.unwrap_err();
    assert!(matches!(refused, Error::Stranger { .. }), "{refused}");
}

#[tokio::test]
async fn a_certificate_of_another_ca_opens_nothing() {
    let (rig, other) = (Rig::start().await, Rig::start().await);
    let made: IssuedToken = other.token(new_token("web")).await;
    let agent = other.folder("agent");
    access::enroll::enroll(&other.url, &made.token, &agent, false).await.unwrap();
    let refused = rig.control.admit(&rig.peer(&agent)).unwrap_err();
    assert!(refused.message.contains("not issued here"), "{refused}");
    let unknown = Peer { certificate: vec![1, 2, 3], address: Ipv4Addr::LOCALHOST.into() };
    assert!(rig.control.admit(&unknown).is_err());
}

#[tokio::test]
async fn enrolling_again_ends_the_machine_before() {
    let rig = Rig::start().await;
    let made = rig.token(new_token("web")).await;
    let (old, new) = (rig.folder("old"), rig.folder("new"));
    access::enroll::enroll(&rig.url, &made.token, &old, false).await.unwrap();
    let session = rig.control.admit(&rig.peer(&old)).unwrap();
    let made = rig.token(new_token("web")).await;
    assert!(made.replaces);
    let again = access::enroll::enroll(&rig.url, &made.token, &old, false).await.unwrap_err();
    assert!(matches!(again, Error::Enrolled { .. }));
    access::enroll::enroll(&rig.url, &made.token, &new, false).await.unwrap();
    assert!(session.is_revoked(), "its sessions end");
    let refused = rig.control.admit(&rig.peer(&old)).unwrap_err();
    assert!(refused.message.starts_with("'web' was enrolled again at "), "{refused}");
    let hint = refused.hint;
    assert!(hint.contains("stop its agent here"), "nobody throws the new one out: {hint}");
    assert!(!rig.control.admit(&rig.peer(&new)).unwrap().is_revoked());
}

/// Seen: an agent that stayed connected asked with the certificate with which it had begun, after its own renewal, and
/// the server stopped the node as one that somebody had copied.
#[tokio::test]
async fn a_client_that_lives_long_shows_the_certificate_that_is_there_now() {
    let rig = Rig::start().await;
    let agent = rig.folder("agent");
    let made = rig.token(new_token("web")).await;
    access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
    let begun_with = Identity::load(&agent).unwrap();
    let stale = Client::of(&begun_with).unwrap();
    let current = Client::of_folder(&agent, &begun_with).unwrap();
    let _: NodeCommands = current.get("/node/commands").await.unwrap();
    // What it had is void now, so that the server tells both apart.
    let made = rig.token(new_token("web")).await;
    access::enroll::enroll(&rig.url, &made.token, &agent, true).await.unwrap();
    assert!(stale.get::<NodeCommands>("/node/commands").await.is_err());
    let _: NodeCommands = current.get("/node/commands").await.unwrap();
}
