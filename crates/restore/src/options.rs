//! What the caller may choose.

/// What happens to an object that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overwrite {
    /// It is replaced.
    Always,
    /// It is replaced unless kind, size and mtime are equal; then only its mode, owner and inode
    /// flags are put right. (Not when it has names elsewhere, too: they would change as well.)
    #[default]
    IfChanged,
    /// It is replaced when its mtime is before that of the snapshot's; else it stays as it is. (Where a
    /// restore was cut short, a younger file is a problem: it may be half written.)
    IfNewer,
    /// It stays as it is, directories with their attributes too.
    Never,
}

/// Which owner a restored object gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OwnerMapping {
    /// Who has the recorded name on this machine; the recorded number where nobody has it.
    /// (Numbers inside ACLs stay as recorded.)
    #[default]
    ByName,
    /// The recorded numbers.
    ById,
    /// Whoever restores.
    Caller,
}

/// How to restore.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// What happens to an object that is there already.
    pub overwrite: Overwrite,
    /// Nothing is changed; outcomes say what would have been done.
    pub dry_run: bool,
    /// Which owners to set.
    pub owners: OwnerMapping,
    /// Holes take no space. Otherwise they are allocated.
    pub sparse: bool,
    /// [`crate::Target::sync`] makes the restore durable.
    pub sync: bool,
}

impl Default for TargetOptions {
    fn default() -> Self {
        TargetOptions {
            overwrite: Overwrite::default(),
            dry_run: false,
            owners: OwnerMapping::default(),
            sparse: true,
            sync: true,
        }
    }
}
