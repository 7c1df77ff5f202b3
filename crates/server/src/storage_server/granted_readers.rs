//! Who reads here by a grant: the control server is told of each with the news, and says who may no longer.

use crate::access_control::{Access, Node};
use api::storage_servers::GrantedReader;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Who was not asked about for so long is not connected any more.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// The readers. Who asks about a connection keeps its reader here.
#[derive(Default)]
pub(super) struct GrantedReaders(Mutex<FxHashMap<GrantedReader, State>>);

struct State {
    asked_at: Instant,
    is_withdrawn: bool,
}

impl GrantedReaders {
    /// A grant was seen a moment ago: what was said before does not count.
    pub(super) fn granted(&self, reader: &GrantedReader) {
        self.0.lock().remove(reader);
    }

    /// Whether `node` may go on with `access`, as far as the control server was heard.
    pub(super) fn may_continue(&self, node: &Node, access: &Access) -> bool {
        let Some(reader) = reader(node, access) else { return true };
        let (asked_at, mut readers) = (Instant::now(), self.0.lock());
        let state = readers.entry(reader).or_insert(State { asked_at, is_withdrawn: false });
        state.asked_at = asked_at;
        !state.is_withdrawn
    }

    /// Those that are connected.
    pub(super) fn to_report(&self) -> Vec<GrantedReader> {
        let mut readers = self.0.lock();
        readers.retain(|_, state| state.asked_at.elapsed() < GONE_AFTER);
        readers.keys().cloned().collect()
    }

    /// What the control server says of those that it was `told` of.
    pub(super) fn apply_reply(&self, told: &[GrantedReader], withdrawn: &[GrantedReader]) {
        let mut readers = self.0.lock();
        for reader in told {
            if let Some(state) = readers.get_mut(reader) {
                state.is_withdrawn = withdrawn.contains(reader);
            }
        }
    }
}

/// Who reads by a grant: whoever backs up to a domain is out when it is revoked, and not before.
fn reader(node: &Node, access: &Access) -> Option<GrantedReader> {
    if access.may_write {
        return None;
    }
    Some(GrantedReader { node: node.name.parse().ok()?, domain: access.domain.parse().ok()? })
}
