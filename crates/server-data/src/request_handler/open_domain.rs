//! The domain that a connection has opened, and the copies from which it is read where its repository has lost data.

use crate::copy_places;
use crate::domains::Domain;
use protocol::Packet;
use protocol::fault::{Code, fault};
use protocol::packet::Purpose;
use repository::fallback::{Copy, CopyUse, WithCopies};
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
    /// `domain` as a node with this `access` uses it for `purpose`; without one it is for a session.
    pub(super) fn new(
        access: Access,
        domain: Option<Arc<Domain>>,
        purpose: Option<Purpose>,
    ) -> Self {
        let repository = domain.map(|domain| {
            let copies = places(&access, purpose).iter().map(|place| copy(place)).collect();
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

/// The copies that are read for `purpose`: none for a check, which has to see what is lost, and none for a backup, which has
/// to store it again.
fn places(access: &Access, purpose: Option<Purpose>) -> &[PathBuf] {
    match purpose {
        Some(Purpose::Restore | Purpose::Read) => &access.copies[..],
        _ => &[],
    }
}

pub(super) fn no_repository() -> Packet {
    fault(Code::NoRepository, "the domain has no repository yet", "", &[])
}

/// The copy at `place`, which is opened when something is missing.
fn copy(place: &Path) -> Copy {
    let place = place.display().to_string();
    let at = place.clone();
    let open = move || {
        copy_places::open(&at).map(|place| place.storage).map_err(|error| error.to_string())
    };
    Copy::new(place, Box::new(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_read_for_restores_and_never_for_backups_and_checks() {
        let access = Access {
            domain: "web".to_owned(),
            path: PathBuf::new(),
            may_write: true,
            may_read: true,
            may_init: false,
            key: None,
            settings: None,
            read_only: None,
            copies: vec![PathBuf::from("/mnt/second/web")],
        };
        let read = |purpose| !places(&access, purpose).is_empty();
        let all = Purpose::ALL.iter().filter(|purpose| read(Some(**purpose)));
        assert_eq!(all.collect::<Vec<_>>(), [&Purpose::Restore, &Purpose::Read]);
        assert!(!read(None), "a session");
    }
}
