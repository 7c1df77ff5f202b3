//! Numbers for containers that forget and reclaim write.

use crate::Repository;
use crate::pins::SessionNo;
use ids::ContainerNo;

/// Allocates container numbers. The index does not go past them before [`ContainerNumbers::done`], so the next lease
/// finds what an interrupted run left.
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

    /// The session number under which it writes.
    pub(crate) fn session(&self) -> SessionNo {
        self.session
    }

    /// All containers have their final names.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for ContainerNumbers<'_> {
    fn drop(&mut self) {
        self.repository.pins.lock().end(self.session, self.is_done);
    }
}
