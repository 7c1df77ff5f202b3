"""Every list and report of a large site over HTTP, with both catalogs: how long each call takes, and
what the server takes.

    site_lists.py                                       1,000 nodes, a million jobs, 100,000 snapshots
    site_lists.py --nodes 100 --jobs 10000 --snapshots 1000 --calls 5
    site_lists.py --catalogs sqlite

A real server with a node that backed up once; all other nodes, their jobs and snapshots are rows of its
catalog, and names of snapshots in copies of its repository. Each call has a connection of its own, with
its handshake, as `icecore server` has. Then jobs are entered and cancelled, once a second, and the
scheduler's own times are read from its log (`--log debug`).
Prints a table, and writes it to --out. Fails if a call, the scheduler or the memory is above its limit.
Environment: BENCH_DIR, ICECORE_BIN.
"""

import argparse
import http.client
import json
import re
import ssl
import sys
import time

from lists import large, site
from settings import ICECORE_BIN, MIB, WORK, words
from tools.repository import delete
from tools.service import end_cleanly

HOME = WORK / "lists"
CALL_MS_MAX = 200
# What is no list: it judges or opens everything, or lives through a year.
OTHER_MS_MAX = {"plan": 1_000, "dry run": 1_000, "simulation": 5_000}
TICK_MS_MAX = 50
SERVER_MIB_MAX = 1024
CHANGES = 60
TICKED = re.compile(r"looked for what is due.*?micros=(\d+)")


def main():
    arguments = parse()
    end_cleanly()
    delete(HOME)
    HOME.mkdir(parents=True)
    lines, failures = [], []
    database = None
    try:
        server = site.Server(arguments.binary, HOME)
        print(f"filled in {large.fill(server, arguments):.0f} s", flush=True)
        for catalog in arguments.catalogs:
            if catalog == "postgresql":
                database = site.Database(HOME / "postgresql")
                print(f"moved to PostgreSQL in {server.move(database.reached):.0f} s", flush=True)
            table, bad = measured(server, catalog, arguments)
            lines += table
            failures += bad
    finally:
        if database:
            database.stop()
        delete(HOME)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text)
    for failure in failures:
        print(f"too slow: {failure}", file=sys.stderr)
    return int(bool(failures))


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--snapshots", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=50, help="of each list")
    parser.add_argument("--catalogs", type=words, default=["sqlite", "postgresql"])
    parser.add_argument("--binary", default=ICECORE_BIN)
    parser.add_argument("--out", type=lambda text: WORK.__class__(text))
    return parser.parse_args()


def measured(server, catalog, arguments):
    """The rows of a table, and what is above its limit."""
    with server.running("debug") as process:
        readable(server)
        rows = [timed(server, *call, arguments.calls) for call in large.calls(arguments)]
        ticks = scheduler(server, arguments.nodes)
        peak = process.peak_mib()
    lines = [f"## {catalog}", "", "| call | KiB | median, ms | p95, ms | most, ms |",
             "|---|---|---|---|---|"]
    bad = []
    for what, size, times in rows:
        median, p95, most = part(times, .5), part(times, .95), times[-1]
        lines.append(f"| {what} | {size / 1024:.0f} | {median:.0f} | {p95:.0f} | {most:.0f} |")
        limit = next((ms for word, ms in OTHER_MS_MAX.items() if word in what), CALL_MS_MAX)
        if p95 > limit:
            bad.append(f"{catalog}: {what}: {p95:.0f} ms")
    for what, times in ticks.items():
        if not times:
            bad.append(f"{catalog}: the log says nothing of the scheduler")
            continue
        median, p95 = part(times, .5), part(times, .95)
        lines.append(f"| scheduler, {what} ({len(times)} ticks) | | {median:.1f} | {p95:.1f} | "
                     f"{times[-1]:.1f} |")
        if p95 > TICK_MS_MAX:
            bad.append(f"{catalog}: scheduler, {what}: {p95:.1f} ms")
    if peak > SERVER_MIB_MAX:
        bad.append(f"{catalog}: the server took {peak:.0f} MiB")
    return lines + ["", f"Memory of the server at most {peak:.0f} MiB.", ""], bad


def readable(server):
    """A repository that cannot be read is tried again with each call: that is not what is measured here."""
    known = json.loads(call(server, "GET", "/retention/snapshots?limit=1"))
    if known.get("unread"):
        raise SystemExit(f"the server cannot read {len(known['unread'])} domains: {known['unread'][0]}")


def part(times, share):
    return times[min(len(times) - 1, int(len(times) * share))]


def timed(server, what, method, path, body, count):
    """Sorted times of calls in milliseconds, after one that is not counted."""
    size, times = 0, []
    for number in range(count + 1):
        begun = time.monotonic()
        size = len(call(server, method, path, body))
        if number:
            times.append((time.monotonic() - begun) * 1000)
    return what, size, sorted(times)


def call(server, method, path, body=None):
    context = ssl.create_default_context(cafile=server.authority)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=90, context=context)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    text = None if body is None else json.dumps(body)
    connection.request(method, f"/api/v1{path}", text, headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{method} {path}: {answer.status} {said[:500]}")
    return said


def scheduler(server, nodes):
    """Ticks in milliseconds: of a quiet server, and after jobs have changed."""
    time.sleep(15)
    quiet = ticks(server)
    for number in range(CHANGES):
        node = large.member(number, nodes)
        started = json.loads(call(server, "POST", "/policies/policy-0/start", {"node": node}))
        call(server, "POST", f"/jobs/{started['jobs'][0]['job']}/cancel", None)
        time.sleep(1)
    changed = ticks(server)[len(quiet):]
    # The first ones read everything.
    return {"quiet": sorted(quiet[2:]), "after a change": sorted(changed)}


def ticks(server):
    return [int(micros) / 1000 for micros in TICKED.findall(server.log.read_text())]


if __name__ == "__main__":
    print(f"limits: {CALL_MS_MAX} ms, {TICK_MS_MAX} ms, {SERVER_MIB_MAX} MiB; "
          f"{MIB} bytes are a MiB")
    sys.exit(main())
