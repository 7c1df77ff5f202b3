//! Extended attributes: all of them, with POSIX ACLs (`system.posix_acl_*`) and capabilities
//! (`security.capability`); `trusted.*` is shown by the kernel to root only.
//!
//! One call for the list, and more only if it is not empty. Objects other than regular files are
//! read by path through `/proc/self/fd/<directory>/<name>` without following links: FIFOs,
//! sockets and devices are not opened, not even with `O_PATH`.

use crate::gone;
use crate::problem::{CaptureOperation, CaptureProblem};
use crate::walk::Directory;
use format::entry::Xattr;
use format::limits::XATTR_SET_BYTES_MAX;
use format::xattrs::{encoded_bytes_max_of, is_second_name_of_acl};
use rustix::buffer::spare_capacity;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{fgetxattr, flistxattr, lgetxattr, llistxattr};
use rustix::io::{Errno, Result};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// First guess for the list of names and for a value.
const USUAL_BYTES: usize = 1024;
/// The kernel's limit for both (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
const MOST_BYTES: usize = 64 * 1024;
/// For the count of them.
const SPARE_BYTES: usize = 8;

/// The extended attributes of an object, as far as they could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xattrs {
    /// Sorted by name.
    pub list: Vec<Xattr>,
    /// Why some are missing; the first error.
    pub error: Option<Errno>,
}

impl Xattrs {
    /// The error, as a problem of the object at `path`.
    pub fn problem(&self, path: Vec<u8>) -> Option<CaptureProblem> {
        self.error.map(|error| match error {
            // What the kernel says when the names are more than it lists.
            Errno::TOOBIG => {
                CaptureProblem::cannot_store(path, "the size of all extended attributes")
            }
            error => CaptureProblem { path, operation: CaptureOperation::Xattrs, error },
        })
    }
}

/// The extended attributes of an open file or directory.
pub fn of_file(file: BorrowedFd<'_>) -> Xattrs {
    collect(
        |names| flistxattr(file, spare_capacity(names)),
        |name, value| fgetxattr(file, name, spare_capacity(value)),
    )
}

/// The extended attributes of any object, without opening it: directories, links, FIFOs, sockets,
/// devices.
pub fn of_object(directory: &Arc<Directory>, name: &CStr) -> Xattrs {
    // The handle must stay open as long as its number is used.
    let handle = match directory.handle() {
        Ok(handle) => handle,
        Err(error) => {
            return Xattrs { list: Vec::new(), error: Some(error) };
        }
    };
    let path = path_through_proc(handle.as_raw_fd(), name);
    let there =
        |attributes: &mut dyn FnMut() -> Result<usize>| gone::reopening(&*handle, name, attributes);
    collect(
        |names| there(&mut || llistxattr(&*path, spare_capacity(names))),
        |attribute, value| there(&mut || lgetxattr(&*path, attribute, spare_capacity(value))),
    )
}

fn path_through_proc(directory: i32, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{directory}/").into_bytes();
    path.extend_from_slice(name.to_bytes());
    CString::new(path).unwrap_or_default() // a CStr has no NUL inside
}

fn collect(
    list: impl Fn(&mut Vec<u8>) -> Result<usize>,
    get: impl Fn(&CStr, &mut Vec<u8>) -> Result<usize>,
) -> Xattrs {
    let mut found = Xattrs::default();
    let names = match with_room(list) {
        Ok(names) if names.is_empty() => return found,
        Ok(names) => names,
        Err(Errno::OPNOTSUPP) => return found,
        Err(error) => {
            return Xattrs { error: Some(error), ..found };
        }
    };
    let mut bytes = 0;
    for name in names
        .split_inclusive(|byte| *byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
        .filter(|name| !is_second_name_of_acl(name.to_bytes()))
    {
        match with_room(|value| get(name, value)) {
            Ok(value) => {
                let xattr = Xattr { name: name.to_bytes().to_vec(), value };
                bytes += encoded_bytes_max_of(&xattr);
                if bytes > XATTR_SET_BYTES_MAX - SPARE_BYTES {
                    found.error = found.error.or(Some(Errno::TOOBIG));
                    break;
                }
                found.list.push(xattr);
            }
            // Gone since the list was made, or listed and not to be had (old NFS, CIFS).
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => found.error = found.error.or(Some(error)),
        }
    }
    found.list.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Calls with more and more room: lists and values may grow between two calls.
fn with_room(call: impl Fn(&mut Vec<u8>) -> Result<usize>) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    loop {
        match call(&mut bytes) {
            Err(Errno::RANGE) if bytes.capacity() < MOST_BYTES => {
                bytes = Vec::with_capacity(MOST_BYTES)
            }
            Err(error) => return Err(error),
            Ok(_) => {
                bytes.shrink_to_fit();
                return Ok(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::VANISHED;
    use crate::walk::DirectoryHandles;
    use rustix::fd::AsFd;
    use rustix::fs::{XattrFlags, fsetxattr};
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn attributes_come_whole_and_sorted_by_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("f")).unwrap();
        let big = vec![b'x'; 3000];
        fsetxattr(&file, "user.z", b"", XattrFlags::empty()).unwrap();
        if fsetxattr(&file, "user.b", &big, XattrFlags::empty()).is_err() {
            return testkit::skip("the file system of /tmp has no room for large ones");
        }
        fsetxattr(&file, "user.a", b"\0\xff", XattrFlags::empty()).unwrap();
        let found = of_file(file.as_fd());
        let names: Vec<_> = found.list.iter().map(|xattr| xattr.name.as_slice()).collect();
        assert_eq!(names, [&b"user.a"[..], b"user.b", b"user.z"]);
        assert_eq!(found.list[1].value, big);
        let handles = DirectoryHandles::new();
        let directory = Directory::starting_at(folder.path().as_os_str().as_bytes(), &handles);
        assert_eq!(of_object(&directory, c"f"), found);
        assert_eq!(of_object(&directory, c"gone").error, Some(VANISHED));
    }

    #[test]
    fn the_second_name_of_an_acl_on_xfs_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("f")).unwrap();
        let names = ["trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT", "trusted.SGI_ACL_OTHER"];
        for name in names {
            if fsetxattr(&file, name, b"x", XattrFlags::empty()).is_err() {
                return testkit::skip("only root may set trusted attributes");
            }
        }
        let found = of_file(file.as_fd());
        let names: Vec<_> = found.list.iter().map(|xattr| xattr.name.as_slice()).collect();
        assert_eq!((names, found.error), (vec![&b"trusted.SGI_ACL_OTHER"[..]], None));
    }

    #[test]
    fn a_link_is_asked_itself_and_a_fifo_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("f")).unwrap();
        fsetxattr(&file, "user.a", b"1", XattrFlags::empty()).unwrap();
        std::os::unix::fs::symlink("f", folder.path().join("l")).unwrap();
        let handles = DirectoryHandles::new();
        let directory = Directory::starting_at(folder.path().as_os_str().as_bytes(), &handles);
        let handle = directory.handle().unwrap();
        rustix::fs::mknodat(&*handle, c"p", rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert_eq!(of_object(&directory, c"l"), Xattrs::default());
        assert_eq!(of_object(&directory, c"p"), Xattrs::default());
    }

    #[test]
    fn access_lists_and_capabilities_are_attributes_like_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("f")).unwrap();
        // struct vfs_cap_data, revision 2, cap_net_bind_service permitted and effective.
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if fsetxattr(&file, "security.capability", &capability, XattrFlags::empty()).is_err() {
            return testkit::skip("only root may set capabilities");
        }
        let found = of_file(file.as_fd());
        assert_eq!(found.list[0].name, b"security.capability");
        assert_eq!(found.list[0].value, capability);
    }
}
