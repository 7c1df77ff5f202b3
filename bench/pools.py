"""Direct and buffered writes on every kind of file system: does `auto` choose the best, and what does each cost?

    pools.py                                   all kinds, three rounds; needs root, an idle machine, and some 20 minutes
    pools.py --only ext4 xfs --rounds 1        some of them
    pools.py --out results/DATE-pools          writes OUT.md, OUT.json and OUT.svg; kinds that are there stay

ext4, XFS and btrfs lie in images on loop devices with direct I/O; the four liars (proof/liars) and the overlay on an
ext4 of that kind. GlusterFS and MooseFS have their servers here (`cargo proof shared`). On each, in each round,
`icecore pool tune` decides, and `icecore bench pool` measures independently of it.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from math import exp, log
from pathlib import Path

from report import plot_lines
from runs import machine
from settings import GIB, ICECORE_BIN, MIB, PROJECT, WORK

FOLDER = WORK / "pools"
DISKS = ("ext4", "xfs", "btrfs")
LIARS = ("refuses", "buffers", "slow", "bare")
SHARED = ("glusterfs", "moosefs")
KINDS = (*DISKS, "tmpfs", "overlay", *LIARS, *SHARED)
IMAGE_BYTES = 3 * GIB
ROW = "128M"
# No row of a sweep begins after this time.
SECONDS = "60"
# `auto` may be so much slower than the best way to write.
WITHIN = 0.90


def main():
    arguments = parse()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    found = known(arguments)
    try:
        for kind in arguments.only:
            found[kind] = measured(kind, arguments.rounds)
            show(arguments, {kind: found[kind] for kind in KINDS if kind in found})
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    if worse(found):
        sys.exit(1)


def known(arguments):
    """What a run before this one has measured of other kinds."""
    before = arguments.out.with_suffix(".json") if arguments.out else None
    return json.loads(before.read_text())["rounds"] if before and before.exists() else {}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        print("rounds " + json.dumps(rounds(arguments.inside, arguments.rounds)))
        sys.exit()
    return arguments


def measured(kind, count):
    print(f"bench: {kind}", file=sys.stderr, flush=True)
    if kind in SHARED:
        return on_shared(kind, count)
    with mounted(kind) as at:
        return rounds(at, count)


def on_shared(kind, count):
    """The same in the namespaces of the rig, with new servers in each round: MooseFS frees what was removed so late that
    the next round would find a full disk."""
    again = f"{sys.executable} {Path(__file__).resolve()} --rounds 1 --inside ."
    line = ["cargo", "proof", "shared", "--file-system", kind, "--run", again, "--binary", ICECORE_BIN]
    found = []
    for _ in range(count):
        ran = subprocess.run(line, cwd=PROJECT, check=False, capture_output=True, text=True)
        lines = [line for line in ran.stdout.splitlines() if line.startswith("rounds ")]
        if ran.returncode or not lines:
            sys.exit(f"bench: {kind}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        found += json.loads(lines[-1].removeprefix("rounds "))
    return found


@contextmanager
def mounted(kind):
    """A file system of this kind."""
    at = FOLDER / kind
    at.mkdir()
    if kind == "tmpfs":
        with mount("-t", "tmpfs", "-o", "size=2G", "tmpfs", at):
            yield at
    elif kind in DISKS:
        with disk(kind, at):
            yield at
    else:
        below = FOLDER / f"{kind}.below"
        below.mkdir()
        with disk("ext4", below), above(kind, below, at):
            yield at
    at.rmdir()


@contextmanager
def disk(kind, at):
    image = FOLDER / f"{at.name}.img"
    with open(image, "wb") as file:
        file.truncate(IMAGE_BYTES)
    run(f"mkfs.{kind}", "-q", image)
    device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
    try:
        with mount(device, at):
            yield
    finally:
        run("losetup", "--detach", device)
        image.unlink()


@contextmanager
def above(kind, below, at):
    """What hands writes on to the file system `below`."""
    if kind == "overlay":
        for name in ("lower", "upper", "work"):
            (below / name).mkdir()
        options = f"lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work"
        with mount("-t", "overlay", "-o", options, "overlay", at):
            yield
        return
    (below / "data").mkdir()
    # Debian's Python has the module.
    liar = subprocess.Popen(["/usr/bin/python3", PROJECT / "proof/liars/liar.py", kind, below / "data", at])
    try:
        wait_for(lambda: os.path.ismount(at))
        yield
    finally:
        run("umount", at)
        liar.wait(timeout=30)


@contextmanager
def mount(*words):
    run("mount", *words)
    try:
        yield
    finally:
        run("umount", words[-1])


def wait_for(holds):
    end = time.monotonic() + 30
    while not holds():
        if time.monotonic() > end:
            sys.exit("bench: a file system was not mounted in 30 seconds")
        time.sleep(0.05)


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def rounds(at, count):
    """Of each round: what was chosen, and the rows of the sweep."""
    repository = at / "repository"
    environment = {**os.environ, "ICECORE_PASSWORD": "a password of the benchmark"}
    icecore = [ICECORE_BIN, "--repo", repository, "--json"]
    subprocess.run([*icecore, "init"], check=True, env=environment, stdout=subprocess.DEVNULL)
    return [one_round(icecore, repository) for _ in range(count)]


def one_round(icecore, repository):
    tuned = lines([*icecore, "pool", "tune", repository])
    rows = lines([*icecore, "bench", "pool", repository, "--size", ROW, "--seconds", SECONDS])
    # Where this machine has its files is nobody's business.
    chosen_here = {key: tuned[-1][key] for key in ("io", "block_bytes")}
    return {"tuned": chosen_here, "rows": [row for row in rows if row["message_type"] == "row"]}


def lines(words):
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def method_of(row):
    """How a row was written. Through the cache the program writes at most 256 KiB at once, whatever was asked for."""
    return ("direct", row["block_bytes"]) if row["io"] == "direct" else ("buffered", 0)


def scores(rounds_of_kind):
    """Geometric mean over the numbers of streams of each method's median rate, and its median processor time."""
    rows = [row for one in rounds_of_kind for row in one["rows"]]
    refused = {method_of(row) for row in rows if row["was_buffered"]}
    found = {}
    for method in {method_of(row) for row in rows} - refused:
        of = [row for row in rows if method_of(row) == method]
        rates = [statistics.median(row["durable_bytes_per_sec"] for row in of if row["streams"] == streams)
                 for streams in sorted({row["streams"] for row in of})]
        rate = exp(sum(log(rate) for rate in rates) / len(rates))
        found[method] = (rate, statistics.median(row["cpu_secs_per_gib"] for row in of))
    return found


def chosen(tuned):
    return ("direct", tuned["block_bytes"]) if tuned["io"] == "direct" else ("buffered", 0)


def name(method):
    return "buffered" if method[0] == "buffered" else f"direct, {method[1] // 1024:,} KiB"


def line_of(kind, rounds_of_kind):
    found = scores(rounds_of_kind)
    best = max(found, key=lambda method: found[method][0])
    picks = [chosen(one["tuned"]) for one in rounds_of_kind]
    worst = min(found.get(pick, (0, 0))[0] / found[best][0] for pick in picks)
    direct = [method for method in found if method[0] == "direct"]
    buffered = found[("buffered", 0)]
    best_direct = max(direct, key=lambda method: found[method][0], default=None)
    wins = best_direct is not None and found[best_direct][0] > buffered[0]
    return {"kind": kind, "picks": [name(pick) for pick in picks], "best": name(best), "worst_pick": worst,
            "buffered_mib": buffered[0] / MIB, "buffered_cpu": buffered[1],
            "direct": name(best_direct) if best_direct else "is none", "direct_wins": wins,
            "direct_mib": found[best_direct][0] / MIB if best_direct else None,
            "direct_cpu": found[best_direct][1] if best_direct else None}


def show(arguments, found):
    table = [line_of(kind, rows) for kind, rows in found.items()]
    facts = {"commit": machine.commit(), "machine": machine.describe(), "table": table, "rounds": found}
    text = ["# Direct and buffered writes on every kind of file system", "",
            f"Commit {facts['commit']}; `bench/pools.py --rounds {arguments.rounds}`. Rates are of bytes that are durable:"
            " the geometric mean over 1, 4 and 16 streams of the medians of the rounds.", "",
            "| file system | `auto` chose | best | `auto` / best | buffered, MiB/s | CPU s/GiB | best direct | MiB/s |"
            " CPU s/GiB | CPU, direct / buffered |", "|---|---|---|---|---|---|---|---|---|---|"]
    for one in table:
        direct = "— | — | —" if one["direct_mib"] is None else (
            f"{one['direct_mib']:.0f} | {one['direct_cpu']:.2f} | {one['direct_cpu'] / one['buffered_cpu']:.2f}")
        picks = "; ".join(sorted(set(one["picks"])))
        text.append(f"| {one['kind']} | {picks} | {one['best']} | {one['worst_pick']:.2f} | {one['buffered_mib']:.0f} |"
                    f" {one['buffered_cpu']:.2f} | {one['direct']} | {direct} |")
    bad = worse(found)
    text += ["", f"`auto` within 10 % of the best in each round: {'all' if not bad else 'NOT on ' + ', '.join(bad)}."]
    print("\n".join(text), flush=True)
    if arguments.out:
        arguments.out.with_suffix(".md").write_text("\n".join(text) + "\n")
        arguments.out.with_suffix(".json").write_text(json.dumps(facts) + "\n")
        plot_lines.write(found, arguments.out.with_suffix(".svg"))


def worse(found):
    """Kinds on which `auto` was not within 10 % of the best."""
    table = [line_of(kind, rows) for kind, rows in found.items()]
    return [one["kind"] for one in table if one["worst_pick"] < WITHIN]


if __name__ == "__main__":
    main()
