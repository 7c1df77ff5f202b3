//! `Elsewhere` is the control server's word (P-6.5): from a storage server it is not believed, and where it leads to
//! stands a server of the same ca.

use crate::lab::{Lab, is_refused};
use hostile_server::{Asked, Fake, Reply};
use protocol::Packet;
use protocol::packet::kind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

fn redirect(address: SocketAddr) -> Reply {
    Reply::Say(vec![Packet::Redirect { host: address.ip().to_string(), port: address.port() }])
}

impl Lab {
    /// A control server of the same certificate authority as `storage`, which sends everybody there.
    fn control_server_for(&self, storage: &Fake) -> Fake {
        let address = storage.address;
        storage.beside(None, move |asked| match asked.packet {
            Packet::Open { .. } => redirect(address),
            _ => asked.honestly(),
        })
    }

    fn honest_beside(&self, fake: &Fake) -> Fake {
        fake.beside(Some(self.archive.local().unwrap().clone()), |asked| asked.honestly())
    }
}

fn connections(fake: &Fake) -> u64 {
    fake.connections.load(Ordering::SeqCst)
}

#[test]
fn an_honest_storage_server_is_found_and_serves() {
    let lab = Lab::new();
    let storage = lab.lies(|asked| asked.honestly());
    let control_server = lab.control_server_for(&storage);
    let name = lab.backs_up(&control_server).unwrap();
    assert_eq!(lab.restores(&control_server, name), Ok(()));
    assert!(connections(&storage) >= 2 && connections(&control_server) >= 2);
}

#[test]
fn a_storage_server_that_sends_nodes_on_is_not_believed() {
    let lab = Lab::new();
    let address = Arc::new(OnceLock::new());
    let told = address.clone();
    let storage = lab.lies(move |asked| match asked.packet {
        Packet::Open { .. } => redirect(*told.get().unwrap()),
        _ => asked.honestly(),
    });
    let (third, control_server) = (lab.honest_beside(&storage), lab.control_server_for(&storage));
    address.set(third.address).unwrap();
    for job in [lab.restores(&control_server, lab.good), lab.backs_up(&control_server).map(drop)] {
        let error = job.expect_err("it was sent on");
        assert!(error.contains("redirects to another"), "{error}");
    }
    assert_eq!(connections(&third), 0, "nobody went where it led");
}

#[test]
fn servers_that_send_nodes_to_each_other_send_nobody_in_circles() {
    let lab = Lab::new();
    let address = Arc::new(OnceLock::new());
    let told = address.clone();
    let storage = lab.lies(move |asked| match asked.packet {
        Packet::Open { .. } => redirect(*told.get().unwrap()),
        _ => asked.honestly(),
    });
    let control_server = lab.control_server_for(&storage);
    address.set(control_server.address).unwrap();
    is_refused(lab.restores(&control_server, lab.good), "back to who sent it");
    assert_eq!((connections(&control_server), connections(&storage)), (1, 1));
}

/// Kinds of packets at which the first connection is cut: `GetSnapshot` of a restore, `Claim` of a backup.
const DISCONNECT_AT: [u8; 2] = [kind::GetSnapshot, kind::Claim];

#[test]
fn a_storage_server_that_sends_who_comes_back_on_is_not_believed() {
    let lab = Lab::new();
    for kind in DISCONNECT_AT {
        let address = Arc::new(OnceLock::new());
        let told = address.clone();
        let storage = lab.lies(move |asked: Asked<'_>| match asked.packet {
            Packet::Open { .. } | Packet::Attach { .. } if asked.connection > 1 => {
                redirect(*told.get().unwrap())
            }
            packet if packet.kind() == kind => Reply::Disconnect,
            _ => asked.honestly(),
        });
        let (third, control_server) =
            (lab.honest_beside(&storage), lab.control_server_for(&storage));
        address.set(third.address).unwrap();
        let job = match kind {
            kind::GetSnapshot => lab.restores(&control_server, lab.good),
            _ => lab.backs_up(&control_server).map(drop),
        };
        let error = job.expect_err("it was sent on");
        assert!(error.contains("redirects to another"), "{kind}: {error}");
        assert_eq!(connections(&third), 0, "{kind}");
    }
}

#[test]
fn a_redirect_answers_nothing_but_open() {
    let lab = Lab::new();
    let storage = lab.lies(|asked| asked.honestly());
    let address = storage.address;
    let control_server = storage.beside(Some(lab.archive.local().unwrap().clone()), move |asked| {
        match asked.packet {
            Packet::GetSnapshot { .. } | Packet::Begin { .. } => redirect(address),
            _ => asked.honestly(),
        }
    });
    is_refused(lab.restores(&control_server, lab.good), "a restore");
    is_refused(lab.backs_up(&control_server), "a backup");
    assert_eq!(connections(&storage), 0);
}

#[test]
fn a_server_of_another_ca_is_refused_wherever_a_redirect_leads() {
    let lab = Lab::new();
    let (stranger, own) = (lab.lies(|asked| asked.honestly()), lab.lies(|asked| asked.honestly()));
    let address = stranger.address;
    let control_server = own.beside(None, move |asked| match asked.packet {
        Packet::Open { .. } => redirect(address),
        _ => asked.honestly(),
    });
    let error = lab.restores(&control_server, lab.good).unwrap_err();
    assert!(error.contains("is not the server of this machine"), "{error}");
    is_refused(lab.backs_up(&control_server), "a backup to a stranger");
}
