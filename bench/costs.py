"""What each command costs per object, chunk, container and snapshot: memory, system calls, bytes read and written.

    costs.py                       a table as Markdown
    costs.py --out results/costs-2026-11-23

Each command runs on two sets that differ in one number only. The cost per unit is the difference
between the two runs divided by the difference of that number; the rest is the fixed cost. Times
are not measured: counts and memory do not depend on how busy the machine is.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from runs import machine
from settings import ICECORE_BIN, MIB, WORK

FOLDER = WORK / "costs"
HOME = FOLDER / "home"
TARGET = FOLDER / "target"
REPOSITORY = FOLDER / "repository"
# Sizes of the two sets of each kind.
FILES = (10_000, 50_000)
LARGE_MIB = (256, 1280)
SNAPSHOTS = (20, 220)
# What was written a moment ago is read again by the next backup: the sets are let rest.
REST_SECS = 65
FILES_PER_FOLDER = 100
FILE_BYTES = 2048
MEASURES = ("peak", "calls", "read", "written")
HEADINGS = {"peak": "memory, bytes", "calls": "system calls", "read": "bytes read",
            "written": "bytes written"}
CHECK = ["check"]
COMMANDS = {
    "backup, first": ["backup", "SOURCE"],
    "backup, nothing changed": ["backup", "SOURCE"],
    "restore": ["restore", "latest", "--target", str(TARGET)],
    "check": CHECK,
    "check --read-data": [*CHECK, "--read-data"],
    "ls latest": ["ls", "latest", "--recursive"],
    "snapshots": ["snapshots"],
    "forget": ["forget", "--keep-last", "1"],
    "reclaim": ["reclaim"],
    "rebuild": ["rebuild"],
}
OF_SNAPSHOTS = ["backup, nothing changed", "check", "snapshots", "forget", "reclaim", "rebuild"]


@dataclass
class Kind:
    """One number that two runs differ in."""
    unit: str
    sizes: tuple
    make: callable
    commands: list


def main():
    arguments = parse()
    kinds = [Kind("small file", FILES, small_files, list(COMMANDS)),
             Kind("MiB of large files", LARGE_MIB, large_file, list(COMMANDS)),
             Kind("snapshot", SNAPSHOTS, many_snapshots, OF_SNAPSHOTS)]
    try:
        rows = [row for kind in kinds for row in measured(kind)]
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    show(arguments, rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="results go to OUT.md and OUT.json")
    return parser.parse_args()


def measured(kind):
    """{command, unit, and fixed cost and cost per unit of each measure} of every command."""
    runs = {}
    for size in kind.sizes:
        fresh()
        source = kind.make(size)
        time.sleep(REST_SECS)
        for command in kind.commands:
            runs[command, size] = cost(command, source)
            print(f"{kind.unit} {size}: {command}: {runs[command, size]}", file=sys.stderr, flush=True)
    few, many = kind.sizes
    return [row(kind, command, runs[command, few], runs[command, many]) for command in kind.commands]


def row(kind, command, few, many):
    figures = {"command": command, "unit": kind.unit}
    for measure in MEASURES:
        each = (many[measure] - few[measure]) / (kind.sizes[1] - kind.sizes[0])
        figures[measure] = {"fixed": few[measure] - each * kind.sizes[0], "each": each}
    return figures


def fresh():
    shutil.rmtree(FOLDER, ignore_errors=True)
    HOME.mkdir(parents=True)
    icecore("init")


def small_files(count):
    source = FOLDER / "source"
    content = random.Random(count)
    for number in range(count):
        folder = source / f"{number // FILES_PER_FOLDER:05}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:08}").write_bytes(content.randbytes(FILE_BYTES))
    return source


def large_file(mebibytes):
    source = FOLDER / "source"
    source.mkdir(parents=True)
    content = random.Random(mebibytes)
    with open(source / "large", "wb") as file:
        for _ in range(mebibytes):
            file.write(content.randbytes(MIB))
    return source


def many_snapshots(count):
    """Of a tree in which one file changes each time. What a first backup costs is known from the other kinds."""
    source = small_files(FILES_PER_FOLDER)
    for number in range(count):
        (source / "00000" / "changes").write_bytes(random.Random(number).randbytes(FILE_BYTES))
        icecore("backup", str(source))
    return source


def cost(command, source):
    words = [str(source) if word == "SOURCE" else word for word in COMMANDS[command]]
    keep()
    calls = counted(words, source, command)
    back()
    return {**calls, **weighed(words, source, command)}


def counted(words, source, command):
    """System calls of one run, under strace."""
    summary = FOLDER / "strace"
    run(["strace", "-f", "-qq", "-c", "-o", str(summary), *line(words)], command)
    fields = [text.split() for text in summary.read_text().splitlines()]
    calls = [int(field[3]) for field in fields if len(field) >= 5 and field[3].isdigit() and field[-1] != "total"]
    return {"calls": sum(calls)}


def weighed(words, source, command):
    """Peak memory, and bytes that went through system calls, of another one."""
    weights = FOLDER / "weights"
    shell = f'"$@"; code=$?; cat /proc/$$/io > {weights}; exit $code'
    timed = ["/usr/bin/time", "-f", "%M", "-o", str(FOLDER / "peak"), *line(words)]
    run(["bash", "-c", shell, "weighed", *timed], command)
    io = dict(text.split(": ") for text in weights.read_text().splitlines())
    peak = int((FOLDER / "peak").read_text().split()[-1]) * 1024
    return {"peak": peak, "read": int(io["rchar"]), "written": int(io["wchar"])}


def keep():
    """The repository as it is: a command is run twice on the same."""
    shutil.rmtree(FOLDER / "kept", ignore_errors=True)
    shutil.copytree(REPOSITORY, FOLDER / "kept")


def back():
    shutil.rmtree(REPOSITORY)
    os.rename(FOLDER / "kept", REPOSITORY)


def line(words):
    return [str(ICECORE_BIN), *words, "--repo", str(REPOSITORY)]


def icecore(*words):
    run(line(words), words[0])


def run(words, command):
    shutil.rmtree(TARGET, ignore_errors=True)
    variables = {**os.environ, "ICECORE_PASSWORD": "bench", "HOME": str(HOME)}
    done = subprocess.run(words, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"costs: {command} ended with {done.returncode}: {done.stderr[-2000:]}")


def show(arguments, rows):
    text = page(rows)
    print(text)
    if arguments.out:
        arguments.out.with_suffix(".md").write_text(text)
        results = {"machine": machine.describe(), "commit": machine.commit(), "rows": rows}
        arguments.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")


def page(rows):
    head = ["command", "unit"] + [f"{HEADINGS[measure]} {which}" for measure in MEASURES
                                  for which in ("fixed", "per unit")]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for figures in rows:
        cells = [figures["command"], figures["unit"]]
        cells += [shown(figures[measure][which]) for measure in MEASURES for which in ("fixed", "each")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def shown(figure):
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:,.2f}"


if __name__ == "__main__":
    main()
