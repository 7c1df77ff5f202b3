"""A file system in user space that lies: to see that `auto` does not believe it, and that nothing is lost on it.

    python3 proof/liars/liar.py KIND BACKING MOUNT

KIND is one of
    refuses   writes with O_DIRECT end with EINVAL
    buffers   takes O_DIRECT, and buffers
    slow      30 ms for each write, buffers
    bare      no fallocate, no fsync of a directory (EINVAL), no rename that refuses to replace
It runs until it is unmounted. It needs fusepy (Debian: python3-fusepy) and root or fusermount.
"""

import errno
import os
import sys
import time

from fusepy import FUSE, FuseOSError, Operations

SLOW_SECS = 0.03


class Liar(Operations):
    """Hands everything on to the directory `backing`, but for its lie."""

    use_ns = True

    def __init__(self, kind, backing):
        self.kind, self.backing = kind, backing

    def __call__(self, name, path, *rest):
        try:
            return getattr(self, name)(self.backing + path, *rest)
        except OSError as error:
            raise FuseOSError(error.errno) from error

    def getattr(self, path, handle=None):
        found = os.lstat(path) if handle is None else os.fstat(handle.fh)
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino")
        times = {name: getattr(found, name + "_ns") for name in ("st_atime", "st_mtime", "st_ctime")}
        return {**{name: getattr(found, name) for name in names}, **times}

    def statfs(self, path):
        found = os.statvfs(path)
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize", "f_namemax")
        return {name: getattr(found, name) for name in names}

    def readdir(self, path, _handle):
        return [".", "..", *os.listdir(path)]

    def readlink(self, path):
        return os.readlink(path)

    def mkdir(self, path, mode):
        return os.mkdir(path, mode)

    def rmdir(self, path):
        return os.rmdir(path)

    def unlink(self, path):
        return os.unlink(path)

    def symlink(self, path, target):
        return os.symlink(target, path)

    def link(self, path, target):
        return os.link(self.backing + target, path)

    def rename(self, path, new):
        return os.rename(path, self.backing + new)

    def chmod(self, path, mode):
        return os.chmod(path, mode)

    def chown(self, path, user, group):
        return os.lchown(path, user, group)

    def utimens(self, path, times=None):
        return os.utime(path, ns=times, follow_symlinks=False)

    def truncate(self, path, length, handle=None):
        return os.truncate(path, length) if handle is None else os.ftruncate(handle.fh, length)

    def create(self, path, mode, handle):
        handle.fh = os.open(path, os.O_RDWR | os.O_CREAT | (handle.flags & os.O_EXCL), mode)
        return 0

    def open(self, path, handle):
        kept = os.O_ACCMODE | os.O_APPEND | os.O_TRUNC | os.O_NOFOLLOW
        handle.fh = os.open(path, handle.flags & kept)
        return 0

    def read(self, _path, length, offset, handle):
        return os.pread(handle.fh, length, offset)

    def write(self, _path, data, offset, handle):
        if self.kind == "refuses" and handle.flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "no direct writes")
        if self.kind == "slow":
            time.sleep(SLOW_SECS)
        return os.pwrite(handle.fh, data, offset)

    def flush(self, _path, _handle):
        return 0

    def fsync(self, _path, datasync, handle):
        return os.fdatasync(handle.fh) if datasync else os.fsync(handle.fh)

    def fsyncdir(self, path, _datasync, _handle):
        if self.kind == "bare":
            raise OSError(errno.EINVAL, "no sync of directories")
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def release(self, _path, handle):
        return os.close(handle.fh)


def main():
    kinds = ("refuses", "buffers", "slow", "bare")
    if len(sys.argv) != 4 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    kind, backing, mount = sys.argv[1:]
    liar = Liar(kind, os.path.abspath(backing))
    FUSE(liar, mount, foreground=True, raw_fi=True, big_writes=True, max_write=131072, default_permissions=True)


if __name__ == "__main__":
    main()
