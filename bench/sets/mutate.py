"""Changes 1 % of the files of SMALL in place, another 1 % every time.

In place and never shorter, so that the pinned pages stay the file's pages. The n-th
change is the same on every machine that holds the same set; n is kept beside the set.
"""

import os
import random

from sets import datasets, trees
from settings import SEED, SETS

SHARE = 0.01
PATCH_BYTES = 64


def counter_path(name):
    return SETS / f"{name}.changes"


def changes_so_far(name):
    file = counter_path(name)
    return int(file.read_text()) if file.exists() else 0


def change(name, share=SHARE):
    """Changes `share` of the files; returns how many."""
    number = changes_so_far(name) + 1
    # Counted first: a change that was broken off must not be repeated over itself.
    counter_path(name).write_text(f"{number}\n")
    rng = random.Random(SEED + number)
    files = [file for file in trees.regular_files(datasets.path(name)) if changeable(file)]
    chosen = rng.sample(files, round(len(files) * share))
    for path, size in chosen:
        alter(path, size, rng)
    return len(chosen)


def changeable(file):
    """The zoo keeps its odd times and modes; an empty file has no page to alter."""
    path, size = file
    return size > 0 and f"{os.sep}zoo{os.sep}" not in path


def alter(path, size, rng):
    """Half of the files grow by a line, half get other bytes somewhere inside."""
    patch = rng.randbytes(PATCH_BYTES // 2).hex().encode()
    append = rng.random() < 0.5 or size < PATCH_BYTES
    offset = size if append else rng.randrange(size - PATCH_BYTES + 1)
    with open(path, "r+b", buffering=0) as file:
        file.seek(offset)
        file.write(patch)
