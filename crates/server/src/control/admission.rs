//! Who is let in, and the flags by which who was let in is thrown out.

use super::{Control, Error, Result};
use crate::authority::{Node, Peer, Refusal};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The flags of sessions that are alive, by serial number of their certificate.
#[derive(Default)]
pub struct LiveFlags {
    flags: Mutex<FxHashMap<String, Live>>,
}

struct Live {
    node: String,
    revoked: Weak<AtomicBool>,
}

impl LiveFlags {
    /// The flag of the sessions with this certificate.
    pub(super) fn flag(&self, serial: &str, node: &str) -> Arc<AtomicBool> {
        let mut flags = self.flags.lock();
        if let Some(live) = flags.get(serial)
            && let Some(flag) = live.revoked.upgrade()
        {
            return flag;
        }
        let flag = Arc::default();
        let revoked = Arc::downgrade(&flag);
        flags.insert(serial.to_owned(), Live { node: node.to_owned(), revoked });
        flag
    }

    /// Ends the sessions of `node`.
    pub(crate) fn revoke_node(&self, node: &str) {
        for live in self.flags.lock().values().filter(|live| live.node == node) {
            if let Some(flag) = live.revoked.upgrade() {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Forgets the dead.
    pub(crate) fn tidy(&self) {
        self.flags.lock().retain(|_, live| live.revoked.strong_count() > 0);
    }
}

impl Control {
    /// Lets in who shows a certificate that is known, in time, and revoked neither itself nor with its node.
    pub(crate) fn let_in(&self, peer: &Peer) -> Result<Node> {
        let facts = pki::inspect(&peer.certificate)?;
        self.let_in_by(&facts, Some(peer.address))
    }

    /// The same by what the certificate says; seen at `address`.
    pub(crate) fn let_in_by(&self, facts: &pki::Facts, address: Option<IpAddr>) -> Result<Node> {
        // The flag first: who revokes writes the catalog and then sets the flags. Whichever of the two looks below
        // comes too early, the other does not.
        let revoked = self.live.flag(&facts.serial, &facts.common_name);
        let standing = self.catalog.certificate(&facts.serial)?;
        let standing = standing.filter(|known| known.node.as_str() == facts.common_name);
        let now_secs = self.now_secs();
        match standing {
            None => Err(refuse("this certificate was not issued here, or its node was removed")),
            Some(known) if known.revoked || revoked.load(Ordering::Relaxed) => {
                Err(refuse(&format!("the node '{}' is revoked", known.node)))
            }
            Some(known) if known.not_after.min(facts.not_after_secs) <= now_secs => {
                Err(refuse(&format!("the certificate of '{}' has ended", known.node)))
            }
            Some(_) => {
                let (name, serial) = (facts.common_name.clone(), facts.serial.clone());
                let node = Node { name, serial, revoked };
                if let Some(address) = address {
                    self.presence.seen(&node.name, address, now_secs);
                }
                Ok(node)
            }
        }
    }
}

fn refuse(message: &str) -> Error {
    let hint = "Enrol the machine again: on the server, icecore server token NODE";
    Refusal::new(message, hint).into()
}
