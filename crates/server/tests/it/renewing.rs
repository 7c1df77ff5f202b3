//! A connection outlives the certificate with which it was made: it comes back with the next one.

use crate::hostile::lifetime::ending_in;
use crate::hostile::raw::{Raw, begin, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use access::Identity;
use api::commands::NewBackup;
use api::enroll::Role;
use protocol::Packet;
use remote::{ControlConnection, Endpoint, Purpose, Remote};
use std::sync::Arc;
use std::time::Duration;

/// Long enough to connect on a machine that does much else.
const ENDS_IN_SECS: i64 = 6;
/// Long enough for such a certificate to end, and for the server to see it.
const ENDED: Duration = Duration::from_secs(8);

/// As commands on a node connect.
async fn connected(server: &Whole, machine: &Machine) -> ControlConnection {
    let folder = server.folder(machine.identity.agent.node.as_str());
    let tls =
        access::reloading_certificate::tls(&folder, &machine.identity, protocol::ALPN).unwrap();
    let target = Endpoint { tls, ..machine.target() };
    let connect = move || Remote::connect_control(&target, Purpose::Agent).unwrap();
    tokio::task::spawn_blocking(connect).await.unwrap()
}

/// What it hears within a while; not when it has ended.
async fn hears_a_command(connection: ControlConnection) -> Result<bool, String> {
    let wait = move || connection.next_command(Duration::from_secs(60));
    let command = tokio::task::spawn_blocking(wait).await.unwrap();
    command.map(|command| command.is_some()).map_err(|error| error.to_string())
}

async fn command(server: &Whole, node: &str) {
    let new = NewBackup::of(node.parse().unwrap(), vec!["/etc".into()]);
    let _: serde_json::Value = server.admin().post("/backups", &new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_the_next_certificate_comes_back_with_it() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let web = ending_in(&server, &web, ENDS_IN_SECS);
    let connection = connected(&server, &web).await;
    access::renew::renew(&server.folder("web")).await.unwrap();
    tokio::time::sleep(ENDED).await;
    command(&server, "web").await;
    assert_eq!(hears_a_command(connection).await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_none_is_told_so() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let web = ending_in(&server, &web, ENDS_IN_SECS);
    let connection = connected(&server, &web).await;
    tokio::time::sleep(ENDED).await;
    let said = hears_a_command(connection).await.unwrap_err();
    assert!(said.contains("the certificate of") && said.contains("has expired"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_there_for_the_next_certificate_and_not_for_the_one_that_ended() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let old = ending_in(&server, &web, ENDS_IN_SECS);
    let mut raw = Raw::opened(&old).await;
    let (_, ring) = stolen_keys(&old, &mut raw).await;
    let Packet::Begun { session, secret, .. } = raw.ask(&begin(&sealer(&ring))).await else {
        panic!("it does not begin")
    };
    drop(raw);
    let folder = server.folder("web");
    access::renew::renew(&folder).await.unwrap();
    tokio::time::sleep(ENDED).await;
    let mut late = Raw::connect(&old).await;
    assert_eq!(late.is_left().await, None, "TLS itself does not take it");
    let next = Machine { identity: Arc::new(Identity::load(&folder).unwrap()), ..old.clone() };
    let mut raw = Raw::greeted(&next).await;
    let answer = raw.ask(&Packet::Attach { session, secret, stream: 0 }).await;
    assert!(matches!(answer, Packet::Attached { applied: 0 }), "{answer:?}");
    assert!(raw.number().await > 0);
}
