"""Pages, entries and what comes of them on a disk (docs/FORMAT.md, chapter 6)."""

import fcntl
import os
import stat
import struct
from dataclasses import dataclass

from wire import Damaged, Reader, need

LEAF, INNER, LIST = 1, 2, 3
FILE, DIRECTORY, SYMLINK, FIFO, SOCKET, CHARACTER, BLOCK = range(7)
NODES = {FIFO: stat.S_IFIFO, SOCKET: stat.S_IFSOCK, CHARACTER: stat.S_IFCHR, BLOCK: stat.S_IFBLK}
# Inode flags of the format, and what FS_IOC_SETFLAGS calls them.
FLAGS = {1: 0x10, 2: 0x20, 4: 0x40}
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602


def heads(record):
    """Kind, id and references of each page of a record."""
    reader = Reader(record.clear, "heads of pages")
    for _ in range(record.objects):
        kind, name, count = reader.u8(), reader.take(24), reader.u32()
        yield kind, name, [reader.take(24) for _ in range(count)]
    reader.end()


def names(record):
    """The ids of all objects of a record."""
    if record.kind == "pages":
        return [name for _, name, _ in heads(record)]
    need(len(record.clear) == 24 * record.objects, "ids of chunks")
    return [record.clear[at:at + 24] for at in range(0, len(record.clear), 24)]


class References:
    """References of a page by their codes."""

    def __init__(self, names):
        self.names, self.met = names, 0

    def get(self, code, is_page):
        position = code - 1
        if code == 0:
            position = self.met
            self.met += 1
        need(position < len(self.names), "reference")
        name = self.names[position]
        need(name[23] & 1 == is_page, "reference of the wrong type")
        return name

    def rest(self):
        return References(self.names[self.met:])

    def end(self):
        need(self.met == len(self.names), "a reference that no entry names")


@dataclass
class Attributes:
    kind: int
    mode: int
    uid: int
    gid: int
    user: bytes
    group: bytes
    file_system: int
    flags: int
    xattrs: list
    xattr_runs: list


@dataclass
class Entry:
    path: bytes
    attributes: Attributes
    size: int
    mtime: int
    inode: int
    since: int
    links: int
    rdev: int
    inline: bytes | None
    runs: list | None
    lists: list | None


def attributes(reader, references):
    first, mode, uid, gid = reader.u8(), reader.varint(), reader.varint(), reader.varint()
    kind = first & 15
    need(first < 64 and kind <= BLOCK and mode < 1 << 12, "attributes")
    user, group = reader.string(256), reader.string(256)
    file_system, flags = int.from_bytes(reader.take(8), "little"), reader.varint()
    stored = runs(reader, references) if first & 16 else []
    xattrs = [] if first & 16 else pairs(reader)
    if first & 32:
        extension(reader)
    return Attributes(kind, mode, uid, gid, user, group, file_system, flags, xattrs, stored)


def pairs(reader):
    """Extended attributes, in a set or in chunks of their own."""
    return [(reader.string(65_536), reader.string(65_536)) for _ in range(reader.count(16_384))]


def extension(reader):
    """What a later version added: it is passed over."""
    need(reader.string(4096), "an empty extension")


def end_of_page(reader):
    if reader.left():
        extension(reader)
    reader.end()


def runs(reader, references):
    """Length and chunk of each run; holes have none."""
    found = []
    for _ in range(reader.count(131_072)):
        value = reader.varint()
        length = value >> 1
        need(length, "an empty run")
        found.append((length, None if value & 1 else references.get(reader.varint(), 0)))
    return found


def sort_key(path):
    """`/` sorts below every other byte."""
    return [0 if byte == 0x2F else byte + 1 for byte in path]


def leaf(names, payload):
    """The entries of a leaf."""
    reader, references = Reader(payload, "leaf"), References(names)
    sets = [attributes(reader, references) for _ in range(reader.count(65_536))]
    references = references.rest()
    path, mtime, ctime, inode = b"", 0, 0, 0
    for _ in range(reader.count(65_536)):
        before, shared = path, reader.count(len(path))
        path = path[:shared] + reader.string()
        need(is_clean(path) and (not before or sort_key(before) < sort_key(path)), "path")
        tag, kind, size = reader.u8(), sets[reader.count(len(sets) - 1)], reader.varint()
        mtime, nanos = wrap(mtime + reader.signed()), reader.count(999_999_999)
        ctime, ctime_nanos = wrap(ctime + reader.signed()), reader.count(999_999_999)
        inode = (inode + reader.signed()) % (1 << 64)
        links = reader.varint() if tag & 8 else 1
        rdev = reader.varint() if tag & 16 else 0
        _status = reader.u8() if tag & 32 else 0
        # The time of birth, or ctime where none is told: with the inode it names a file.
        since = ctime * 10**9 + ctime_nanos - (reader.signed() if tag & 64 else 0)
        if tag & 128:
            extension(reader)
        content = [None, None, None]
        if tag & 7 == 1:
            content[0] = reader.string(65_536)
        elif tag & 7 == 2:
            content[1] = [(size, references.get(0, 0))]
        elif tag & 7 == 3:
            content[1] = runs(reader, references)
        elif tag & 7 == 4:
            count = reader.count(131_072)
            content[2] = [references.get(reader.varint(), 1) for _ in range(count)]
        else:
            need(tag & 7 == 0, "content of an entry")
        times = mtime * 10**9 + nanos, inode, since
        yield Entry(path, kind, size, *times, links, rdev, *content)
    references.end()
    end_of_page(reader)


def wrap(seconds):
    return (seconds + (1 << 63)) % (1 << 64) - (1 << 63)


def is_clean(path):
    return b"\0" not in path and all(name not in (b"", b".", b"..") for name in path.split(b"/"))


def entries(repository, name, level):
    """All entries below a page, in their order."""
    kind, names, payload = repository.page(name)
    if level == 0:
        need(kind == LEAF, "a leaf")
        yield from leaf(names, payload)
        return
    reader = Reader(payload, "inner page")
    need(kind == INNER and reader.u8() == level, "level of an inner page")
    need(reader.count(65_536) == len(names), "children of an inner page")
    path = b""
    for child in names:
        path = path[:reader.count(len(path))] + reader.string()
        _entries, _bytes, _newest = reader.varint(), reader.varint(), reader.signed()
        below = entries(repository, child, level - 1)
        first = next(below)
        need(first.path == path, "first path below an inner page")
        yield first
        yield from below
    end_of_page(reader)


def all_runs(repository, entry):
    if entry.lists is None:
        return entry.runs or []
    found = []
    for name in entry.lists:
        kind, names, payload = repository.page(name)
        need(kind == LIST, "a list page")
        reader, references = Reader(payload, "list page"), References(names)
        found += runs(reader, references)
        references.end()
        end_of_page(reader)
    return found


def write_file(repository, entry, path):
    with open(path, "xb") as file:
        if entry.inline is not None:
            file.write(entry.inline)
        for length, name in all_runs(repository, entry):
            if name is None:
                file.seek(length, os.SEEK_CUR)
                continue
            chunk = repository.chunk(name)
            need(len(chunk) == length, "length of a run")
            file.write(chunk)
        need(file.tell() == entry.size, f"size of {entry.path!r}")
        file.truncate()


def make(repository, entry, path):
    kind = entry.attributes.kind
    if kind == DIRECTORY:
        os.makedirs(path, exist_ok=True)
    elif kind == FILE:
        write_file(repository, entry, path)
    elif kind == SYMLINK:
        need(entry.inline is not None and len(entry.inline) == entry.size, "target of a symlink")
        os.symlink(entry.inline, path)
    else:
        os.mknod(path, NODES[kind] | 0o600, entry.rdev)


def all_xattrs(repository, told):
    if not told.xattr_runs:
        return told.xattrs
    reader = Reader(b"".join(repository.chunk(name) for _, name in told.xattr_runs), "attributes")
    found = pairs(reader)
    reader.end()
    return found


def dress(repository, entry, path):
    """Owner, attributes, mode, flags and times: in this order, as each spoils some before."""
    told = entry.attributes
    os.chown(path, told.uid, told.gid, follow_symlinks=False)
    for name, value in all_xattrs(repository, told):
        os.setxattr(path, name, value, follow_symlinks=False)
    if told.kind != SYMLINK:
        os.chmod(path, told.mode)
    os.utime(path, ns=(entry.mtime, entry.mtime), follow_symlinks=False)
    if told.flags and told.kind in (FILE, DIRECTORY):
        set_flags(path, told.flags)


def set_flags(path, told):
    wanted = sum(value for flag, value in FLAGS.items() if told & flag)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        now = struct.unpack("l", fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, bytes(8)))[0]
        fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, struct.pack("l", now | wanted))
    finally:
        os.close(descriptor)


def restore(repository, manifest, target):
    """Writes the tree of a snapshot below `target`; directories are dressed last, from below."""
    target, first_names, later = os.fsencode(target), {}, []
    os.makedirs(target, exist_ok=True)
    for entry in entries(repository, manifest.root, manifest.level):
        path = os.path.join(target, entry.path)
        told = entry.attributes
        key = (told.file_system, entry.inode, entry.since, entry.size, entry.mtime)
        is_shared = entry.links > 1 and told.kind != DIRECTORY and entry.inode
        if is_shared and key in first_names:
            os.link(first_names[key], path, follow_symlinks=False)
            continue
        make(repository, entry, path)
        if is_shared:
            first_names[key] = path
        if told.kind == DIRECTORY:
            later.append((entry, path))
        else:
            dress(repository, entry, path)
    for entry, path in reversed(later):
        dress(repository, entry, path)
