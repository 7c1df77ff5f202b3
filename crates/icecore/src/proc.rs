//! What this program needs of the system.

use crate::context::Context;
use std::path::Path;

/// Where the kernel shows the open files of this process. Attributes of what is never opened are asked for through it.
const OPEN_FILES: &str = "/proc/self/fd";

/// A rescue system may have no `/proc`. Each object that lacks something for it is told by path; this says why.
pub(crate) fn tell_if_missing(context: &Context) {
    if !Path::new(OPEN_FILES).exists() {
        context.out.note("/proc is not mounted, so attributes of directories, links and devices cannot be read or set. First: mount -t proc proc /proc");
    }
}
