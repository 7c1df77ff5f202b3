//! One of everything that a file system can hold. What this one cannot is left out: the look at
//! the source says what there is.

use rustix::fs::{
    self, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Timespec, Timestamps,
};
use rustix::io::Result;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How much of what there can be much of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    /// Names in one directory.
    pub(crate) many: u32,
    /// Directories in each other; a path of 4096 bytes is passed at 1,000.
    pub(crate) depth: u32,
    /// Names of one file; ext4 stops at 65,000.
    pub(crate) links: u32,
}

/// Some owner without a name.
const NOBODY_KNOWN: u32 = 54_321;
const LARGE_BYTES: usize = 9 << 20;
const TERABYTE: u64 = 1 << 40;

/// Makes the tree below `root`, which must be empty.
pub(crate) fn make(root: &Path, amounts: Amounts) -> std::io::Result<()> {
    let folder = |name: &str| {
        let path = root.join(name);
        std::fs::create_dir(&path).map(|()| path)
    };
    files(&folder("files")?)?;
    links(&folder("links")?, amounts.links)?;
    specials(&folder("specials")?)?;
    modes(&folder("modes")?)?;
    xattrs(&folder("xattrs")?)?;
    names(&folder("names")?)?;
    deep(&folder("deep")?, amounts.depth)?;
    many(&folder("many")?, amounts.many)?;
    times(&folder("times")?)?;
    flags(&folder("flags")?)
}

/// Bytes that no compressor makes smaller, the same in every run.
fn noise(length: usize) -> Vec<u8> {
    testkit::noise(length as u64, length)
}

fn files(at: &Path) -> std::io::Result<()> {
    std::fs::write(at.join("empty"), b"")?;
    std::fs::write(at.join("one byte"), b"1")?;
    std::fs::write(at.join("tiny"), b"a few words of text")?;
    std::fs::write(at.join("zeros that are no hole"), vec![0; 1 << 20])?;
    let large = at.join("large");
    std::fs::write(&large, noise(LARGE_BYTES))?;
    let sparse = File::create(at.join("holes at both edges"))?;
    sparse.write_all_at(&noise(100_000), 3 << 20)?;
    sparse.set_len(8 << 20)?;
    let mut alternating = File::create(at.join("holes between"))?;
    for piece in 0..40 {
        alternating.seek(SeekFrom::Start(piece * 64 * 1024))?;
        alternating.write_all(&noise(5000))?;
    }
    File::create(at.join("one hole"))?.set_len(1_000_001)?;
    let terabyte = File::create(at.join("a terabyte"))?;
    terabyte.write_all_at(b"somewhere", TERABYTE / 3)?;
    terabyte.set_len(TERABYTE)?;
    let unwritten = File::create(at.join("allocated and not written"))?;
    let _ = fs::fallocate(&unwritten, FallocateFlags::empty(), 0, 4 << 20);
    unwritten.write_all_at(b"only this", 2 << 20)?;
    let beyond = File::create(at.join("allocated beyond its end"))?;
    beyond.write_all_at(b"short", 0)?;
    let _ = fs::fallocate(&beyond, FallocateFlags::KEEP_SIZE, 0, 1 << 20);
    reflink(&large, &at.join("shares its blocks"))
}

fn reflink(from: &Path, to: &Path) -> std::io::Result<()> {
    let (source, copy) = (File::open(from)?, File::create(to)?);
    if fs::ioctl_ficlone(&copy, &source).is_err() {
        return std::fs::remove_file(to);
    }
    Ok(())
}

fn links(at: &Path, many: u32) -> std::io::Result<()> {
    use std::os::unix::fs::symlink;
    symlink("nowhere/at/all", at.join("dangling"))?;
    symlink(OsStr::from_bytes(b"no \xff text\n"), at.join("to no text"))?;
    let longest = [4095, 1023, 255].into_iter().map(|length| "x".repeat(length));
    let _ = longest.map(|target| symlink(target, at.join("long"))).find(|made| made.is_ok());
    std::fs::create_dir(at.join("other"))?;
    for (name, further) in [("file", "other/file"), ("symlink", "other/symlink")] {
        match name {
            "file" => std::fs::write(at.join(name), noise(70_000))?,
            _ => symlink("file", at.join(name))?,
        }
        fs::linkat(CWD, at.join(name), CWD, at.join(further), AtFlags::empty())?;
        fs::linkat(CWD, at.join(name), CWD, at.join(format!("{name} 3")), AtFlags::empty())?;
    }
    special(&at.join("fifo"), FileType::Fifo, 0)?;
    fs::linkat(CWD, at.join("fifo"), CWD, at.join("other/fifo"), AtFlags::empty())?;
    if many > 0 {
        std::fs::create_dir(at.join("many"))?;
        std::fs::write(at.join("many/0"), noise(10_000))?;
        let name = |number: u32| at.join(format!("many/{number}"));
        // As many as this file system allows.
        let _ = (1..many).try_for_each(|number| std::fs::hard_link(name(0), name(number)));
    }
    Ok(())
}

fn special(path: &Path, kind: FileType, device: u64) -> Result<()> {
    fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device)
}

fn specials(at: &Path) -> std::io::Result<()> {
    special(&at.join("fifo"), FileType::Fifo, 0)?;
    special(&at.join("socket"), FileType::Socket, 0)?;
    special(&at.join("null"), FileType::CharacterDevice, fs::makedev(1, 3))?;
    // More than xfs stores.
    let _ =
        special(&at.join("large numbers"), FileType::CharacterDevice, fs::makedev(4000, 70_000));
    special(&at.join("disk"), FileType::BlockDevice, fs::makedev(7, 255))?;
    let symlink = at.join("symlink of another");
    std::os::unix::fs::symlink("fifo", &symlink)?;
    for name in ["fifo", "null", "symlink of another"] {
        std::os::unix::fs::lchown(at.join(name), Some(1000), Some(NOBODY_KNOWN))?;
    }
    Ok(())
}

fn modes(at: &Path) -> std::io::Result<()> {
    for mode in [0o000, 0o400, 0o644, 0o777, 0o2755, 0o4711, 0o6755, 0o7777] {
        for owner in [0, 1000, NOBODY_KNOWN] {
            let path = at.join(format!("{mode:o} of {owner}"));
            std::fs::write(&path, format!("{mode}"))?;
            std::os::unix::fs::chown(&path, Some(owner), Some(owner))?;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
        }
    }
    for mode in [0o1777, 0o2770, 0o555, 0o700] {
        let path = at.join(format!("folder {mode:o}"));
        std::fs::create_dir(&path)?;
        std::fs::write(path.join("in it"), b"")?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
    }
    Ok(())
}

/// As the kernel lays out lists of access: version 2, then tag, permissions and id of each.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set(path: &Path, name: &[u8], value: &[u8]) -> bool {
    fs::lsetxattr(path, OsStr::from_bytes(name), value, fs::XattrFlags::empty()).is_ok()
}

fn xattrs(at: &Path) -> std::io::Result<()> {
    const NONE: u32 = u32::MAX;
    let access = acl(&[
        (1, 6, NONE),
        (2, 4, 1000),
        (2, 6, NOBODY_KNOWN),
        (4, 4, NONE),
        (16, 6, NONE),
        (32, 0, NONE),
    ]);
    // struct vfs_cap_data, revision 2: cap_net_bind_service, permitted and effective.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let long = [b"user.".as_slice(), &[b'n'; 250]].concat();
    for name in ["file", "folder", "user's"] {
        let path = at.join(name);
        if name == "folder" {
            std::fs::create_dir(&path)?
        } else {
            std::fs::write(&path, name)?
        };
        set(&path, b"user.empty", b"");
        set(&path, b"user.\xff no text\n", b"\0\xff");
        set(&path, b"trusted.some", b"of root");
        set(&path, b"security.some", b"of a module");
        set(&path, b"system.posix_acl_access", &access);
        set(&path, &long, b"long name");
    }
    set(&at.join("file"), b"security.capability", &capability);
    set(&at.join("folder"), b"system.posix_acl_default", &access);
    std::os::unix::fs::chown(at.join("user's"), Some(1000), Some(1000))?;
    let large = at.join("large");
    std::fs::write(&large, b"")?;
    let _ =
        [65_536, 16_000, 3_900].iter().any(|length| set(&large, b"user.large", &noise(*length)));
    let several = at.join("several");
    std::fs::write(&several, b"")?;
    (0..40).for_each(|number| {
        set(&several, format!("user.{number}").as_bytes(), &noise(50));
    });
    std::os::unix::fs::symlink("file", at.join("symlink"))?;
    set(&at.join("symlink"), b"trusted.of a link", b"1");
    special(&at.join("fifo"), FileType::Fifo, 0)?;
    set(&at.join("fifo"), b"trusted.of a fifo", b"1");
    Ok(())
}

fn names(at: &Path) -> std::io::Result<()> {
    let longest = [b'l'; 255];
    let names: [&[u8]; 16] = [
        b"\xff\xfe no text",
        b"new\nline",
        b"\x01\x1b[31m control \x7f",
        &longest,
        b"-rf",
        b"--help",
        b"*",
        b"?[a]",
        b" ",
        b"\\",
        b"back\\slash \\xff",
        b"...",
        b"~",
        b"$HOME`id`",
        "gr\u{fc}n".as_bytes(),
        "gru\u{308}n".as_bytes(),
    ];
    for name in names {
        std::fs::write(at.join(OsStr::from_bytes(name)), name)?;
    }
    let folder = at.join(OsStr::from_bytes(b"folder \xff\n"));
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("in it"), b"1")
}

fn deep(at: &Path, depth: u32) -> std::io::Result<()> {
    let mut here = fs::open(at, OFlags::DIRECTORY, Mode::empty())?;
    for level in 0..depth {
        let name = format!("{level}");
        fs::mkdirat(&here, &*name, Mode::from_raw_mode(0o755))?;
        here = fs::openat(&here, &*name, OFlags::DIRECTORY, Mode::empty())?;
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let file = fs::openat(&here, "at the bottom", flags, Mode::from_raw_mode(0o644))?;
    File::from(file).write_all(b"here")
}

fn many(at: &Path, count: u32) -> std::io::Result<()> {
    let folder = fs::open(at, OFlags::DIRECTORY, Mode::empty())?;
    for number in 0..count {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        fs::openat(&folder, format!("{number}"), flags, Mode::from_raw_mode(0o644))?;
    }
    Ok(())
}

/// Ends of what file systems can store, and ends of what programs expect.
const TIMES: [(&str, i64, i64); 9] = [
    ("1901", -(1 << 31), 1),
    ("before 1901", -(1 << 31) - 1000, 1),
    ("1969", -1, 999_999_999),
    ("1970", 0, 0),
    ("2026", 1_790_000_000, 123_456_789),
    ("2038", (1 << 31) + 5, 5),
    ("2106", (1 << 32) + 5, 5),
    ("2446", (1 << 34) - (1 << 31) - 1, 999_999_999),
    ("3000", 32_503_680_000, 7),
];

fn times(at: &Path) -> std::io::Result<()> {
    for (name, secs, nanos) in TIMES {
        std::fs::write(at.join(name), name)?;
        std::os::unix::fs::symlink(name, at.join(format!("link {name}")))?;
        std::fs::create_dir(at.join(format!("folder {name}")))?;
        for path in [name, &format!("link {name}"), &format!("folder {name}")] {
            let time = Timespec { tv_sec: secs, tv_nsec: nanos };
            let times = Timestamps { last_access: time, last_modification: time };
            fs::utimensat(CWD, at.join(path), &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(())
}

/// Last: nothing can be changed in what is immutable.
fn flags(at: &Path) -> std::io::Result<()> {
    let pairs = [
        ("append", fs::IFlags::APPEND),
        ("immutable", fs::IFlags::IMMUTABLE),
        ("nodump", fs::IFlags::NODUMP),
        ("both", fs::IFlags::IMMUTABLE.union(fs::IFlags::NODUMP)),
        ("nocow", fs::IFlags::NOCOW),
        ("noatime", fs::IFlags::NOATIME),
    ];
    for (name, flags) in pairs {
        let (file, folder) = (at.join(name), at.join(format!("folder {name}")));
        std::fs::write(&file, b"")?;
        put_flags(&file, flags);
        // What stands against writing comes after the content, `nocow` before.
        if flags == fs::IFlags::NOCOW {
            std::fs::write(&file, name)?;
        }
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("in it"), name)?;
        put_flags(&folder, flags);
    }
    std::fs::hard_link(at.join("nodump"), at.join("nodump again"))
}

fn put_flags(path: &PathBuf, flags: fs::IFlags) {
    if let Ok(file) = File::open(path)
        && let Ok(now) = fs::ioctl_getflags(&file)
    {
        let _ = fs::ioctl_setflags(&file, now.union(flags)); // not on every file system
    }
}
