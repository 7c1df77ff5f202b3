//! What keeps others from changing the rules, or the trash, while they are carried out.

use parking_lot::{Mutex, MutexGuard};

/// Whoever deletes snapshots, brings one back, or changes the site holds it. Without it a hold could be confirmed to
/// somebody while the snapshot that it selects is being deleted.
#[derive(Default)]
pub(crate) struct Gate(Mutex<()>);

impl Gate {
    /// Waits until nobody else holds it: no longer than a domain takes.
    pub(crate) fn enter(&self) -> MutexGuard<'_, ()> {
        self.0.lock()
    }
}
