//! Enrollments that are interrupted at every step, and domains that are joined.

use crate::repositories::{self, Direct};
use crate::{Control, Error};
use api::Token;
use api::enroll::{EnrollRequest, KeyMode, NewToken, Role};
use ids::KeyId;
use pki::NodeKey;
use repository::config::Config;
use repository::keys::Keys;
use server_contract::Repositories;
use server_contract::access_control::{AccessControl, Peer};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Does what it is told; the `fail_at`-th time it fails, before or after the work.
struct Failing {
    calls: AtomicU32,
    fail_at: u32,
    after: bool,
}

impl Failing {
    fn step(&self, work: impl FnOnce() -> repository::Result<()>) -> repository::Result<()> {
        let failed = || repository::Error::InUse { holder: "a test".into() };
        let is_it = self.calls.fetch_add(1, Ordering::Relaxed) == self.fail_at;
        if is_it && !self.after {
            return Err(failed());
        }
        work()?;
        if is_it { Err(failed()) } else { Ok(()) }
    }
}

impl Repositories for Failing {
    fn init(&self, folder: &Path, config: Config, keys: &Keys) -> repository::Result<()> {
        self.step(|| Direct.init(folder, config, keys))
    }

    fn put_key_list(&self, folder: &Path, list: &[u8]) -> repository::Result<()> {
        self.step(|| Direct.put_key_list(folder, list))
    }

    fn put_key_slot(&self, folder: &Path, id: KeyId, slot: &[u8]) -> repository::Result<()> {
        self.step(|| Direct.put_key_slot(folder, id, slot))
    }

    fn remove_key_slot(&self, folder: &Path, id: KeyId) -> repository::Result<()> {
        self.step(|| Direct.remove_key_slot(folder, id))
    }
}

pub(crate) fn new_token(node: &str) -> NewToken {
    NewToken::of(node.parse().unwrap())
}

pub(crate) fn request(token: &str) -> EnrollRequest {
    EnrollRequest {
        secret: Token::parse(token).unwrap().secret_text(),
        request: NodeKey::generate().unwrap().request_pem,
        slot_secret: "07".repeat(32),
        version: "1.0".into(),
        privacy: Default::default(),
    }
}

pub(crate) fn control() -> (tempfile::TempDir, Arc<Control>) {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    (folder, control)
}

#[test]
fn an_enrollment_that_fails_at_any_step_can_be_tried_again() {
    for (fail_at, after) in [(0, false), (0, true), (1, false), (1, true)] {
        let (_folder, control) = control();
        let made = control.make_token("admin", &new_token("web")).unwrap();
        let request = request(&made.token);
        control.set_repositories(Arc::new(Failing { calls: 0.into(), fail_at, after }));
        assert!(control.enroll(FROM, &request).is_err());
        assert!(control.nodes.all().unwrap().nodes.is_empty());
        control.set_repositories(Arc::new(Direct));
        let told = control.enroll(FROM, &request).unwrap();
        let slots = repositories::key_slots(&control.folder.domain(None, &told.domain)).unwrap();
        assert_eq!(slots.len(), 2, "the server's and the node's: {fail_at} {after}");
        assert!(slots.iter().any(|(id, _)| Some(id.to_string()) == told.key));
        let certificate = pki::client::certificate_of(&told.certificate).unwrap().to_vec();
        let node = control.admit(&Peer { certificate, address: FROM }).unwrap();
        assert_eq!(
            control.access(&node, None).unwrap().key.map(KeyId),
            KeyId::from_hex(&told.key.unwrap())
        );
    }
}

/// Seen: without a word, a machine that replaced one of a shared domain got an empty one of its own, and one that
/// replaced a write-only machine could read.
#[test]
fn a_machine_that_replaces_another_gets_its_domain_and_no_more_rights() {
    let (_folder, control) = control();
    let enroll = |new: &NewToken| {
        let made = control.make_token("admin", new).unwrap();
        let told = control.enroll(FROM, &request(&made.token)).unwrap();
        assert_eq!((&made.domain, made.role), (&told.domain, told.role));
        (told.domain.to_string(), told.role, made.replaces)
    };
    let (domain, role) = (Some("team".parse().unwrap()), Some(Role::WriteOnly));
    let first = enroll(&NewToken { domain, role, ..new_token("web") });
    assert_eq!(first, ("team".into(), Role::WriteOnly, false));
    let same = ("team".into(), Role::WriteOnly, true);
    assert_eq!(enroll(&new_token("web")), same);
    control.nodes.revoke("admin", &"web".parse().unwrap()).unwrap();
    assert_eq!(enroll(&new_token("web")), same, "also when it was revoked");
    // Whoever wants something else says so.
    let full = NewToken { role: Some(Role::Full), ..new_token("web") };
    assert_eq!(enroll(&full), ("team".into(), Role::Full, true));
    let own = NewToken { domain: Some("web".parse().unwrap()), ..new_token("web") };
    assert_eq!(enroll(&own), ("web".into(), Role::Full, true));
    assert_eq!(enroll(&new_token("other")), ("other".into(), Role::Full, false));
}

#[test]
fn a_domain_keeps_the_keys_with_which_it_was_made() {
    let (_folder, control) = control();
    let token = |keys, node: &str| {
        let domain = Some("shared".parse().unwrap());
        control.make_token("admin", &NewToken { keys, domain, ..new_token(node) })
    };
    let made = token(KeyMode::Managed, "one").unwrap();
    control.enroll(FROM, &request(&made.token)).unwrap();
    assert!(matches!(token(KeyMode::Client, "two"), Err(Error::Usage(_))));
    // Two tokens for a domain that is not there yet: the first to be used decides.
    let own = |keys, node: &str| {
        let domain = Some("late".parse().unwrap());
        control.make_token("admin", &NewToken { keys, domain, ..new_token(node) }).unwrap()
    };
    let (client, managed) = (own(KeyMode::Client, "a"), own(KeyMode::Managed, "b"));
    control.enroll(FROM, &request(&client.token)).unwrap();
    assert!(matches!(control.enroll(FROM, &request(&managed.token)), Err(Error::Usage(_))));
}

#[test]
fn what_is_sent_with_a_good_token_is_checked_before_the_token_is_used() {
    let (_folder, control) = control();
    let made = control.make_token("admin", &new_token("web")).unwrap();
    let good = request(&made.token);
    let bad = [
        EnrollRequest { slot_secret: "07".repeat(31), ..good.clone() },
        EnrollRequest { slot_secret: "zz".repeat(32), ..good.clone() },
        EnrollRequest { request: "no request".into(), ..good.clone() },
        EnrollRequest { version: "x".repeat(65), ..good.clone() },
        EnrollRequest { version: "\u{1b}[2J".into(), ..good.clone() },
    ];
    for request in &bad {
        assert!(control.enroll(FROM, request).is_err());
    }
    control.enroll(FROM, &good).unwrap();
}

#[test]
fn who_tries_many_tokens_has_to_wait() {
    let (_folder, control) = control();
    let made = control.make_token("admin", &new_token("web")).unwrap();
    let good = request(&made.token);
    let wrong = EnrollRequest { secret: "00".repeat(16), ..good.clone() };
    for _ in 0..10 {
        assert!(matches!(control.enroll(FROM, &wrong), Err(Error::Catalog(_))));
    }
    assert!(matches!(control.enroll(FROM, &good), Err(Error::TooMany(_))));
    let elsewhere = Ipv4Addr::new(192, 0, 2, 1).into();
    control.enroll(elsewhere, &good).unwrap();
}

/// The catalog stores an enrollment, and its answer is lost: nobody has closed the sessions of the machine that had the
/// name before.
#[test]
fn sessions_of_certificates_that_only_the_catalog_has_revoked_are_closed() {
    let (_folder, control) = control();
    let enroll = |request: &EnrollRequest| {
        let told = control.enroll(FROM, request).unwrap();
        let certificate = pki::client::certificate_of(&told.certificate).unwrap();
        pki::inspect(&certificate).unwrap().serial
    };
    let new_request = || {
        let made = control.make_token("admin", &new_token("web")).unwrap();
        request(&made.token)
    };
    let (first, second) = (new_request(), new_request());
    let (old, new) = (enroll(&first), enroll(&second));
    let session = |serial: &str| control.admission.revocation_flag(serial, "web");
    let (of_old, of_new) = (session(&old), session(&new));
    assert!(!of_old.load(Ordering::Relaxed));
    assert_eq!(enroll(&second), new, "the same request again");
    assert!(of_old.load(Ordering::Relaxed) && !of_new.load(Ordering::Relaxed));
    drop((of_old, of_new));
    let (of_old, of_new) = (session(&old), session(&new));
    control.housekeeping();
    assert!(of_old.load(Ordering::Relaxed), "also when it does not come again");
    assert!(!of_new.load(Ordering::Relaxed));
}

#[test]
fn a_revocation_meets_a_session_that_was_let_in_before() {
    let (_folder, control) = control();
    let made = control.make_token("admin", &new_token("web")).unwrap();
    let told = control.enroll(FROM, &request(&made.token)).unwrap();
    let certificate = pki::client::certificate_of(&told.certificate).unwrap().to_vec();
    let peer = Peer { certificate, address: FROM };
    let (one, two) = (control.admit(&peer).unwrap(), control.admit(&peer).unwrap());
    control.connected(&one, FROM);
    assert!(control.nodes.all().unwrap().nodes[0].connected);
    control.nodes.revoke("admin", &told.node).unwrap();
    assert!(one.is_revoked() && two.is_revoked());
    assert!(control.access(&one, None).is_err() && control.admit(&peer).is_err());
    control.disconnected(&one, FROM);
    assert!(!control.nodes.all().unwrap().nodes[0].connected);
}
