"""Two binaries of Icecore on one data set, in turns: whether a change made anything slower.

    against.py OLD NEW                  five rounds with SMALL
    against.py OLD NEW --set large
    against.py OLD NEW --rounds 3 --out results/2026-11-22-against-8d1bf9a
    against.py OLD NEW --served         through a server on loopback of the same program

Backup into an empty repository, twice again without changes, check of all data, restore into an
empty tmpfs (which no deletion before it slows down). Who begins changes with every round. The
ratio is the median of the ratios within rounds. Needs root; the source is pinned in memory.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from runs import machine
from sets import datasets
from settings import MIB, WORK
from tools.deployment import ServedRepository
from tools.measure import stored_bytes
from tools.pin import Pinned
from tools.served import ICECORE_SERVED
from tools.ways import Loopback

FOLDER = WORK / "against"
TARGET = FOLDER / "target"
TARGET_SIZE = "9g"
OPERATIONS = ["first", "second", "third", "check", "restore", "size"]


def main():
    arguments = parse()
    datasets.ensure(arguments.set)
    source = datasets.path(arguments.set)
    binaries = {"old": arguments.old, "new": arguments.new}
    runs = {(operation, name): [] for operation in OPERATIONS for name in binaries}
    try:
        with Pinned(source), Loopback() as way:
            for number in range(arguments.rounds):
                for name in sorted(binaries, reverse=number % 2 == 0):
                    if arguments.served:
                        one_served_round(binaries[name], name, source, runs, way)
                    else:
                        one_round(binaries[name], name, source, runs)
                print(f"round {number + 1} of {arguments.rounds} is done", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    show(arguments, runs)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--set", choices=["small", "middle", "large"], default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--served", action="store_true", help="back up to a server")
    parser.add_argument("--out", type=Path, help="results go to OUT.md and OUT.json")
    return parser.parse_args()


def one_round(binary, name, source, runs):
    repository = FOLDER / name
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "home").mkdir(parents=True)
    run(binary, repository, "init")
    subprocess.run(["sync"], check=True)
    for operation in ("first", "second", "third"):
        runs[operation, name].append(run(binary, repository, "backup", source))
        if operation == "first":
            runs["size", name].append((stored_bytes(repository) / MIB, 0))
    runs["check", name].append(run(binary, repository, "check", "--read-data"))
    runs["restore", name].append(restored(binary, repository))


def one_served_round(binary, name, source, runs, way):
    """The same through a server, which checks nothing that a client could ask for."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    served = ServedRepository("against", name, {"path": str(binary.absolute())}, ICECORE_SERVED,
                              {"icecore": str(binary.absolute())}, way)
    served.target = TARGET
    try:
        served.fresh(source)
        subprocess.run(["sync"], check=True)
        for operation in ("first", "second", "third"):
            runs[operation, name].append(served_figures(served.run("backup", source)))
            if operation == "first":
                runs["size", name].append((stored_bytes(served.repo) / MIB, 0))
        with empty_target():
            runs["restore", name].append(served_figures(served.run("restore", source)))
    finally:
        served.close()


def served_figures(facts):
    if facts["exit"]:
        raise SystemExit(f"against: a command ended with {facts['exit']}, see {FOLDER}")
    return facts["wall_s"], facts["peak_mib"]


def restored(binary, repository):
    with empty_target():
        return run(binary, repository, "restore", "latest", "--target", TARGET)


@contextlib.contextmanager
def empty_target():
    TARGET.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TARGET_SIZE}", "target", TARGET], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", TARGET], check=True)


def run(binary, repository, *words):
    """(seconds, peak MiB)."""
    variables = {**os.environ, "ICECORE_PASSWORD": "bench", "HOME": str(FOLDER / "home")}
    command = ["/usr/bin/time", "-f", "%M", binary, *words, "--repo", repository]
    begun = time.monotonic()
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    elapsed = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(f"against: {words[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return elapsed, int(done.stderr.split()[-1]) / 1024


def rows(runs):
    """(operation, old, new, ratio, old peak, new peak): medians, and the median of the ratios."""
    for operation in OPERATIONS:
        if not runs[operation, "old"]:
            continue
        old, new = runs[operation, "old"], runs[operation, "new"]
        ratio = statistics.median(b[0] / a[0] for a, b in zip(old, new))
        yield operation, median(old, 0), median(new, 0), ratio, median(old, 1), median(new, 1)


def median(figures, at):
    return statistics.median(figure[at] for figure in figures)


def show(arguments, runs):
    text = page(arguments, runs)
    print(text)
    if arguments.out:
        arguments.out.with_suffix(".md").write_text(text)
        raw = {f"{operation} {name}": figures for (operation, name), figures in runs.items()}
        results = {"machine": machine.describe(), "commit": machine.commit(), "runs": raw}
        arguments.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")


def page(arguments, runs):
    where = " through a server on loopback" if arguments.served else ""
    lines = [f"# {arguments.old.name} against {arguments.new.name} on {arguments.set.upper()}{where}", "",
             f"Medians of {arguments.rounds} alternated rounds; seconds (size: MiB); peak memory in MiB.",
             "The ratio is new to old, the median of those within a round.", "",
             "| operation | old | new | ratio | peak old | peak new |",
             "|---|---|---|---|---|---|"]
    lines += [f"| {operation} | {old:.2f} | {new:.2f} | {ratio:.3f} | {before:.0f} | {after:.0f} |"
              for operation, old, new, ratio, before, after in rows(runs)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
