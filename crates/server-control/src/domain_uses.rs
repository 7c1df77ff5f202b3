//! Who uses the repositories of domains through the control plane: a domain is moved while nobody does. Whoever looked
//! its directory up before would else find it empty, and take that for a domain without snapshots.

use crate::{Error, Result};
use api::Name;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use server_contract::access_control::Refusal;
use std::sync::{Arc, Weak};

/// Uses of all domains.
#[derive(Default)]
pub(crate) struct DomainUses(Mutex<State>);

#[derive(Default)]
struct State {
    uses: FxHashMap<Name, Weak<()>>,
    closed: FxHashSet<Name>,
}

/// A domain is not moved while this lives.
pub(crate) struct DomainUse(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl DomainUses {
    /// Begins to use a domain.
    ///
    /// # Errors
    /// [`Error::Refused`] while it is being moved.
    pub(crate) fn begin(&self, domain: &Name) -> Result<DomainUse> {
        let mut state = self.0.lock();
        if state.closed.contains(domain) {
            return Err(is_moved(domain));
        }
        state.uses.retain(|_, of| of.strong_count() > 0);
        if let Some(shared) = state.uses.get(domain).and_then(Weak::upgrade) {
            return Ok(DomainUse(shared));
        }
        let first = Arc::new(());
        state.uses.insert(domain.clone(), Arc::downgrade(&first));
        Ok(DomainUse(first))
    }

    /// Lets nobody begin to use a domain; whether nobody uses it any more.
    pub(crate) fn close(&self, domain: &Name) -> bool {
        let mut state = self.0.lock();
        state.closed.insert(domain.clone());
        state.uses.get(domain).is_none_or(|of| of.strong_count() == 0)
    }

    /// The same for as long as what is returned lives.
    ///
    /// # Errors
    /// [`Error::Refused`] while it is being moved.
    pub(crate) fn closed<'a>(&'a self, domain: &'a Name) -> Result<Closed<'a>> {
        let mut state = self.0.lock();
        match state.closed.insert(domain.clone()) {
            true => Ok(Closed { uses: self, domain }),
            false => Err(is_moved(domain)),
        }
    }

    /// It may be used again.
    pub(crate) fn reopen(&self, domain: &Name) {
        self.0.lock().closed.remove(domain);
    }
}

/// Nobody begins to use a domain while this lives.
pub(crate) struct Closed<'a> {
    uses: &'a DomainUses,
    domain: &'a Name,
}

impl Closed<'_> {
    /// Whether nobody uses it any more.
    pub(crate) fn is_free(&self) -> bool {
        self.uses.close(self.domain)
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.uses.reopen(self.domain);
    }
}

fn is_moved(domain: &Name) -> Error {
    Error::Refused(Refusal::transient(format!("the domain '{domain}' is being moved")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_free_when_all_have_left_and_nobody_comes_meanwhile() {
        let uses = DomainUses::default();
        let [web, other]: [Name; 2] = ["web", "other"].map(|name| name.parse().unwrap());
        let (one, two) = (uses.begin(&web).unwrap(), uses.begin(&web).unwrap());
        assert!(!uses.close(&web) && uses.close(&other));
        drop(one);
        let refused = uses.begin(&web).err().unwrap();
        assert!(matches!(refused, Error::Refused(refusal) if refusal.is_transient));
        assert!(!uses.close(&web));
        drop(two);
        assert!(uses.close(&web));
        uses.reopen(&web);
        assert!(uses.begin(&web).is_ok());
        let closed = uses.closed(&web).unwrap();
        assert!(closed.is_free() && uses.begin(&web).is_err() && uses.closed(&web).is_err());
        drop(closed);
        assert!(uses.begin(&web).is_ok());
    }
}
