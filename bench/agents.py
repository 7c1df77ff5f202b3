"""Many agents at one server, on loopback: total rates, memory, and the time to the first data.

    agents.py                                        the whole matrix, three rounds
    agents.py --agents 1,12 --sizes 100k,10m --rounds 1
    agents.py --tools icecore-served,restic-served,kopia-served
    agents.py --only first-data                      2 million files, until data is on its way

1, 4, 8, 12 agents with files of 100 KiB, 1 MiB, 10 MiB, 100 MiB of text-like data, all of them
different; all start at the same moment. Beside them as many `cp -r`: what the file system itself
carries. Agents, server and disk share this machine, so that totals show what it carries and not
what a network of machines would.
Results: bench/results/<date>-network. Environment: BENCH_DIR, ICECORE_BIN, ROUNDS.
"""

import argparse
import sys

import network
from report import netreport
from runs import copies, firstdata, machine
from runs.crowd import Crowd, Sources
from sets import blobs
from settings import KIB, MIB, WORK, env_int, words
from tools import served, target
from tools.pin import Pinned
from tools.repository import ToolFailed, delete
from tools.service import end_cleanly
from tools.ways import Loopback

SIZES = {"100k": 100 * KIB, "1m": MIB, "10m": 10 * MIB, "100m": 100 * MIB}
HOME = WORK / "agents"
PARTS = ["matrix", "first-data"]


def main():
    arguments = parse()
    end_cleanly()
    programs = network.find_programs(arguments)
    tools = [name for name in arguments.tools if network.can_run(name, programs)]
    results = {"machine": machine.describe(),
               "tools": {**network.versions(programs), copies.TOOL: copies.version()},
               "rounds": arguments.rounds, "mib": arguments.mib, "runs": [],
               "missing": [name for name in arguments.tools if name not in tools]}
    paths = {name: facts["path"] for name, facts in programs.items()}
    record = recorder(results, arguments.out)
    delete(HOME)
    try:
        with Loopback() as way:
            if "matrix" in arguments.only:
                matrix(arguments, tools, paths, way, record)
            if "first-data" in arguments.only:
                firstdata.measure(arguments, tools, paths, way, record, HOME / "first-data")
    finally:
        target.remove()
        delete(HOME)
        netreport.save("agents", results, arguments.out)
    return int(not results["runs"] or any(not run["ok"] for run in results["runs"]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=words, default=["icecore-served"],
                        help=", ".join(served.TOOLS))
    parser.add_argument("--agents", type=lambda text: [int(n) for n in words(text)],
                        default=[1, 4, 8, 12])
    parser.add_argument("--sizes", type=words, default=list(SIZES))
    parser.add_argument("--mib", type=int, default=512,
                        help="of each agent; from five agents on half of it")
    parser.add_argument("--files", type=int, default=2_000_000, help="of first-data")
    parser.add_argument("--rounds", type=int, default=env_int("ROUNDS", 3))
    parser.add_argument("--only", type=words, default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--no-install", action="store_true")
    parser.add_argument("--out", type=netreport.path, default=netreport.default())
    return parser.parse_args()


def matrix(arguments, tools, paths, way, record):
    """One size after another, because the disk does not hold all of them."""
    pool = blobs.text_pool()
    for label in arguments.sizes:
        sources = Sources(HOME / "sources", SIZES[label], arguments.mib * MIB)
        sources.make(max(arguments.agents), pool)
        with Pinned(sources.folder):
            for number in range(1, arguments.rounds + 1):
                for agents in arguments.agents:
                    facts = {"round": number, "size": label, "agents": agents}
                    for tool in network.turned(tools, number):
                        crowd = Crowd(tool, paths, HOME / tool, way, sources, agents)
                        cell(crowd, ["backup", "restore"], {**facts, "tool": tool}, record)
                    crowd = copies.Copies(HOME / copies.TOOL, way, sources, agents)
                    cell(crowd, ["restore"], {**facts, "tool": copies.TOOL}, record)
        delete(sources.folder)


def cell(crowd, operations, facts, record):
    try:
        crowd.open()
        for operation in operations:
            record({**facts, "operation": operation, **crowd.run(operation)})
    except (ToolFailed, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        record({**facts, "operation": operations[0], "ok": False, "wall_s": 0.0})
    finally:
        crowd.close()


def recorder(results, out):
    def record(facts):
        results["runs"].append(facts)
        netreport.save("agents", results, out)
        first = f"first data after {facts['first_data_s']} s" if "first_data_s" in facts else ""
        print(f"{facts['round']} {facts['tool']:16}{facts['operation']:11}{facts['size']:>6} "
              f"{facts['agents']:3} agents {facts.get('mib_s', 0):8.1f} MiB/s "
              f"{facts['wall_s']:7.2f} s {facts.get('server_peak_mib', 0):6.0f} MiB server "
              f"{first}{'' if facts['ok'] else 'FAILED'}", flush=True)
    return record


if __name__ == "__main__":
    sys.exit(main())
