"""Walking a tree: counting it, listing its regular files."""

import os


def measure(folder):
    """Counts names, not inodes: what a tree walk meets."""
    facts = {"files": 0, "directories": 1, "symlinks": 0, "other": 0, "bytes": 0}
    for entry in walk(folder):
        if entry.is_symlink():
            facts["symlinks"] += 1
        elif entry.is_dir():
            facts["directories"] += 1
        elif entry.is_file():
            facts["files"] += 1
            facts["bytes"] += entry.stat().st_size
        else:
            facts["other"] += 1
    return facts


def walk(folder):
    """Every entry below the folder, depth first, without recursion limits."""
    pending = [os.fspath(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def regular_files(folder):
    """(path, size) of all regular files, sorted: the order everything is seeded by."""
    return sorted((e.path, e.stat(follow_symlinks=False).st_size) for e in walk(folder)
                  if e.is_file(follow_symlinks=False))
