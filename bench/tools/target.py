"""Where restores go: a new file system for each, on a loop device.

ext4 keeps a deleted inode back for one to five minutes, and whoever creates files steps over
all of them: after one restore has been deleted the next one takes up to five times as long.
On a new file system nothing was ever deleted, and all tools find the same one.
"""

import os
import shutil
import subprocess

from settings import GIB, TARGETS, WORK

IMAGE = WORK / "target.img"
MOUNT = WORK / "target"
# Any set fits, and the largest is 5.5 GB. A larger one once took the repositories' space.
SIZE = 8 * GIB
SPARE = 5 * GIB


def is_made():
    """Whether it can be made here, and nobody asked for another place."""
    return TARGETS == WORK and os.geteuid() == 0 and bool(shutil.which("mkfs.ext4"))


def remake():
    """An empty file system at MOUNT."""
    release()
    MOUNT.mkdir(parents=True, exist_ok=True)
    if not IMAGE.exists():
        allocate()
    # Blocks stay allocated from one to the next, and nothing is initialized in the background.
    run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", IMAGE)
    device = run("losetup", "--find", "--show", "--direct-io=on", IMAGE).strip()
    run("mount", device, MOUNT)
    run("losetup", "--detach", device)      # when it is unmounted


def allocate():
    """All blocks at once: an image that grew with each restore once filled the whole disk."""
    free = shutil.disk_usage(IMAGE.parent).free
    if SIZE + SPARE > free:
        raise OSError(f"{free // GIB} GiB are free: too few to restore into {IMAGE.parent}")
    with open(IMAGE, "wb") as image:
        os.posix_fallocate(image.fileno(), 0, SIZE)


def release():
    """Unmounts it, and gives its memory back."""
    if os.path.ismount(MOUNT):
        run("umount", MOUNT)


def remove():
    release()
    IMAGE.unlink(missing_ok=True)


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
