//! Cancels waiting for a server, and tells the user about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often to check for a cancellation.
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Control of waiting for a server.
#[derive(Clone, Default)]
pub struct WaitControl {
    /// Set to stop waiting.
    pub cancel: Option<Arc<dyn AsRef<AtomicBool> + Send + Sync>>,
    /// Called when the server becomes unreachable, and reachable again.
    pub tell: Option<Tell>,
}

impl WaitControl {
    pub(crate) fn tell(&self, text: &str) {
        if let Some(tell) = &self.tell {
            tell(text);
        }
    }

    /// Waits for the cancellation; for ever if there is none.
    pub(crate) async fn cancelled(&self) {
        let Some(cancel) = &self.cancel else { return std::future::pending().await };
        while !(**cancel).as_ref().load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
