//! Which system calls touch the repository, and how.

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::io::IoSliceMut;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What a call does to files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// Asks for names, status, bytes.
    Looks,
    /// Writes bytes at a place in a file; the kernel may write fewer.
    Writes,
    /// Reads bytes; the kernel may give fewer.
    Reads,
    /// Makes durable, names, removes, locks.
    Changes,
}

/// Where a call says which file it means.
#[derive(Clone, Copy)]
enum Names {
    /// By the descriptor in the first argument.
    Descriptor,
    /// By a folder's descriptor and a path, in the first two arguments.
    Below,
    /// By a path in the first argument.
    Path,
}

const O_CREAT: u64 = libc::O_CREAT as u64;
const PATH_BYTES: usize = 4096;

fn table(number: i64) -> Option<(Names, Effect)> {
    use Effect::{Changes, Looks, Reads, Writes};
    use Names::{Below, Descriptor, Path};
    Some(match number {
        libc::SYS_read | libc::SYS_pread64 => (Descriptor, Reads),
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_pwritev => (Descriptor, Writes),
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_ftruncate | libc::SYS_fallocate => {
            (Descriptor, Changes)
        }
        libc::SYS_flock | libc::SYS_sync_file_range => (Descriptor, Changes),
        libc::SYS_fstat | libc::SYS_fstatfs | libc::SYS_getdents64 => (Descriptor, Looks),
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_statx => (Below, Looks),
        libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_renameat | libc::SYS_renameat2 => {
            (Below, Changes)
        }
        libc::SYS_mkdir | libc::SYS_unlink | libc::SYS_rename => (Path, Changes),
        libc::SYS_open | libc::SYS_stat | libc::SYS_lstat | libc::SYS_statfs => (Path, Looks),
        _ => return None,
    })
}

/// What the call does to a file below `root`, or `None` when it touches none.
pub(super) fn effect(process: Pid, root: &Path, number: i64, arguments: &[u64]) -> Option<Effect> {
    let (names, effect) = table(number)?;
    let (first, second, third) = (*arguments.first()?, *arguments.get(1)?, *arguments.get(2)?);
    let path = match names {
        Names::Descriptor => opened(process, first),
        Names::Path => path_at(process, first),
        Names::Below => path_at(process, second).and_then(|path| {
            let is_whole = path.is_absolute();
            if is_whole { Some(path) } else { Some(opened(process, first)?.join(path)) }
        }),
    };
    let creates = number == libc::SYS_openat && third & O_CREAT != 0;
    path?.starts_with(root).then_some(if creates { Effect::Changes } else { effect })
}

/// The path behind a descriptor; descriptors are 32 bits wide.
fn opened(process: Pid, descriptor: u64) -> Option<PathBuf> {
    let descriptor = descriptor as i32;
    if descriptor == libc::AT_FDCWD {
        return std::fs::read_link(format!("/proc/{process}/cwd")).ok();
    }
    std::fs::read_link(format!("/proc/{process}/fd/{descriptor}")).ok()
}

fn path_at(process: Pid, address: u64) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    // Page by page: the page behind the end of the text may not be there.
    while bytes.len() < PATH_BYTES {
        let at = address as usize + bytes.len();
        let mut part = vec![0; PATH_BYTES - at % PATH_BYTES];
        let length = part.len();
        let remote = [RemoteIoVec { base: at, len: length }];
        let read = process_vm_readv(process, &mut [IoSliceMut::new(&mut part)], &remote).ok()?;
        let part = part.get(..read)?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            bytes.extend_from_slice(part.get(..end)?);
            return Some(std::ffi::OsString::from_vec(bytes).into());
        }
        bytes.extend_from_slice(part);
    }
    Some(std::ffi::OsStr::from_bytes(&bytes).into())
}

/// Base and length of the first buffer of a `pwritev`.
pub(super) fn first_buffer(process: Pid, address: u64) -> Option<(u64, u64)> {
    let mut bytes = [0; 16];
    let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
    process_vm_readv(process, &mut [IoSliceMut::new(&mut bytes)], &remote).ok()?;
    let (base, length) = bytes.split_at(8);
    Some((u64::from_le_bytes(base.try_into().ok()?), u64::from_le_bytes(length.try_into().ok()?)))
}
