//! Attributes, in the only safe order: owner, `user.*`, mode, ACLs and labels, capabilities, mtime.
//! Inode flags come after the object has its final name (`flags`).

use crate::acl::mode_without;
use crate::directory::Directory;
use crate::flags;
use crate::handle::AttributeHandle;
use crate::kept::Wanted;
use crate::options::Overwrite;
use crate::problem::{Attribute, RestoreOperation, RestoreProblem};
use crate::system;
use crate::target::Target;
use crate::withheld::SET_ID;
use crate::xattrs::access_acl;
use format::entry::{Entry, Kind};
use rustix::fs::Statx;
use rustix::io::Errno;

/// The attributes of an object before they are set.
#[derive(Clone, Copy)]
pub(crate) struct CurrentAttributes {
    pub(crate) uid: u32,
    /// `None` if unknown.
    pub(crate) gid: Option<u32>,
    /// `None` if unknown.
    pub(crate) mode: Option<u32>,
    /// It existed before the restore, and may have other attributes.
    pub(crate) kept: bool,
}

impl CurrentAttributes {
    pub(crate) fn of(stat: &Statx, kept: bool) -> Self {
        let mode = Some(system::mode(stat));
        CurrentAttributes { uid: stat.stx_uid, gid: Some(stat.stx_gid), mode, kept }
    }
}

impl Target {
    /// Sets the attributes of a directory, after everything below it is done. With
    /// [`Overwrite::Never`], an existing directory stays as it is, and so does one above what was backed up.
    pub fn finish_directory(&self, entry: &Entry) -> Result<(), RestoreProblem> {
        if self.0.options.dry_run {
            return Ok(());
        }
        let handle = self.directory(entry)?;
        self.0.cache.lock().forget(&entry.path);
        self.finish_open(&handle, entry)
            .map_err(|error| RestoreProblem::new(&entry.path, RestoreOperation::Inspect, error))
    }

    fn finish_open(&self, handle: &Directory, entry: &Entry) -> Result<(), Errno> {
        let Some(fd) = handle.fd() else { return Ok(()) };
        let stat = system::stat_open(fd)?;
        let kept = !self.0.is_ours(&stat);
        if self.keeps_attributes(entry, &stat) {
            return self.0.opened_up.close(fd, &stat);
        }
        self.0.opened_up.forget(&stat);
        self.apply(AttributeHandle::open(fd), entry, CurrentAttributes::of(&stat, kept));
        if entry.attributes.inode_flags != 0 {
            self.0.opened_up.gives_locks(&stat);
        }
        self.set_flags(fd, entry, flags::recorded(&stat));
        self.0.opened_up.lock_what_is_kept(fd, &stat)
    }

    /// Whether a directory that was there stays as it is.
    fn keeps_attributes(&self, entry: &Entry, stat: &Statx) -> bool {
        match self.0.options.is_above_sources(&entry.path) {
            true => !self.has_made_above(stat),
            false => {
                self.0.options.overwrite == Overwrite::Never
                    && !self.0.is_ours(stat)
                    && !self.has_made_before(stat)
            }
        }
    }

    /// Whether a marker can be removed from the root when it has these attributes.
    pub(crate) fn may_dress_root(&self, entry: &Entry) -> bool {
        u32::from(entry.attributes.mode) & 0o700 == 0o700 || self.0.credentials.may_override
    }

    /// Sets the attributes of the root, which this restore or one before it made.
    pub(crate) fn dress_root(&self, entry: &Entry) -> Result<(), Errno> {
        let Some(fd) = self.0.root.fd() else { return Ok(()) };
        let stat = system::stat_open(fd)?;
        let now = CurrentAttributes::of(&stat, !self.0.is_ours(&stat));
        self.apply(AttributeHandle::open(fd), entry, now);
        Ok(())
    }

    /// Finishes the root once nothing in it changes any more.
    pub(crate) fn finish_root(&self, entry: &Entry) -> Result<(), Errno> {
        let Some(fd) = self.0.root.fd() else { return Ok(()) };
        AttributeHandle::open(fd).set_mtime(entry.mtime)?;
        self.set_flags(fd, entry, flags::recorded(&system::stat_open(fd)?));
        if self.0.options.sync { rustix::fs::fsync(fd) } else { Ok(()) }
    }

    /// Sets everything but the inode flags. What cannot be set is a degradation, not an error.
    pub(crate) fn apply(&self, handle: AttributeHandle<'_>, entry: &Entry, now: CurrentAttributes) {
        self.tell_withheld(entry);
        let (mode, owner) = self.set_owner(handle, entry, now);
        if now.kept {
            self.remove_other_xattrs(handle, entry);
        }
        self.set_user_xattrs(handle, entry);
        let mode_is_set = self.set_mode(handle, entry, now, mode);
        self.set_late_xattrs(handle, entry, mode);
        if let Err(error) = handle.set_mtime(entry.mtime) {
            return self.degrade(entry, Attribute::Mtime, error);
        }
        let mode = mode_is_set.then_some(mode);
        self.verify_kept(handle, entry, &Wanted { owner, mode });
    }

    /// Returns the mode for the owner that could be set, since setuid for another user than recorded
    /// would grant rights that nobody intended; and this owner, if it is the recorded one.
    fn set_owner(
        &self,
        handle: AttributeHandle<'_>,
        entry: &Entry,
        now: CurrentAttributes,
    ) -> (u32, Option<(u32, u32)>) {
        let (uid, gid) = self.0.owners.of(&entry.attributes);
        let mode = self.mode_of(entry);
        if now.uid == uid && now.gid == Some(gid) {
            return (mode, Some((uid, gid)));
        }
        match self.change_owner(handle, now, uid, gid) {
            Ok(()) => (mode, Some((uid, gid))),
            Err(error) => {
                self.degrade_one_of(|all| &mut all.owners, entry, Attribute::Owner, error);
                (mode & !SET_ID, None)
            }
        }
    }

    /// An ordinary user can only choose among its own groups.
    fn change_owner(
        &self,
        handle: AttributeHandle<'_>,
        now: CurrentAttributes,
        uid: u32,
        gid: u32,
    ) -> Result<(), Errno> {
        if !self.0.credentials.may_chown && uid != now.uid {
            return Err(Errno::PERM);
        }
        handle.set_owner(uid, gid)
    }

    /// Symlinks have no mode. Changing the owner may have cleared setuid, so it is set again. Whether it has this mode
    /// now, as far as the kernel says.
    fn set_mode(
        &self,
        handle: AttributeHandle<'_>,
        entry: &Entry,
        now: CurrentAttributes,
        mode: u32,
    ) -> bool {
        if entry.kind() == Kind::Symlink {
            return false;
        }
        if now.mode == Some(mode) && mode & SET_ID == 0 {
            return true;
        }
        // With an ACL the group bits are its mask: until it is there, the owning group gets its own rights.
        let narrow = access_acl(entry).map_or(mode, |acl| mode_without(&acl.value, mode));
        let set = handle.set_mode(narrow);
        set.inspect_err(|error| self.degrade(entry, Attribute::Mode, *error)).is_ok()
    }
}
