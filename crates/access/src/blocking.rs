//! Blocking calls for programs without an async runtime.

use std::future::Future;
use std::path::Path;

/// Waits for `work` on a runtime of its own.
///
/// # Errors
/// Those of `work`; [`crate::Error::File`] when no runtime can be created.
pub fn wait<T>(work: impl Future<Output = crate::Result<T>>) -> crate::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(crate::files::file(Path::new("(runtime)")))?.block_on(work)
}
