//! The home directory of whoever runs this.

use std::path::PathBuf;

/// That of `HOME`. A unit of the system has no such variable: then what the list of users says. `None` if both say
/// nothing, or no full path.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}
