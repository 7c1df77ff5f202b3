//! The first open of a domain whose keys only nodes know: this machine makes the repository. Two processes that did
//! so at once would each write secrets over those of the other, and the server takes the repository of one of them.

use super::{Caller, Node, keys};
use crate::alone;
use crate::codes::Code;
use crate::failure::{Failure, Result};
use crypto::SlotSecret;
use pipeline::UnlockedRepository;
use remote::Remote;
use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Held in the agent's directory until the repository is there and noted.
const LOCK: &str = "first-open.lock";
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// This process alone may make the repository, as long as this lives.
pub(super) struct FirstOpen {
    _lock: File,
    /// Settings and key slots were made; the server has confirmed them, once the repository opens.
    pub(super) has_made: Cell<bool>,
}

impl FirstOpen {
    /// Waits up to `patience` for other processes of this machine; `None` if there is nothing to make: one that was
    /// made before is never made again, as the server may have lost it, or say so.
    pub(super) fn take(
        node: &Node,
        caller: &Caller<'_>,
        patience: Duration,
    ) -> Result<Option<Self>> {
        if !node.may_make_repository() {
            return Ok(None);
        }
        let (path, begun) = (node.folder.join(LOCK), Instant::now());
        let lock = loop {
            match alone::hold(&path, || in_use(node)) {
                Err(failure) if failure.code != Code::InUse || begun.elapsed() > patience => {
                    return Err(failure);
                }
                Err(failure) if is_cancelled(caller) => return Err(failure),
                Err(_) => std::thread::sleep(LOOK_EVERY),
                Ok(lock) => break lock,
            }
        };
        // Under the lock: another process may have made it meanwhile.
        let agent = access::identity::agent(&node.folder)?;
        let is_made = agent.is_some_and(|agent| agent.repository.is_some());
        Ok((!is_made).then_some(Self { _lock: lock, has_made: Cell::new(false) }))
    }

    /// The repository is there. If this process has made it, or the recovery key that waits opens it, that gets its
    /// name. An earlier attempt may have made it, whose answer was lost.
    pub(super) fn settle(&self, node: &Node, remote: &Arc<Remote>, repository: &str) -> Result<()> {
        let Some(recovery) = keys::next_recovery(&node.folder)? else { return Ok(()) };
        // To a write-only node the server shows no other key slots: its own opened, and both were made together.
        if self.has_made.get() || node.role() == crypto::Role::WriteOnly {
            return keys::name_recovery(&node.folder, repository);
        }
        match UnlockedRepository::open_store(remote.clone(), SlotSecret::Recovery(*recovery)) {
            Ok(_) => keys::name_recovery(&node.folder, repository),
            Err(error) => match Failure::from(error).at_server() {
                // Another machine has made it. The key waits for a repository that this one makes.
                failure if failure.code == Code::WrongKey => Ok(()),
                failure => Err(failure),
            },
        }
    }
}

fn is_cancelled(caller: &Caller<'_>) -> bool {
    let cancel = caller.wait_control.cancel.as_ref();
    cancel.is_some_and(|cancel| (**cancel).as_ref().load(Ordering::Relaxed))
}

fn in_use(node: &Node) -> Failure {
    let (folder, domain) = (node.folder.display(), &node.identity.agent.domain);
    let message =
        format!("another process makes the repository of the domain '{domain}' ({folder})");
    Failure::new(Code::InUse, message)
        .hint("Nothing was changed. Wait until it has ended, then try again: icecore agent status")
}
