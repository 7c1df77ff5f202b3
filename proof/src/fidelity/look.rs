//! An eye of its own on a tree: everything that an object is, in one line, by system calls alone.
//! Nothing of Icecore's reading or verifying is used, so that both cannot be wrong alike.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, IFlags, Mode, OFlags, SeekFrom, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Content is looked at in pieces of this size: pieces of zeros are as good as holes.
const PIECE: usize = 4096;
/// Flags that a user sets, and a backup can be expected to know.
const FLAGS: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND).union(IFlags::NODUMP);

/// Prints a line for each object below `root`.
pub(crate) fn print(root: &Path, out: &mut dyn Write) -> Result<(), String> {
    open_as_many_as_allowed();
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    let root = fs::open(root, flags, Mode::empty()).map_err(|error| error.to_string())?;
    let mut looker = Looker { out, groups: HashMap::new() };
    looker.walk(root).map_err(|error| format!("cannot look: {error}"))
}

/// A tree of 3,000 levels is held open from its top to its bottom.
fn open_as_many_as_allowed() {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

struct Looker<'a> {
    out: &'a mut dyn Write,
    /// The first path of each inode that has several names.
    groups: HashMap<(u32, u32, u64), String>,
}

/// A directory with the names that are still to be looked at.
struct Open {
    fd: OwnedFd,
    path: Vec<u8>,
    names: Vec<Vec<u8>>,
}

impl Looker<'_> {
    fn walk(&mut self, root: OwnedFd) -> std::io::Result<()> {
        let names = names_in(&root)?;
        let mut open = vec![Open { fd: root, path: Vec::new(), names }];
        while let Some(folder) = open.last_mut() {
            let Some(name) = folder.names.pop() else {
                open.pop();
                continue;
            };
            let slash: &[u8] = if folder.path.is_empty() { b"" } else { b"/" };
            let path = [&folder.path, slash, &name].concat();
            if let Some(fd) = self.object(folder.fd.as_fd(), &name, &path)? {
                let names = names_in(&fd).unwrap_or_default();
                open.push(Open { fd, path, names });
            }
        }
        Ok(())
    }

    /// Prints the line of an object; a directory is handed back, to go on in it.
    fn object(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
    ) -> std::io::Result<Option<OwnedFd>> {
        let shown = escape(path);
        let wanted = StatxFlags::BASIC_STATS;
        let stat = match fs::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
            Ok(stat) => stat,
            Err(error) => {
                writeln!(self.out, "{shown}\terror={error}")?;
                return Ok(None);
            }
        };
        let mut line = shown.clone();
        let kind = FileType::from_raw_mode(stat.stx_mode.into());
        basics(&mut line, &stat, kind);
        if stat.stx_nlink > 1 && kind != FileType::Directory {
            let key = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
            let first = self.groups.entry(key).or_insert(shown);
            field(&mut line, "group", first);
        }
        xattrs(&mut line, folder, name);
        let opened = content(&mut line, folder, name, &stat, kind);
        writeln!(self.out, "{line}")?;
        Ok(opened.filter(|_| kind == FileType::Directory))
    }
}

/// Last name first: they are taken from the end.
fn names_in(folder: &OwnedFd) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_by(|one, other| other.cmp(one));
    Ok(names)
}

fn field(line: &mut String, key: &str, value: impl std::fmt::Display) {
    let _ = write!(line, "\t{key}={value}");
}

fn basics(line: &mut String, stat: &Statx, kind: FileType) {
    field(line, "kind", format_args!("{kind:?}"));
    if kind != FileType::Symlink {
        field(line, "mode", format_args!("{:o}", stat.stx_mode & 0o7777));
    }
    field(line, "uid", stat.stx_uid);
    field(line, "gid", stat.stx_gid);
    field(line, "mtime", format_args!("{}.{:09}", stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec));
    match kind {
        FileType::RegularFile => {
            field(line, "size", stat.stx_size);
            field(line, "allocated", stat.stx_blocks * 512);
        }
        FileType::CharacterDevice | FileType::BlockDevice => {
            field(line, "device", format_args!("{}:{}", stat.stx_rdev_major, stat.stx_rdev_minor));
        }
        _ => {}
    }
}

/// By path through `/proc`: FIFOs and devices are not to be opened.
fn xattrs(line: &mut String, folder: BorrowedFd<'_>, name: &[u8]) {
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    let mut list = vec![0; 1 << 16];
    let Ok(length) = fs::llistxattr(&*path, &mut list[..]) else { return };
    let mut keys: Vec<_> =
        list[..length].split(|byte| *byte == 0).filter(|key| !key.is_empty()).collect();
    // xfs shows its lists of access once more under a name of its own.
    keys.retain(|key| !key.starts_with(b"trusted.SGI_ACL_"));
    keys.sort_unstable();
    for key in keys {
        let mut value = vec![0; 1 << 16];
        let shown = match fs::lgetxattr(&*path, std::ffi::OsStr::from_bytes(key), &mut value[..]) {
            Ok(length) => format!("{length}:{:016x}", hash(0, &value[..length])),
            // Listed to everybody and shown to root only.
            Err(Errno::NODATA) => continue,
            Err(error) => error.to_string(),
        };
        field(line, &format!("xattr {}", escape(key)), shown);
    }
}

fn content(
    line: &mut String,
    folder: BorrowedFd<'_>,
    name: &[u8],
    stat: &Statx,
    kind: FileType,
) -> Option<OwnedFd> {
    if kind == FileType::Symlink {
        let target = fs::readlinkat(folder, name, Vec::new());
        let target = target.map_or_else(|error| error.to_string(), |to| escape(to.as_bytes()));
        field(line, "target", target);
    }
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(error) => {
            field(line, "content", error);
            return None;
        }
    };
    if kind == FileType::RegularFile {
        let bytes = hash_of(&file, stat.stx_size);
        let shown = bytes.map_or_else(|error| error.to_string(), |hash| format!("{hash:016x}"));
        field(line, "content", shown);
    }
    if let Ok(flags) = fs::ioctl_getflags(&file) {
        field(line, "flags", format_args!("{:x}", flags.intersection(FLAGS).bits()));
        field(line, "nocow", flags.contains(IFlags::NOCOW));
        field(line, "noatime", flags.contains(IFlags::NOATIME));
    }
    Some(file)
}

/// Over all pieces that are not zero, with their places: holes make no difference.
fn hash_of(file: &OwnedFd, size: u64) -> rustix::io::Result<u64> {
    let (mut sum, mut at) = (0, 0);
    let mut piece = vec![0; 256 * PIECE];
    while at < size {
        at = match fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data / PIECE as u64 * PIECE as u64,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error),
        };
        let length = rustix::io::pread(file, &mut piece, at)?;
        if length == 0 {
            break;
        }
        // A short read in the middle of a piece would split it: only whole pieces count.
        let whole = length / PIECE * PIECE;
        let length = if whole == 0 || at + length as u64 >= size { length } else { whole };
        for part in piece[..length].chunks(PIECE) {
            if part.iter().any(|byte| *byte != 0) {
                sum = hash(sum ^ at, part);
            }
            at += part.len() as u64;
        }
    }
    Ok(sum)
}

/// FNV-1a over words: differences are accidents here, nobody makes them on purpose.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325 ^ seed.rotate_left(17);
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
    sum ^ bytes.len() as u64
}

/// Bytes as one word without white space: `%xx` for all but plain characters.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_graphic() && !matches!(byte, b'%' | b'=') {
            shown.push(char::from(*byte));
        } else {
            let _ = write!(shown, "%{byte:02x}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(root: &Path) -> String {
        let mut out = Vec::new();
        print(root, &mut out).expect("a look");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn holes_and_zeros_are_the_same_content_and_a_byte_elsewhere_is_not() {
        let root = std::env::temp_dir().join(format!("icecore-look-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a folder");
        let content = |bytes: &[u8], length: u64| {
            let file = std::fs::File::create(root.join("f")).expect("a file");
            std::os::unix::fs::FileExt::write_all_at(&file, bytes, 20_000).expect("write");
            file.set_len(length).expect("length");
            let line = look(&root);
            line.trim_end()
                .split('\t')
                .find(|field| field.starts_with("content="))
                .map(str::to_owned)
        };
        let hole = content(b"x", 100_000);
        std::fs::remove_file(root.join("f")).expect("remove");
        let mut zeros = vec![0; 80_000];
        zeros[0] = b'x';
        assert_eq!(content(&zeros, 100_000), hole);
        assert_ne!(content(b"\0x", 100_000), hole);
        std::fs::remove_dir_all(root).expect("remove");
    }

    #[test]
    fn a_name_never_breaks_a_line() {
        assert_eq!(escape(b"a b\t\n%=\xff"), "a%20b%09%0a%25%3d%ff");
    }
}
