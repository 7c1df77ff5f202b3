//! Numbers of containers that no session writes: those of forget and reclaim.

use crate::Repository;
use crate::pins::SessionNo;
use ids::ContainerNo;

/// Gives numbers out. Until it is done, and for good when it is dropped before, the index does not
/// go past them: so the next lease finds what was left.
pub(crate) struct ContainerNumbers<'a> {
    repository: &'a Repository,
    session: SessionNo,
    is_done: bool,
}

impl<'a> ContainerNumbers<'a> {
    pub(crate) fn new(repository: &'a Repository) -> Self {
        let session = repository.pins.lock().begin(None);
        Self { repository, session, is_done: false }
    }

    /// The next number.
    pub(crate) fn next(&self) -> ContainerNo {
        self.repository.allocate_for(self.session)
    }

    /// As whom it writes.
    pub(crate) fn session(&self) -> SessionNo {
        self.session
    }

    /// All that was written has its name.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for ContainerNumbers<'_> {
    fn drop(&mut self) {
        self.repository.pins.lock().end(self.session, self.is_done);
    }
}
