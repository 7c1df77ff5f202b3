//! The domain that a connection has opened, and the copies from which it is read where its repository has lost data.

use crate::domains::Domain;
use protocol::Packet;
use protocol::fault::{Code, fault};
use repository::fallback::{Copy, CopyUse, WithCopies};
use repository::local::LocalStorage;
use repository::storage::Storage;
use server_contract::access_control::Access;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A domain, and what its node may do.
pub(super) struct OpenDomain {
    pub(super) access: Access,
    /// Its repository, with its copies; `None` while it has none.
    repository: Option<(Arc<Domain>, WithCopies)>,
}

impl OpenDomain {
    /// `domain` as a node with this `access` uses it.
    pub(super) fn new(access: Access, domain: Option<Arc<Domain>>) -> Self {
        let repository = domain.map(|domain| {
            let copies = access.copies.iter().map(|place| copy(place)).collect();
            let with_copies = WithCopies::new(domain.repository.clone(), copies);
            (domain, with_copies)
        });
        Self { access, repository }
    }

    /// Its repository, alone and with its copies.
    pub(super) fn repository(&self) -> Result<(&Arc<Domain>, &WithCopies), Packet> {
        let repository = self.repository.as_ref().map(|(domain, copies)| (domain, copies));
        repository.ok_or_else(no_repository)
    }

    /// What was read from which copy so far.
    pub(super) fn copies_used(&self) -> Vec<CopyUse> {
        self.repository.as_ref().map_or_else(Vec::new, |(_, copies)| copies.uses())
    }
}

pub(super) fn no_repository() -> Packet {
    fault(Code::NoRepository, "the domain has no repository yet", "", &[])
}

/// The copy in the directory `place`, which is opened when something is missing.
fn copy(place: &Path) -> Copy {
    let path: PathBuf = place.to_owned();
    let open = move || match LocalStorage::open(&path) {
        Ok(storage) => Ok(Arc::new(storage) as Arc<dyn Storage>),
        Err(error) => Err(error.to_string()),
    };
    Copy::new(place.display().to_string(), Box::new(open))
}
