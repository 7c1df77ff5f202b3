"""The data sets: made once under $BENCH_DIR, described by a manifest, kept.

A set is complete when its manifest exists: it is made in a folder with another
name and renamed, so a broken-off run never leaves half a set behind.
"""

import json
import shutil
import sys
from contextlib import contextmanager

from sets import blobs, sourcesets, tree5m, trees
from settings import SETS

MAKERS = {
    "small": sourcesets.make_small,
    "middle": blobs.make_middle,
    "large": blobs.make_large,
    "releases": sourcesets.make_releases,
    "vm": blobs.make_vm,
    "tree5m": tree5m.make,
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
    if name not in MAKERS:
        sys.exit(f"bench: no data set {name}; there are {', '.join(MAKERS)}")
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
    facts = {"set": name, **trees.measure(path(name)), **facts}
    temporary = manifest_path(name).with_suffix(".tmp")
    temporary.write_text(json.dumps(facts, indent=1) + "\n")
    temporary.rename(manifest_path(name))
    return facts


def generations(name):
    """gen1, gen2, …; puts back what a broken-off run left at `current`."""
    current = path(name) / "current"
    if current.exists():
        numbers = {int(p.name[3:]) for p in path(name).glob("gen*")}
        missing = min(set(range(1, len(numbers) + 2)) - numbers)
        current.rename(path(name) / f"gen{missing}")
    return sorted(path(name).glob("gen*"))


@contextmanager
def as_current(folder):
    """Renames a generation to the path at which all of them are backed up."""
    current = folder.parent / "current"
    folder.rename(current)
    try:
        yield current
    finally:
        current.rename(folder)


if __name__ == "__main__":
    for wanted in expand(sys.argv[1:] or ["small", "middle", "large", "versions"]):
        print(json.dumps(ensure(wanted), indent=1))
