"""A tree of millions of objects on a file system of its own: time and memory of each command, from a cold disk.

    millions.py                          28 million objects, as many as the first seed of this project had
    millions.py --objects 1000000        fewer
    millions.py --out results/DATE-millions

Nearly all files are empty (sets/tree5m.py): what is measured is the cost of an object, not of its bytes. The tree lies
on an ext4 in an image of some 15 GiB for 28 million objects. Each command begins with caches dropped.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from runs import machine
from sets import tree5m
from settings import GIB, ICECORE_BIN, MIB, WORK
from tools import measure

FOLDER = WORK / "millions"
IMAGE, TREE = FOLDER / "image", FOLDER / "tree"
REPOSITORY, TARGET = FOLDER / "repository", FOLDER / "target"
# Of the image, which has holes: inodes of 256 bytes, and a block for each directory and each file with content.
BYTES_PER_OBJECT = 700
CHANGED_ONE_IN = 1000


def main():
    arguments = parse()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        make(arguments.objects)
        rows = [row(*step) for step in steps(arguments.objects)]
    finally:
        subprocess.run(["umount", "-q", TREE], check=False)
        shutil.rmtree(FOLDER, ignore_errors=True)
    show(arguments, rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=28_000_000)
    parser.add_argument("--out", type=Path, help="results go to OUT.md and OUT.json")
    return parser.parse_args()


def make(objects):
    """A file system with a tree on it."""
    size = objects * BYTES_PER_OBJECT + GIB
    if shutil.disk_usage(FOLDER).free < size + 5 * GIB:
        sys.exit(f"bench: {size // GIB} GiB and some for the repository are needed in {FOLDER}")
    with open(IMAGE, "wb") as image:
        image.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-N", str(objects + objects // 10 + 100_000), IMAGE], check=True)
    TREE.mkdir()
    subprocess.run(["mount", "-o", "loop,noatime", IMAGE, TREE], check=True)
    print(f"bench: making {objects:,} objects", file=sys.stderr, flush=True)
    (TREE / "data").mkdir()
    tree5m.ENTRIES = objects
    tree5m.make(TREE / "data")


def steps(objects):
    """Name and line of each step. What one changes the next one sees."""
    icecore = f"{ICECORE_BIN} --repo {REPOSITORY}"
    folder = TREE / "data" / "top001"
    yield "`find -printf`", f"find {TREE}/data -printf '%s %T@ %m %i\\n' >/dev/null"
    subprocess.run(["bash", "-c", f"{icecore} init"], env=environment(), check=True)
    yield "first backup", f"{icecore} backup {TREE}/data"
    yield "second, nothing changed", f"{icecore} backup {TREE}/data"
    change(objects)
    yield f"third, one in {CHANGED_ONE_IN} changed", f"{icecore} backup {TREE}/data"
    yield "restore of one folder of 500", f"{icecore} restore latest:{folder} --target {TARGET}"
    same = subprocess.run(["diff", "-r", "--no-dereference", folder, TARGET], check=False)
    if same.returncode != 0:
        sys.exit("bench: what was restored is not what was backed up")
    yield "`ls` of that folder", f"{icecore} ls latest:{folder} --recursive >/dev/null"
    yield "`check`", f"{icecore} check"
    yield "`check --read-data`", f"{icecore} check --read-data"


def change(objects):
    """Writes into one file of so many, each in another directory."""
    left = objects // CHANGED_ONE_IN
    for folder, _, files in os.walk(TREE / "data"):
        if files and left:
            with open(os.path.join(folder, files[0]), "ab") as file:
                file.write(b"changed")
            left -= 1


def environment():
    return {**os.environ, "ICECORE_PASSWORD": "a password of the benchmark", "HOME": str(FOLDER),
            "XDG_CACHE_HOME": str(FOLDER / "cache")}


def row(name, line):
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    with open(FOLDER / "log", "a+b") as log:
        figures = measure.run(line, environment(), log, {})
        if figures["exit"] != 0:
            log.seek(0)
            sys.exit(f"bench: {line} ended with {figures['exit']}\n{log.read().decode()[-2000:]}")
    # As it would be typed: where this machine has its files is nobody's business.
    shown = line.replace(str(ICECORE_BIN), "icecore").replace(str(FOLDER), "FOLDER")
    figures |= {"name": name, "line": shown, "repository_mib": round(size_of(REPOSITORY) / MIB, 1)}
    print(f"{name}: {figures}", file=sys.stderr, flush=True)
    return figures


def size_of(folder):
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def show(arguments, rows):
    facts = {"objects": arguments.objects, "commit": machine.commit(), "machine": machine.describe(), "rows": rows}
    lines = [f"# {arguments.objects:,} objects on an ext4, caches dropped before each command", "",
             f"Commit {facts['commit']}; `bench/millions.py --objects {arguments.objects}`.", "",
             "| command | seconds | objects a second | peak, MiB | processor, s | of others, s | read, MiB |"
             " repository, MiB |", "|---|---|---|---|---|---|---|---|"]
    for one in rows:
        rate = f"{arguments.objects / one['wall_s']:,.0f}" if is_of_all(one["name"]) else "—"
        lines.append(f"| {one['name']} | {one['wall_s']:.1f} | {rate} | {one['peak_mib']:.0f} |"
                     f" {one['user_s'] + one['system_s']:.1f} | {one['foreign_cpu_s']:.0f} | {one['read_mib']:.0f} |"
                     f" {one['repository_mib']:.0f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.with_suffix(".md").write_text(text)
        arguments.out.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")


def is_of_all(name):
    """Whether a step looks at every object."""
    return "folder" not in name


if __name__ == "__main__":
    main()
