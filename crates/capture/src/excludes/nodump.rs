//! Objects marked with `chattr +d`, for a single path.

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use std::path::{Path, PathBuf};

/// The object nearest to the root that is marked `nodump`, among `path` and the directories between
/// it and `root`. The root itself was named by the user, so its mark is ignored.
pub fn nodump_above(path: &Path, root: &Path) -> Option<PathBuf> {
    let between = path.ancestors().take_while(|above| *above != root && above.starts_with(root));
    between.filter(|above| is_nodump(above)).last().map(Path::to_owned)
}

fn is_nodump(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = statx(CWD, path, flags, StatxFlags::TYPE);
    stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::NODUMP))
}
