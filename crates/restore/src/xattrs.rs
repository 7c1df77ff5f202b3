//! Extended attributes: set in groups, because the order matters; compared and cleaned on existing
//! objects.

use crate::acl;
use crate::handle::AttributeHandle;
use crate::problem::Attribute;
use crate::target::Target;
use format::entry::{Entry, STATUS_PARTIAL, Xattr};
use format::xattrs::is_second_name_of_acl;
use rustix::io::{Errno, Result};

/// The largest value and the largest list of names in Linux (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const MAX_BYTES: usize = 65_536;

/// Attributes that must be set after mode and owner, which reset them or on which they depend.
pub(crate) fn comes_after_mode(name: &[u8]) -> bool {
    !name.starts_with(b"user.")
}

/// Capabilities are last: changing the owner clears them, and so does a write.
pub(crate) fn is_capability(name: &[u8]) -> bool {
    name == b"security.capability"
}

/// Attributes of the user; others (labels of the system or the file system) are not removed from
/// existing objects.
pub(crate) fn is_ours_to_remove(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_") || is_capability(name)
}

/// The attributes that an object is to have.
pub(crate) fn wanted(entry: &Entry) -> impl Iterator<Item = &Xattr> {
    entry.attributes.xattrs.iter().filter(|xattr| !is_second_name_of_acl(&xattr.name))
}

/// Whether it has no others: what could not be read completely may have some.
pub(crate) fn knows_all(entry: &Entry) -> bool {
    entry.status & STATUS_PARTIAL == 0
}

/// The names of all attributes of an object.
pub(crate) fn names(handle: AttributeHandle<'_>) -> Result<Vec<Vec<u8>>> {
    let mut buffer = vec![0; MAX_BYTES];
    let length = handle.xattr_names(&mut buffer)?;
    let names = buffer[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// The value of an attribute; `None` if the object does not have it.
pub(crate) fn value(handle: AttributeHandle<'_>, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut buffer = vec![0; MAX_BYTES];
    match handle.xattr(name, &mut buffer) {
        Ok(length) => {
            buffer.truncate(length);
            Ok(Some(buffer))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Target {
    /// Sets `user.*`: before the mode, since an ordinary user must be able to write to the object.
    pub(crate) fn set_user_xattrs(&self, handle: AttributeHandle<'_>, entry: &Entry) {
        let early = |x: &&Xattr| !comes_after_mode(&x.name);
        wanted(entry).filter(early).for_each(|x| {
            self.set_xattr(handle, entry, x);
        });
    }

    /// Sets ACLs and labels, then capabilities: after the mode.
    pub(crate) fn set_late_xattrs(&self, handle: AttributeHandle<'_>, entry: &Entry, mode: u32) {
        let late = || wanted(entry).filter(|x| comes_after_mode(&x.name));
        for xattr in late().filter(|x| !is_capability(&x.name)) {
            let set = self.set_xattr(handle, entry, xattr);
            if !set && xattr.name == ACCESS_ACL {
                narrow_without_acl(handle, xattr, mode);
            }
        }
        late()
            .filter(|x| is_capability(&x.name) && !self.withholds_xattr(&x.name))
            .for_each(|x| _ = self.set_xattr(handle, entry, x));
    }

    fn set_xattr(&self, handle: AttributeHandle<'_>, entry: &Entry, xattr: &Xattr) -> bool {
        let result = handle.set_xattr(&xattr.name, &xattr.value);
        if let Err(error) = result {
            self.degrade(entry, Attribute::Xattr(xattr.name.clone()), error);
        }
        result.is_ok()
    }

    /// Removes attributes from an existing object that the entry does not have.
    pub(crate) fn remove_other_xattrs(&self, handle: AttributeHandle<'_>, entry: &Entry) {
        if !knows_all(entry) {
            return;
        }
        let is_wanted = |name: &[u8]| entry.attributes.xattrs.iter().any(|x| x.name == name);
        let wanted = |name: &[u8]| is_wanted(name) && !self.withholds_xattr(name);
        for name in names(handle).unwrap_or_default() {
            if wanted(&name) || !is_ours_to_remove(&name) {
                continue;
            }
            if let Err(error) = handle.remove_xattr(&name) {
                self.degrade(entry, Attribute::Xattr(name), error);
            }
        }
    }
}

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// The ACL of an object, if it has one.
pub(crate) fn access_acl(entry: &Entry) -> Option<&Xattr> {
    entry.attributes.xattrs.iter().find(|xattr| xattr.name == ACCESS_ACL)
}

/// For an ACL that cannot be set. That it is missing is reported.
fn narrow_without_acl(handle: AttributeHandle<'_>, acl: &Xattr, mode: u32) {
    let narrow = acl::mode_without(&acl.value, mode);
    if narrow != mode {
        let _ = handle.set_mode(narrow);
    }
}
