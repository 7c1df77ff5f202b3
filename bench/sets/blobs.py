"""MIDDLE, LARGE and the VM-like image: generated files, the same from the same seed."""

import random

from sets import textlike, trees
from settings import GIB, KIB, MIB, SEED, SETS

TEXT_FILE_ENDING = ".rst"    # prose with some code

VM_BYTES = 2 * GIB
VM_GENERATIONS = 4
VM_FREE_SHARE = 0.25          # never-written space of the disk: zeros
VM_CHANGED_BYTES = 64 * MIB   # per generation: 3 % of the disk
VM_CHANGE_MIN, VM_CHANGE_MAX = 4 * KIB, MIB
VM_SECTOR = 4 * KIB           # file systems place files at multiples of this


def text_pool():
    python = SETS / "small" / "python3.11"
    names = [name for name, _ in trees.regular_files(python)
             if name.endswith(TEXT_FILE_ENDING)]
    return textlike.line_pool(textlike.source_words(names))


def make_middle(folder):
    """512 MiB each of files of 100 KiB, 1 MiB and 10 MiB."""
    pool, rng = text_pool(), random.Random(SEED + 1)
    for label, size in (("100k", 100 * KIB), ("1m", MIB), ("10m", 10 * MIB)):
        for number in range(512 * MIB // size):
            # 100 files a directory, as people have them.
            target = folder / label / f"{number // 100:03}"
            target.mkdir(parents=True, exist_ok=True)
            textlike.write(target / f"{number:05}.txt", size, pool, rng)


def make_large(folder):
    pool, rng = text_pool(), random.Random(SEED + 2)
    for number in range(4):
        textlike.write(folder / f"text{number}", GIB, pool, rng)
    textlike.write_random(folder / "random", GIB, rng)


def make_vm(folder):
    """gen1 … gen4: a disk image, each with scattered writes over the one before."""
    rng = random.Random(SEED + 3)
    image, spare = vm_image(rng)
    for number in range(1, VM_GENERATIONS + 1):
        if number > 1:
            scatter_writes(image, spare, rng)
        target = folder / f"gen{number}"
        target.mkdir()
        (target / "disk.img").write_bytes(image)
    return {"changed_bytes_per_generation": VM_CHANGED_BYTES}


def vm_image(rng):
    """Real files laid out sector by sector between runs of zeros, and spare content."""
    names = [name for name, size in trees.regular_files(SETS / "small") if size]
    rng.shuffle(names)
    image = bytearray(VM_BYTES)
    position, names = fill(image, names, rng)
    spare = bytearray(VM_CHANGED_BYTES * 2)
    fill(spare, names, None)
    return image, spare


def fill(image, names, rng):
    """Returns where the content ends and the names that were not used."""
    position = 0
    for used, name in enumerate(names):
        with open(name, "rb") as file:
            content = file.read()
        if position + len(content) > len(image):
            return position, names[used:]
        image[position:position + len(content)] = content
        position += -(-len(content) // VM_SECTOR) * VM_SECTOR
        if rng and rng.random() < 0.001:
            position += free_run(rng)
    return position, []


def free_run(rng):
    """Mean length such that VM_FREE_SHARE of the disk is free (mean file: 16 KiB)."""
    mean = VM_FREE_SHARE / (1 - VM_FREE_SHARE) * 20 * KIB / 0.001
    return int(rng.uniform(0, 2 * mean)) // VM_SECTOR * VM_SECTOR


def scatter_writes(image, spare, rng):
    """Writes of 4 KiB to 1 MiB, small ones more often, at random sectors."""
    left = VM_CHANGED_BYTES
    while left > 0:
        size = int(VM_CHANGE_MIN * (VM_CHANGE_MAX / VM_CHANGE_MIN) ** rng.random())
        size = -(-size // VM_SECTOR) * VM_SECTOR
        target = rng.randrange((len(image) - size) // VM_SECTOR) * VM_SECTOR
        source = rng.randrange((len(spare) - size) // VM_SECTOR) * VM_SECTOR
        image[target:target + size] = spare[source:source + size]
        left -= size
