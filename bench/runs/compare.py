"""Compares a restored tree with its source: content and everything `ls -l` and more show.

Returns differences as sentences; an empty list means equal.
"""

import os
import stat
from pathlib import Path

from sets import trees

MAX_REPORTED = 20
READ_BYTES = 2**20
HOLE_SLACK = 2               # a file is sparse when it takes less than half its size


def restored_root(target, source):
    """Some tools restore below the target, some rebuild the whole path there."""
    for candidate in (target / source.relative_to("/"), target / source.name):
        if candidate.is_dir():
            return candidate
    return target


def differences(source, restored):
    expected, found = names(source), names(restored)
    problems = [f"missing: {name}" for name in sorted(expected - found)]
    problems += [f"not in the source: {name}" for name in sorted(found - expected)]
    links = {}
    for name in sorted(expected & found):
        problems += differ(source / name, restored / name, name, links)
        if len(problems) > MAX_REPORTED:
            return problems[:MAX_REPORTED] + ["and more"]
    return problems


def names(root):
    return {os.path.relpath(e.path, root) for e in trees.walk(root)} | {"."}


def differ(a, b, name, links):
    left, right = a.lstat(), b.lstat()
    found = [f"{name}: {what} {x!r} became {y!r}"
             for what, x, y in zip(FACTS, facts(a, left), facts(b, right)) if x != y]
    if left.st_nlink > 1 and not stat.S_ISDIR(left.st_mode):
        # The n names of one inode must again be names of one inode.
        if links.setdefault(left.st_ino, right.st_ino) != right.st_ino:
            found.append(f"{name}: no hard link any more")
    if stat.S_ISREG(left.st_mode) and stat.S_ISREG(right.st_mode) and not same(a, b):
        found.append(f"{name}: content differs")
    return found


FACTS = ("mode", "uid", "gid", "mtime_ns", "size", "links", "target", "xattrs", "sparse")


def facts(path, info):
    is_file = stat.S_ISREG(info.st_mode)
    is_link = stat.S_ISLNK(info.st_mode)
    return (oct(info.st_mode), info.st_uid, info.st_gid, info.st_mtime_ns,
            info.st_size if is_file else None,
            None if stat.S_ISDIR(info.st_mode) else info.st_nlink,
            os.readlink(path) if is_link else None,
            attributes(path), is_file and sparse(info))


def attributes(path):
    """ACLs are xattrs of the system namespace: this covers them too."""
    return {name: os.getxattr(path, name, follow_symlinks=False)
            for name in os.listxattr(path, follow_symlinks=False)}


def sparse(info):
    # Small files may take less than their size for other reasons (inline data).
    return info.st_size > READ_BYTES and info.st_blocks * 512 * HOLE_SLACK < info.st_size


def same(a, b):
    with open(a, "rb", buffering=0) as left, open(b, "rb", buffering=0) as right:
        while True:
            block = left.read(READ_BYTES)
            if block != right.read(READ_BYTES):
                return False
            if not block:
                return True


def check(source, target):
    return differences(Path(source), restored_root(Path(target), Path(source)))
