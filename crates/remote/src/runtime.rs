//! The thread that moves bytes: one for all streams of a server.

use crate::Failure;
use std::future::Future;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A running thread with its tasks. Dropped, it ends them.
pub(crate) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(crate) fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::ProtocolError(format!("cannot start the network thread: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            let _ = runtime.block_on(stopped);
            // What is left of the tasks gets no time: nobody waits for them any more.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("wire".into()).spawn(work).map_err(failed)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
