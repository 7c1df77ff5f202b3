//! Which nodes may connect, and the flags that close sessions of revoked ones.

use crate::node_activity::NodeActivity;
use crate::refusal_log::RefusalLog;
use crate::revocations::Revocations;
use crate::{Error, Result, SERVER, by, now_secs};
use api::Name;
use catalog::Catalog;
use catalog::certificates::{CertificateStatus, Holder};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use server_contract::access_control::{Node, Peer, Refusal};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// How long the previous certificate is accepted after its successor was first shown: for handshakes in flight.
const SUCCESSOR_AFTER_SECS: i64 = 60;

/// The revocation flags of open sessions, by serial number of their certificate.
#[derive(Default)]
struct RevocationFlags {
    flags: Mutex<FxHashMap<String, Live>>,
}

struct Live {
    node: String,
    revoked: Weak<AtomicBool>,
}

impl RevocationFlags {
    /// The flag of all sessions with this certificate.
    fn flag(&self, serial: &str, node: &str) -> Arc<AtomicBool> {
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

    /// Closes the sessions of `node`.
    fn revoke(&self, node: &str) {
        for live in self.flags.lock().values().filter(|live| live.node == node) {
            if let Some(flag) = live.revoked.upgrade() {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Closes the sessions with certificates that `is_revoked`.
    fn revoke_all(&self, is_revoked: impl Fn(&str) -> bool) {
        for (_, live) in self.flags.lock().iter().filter(|(serial, _)| is_revoked(serial)) {
            if let Some(flag) = live.revoked.upgrade() {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Drops flags without a session.
    fn tidy(&self) {
        self.flags.lock().retain(|_, live| live.revoked.strong_count() > 0);
    }
}

/// Decides which nodes may connect.
pub(crate) struct Admission {
    catalog: Arc<Catalog>,
    activity: Arc<NodeActivity>,
    refusals: Arc<RefusalLog>,
    revocations: RevocationFlags,
    revoked: Arc<Revocations>,
    /// Wakes the housekeeping task early.
    housekeeping: Arc<Notify>,
}

impl Admission {
    /// Admits whom `catalog` has, but those who are `revoked`. A refusal is in the log, and an alarm wakes
    /// `housekeeping`.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        revoked: Arc<Revocations>,
        (activity, refusals): (Arc<NodeActivity>, Arc<RefusalLog>),
        housekeeping: Arc<Notify>,
    ) -> Self {
        let revocations = RevocationFlags::default();
        Self { catalog, activity, refusals, housekeeping, revocations, revoked }
    }

    /// The list of revoked certificates takes over what the catalog has revoked: of machines that were replaced or
    /// stopped. Their sessions are closed: whoever stored that may not have had the answer of the catalog. A failure is
    /// logged, and the next housekeeping makes up for it.
    pub(crate) fn list_revoked(&self) {
        if let Err(error) = self.revoked.catch_up() {
            tracing::error!(%error, "cannot write the list of revoked certificates");
        }
        self.revocations.revoke_all(|serial| self.is_listed(serial).unwrap_or(false));
    }

    /// Whether a certificate was revoked, whatever the catalog says of it.
    ///
    /// # Errors
    /// [`Error::Refused`] while nobody knows.
    pub(crate) fn is_listed(&self, serial: &str) -> Result<bool> {
        Ok(self.revoked.holder_of(serial)?.is_some())
    }

    /// Closes the sessions of `holder`, a node or a storage server, whose revocation the catalog already has.
    pub(crate) fn revoke(&self, holder: &str) {
        self.revocations.revoke(holder);
    }

    /// Set once `holder` or its certificate is revoked.
    pub(crate) fn revocation_flag(&self, serial: &str, holder: &str) -> Arc<AtomicBool> {
        self.revocations.flag(serial, holder)
    }

    /// Drops flags that no session has any more.
    pub(crate) fn tidy(&self) {
        self.revocations.tidy();
    }

    /// Admits a node whose certificate is known and valid, and that is not revoked.
    pub(crate) fn admit(&self, peer: &Peer) -> Result<Node> {
        let facts = pki::inspect(&peer.certificate)?;
        self.admit_by_facts(&facts, Some(peer.address), Seen::Here)
    }

    /// The node that a storage server names, if it may connect.
    pub(crate) fn known_node(
        &self,
        serial: &str,
        node: &Name,
        address: Option<IpAddr>,
    ) -> Result<Node> {
        let facts = pki::Facts {
            serial: serial.to_owned(),
            common_name: node.to_string(),
            // The storage server has verified the certificate; what the catalog says of its end holds.
            not_before_secs: 0,
            not_after_secs: i64::MAX,
        };
        self.admit_by_facts(&facts, address, Seen::There)
    }

    /// The same by the contents of the certificate; the node connects from `address`.
    fn admit_by_facts(
        &self,
        facts: &pki::Facts,
        address: Option<IpAddr>,
        seen: Seen,
    ) -> Result<Node> {
        let node = self.admitted(facts, address, seen);
        node.inspect_err(|error| {
            if matches!(error, Error::Catalog(error) if error.is_of_database()) {
                return; // nobody knows whether it may come: the log says what the catalog has
            }
            let what = format!("the certificate {} of '{}'", facts.serial, facts.common_name);
            self.refusals.refused(&what, error, address);
        })
    }

    fn admitted(&self, facts: &pki::Facts, address: Option<IpAddr>, seen: Seen) -> Result<Node> {
        // The flag first: who revokes writes the catalog and then sets the flags. Whichever of the two looks below
        // comes too early, the other does not.
        let revoked = self.revocations.flag(&facts.serial, &facts.common_name);
        let status = self.catalog.certificate(Holder::Node, &facts.serial)?;
        let status = status.filter(|known| known.holder.as_str() == facts.common_name);
        let now_secs = now_secs();
        if let Some(holder) = self.revoked.holder_of(&facts.serial)? {
            let is_known = status.as_ref().is_some_and(|known| known.revoked);
            return Err(self.is_revoked(&holder, is_known)?);
        }
        match status {
            None => Err(refuse("this certificate was not issued here, or its node was removed")),
            Some(known) if known.revoked || revoked.load(Ordering::Relaxed) => {
                Err(self.is_revoked(&known.holder, known.revoked)?)
            }
            Some(known) if known.not_after.min(facts.not_after_secs) <= now_secs => {
                Err(refuse(&format!("the certificate of '{}' has expired", known.holder)))
            }
            // Whoever has seen a certificate once can name it again, and would stop every node.
            Some(known) if is_forked(&known, now_secs) && seen == Seen::There => Err(refuse(
                "this certificate was replaced by a newer one; if nobody brought this machine back from a copy, another machine has its old certificate",
            )),
            Some(known) if is_forked(&known, now_secs) => {
                self.catalog.forked(by(SERVER), Holder::Node, &known.holder, &facts.serial)?;
                Err(self.has_forked(&known.holder, &facts.serial))
            }
            Some(known) => {
                if !known.used {
                    self.catalog.certificate_used(Holder::Node, &facts.serial, now_secs)?;
                }
                let (name, serial) = (facts.common_name.clone(), facts.serial.clone());
                let node = Node { name, serial, revoked };
                if let Some(address) = address {
                    self.activity.seen(&node.name, address, now_secs);
                }
                Ok(node)
            }
        }
    }
}

impl Admission {
    /// Why a node with a revoked certificate may not come. Nobody revoked one whose certificates two machines have
    /// shown, nor one whose place another machine took; whoever complains may be the wrong one.
    fn is_revoked(&self, node: &Name, is_in_catalog: bool) -> Result<Error> {
        let known = self.catalog.node(node)?;
        if known.as_ref().is_some_and(|known| known.alarm.is_some()) {
            return Ok(is_stopped(node));
        }
        // A certificate that is only listed was revoked before the catalog was brought back from a copy.
        match known.filter(|known| is_in_catalog && !known.revoked) {
            Some(known) => Ok(is_replaced(node, known.made)),
            None => Ok(refuse(&format!("the node '{node}' is revoked"))),
        }
    }

    /// Stops a node whose certificates two machines have shown: closes its sessions, removes its key, and raises an
    /// alarm.
    pub(crate) fn has_forked(&self, node: &Name, serial: &str) -> Error {
        self.revocations.revoke(node.as_str());
        self.list_revoked();
        tracing::error!(%node, serial, "ALARM: two machines show certificates of one node; both were stopped");
        // Its slot goes now, and who is refused here does not wait for that.
        self.housekeeping.notify_one();
        refuse(&format!(
            "another machine has shown the certificates of '{node}': both were stopped"
        ))
    }
}

/// Who has seen that somebody has the key of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// This server.
    Here,
    /// A storage server, as it says.
    There,
}

/// Whether showing this certificate proves that two machines have it. A certificate that was replaced before it was
/// shown belongs to nobody, and each handshake shows the newest one: an old one may follow only for handshakes in
/// flight.
pub(crate) fn is_forked(known: &CertificateStatus, now_secs: i64) -> bool {
    let is_late = |at: i64| now_secs.saturating_sub(at) > SUCCESSOR_AFTER_SECS;
    known.superseded || known.successor_used.is_some_and(is_late)
}

fn is_stopped(node: &Name) -> Error {
    let message =
        format!("two machines have shown the certificates of '{node}', so both were stopped");
    let hint = format!(
        "Find out which of them is the right one, and how the other one got them: icecore server nodes. Then enroll the right one again: on the server, icecore server token {node}; there, with the line that it prints and --replace, icecore agent enroll"
    );
    Refusal::new(message, hint).into()
}

/// A node that enrolled once more revokes the certificates that it had.
fn is_replaced(node: &Name, enrolled: i64) -> Error {
    let when = jiff::Timestamp::from_second(enrolled).unwrap_or(jiff::Timestamp::MIN);
    let message =
        format!("'{node}' was enrolled again at {when}, and this certificate is older than that");
    let hint = "If another machine took the place of this one, stop its agent here: systemctl disable --now icecore-agent. If this is the right machine, enroll it again: on the server, icecore server token NODE";
    Refusal::new(message, hint).into()
}

fn refuse(message: &str) -> Error {
    let hint = "Enroll the machine again: on the server, icecore server token NODE";
    Refusal::new(message, hint).into()
}
