//! TUN devices: what the kernel sends into one can be read here packet by packet.
#![allow(unsafe_code, reason = "attaching to a TUN device is an ioctl without a wrapper")]

use rustix::fs::{Mode, OFlags, open};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Makes the device `name`; it lives as long as the descriptor. Reads and writes do not wait.
pub(crate) fn make(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let device = open("/dev/net/tun", flags, Mode::empty())?;
    let request = request(name)?;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives on this stack.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(device) }
}

/// Plain IP packets, with no header before them and none larger than the MTU.
fn request(name: &str) -> io::Result<libc::ifreq> {
    let name = CString::new(name)?;
    let bytes = name.as_bytes_with_nul();
    // SAFETY: an `ifreq` is integers only; all zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if bytes.len() > request.ifr_name.len() {
        return Err(io::Error::other("the name of the device is too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    Ok(request)
}
