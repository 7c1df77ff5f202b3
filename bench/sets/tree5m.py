"""TREE5M: five million entries, nearly all empty, to measure memory and walks.

Made only when asked for: it takes some ten minutes and 5 million inodes.
"""

import multiprocessing
import os
import random

from settings import SEED

ENTRIES = 5_000_000
FILES_PER_DIRECTORY = 24      # about the mean of home directories and source trees
TOPS = 500
TINY_SHARE = 0.02             # the others are empty: a tiny file costs a whole block
STEMS = ["index", "report", "IMG", "test_case", "module", "data", "notes", "invoice"]
ENDINGS = ["txt", "rs", "json", "jpg", "log", "py", "html", "bin"]


def make(folder):
    free = os.statvfs(folder).f_favail
    if free < ENTRIES * 1.1:
        raise SystemExit(f"bench: tree5m needs {ENTRIES} inodes, {free} are free")
    jobs = [(os.path.join(folder, f"top{n:03}"), SEED + n) for n in range(TOPS)]
    with multiprocessing.Pool() as pool:
        entries = sum(pool.starmap(make_top, jobs))
    return {"entries": entries}


def make_top(folder, seed):
    """One tree of ENTRIES / TOPS entries, directories nested two to five deep."""
    rng = random.Random(seed)
    os.mkdir(folder)
    made, open_directories = 1, [folder]
    while made < ENTRIES // TOPS:
        parent = rng.choice(open_directories[-40:])
        target = f"{parent}/{rng.choice(STEMS)}-{made}"
        os.mkdir(target)
        open_directories.append(target)
        count = min(int(rng.expovariate(1 / FILES_PER_DIRECTORY)) + 1,
                    ENTRIES // TOPS - made)
        for number in range(count):
            make_file(target, number, rng)
        made += 1 + count
    return made


def make_file(folder, number, rng):
    name = f"{folder}/{rng.choice(STEMS)}_{number:04}.{rng.choice(ENDINGS)}"
    with open(name, "xb") as file:
        if rng.random() < TINY_SHARE:
            file.write(rng.randbytes(rng.randint(1, 400)))
