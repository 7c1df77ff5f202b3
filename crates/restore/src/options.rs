//! The options of a target.

use crate::marker::RestoreScope;

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
    /// Keep holes; otherwise they are allocated.
    pub sparse: bool,
    /// [`crate::Target::sync`] makes the restore durable.
    pub sync: bool,
    /// What is restored, for a restore that finds this one cut short.
    pub scope: Option<RestoreScope>,
}

impl Default for TargetOptions {
    fn default() -> Self {
        TargetOptions {
            overwrite: Overwrite::default(),
            dry_run: false,
            owners: OwnerMapping::default(),
            sparse: true,
            sync: true,
            scope: None,
        }
    }
}
