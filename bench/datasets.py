"""The data sets: made once under $BENCH_DIR, described by a manifest, kept.

A set is complete when its manifest exists: it is made in a folder with another
name and renamed, so a broken-off run never leaves half a set behind.
"""

import json
import os
import shutil
import sys

#import blobs
import sourcesets
#import tree5m
from settings import SETS

MAKERS = {
    "small": sourcesets.make_small,
#    "middle": blobs.make_middle,
#    "large": blobs.make_large,
    "releases": sourcesets.make_releases,
#    "vm": blobs.make_vm,
#    "tree5m": tree5m.make,
}
# Words and file contents of the generated sets are drawn from SMALL.
NEEDS_SMALL = {"middle", "large", "vm"}
# Generations that are backed up one after another into one repository.
SERIES = {"releases", "vm"}
ALIASES = {"versions": ["releases", "vm"]}


def expand(names):
    """`versions` is two series; both are measured by themselves."""
    return [real for name in names for real in ALIASES.get(name, [name])]


def path(name):
    return SETS / name


def manifest_path(name):
    return SETS / f"{name}.json"


def manifest(name):
    file = manifest_path(name)
    return json.loads(file.read_text()) if file.exists() else None


def ensure(name):
    """Makes the set unless it is there; returns its manifest."""
    if manifest(name):
        return manifest(name)
    if name in NEEDS_SMALL:
        ensure("small")
    print(f"bench: making data set {name}", file=sys.stderr, flush=True)
    unfinished = SETS / f"{name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    facts = MAKERS[name](unfinished) or {}
    shutil.rmtree(path(name), ignore_errors=True)
    unfinished.rename(path(name))
    return write_manifest(name, facts)


def write_manifest(name, facts):
    facts = {"set": name, **measure(path(name)), **facts}
    temporary = manifest_path(name).with_suffix(".tmp")
    temporary.write_text(json.dumps(facts, indent=1) + "\n")
    temporary.rename(manifest_path(name))
    return facts


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


def generations(name):
    return sorted(path(name).glob("gen*"))


if __name__ == "__main__":
    for wanted in expand(sys.argv[1:] or ["small", "middle", "large", "versions"]):
        print(json.dumps(ensure(wanted), indent=1))
