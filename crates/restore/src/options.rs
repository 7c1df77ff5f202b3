//! The options of a target.

use crate::marker::RestoreScope;
use std::collections::BTreeSet;

/// What happens to an existing object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overwrite {
    /// It is replaced.
    Always,
    /// It is replaced unless kind, size and mtime are equal; then only its mode, owner and inode
    /// flags are corrected. (Not if it has other names: they would change, too.)
    #[default]
    IfChanged,
    /// It is replaced if its mtime is before that in the snapshot; otherwise it is kept. What is in
    /// the place of a directory stays, and is a problem. (After an interrupted restore, a newer file
    /// is a problem: it may be incomplete.)
    IfNewer,
    /// It is kept as it is, also directories with their attributes. (After an interrupted restore,
    /// what that has written is written again.)
    Never,
}

impl Overwrite {
    /// Whether an existing file of another content may stay. A file that such a restore began and did not end must not
    /// have its name, or the next one would keep it.
    pub(crate) fn keeps_existing(self) -> bool {
        matches!(self, Self::IfNewer | Self::Never)
    }
}

/// The owner that a restored object gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OwnerMapping {
    /// The user of the recorded name on this machine, or the recorded number if there is none.
    /// (Numbers inside ACLs stay as recorded.)
    #[default]
    ByName,
    /// The recorded numbers.
    ById,
    /// The user who restores.
    Caller,
}

/// The options of a target.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// What happens to an existing object.
    pub overwrite: Overwrite,
    /// Change nothing; outcomes say what would be done.
    pub dry_run: bool,
    /// Which owners to set.
    pub owners: OwnerMapping,
    /// Give nothing by which who runs or opens it gets rights of others: no setuid or setgid, no capabilities, no
    /// devices. For snapshots that another party chose; what is left out is reported.
    pub is_unprivileged: bool,
    /// Keep holes; otherwise they are allocated.
    pub sparse: bool,
    /// [`crate::Target::sync`] makes the restore durable.
    pub sync: bool,
    /// What is restored, for a restore that finds this one cut short.
    pub scope: Option<RestoreScope>,
    /// The paths that were backed up, below the target. Of the directories above them a snapshot has little more than
    /// the names: for those, nothing that is there is replaced. Empty: all is replaced that the options allow.
    pub sources: BTreeSet<Vec<u8>>,
}

impl TargetOptions {
    /// Whether the directory `path` is above what was backed up, and not part of it. There may be thousands of sources.
    pub(crate) fn is_above_sources(&self, path: &[u8]) -> bool {
        let above = |end: &usize| self.sources.contains(&path[..*end]);
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut ends = slashes.map(|(at, _)| at).chain([0, path.len()]);
        !ends.any(|end| above(&end)) && self.has_source_below(path)
    }

    fn has_source_below(&self, path: &[u8]) -> bool {
        let below = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        self.sources.range(below.clone()..).next().is_some_and(|first| first.starts_with(&below))
    }
}

impl Default for TargetOptions {
    fn default() -> Self {
        TargetOptions {
            overwrite: Overwrite::default(),
            dry_run: false,
            owners: OwnerMapping::default(),
            is_unprivileged: false,
            sparse: true,
            sync: true,
            scope: None,
            sources: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_above_sources_unless_it_is_in_one() {
        let with = |sources: &[&str]| TargetOptions {
            sources: sources.iter().map(|path| path.as_bytes().to_vec()).collect(),
            ..TargetOptions::default()
        };
        let options = with(&["etc", "home/me", "home/me-too/x", "srv/a/b"]);
        for (path, is_above) in [
            ("", true),
            ("etc", false),
            ("etc/deep", false),
            ("home", true),
            ("home/me", false),
            ("home/me/f", false),
            ("home/me-too", true),
            ("home/m", false),
            ("srv", true),
            ("srv/a", true),
            ("srv/a/b", false),
            ("srv/a-b", false),
            ("elsewhere", false),
        ] {
            assert_eq!(options.is_above_sources(path.as_bytes()), is_above, "{path}");
        }
        assert!(!with(&[]).is_above_sources(b"home"), "nothing is known");
        assert!(!with(&["", "home/me"]).is_above_sources(b"home"), "all was backed up");
        assert!(!with(&["home", "home/me/x"]).is_above_sources(b"home/me"), "one in another");
    }
}
