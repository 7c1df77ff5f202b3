//! Correcting the attributes of an existing object whose content is equal.

use crate::flags;
use crate::handle::AttributeHandle;
use crate::metadata::CurrentAttributes;
use crate::problem::Attribute;
use crate::system::{self, ONLY_PATH};
use crate::target::Target;
use crate::verify::differing_xattrs;
use format::entry::{Entry, Kind};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, Statx};
use rustix::io::Errno;

impl Target {
    /// Corrects owner, mode, extended attributes and flags of an object with equal content. `false`
    /// if that is not possible: other names of the object, perhaps outside the target, would
    /// change, too.
    pub(crate) fn fix_attributes(
        &self,
        fd: BorrowedFd<'_>,
        name: &[u8],
        stat: &Statx,
        entry: &Entry,
    ) -> bool {
        let Ok(object) = rustix::fs::openat(fd, name, ONLY_PATH, Mode::empty()) else {
            return true;
        };
        // If another object took the name meanwhile, its owner must not change.
        let is_it =
            system::stat_open(object.as_fd()).is_ok_and(|now| system::same_inode(&now, stat));
        if !is_it {
            return true;
        }
        let mode = self.mode_of(entry);
        let owner = (stat.stx_uid, stat.stx_gid) == self.0.owners.of(&entry.attributes);
        let moded = entry.kind() == Kind::Symlink || system::mode(stat) == mode;
        let flagged =
            flags::has_flags(entry.kind()) && flags::recorded(stat) != entry.attributes.inode_flags;
        let extended = differing_xattrs(object.as_fd(), entry).next().is_some();
        let wrong = !owner || !moded || extended;
        let is_only_owner = !owner && !self.0.credentials.may_chown && moded && !flagged;
        let is_linked = stat.stx_nlink > 1;
        // A separate file could have no better mode or owner.
        let is_in_vain = !extended && !flagged && !self.keeps_modes(stat);
        if (wrong || flagged) && is_linked && !is_only_owner && !is_in_vain {
            return false;
        }
        if self.0.options.dry_run {
            return true;
        }
        if is_linked && is_in_vain {
            self.lacks(entry, owner, moded);
            return true;
        }
        if wrong {
            flags::unlock(fd, name, stat);
            self.apply(
                AttributeHandle::path(object.as_fd()),
                entry,
                CurrentAttributes::of(stat, true),
            );
        }
        if entry.kind() == Kind::File && (wrong || flagged) {
            flags::set_at(self, fd, name, entry);
        }
        true
    }

    /// Reports what was not tried, because it is kept for no object.
    fn lacks(&self, entry: &Entry, has_owner: bool, has_mode: bool) {
        let not_kept = Errno::OPNOTSUPP;
        if !has_owner {
            self.degrade_one_of(|all| &mut all.owners, entry, Attribute::Owner, not_kept);
        }
        if !has_mode {
            self.degrade_one_of(|all| &mut all.modes, entry, Attribute::Mode, not_kept);
        }
    }
}
