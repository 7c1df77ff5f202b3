//! What a restore leaves out whose snapshot another party chose: whoever can reach the target could become another user
//! with it. A setuid program of root's is enough, and a device is the whole disk.

use crate::problem::{Attribute, RestoreCause, RestoreOperation, RestoreProblem};
use crate::target::Target;
use crate::xattrs::{is_capability, wanted};
use format::entry::{Entry, Kind};
use rustix::io::Errno;

/// Setuid and setgid.
pub(crate) const SET_ID: u32 = 0o6000;

impl Target {
    /// The mode that an object is to have.
    pub(crate) fn mode_of(&self, entry: &Entry) -> u32 {
        let mode = self.0.owners.mode_of(entry);
        if self.0.options.is_unprivileged { mode & !SET_ID } else { mode }
    }

    /// Whether the extended attribute `name` is not given.
    pub(crate) fn withholds_xattr(&self, name: &[u8]) -> bool {
        self.0.options.is_unprivileged && is_capability(name)
    }

    /// Reports what an object that is restored does not get.
    pub(crate) fn tell_withheld(&self, entry: &Entry) {
        if !self.0.options.is_unprivileged {
            return;
        }
        if u32::from(entry.attributes.mode) & SET_ID != 0 {
            self.degrade(entry, Attribute::Withheld("setuid and setgid"), Errno::PERM);
        }
        if wanted(entry).any(|xattr| is_capability(&xattr.name)) {
            self.degrade(entry, Attribute::Withheld("file capabilities"), Errno::PERM);
        }
    }

    /// No device is made.
    pub(crate) fn refuse_device(&self, entry: &Entry) -> Result<(), RestoreProblem> {
        let is_device = matches!(entry.kind(), Kind::CharDevice | Kind::BlockDevice);
        if !(is_device && self.0.options.is_unprivileged) {
            return Ok(());
        }
        let (operation, cause) = (RestoreOperation::Create, RestoreCause::DeviceWithheld);
        Err(RestoreProblem::new(&entry.path, operation, cause))
    }
}
