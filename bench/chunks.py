"""A repository of many chunks with little in them: time, memory and bytes of each command, from a cold disk.

    chunks.py                            10^8 chunks
    chunks.py --chunks 1000000           fewer
    chunks.py --out results/DATE-chunks

The source is a stream in which no chunk comes twice (crates/pipeline/examples/many_chunks.rs), cut into chunks of some
260 bytes: what is measured is the cost of a chunk, not of its bytes. The first backup is ended by `kill -9` when all
has been read. About 220 bytes a chunk are needed on the disk. Each command begins with caches dropped.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from runs import machine
from settings import BUILT, GIB, ICECORE_BIN, MIB, PROJECT, WORK
from tools import measure

FOLDER = WORK / "chunks"
REPOSITORY = FOLDER / "repository"
FEED = BUILT / "fast/examples/many_chunks"
# Measured: bytes of the stream and of the disk for each chunk.
STREAM_BYTES, DISK_BYTES = 275, 220
ENVIRONMENT = {**os.environ, "ICECORE_PASSWORD": "x", "HOME": str(FOLDER), "XDG_CACHE_HOME": str(FOLDER / "cache"),
               "TMPDIR": str(FOLDER / "temporary")}


def main():
    arguments = parse()
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "temporary").mkdir(parents=True)
    if shutil.disk_usage(FOLDER).free < arguments.chunks * DISK_BYTES + GIB:
        sys.exit(f"bench: {arguments.chunks * DISK_BYTES // GIB + 1} GiB are needed in {FOLDER}")
    subprocess.run(["cargo", "build", "--quiet", "--profile", "fast", "--package", "pipeline", "--example", "many_chunks"],
                   cwd=PROJECT, check=True)
    try:
        subprocess.run([FEED, "init", REPOSITORY], check=True)
        rows = list(steps(arguments.chunks))
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    show(arguments, rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000_000)
    parser.add_argument("--out", type=Path, help="results go to OUT.md and OUT.json")
    return parser.parse_args()


def steps(chunks):
    """The row of each step. What one changes the next one sees."""
    icecore = f"{ICECORE_BIN} --repo {REPOSITORY}"
    stream = chunks * STREAM_BYTES
    backup = f"{icecore} backup --stdin stream --json"
    yield interrupted(backup, stream)
    yield row("next backup of the same", f"{FEED} feed {stream} | {backup}")
    yield row("`snapshots`", f"{icecore} snapshots")
    yield row("`check`", f"{icecore} check --json")
    yield row("`check --read-data`", f"{icecore} check --read-data --json")
    yield row("`reclaim`, nothing unused", f"{icecore} reclaim --json")
    yield row("`rebuild`", f"{icecore} rebuild --json")
    # Of each record every second 128 KiB.
    yield row("half of the stream", f"{FEED} half {stream} | {icecore} backup --stdin half --json")
    subprocess.run(["bash", "-c", f"{icecore} forget --keep-last 1 --group-by node"], env=ENVIRONMENT, check=True)
    yield row("`reclaim` of the other half", f"{icecore} reclaim --interrupted --json")
    yield row("`check` after it", f"{icecore} check --json")


def interrupted(line, stream):
    """A first backup that is killed when it has read all of its source."""
    prepare()
    reading, writing = os.pipe()
    with open(FOLDER / "log", "w+b") as log:
        command = [ICECORE_BIN, *line.split()[1:]]
        started = time.perf_counter()
        process = subprocess.Popen(command, env=ENVIRONMENT, stdin=reading, stdout=log, stderr=log)
        os.close(reading)
        subprocess.run([FEED, "feed", str(stream)], stdout=writing, check=True)
        wall = time.perf_counter() - started
        status = Path(f"/proc/{process.pid}/status").read_text()
        calls = Path(f"/proc/{process.pid}/io").read_text()
        cpu = Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        process.kill()
        process.wait()
        os.close(writing)
    ticks = os.sysconf("SC_CLK_TCK")
    of = lambda text, name: int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE).group(1))
    figures = {"wall_s": round(wall, 3), "user_s": int(cpu[11]) / ticks, "system_s": int(cpu[12]) / ticks,
               "peak_mib": of(status, "VmHWM") / 1024, "foreign_cpu_s": 0.0, "read_mib": of(calls, "read_bytes") / MIB,
               "written_mib": of(calls, "write_bytes") / MIB}
    return finished("first backup, killed at its end", line, figures)


def prepare():
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def row(name, line):
    prepare()
    with open(FOLDER / "log", "w+b") as log:
        figures = measure.run(line, ENVIRONMENT, log, {})
        log.seek(0)
        said = log.read().decode()
        if figures["exit"] != 0:
            sys.exit(f"bench: {line} ended with {figures['exit']}\n{said[-2000:]}")
    if begun := re.search(r"begun after ([\d.]+) s", said):
        figures["begun_s"] = float(begun.group(1))
    summaries = [json.loads(one) for one in said.splitlines() if one.startswith("{")]
    figures |= {key: value for one in summaries[-1:] for key, value in one.items() if key in KEPT}
    return finished(name, line, figures)


KEPT = {"chunks", "chunks_total", "chunks_new", "objects", "pages", "live_objects", "dead_objects", "bytes_copied",
        "bytes_freed", "containers", "commit_lock_secs", "elapsed_secs"}


def finished(name, line, figures):
    # As it would be typed: where this machine has its files is nobody's business.
    shown = line.replace(str(ICECORE_BIN), "icecore").replace(str(FEED), "many_chunks").replace(str(FOLDER), "FOLDER")
    sizes = {f"{part}_mib": round(measure.stored_bytes(folder) / MIB, 1)
             for part, folder in (("repository", REPOSITORY), ("index", REPOSITORY / "index"))}
    figures |= {"name": name, "line": shown, **sizes}
    print(f"{name}: {figures}", file=sys.stderr, flush=True)
    return figures


def show(arguments, rows):
    facts = {"chunks": arguments.chunks, "commit": machine.commit(), "machine": machine.describe(), "rows": rows}
    lines = [f"# {arguments.chunks:,} chunks, caches dropped before each command", "",
             f"Commit {facts['commit']}; `bench/chunks.py --chunks {arguments.chunks}`.", "",
             "| command | seconds | reads its source after | peak, MiB | processor, s | of others, s | read, MiB |"
             " written, MiB | commit lock, s | index, MiB | repository, MiB |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for one in rows:
        begun = f"{one['begun_s']:.1f}" if "begun_s" in one else "—"
        lock = f"{one['commit_lock_secs']:.3f}" if "commit_lock_secs" in one else "—"
        lines.append(f"| {one['name']} | {one['wall_s']:.1f} | {begun} | {one['peak_mib']:.0f} |"
                     f" {one['user_s'] + one['system_s']:.1f} | {one['foreign_cpu_s']:.0f} | {one['read_mib']:.0f} |"
                     f" {one['written_mib']:.0f} | {lock} | {one['index_mib']:.0f} | {one['repository_mib']:.0f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.with_suffix(".md").write_text(text)
        arguments.out.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
