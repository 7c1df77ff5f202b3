"""Keeps a data set in the page cache: mmap and mlock in helper processes.

Reading everything beforehand is not enough: on virtual machines the kernel may give
unused page cache back to the host within a minute. A locked page stays.
"""

import ctypes
import mmap
import os
import resource
import subprocess
import sys

from sets import trees
from settings import HERE

# Each file is one mapping, and a process may have vm.max_map_count (65,530) of them.
FILES_PER_PROCESS = 50_000

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                      ctypes.c_int, ctypes.c_long]
libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MAP_FAILED = ctypes.c_void_p(-1).value


class Pinned:
    """`with Pinned(folder):` the files below the folder stay in memory."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.helpers = []

    def __enter__(self):
        names = [name for name, size in trees.regular_files(self.folder) if size]
        for start in range(0, len(names), FILES_PER_PROCESS):
            self.helpers.append(start_helper(names[start:start + FILES_PER_PROCESS]))
        locked = [helper.stdout.readline() for helper in self.helpers]
        if b"pinned\n" not in locked or set(locked) != {b"pinned\n"}:
            print(f"bench: {self.folder} is only partly pinned; see ulimit -l",
                  file=sys.stderr)
        return self

    def __exit__(self, *_):
        for helper in self.helpers:
            helper.stdin.close()
        for helper in self.helpers:
            helper.wait()
        self.helpers = []


def start_helper(names):
    """A helper ends by itself when its standard input is closed, even by a crash."""
    helper = subprocess.Popen([sys.executable, "-m", "tools.pin"], cwd=HERE,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    helper.stdin.write(b"\0".join(os.fsencode(name) for name in names) + b"\0\0")
    helper.stdin.flush()
    return helper


def raise_limit():
    """Root may lock as much as there is; others as much as the hard limit allows."""
    infinite = resource.RLIM_INFINITY
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (infinite, infinite))
    except (ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))


def pin(name):
    """Maps and locks one file; False when the system refuses."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOATIME)
    try:
        size = os.fstat(descriptor).st_size
        if blocks_missing(descriptor, size):
            return True
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        return address != MAP_FAILED and libc.mlock(address, size) == 0
    finally:
        os.close(descriptor)


def blocks_missing(descriptor, size):
    """A file with holes is not worth memory: reading a hole costs no disk."""
    return os.fstat(descriptor).st_blocks * 512 < size // 2


def read_names(stream):
    """Names end in NUL, the list in two."""
    data = bytearray()
    while not data.endswith(b"\0\0"):
        piece = os.read(stream, 2**20)
        if not piece:
            # Whoever wanted it has gone while naming the files.
            sys.exit(1)
        data += piece
    return bytes(data).rstrip(b"\0").split(b"\0")


def main():
    raise_limit()
    names = read_names(0)
    refused = sum(not pin(name) for name in names)
    print("pinned" if not refused else f"refused {refused} of {len(names)}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
