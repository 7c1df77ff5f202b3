//! What somebody who waits for a server is told, and how it stops waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether somebody asked to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Who waits.
#[derive(Clone, Default)]
pub struct WaitControl {
    /// Set when nothing is waited for any more.
    pub cancel: Option<Arc<dyn AsRef<AtomicBool> + Send + Sync>>,
    /// Hears that the server is away, and that it is there again.
    pub tell: Option<Tell>,
}

impl WaitControl {
    pub(crate) fn tell(&self, text: &str) {
        if let Some(tell) = &self.tell {
            tell(text);
        }
    }

    /// Waits until somebody asked to stop; for ever where nobody can.
    pub(crate) async fn cancelled(&self) {
        let Some(cancel) = &self.cancel else { return std::future::pending().await };
        while !(**cancel).as_ref().load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
