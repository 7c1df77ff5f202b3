//! Error replies.

use super::hub::NODE_CONNECTIONS_MAX;
use super::sessions::NODE_SESSIONS_MAX;
use ids::KeyEpoch;
use protocol::Packet;
use protocol::fault::{Code, fault};
use repository::Error;
use server_contract::access_control::Refusal;
use server_contract::budgets::NODE_JOBS;

/// Hint for a node with too many connections or sessions.
const TOO_MANY_HINT: &str =
    "The client retries automatically. What runs, on the server: icecore server sessions";

/// What the server writes for each snapshot in its own directory, as errors name it.
pub(super) const RECEIPTS: &str = "the state of receipts";

/// Hint for who wants to remove what is locked.
const LOCKED_HINT: &str = "Which snapshots are locked: icecore snapshots -l";

/// The reply for an error of the repository engine.
pub(super) fn of_engine(error: &Error) -> Packet {
    let text = error.to_string();
    match error {
        Error::NoRepository { .. } => fault(Code::NoRepository, &text, "", &[]),
        Error::Exists { .. } => fault(Code::Exists, &text, "", &[]),
        Error::KeysChanged => fault(Code::KeysChanged, &text, "", &[]),
        Error::InUse { .. } | Error::LeaseLost { .. } => {
            fault(Code::InUse, &text, "Wait until it ends and try again.", &[])
        }
        Error::Locked { .. } | Error::LockedIsDamaged(_) => {
            fault(Code::NotAllowed, &text, LOCKED_HINT, &[])
        }
        Error::SnapshotMissing(id) => fault(Code::SnapshotMissing, &text, "", &id.0),
        Error::ObjectMissing(id) => fault(Code::ObjectMissing, &text, "", &id.0),
        Error::ContainerMissing(number) => {
            fault(Code::ContainerMissing, &text, "", &number.0.to_le_bytes())
        }
        Error::Damaged { .. } | Error::IndexDamaged { .. } | Error::UncertainData(_) => {
            fault(Code::Damaged, &text, "On the server: icecore check", &[])
        }
        Error::Storage(error) if error.is_full() && error.name == RECEIPTS => fault(
            Code::NoSpace,
            &format!("the disk of the server's data directory is full: {text}"),
            "Make room on that file system of the server. Forgetting snapshots helps only if the pool lies there: icecore server status",
            &[],
        ),
        error if error.is_full() => fault(
            Code::NoSpace,
            &format!("the server's disk is full: {text}"),
            "Make room where the domain lies. On the server: icecore server forget DOMAIN, icecore server reclaim DOMAIN. On a storage server: icecore server snapshot delete --now SNAPSHOT, and on that machine icecore storage reclaim DOMAIN",
            &[],
        ),
        Error::Storage(error) if error.is_archived() => {
            let class = error.archived().map_or("", |archived| &*archived.class);
            fault(Code::Archived, &text, "", class.as_bytes())
        }
        error if error.is_unreachable() => {
            fault(Code::StorageUnreachable, &text, "On the server: icecore server pool list", &[])
        }
        Error::Storage(_) => {
            fault(Code::Storage, &format!("the server's storage failed: {text}"), "", &[])
        }
        _ => fault(Code::Failed, &text, "", &[]),
    }
}

/// The reply for a refusal.
pub(super) fn of_refusal(refusal: &Refusal) -> Packet {
    let code = if refusal.is_transient { Code::Busy } else { Code::NotAllowed };
    fault(code, &refusal.message, &refusal.hint, &[])
}

/// The reply for what a quota has no room for, or for which that cannot be known now.
pub(super) fn of_quota(refusal: &Refusal) -> Packet {
    if refusal.is_transient {
        return of_refusal(refusal);
    }
    fault(Code::NoSpace, &refusal.message, &refusal.hint, &[])
}

/// The last packet for a violation of the protocol.
pub(super) fn of_protocol(error: &protocol::Error) -> Packet {
    fault(Code::Protocol, &error.to_string(), "Use the same version of icecore on both sides.", &[])
}

/// The last packet for a revoked node.
pub(super) fn revoked() -> Packet {
    let hint = "To readmit it, on the server: icecore server token NODE, with --write-only if it was; there: icecore agent enroll --replace URL TOKEN";
    fault(Code::Revoked, "the certificate of this node was revoked", hint, &[])
}

/// The last packet for a cancelled job.
pub(super) fn cancelled() -> Packet {
    let hint = "The next run finds what was stored.";
    fault(Code::Cancelled, "an administrator cancelled this job", hint, &[])
}

/// The last packet for a node whose grant was withdrawn.
pub(super) fn withdrawn(node: &str, domain: &str) -> Packet {
    let text = format!("the node '{node}' may no longer read the domain '{domain}'");
    let hint = format!(
        "On the server, if icecore server status has no alarm about the catalog: icecore server grant {node} {domain}"
    );
    fault(Code::NotAllowed, &text, &hint, &[])
}

/// The last packet for a connection whose certificate has expired. The client reconnects with a newer
/// one if it has one.
pub(super) fn certificate_ended(node: &str) -> Packet {
    let text = format!("the certificate of '{node}' has expired");
    let hint = format!(
        "The client retries with its next certificate; if it has none, on the server: icecore server token {node}"
    );
    fault(Code::Busy, &text, &hint, &[])
}

/// The reply for a domain that is being moved, and the last packet for who uses it.
pub(super) fn moving(domain: &str) -> Packet {
    let text = format!("the domain '{domain}' is being moved to another place");
    fault(Code::Busy, &text, "The client retries automatically.", &[])
}

/// The last packet for a silent node.
pub(super) fn silent() -> Packet {
    fault(Code::Busy, "the node was silent for too long", "", &[])
}

/// The last packet of a server that stops.
pub(super) fn shutting_down() -> Packet {
    let hint = "The job resumes automatically when the server is back.";
    fault(Code::ShuttingDown, "the server is shutting down", hint, &[])
}

/// The last packet for a node with too many connections.
pub(super) fn too_many_connections(node: &str) -> Packet {
    let text = format!("the node '{node}' has {NODE_CONNECTIONS_MAX} connections already");
    fault(Code::Busy, &text, TOO_MANY_HINT, &[])
}

/// The last packet for a node with too many sessions.
pub(super) fn too_many_sessions(node: &str) -> Packet {
    let text = format!("the node '{node}' has {NODE_SESSIONS_MAX} sessions already");
    fault(Code::Busy, &text, TOO_MANY_HINT, &[])
}

/// The last packet for a node that has begun too many jobs.
pub(super) fn too_many_jobs(node: &str) -> Packet {
    let text = format!("the node '{node}' has begun {NODE_JOBS} jobs within a day");
    let hint = "The client retries automatically; one more may begin every two seconds. What they were, on the server: icecore server jobs";
    fault(Code::Busy, &text, hint, &[])
}

/// The reply for an unknown session.
pub(super) fn no_session() -> Packet {
    let hint = "The job starts again; what was stored is not sent twice.";
    fault(Code::NoSession, "the server has no such session", hint, &[])
}

/// The reply for a snapshot of a source that another node backs up.
pub(super) fn source_of_another(node: &str) -> Packet {
    let text = format!("the newest snapshot of this source belongs to the node '{node}'");
    let hint = format!(
        "Back up as this machine, without --node: icecore backup PATH. If '{node}' no longer exists, on the server: icecore server revoke {node}"
    );
    fault(Code::NotAllowed, &text, &hint, &[])
}

/// The reply for a session of a source that another machine with the same identity backs up right now.
pub(super) fn source_is_busy(node: &str, from: std::net::IpAddr) -> Packet {
    let text = format!("the node '{node}' is backing up this source already, from {from}");
    let hint = format!(
        "Wait until that backup has ended. If two machines have the identity of '{node}', enroll one of them as a node of its own; on the server: icecore server token NODE"
    );
    fault(Code::NotAllowed, &text, &hint, &[])
}

/// The reply for a tombstone that no full key in use has signed.
pub(super) fn forget_unsigned() -> Packet {
    let text = "the request to forget is not signed by a full key of this domain";
    let hint = "Use a full key that was not removed: icecore key list";
    fault(Code::NotAllowed, text, hint, &[])
}

/// The reply for an expiry that is not signed for this repository.
pub(super) fn expiry_unsigned() -> Packet {
    not_allowed(
        "the request to expire is not signed for this repository, or names too many snapshots",
    )
}

/// The reply for upkeep while another job has the domain, or too many run.
pub(super) fn upkeep_busy(why: &str) -> Packet {
    fault(Code::Busy, why, "The control server retries automatically.", &[])
}

/// The reply for a session in another key epoch than that of the key list.
pub(super) fn other_epoch(sealed: KeyEpoch, epoch: KeyEpoch) -> Packet {
    let text = format!(
        "a key was removed: new backups are sealed in key epoch {epoch}, and this one in epoch {sealed}"
    );
    fault(Code::KeysChanged, &text, "Start the backup again.", &[])
}

/// The reply for a request that is not allowed.
pub(super) fn not_allowed(message: &str) -> Packet {
    fault(Code::NotAllowed, message, "", &[])
}
