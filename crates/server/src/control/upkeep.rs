//! What has to be done from time to time.

use super::{Control, SERVER};
use std::time::Duration;

/// How often [`Control::upkeep`] should be called.
pub const UPKEEP_EVERY: Duration = Duration::from_secs(60);
/// The server's certificate is renewed when a third of its life is left: 30 days.
const RENEW_BEFORE_SECS: i64 = pki::authority::SERVER_SECS / 3;

/// An order that waits for longer is given up: a week.
const ORDER_SECS: i64 = 7 * 86_400;

impl Control {
    /// Renews the server's certificate in time, removes the keys of grants that ended, gives up old orders, forgets the
    /// dead. What fails is in the log, and is tried again the next time. Blocks.
    pub fn upkeep(&self) {
        let now_secs = self.now_secs();
        if *self.certificate_expires.lock() - now_secs < RENEW_BEFORE_SECS
            && let Err(error) = self.renew_certificate()
        {
            tracing::error!(%error, "the server's certificate cannot be renewed");
        }
        self.remove_stale_keys();
        if let Err(error) = self.catalog.give_up_orders(self.by(SERVER), now_secs - ORDER_SECS) {
            tracing::error!(%error, "old orders cannot be given up");
        }
        self.lose_silent_storages();
        self.live.tidy(now_secs);
    }
}
