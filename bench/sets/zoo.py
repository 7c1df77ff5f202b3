"""One of every kind of object, so that a restore of SMALL has something to get wrong.

Source trees hold plain files, directories and symlinks only. A tool that drops
hard links, holes, ACLs or nanoseconds would pass unnoticed without these.
"""

import os
import struct

from settings import MIB

NANOSECOND_TIME = 1_600_000_000_123_456_789
OTHER_OWNER = 12345


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    make_links(folder)
    make_holes(folder / "sparse")
    make_attributes(folder)
    os.mkfifo(folder / "fifo")
    (folder / "empty").touch()
    (folder / "empty-directory").mkdir(mode=0o2750)
    (folder / "ünïcode \n name").write_text("a name with a line break\n")
    for path in [*folder.iterdir(), folder]:
        os.utime(path, ns=(NANOSECOND_TIME, NANOSECOND_TIME), follow_symlinks=False)


def make_links(folder):
    (folder / "first-name").write_text("one file, three names\n")
    os.link(folder / "first-name", folder / "second-name")
    os.link(folder / "first-name", folder / "third-name")
    os.symlink("first-name", folder / "symlink")
    os.symlink("nowhere/at/all", folder / "dangling")


def make_holes(path):
    with open(path, "wb") as file:
        file.write(b"head")
        file.seek(8 * MIB)
        file.write(b"middle")
        file.truncate(16 * MIB)


def make_attributes(folder):
    path = folder / "attributes"
    path.write_text("xattr, ACL, setuid, another owner\n")
    os.setxattr(path, "user.bench", b"\x00value\xff")
    if os.geteuid() == 0:
        os.chown(path, OTHER_OWNER, OTHER_OWNER)
    path.chmod(0o4711)
    os.setxattr(path, "system.posix_acl_access", access_list())


def access_list():
    """u::rwx, u:12345:r--, g::--x, mask::r-x, o::--x in the kernel's layout."""
    undefined = 0xFFFFFFFF
    entries = [(0x01, 7, undefined), (0x02, 4, OTHER_OWNER), (0x04, 1, undefined),
               (0x10, 5, undefined), (0x20, 1, undefined)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
