//! A file that holds up whoever opens it, as a file system does that does not answer. A pipe is none: nobody waits at
//! one in the place of a file.

use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use std::fs::File;
use std::path::Path;

/// While it lives, whoever opens the file waits in the kernel. Once it is dropped, all get what they asked for.
pub struct Hanging {
    _watch: Fanotify,
}

impl Hanging {
    /// `None`, and a skip, where this user may not hold up others.
    ///
    /// # Panics
    /// When the file is not there.
    pub fn at(file: &Path) -> Option<Self> {
        let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
        let watch = match Fanotify::init(flags, EventFFlags::O_RDONLY) {
            Ok(watch) => watch,
            Err(error) => {
                crate::skip(&format!("nobody can be held up at a file: {error}"));
                return None;
            }
        };
        let file = File::open(file).unwrap();
        watch.mark(MarkFlags::FAN_MARK_ADD, MaskFlags::FAN_OPEN_PERM, file, None::<&Path>).unwrap();
        Some(Self { _watch: watch })
    }
}
