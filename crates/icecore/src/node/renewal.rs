//! The next certificate of this machine, while the last one is still good.

use crate::out::Out;
use access::blocking;
use pipeline::environment::Environment;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often something that lasts looks whether it is time. After a failure that is soon enough, too:
/// ten days are left.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// Gets the next certificate when it is time. Nobody is kept from working by a server that cannot be
/// reached: the last one is good for a while.
pub(super) fn renew(folder: &Path, out: &Out) {
    let now_secs = Environment::default().now_secs();
    match blocking::wait(access::renew::renew_if_due(folder, now_secs)) {
        // Who goes on is told that by the server, with what to do.
        Ok(_) | Err(access::Error::Expired { .. }) => {}
        Err(error) => out.note(&format!("cannot renew the certificate of this machine: {error}")),
    }
}

/// Renews for a long-running job. Its connections use the new certificate when they reconnect.
pub(crate) struct Renewal {
    folder: PathBuf,
    looked: Instant,
}

impl Renewal {
    /// For who has just begun, and renewed then.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), looked: Instant::now() }
    }

    /// Called often.
    pub(crate) fn look(&mut self, out: &Out) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            renew(&self.folder, out);
        }
    }
}
