//! Nodes that read here by a grant: heartbeats name them, and the reply says which grants were withdrawn.

use api::storage_servers::GrantedReader;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use server_contract::access_control::{Access, Node};
use std::time::{Duration, Instant};

/// A reader that was not checked for this long is not connected any more.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// The readers. Each check of a connection keeps its reader here.
#[derive(Default)]
pub(super) struct GrantedReaders(Mutex<FxHashMap<GrantedReader, State>>);

struct State {
    asked_at: Instant,
    is_withdrawn: bool,
}

impl GrantedReaders {
    /// Records a fresh grant: an earlier withdrawal does not count.
    pub(super) fn granted(&self, reader: &GrantedReader) {
        self.0.lock().remove(reader);
    }

    /// Whether `node` may continue with `access`, by the last heartbeat.
    pub(super) fn may_continue(&self, node: &Node, access: &Access) -> bool {
        let Some(reader) = reader(node, access) else { return true };
        let (asked_at, mut readers) = (Instant::now(), self.0.lock());
        let state = readers.entry(reader).or_insert(State { asked_at, is_withdrawn: false });
        state.asked_at = asked_at;
        !state.is_withdrawn
    }

    /// Connected readers.
    pub(super) fn to_report(&self) -> Vec<GrantedReader> {
        let mut readers = self.0.lock();
        readers.retain(|_, state| state.asked_at.elapsed() < GONE_AFTER);
        readers.keys().cloned().collect()
    }

    /// Applies the reply to a heartbeat that named `told`.
    pub(super) fn apply_reply(&self, told: &[GrantedReader], withdrawn: &[GrantedReader]) {
        let mut readers = self.0.lock();
        for reader in told {
            if let Some(state) = readers.get_mut(reader) {
                state.is_withdrawn = withdrawn.contains(reader);
            }
        }
    }
}

/// The reader of this access, if it is by a grant: a node of the domain itself is stopped only by a revocation.
fn reader(node: &Node, access: &Access) -> Option<GrantedReader> {
    if access.may_write {
        return None;
    }
    Some(GrantedReader { node: node.name.parse().ok()?, domain: access.domain.parse().ok()? })
}
