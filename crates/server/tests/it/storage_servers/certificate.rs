//! A storage server that runs for longer than its certificate is good.

use super::{ask, connect, enroll, greeting, node, on_disk, said_no, say, start_kept};
use crate::rig::Rig;
use access::{Identity, LiveIdentity, storage_server};
use api::status::Done;
use protocol::Packet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_SECS: i64 = 86_400;
/// A look every now and then, as often as a test has patience for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn now_secs() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// Serial number of the certificate that a new connection is shown.
async fn shown(port: u16, node: &Identity) -> String {
    let stream = connect(port, node.tls(protocol::ALPN).unwrap()).await;
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    pki::inspect(&chain[0]).unwrap().serial
}

fn kept_serial(folder: &Path) -> String {
    storage_server::StorageIdentity::load(folder).unwrap().certificate.serial
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_server_that_runs_for_long_shows_its_next_certificate_without_a_restart() {
    let rig = Rig::start().await;
    let (port, kept, _storing) = start_kept(&rig).await;
    let web = node(&rig, on_disk("web")).await;
    let first = shown(port, &web).await;
    let mut open = connect(port, web.tls(protocol::ALPN).unwrap()).await;
    let (ahead, failures) = (Arc::<AtomicI64>::default(), Arc::<AtomicU64>::default());
    let (told, failed) = (ahead.clone(), failures.clone());
    // The next certificate begins by the clock of this machine: one look sees a later one, those after it do not.
    let now = move || now_secs() + told.swap(0, Ordering::SeqCst);
    let fails = move |_: &access::Error| _ = failed.fetch_add(1, Ordering::SeqCst);
    let looking = tokio::spawn(kept.renew_forever(LOOK_EVERY, now, fails));
    // It is good for 30 days; with more than ten left there is nothing to do.
    ahead.store(19 * DAY_SECS, Ordering::SeqCst);
    tokio::time::sleep(LOOK_EVERY * 10).await;
    assert_eq!(shown(port, &web).await, first);
    ahead.store(21 * DAY_SECS, Ordering::SeqCst);
    let mut next = first.clone();
    for _ in 0..500 {
        if next != first {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        next = shown(port, &web).await;
    }
    assert_ne!(next, first, "new connections see the next one");
    assert_eq!(next, kept_serial(&rig.folder("disk")), "a restart would see it, too");
    let [hello, _] = greeting("");
    let answer = ask(&mut open, &hello).await.unwrap();
    assert_eq!(answer.name(), "Welcome", "the connection of before goes on");
    let answers = say(port, web.tls(protocol::ALPN).unwrap(), &greeting("")).await;
    assert!(matches!(answers[1], Packet::Opened { .. }), "the server is asked: {answers:?}");
    looking.abort();
    assert_eq!(failures.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_renewed_and_not_yet_used_is_used_at_the_next_look() {
    let rig = Rig::start().await;
    let folder = enroll(&rig, "disk").await;
    let kept = LiveIdentity::load(&folder).unwrap();
    assert!(!kept.renew_if_due(now_secs()).await.unwrap(), "nothing is due");
    storage_server::renew(&folder).await.unwrap();
    assert!(kept.renew_if_due(now_secs()).await.unwrap());
    assert!(!kept.renew_if_due(now_secs()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_is_refused_leaves_the_certificate_as_it_was() {
    let rig = Rig::start().await;
    let (port, kept, _storing) = start_kept(&rig).await;
    let web = node(&rig, on_disk("web")).await;
    let before = shown(port, &web).await;
    let _: Done = rig.admin().post("/storage-servers/disk/revoke", &()).await.unwrap();
    let failure = said_no(kept.renew_if_due(now_secs() + 25 * DAY_SECS).await);
    assert!(failure.message.contains("is revoked"), "{failure:?}");
    assert_eq!(shown(port, &web).await, before);
    assert_eq!(kept_serial(&rig.folder("disk")), before);
}
