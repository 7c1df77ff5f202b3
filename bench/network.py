"""Through a server on loopback: first backup, second without changes, restore of SMALL.

    network.py                            all tools with a server, three rounds
    network.py --tools icecore,icecore-served,bupstash-served --rounds 3

`icecore` is the same program with a repository on the same disk and no server. Everything
runs in turn, as in run.py, with the set pinned. Results: bench/results/<date>-network.
Environment: BENCH_DIR, ICECORE_BIN, ROUNDS, QUICK=1 (one round).
"""

import argparse
import sys

from report import netreport
from report.page import line
from runs import machine
from runs.rounds import Round
from sets import datasets
from settings import env_flag, env_int, words
from tools import commands, peers, served, target
from tools.deployment import ServedRepository
from tools.repository import Repository
from tools.service import end_cleanly
from tools.ways import Loopback

OPERATIONS = ["first", "second", "restore"]
LOCAL = ["icecore"]


def main():
    arguments = parse()
    end_cleanly()
    commands.TOOLS.update(served.TOOLS)
    programs = find_programs(arguments)
    results = {"tools": versions(programs), "rounds": arguments.rounds, "runs": [],
               "machine": machine.describe(),
               "sets": {arguments.set: datasets.ensure(arguments.set)},
               "missing": [name for name in arguments.tools if not can_run(name, programs)]}
    try:
        with Loopback() as way:
            for number in range(1, arguments.rounds + 1):
                one_round(arguments, number, programs, way, results)
    finally:
        target.remove()
        netreport.save("server", results, arguments.out)
    return int(not results["runs"] or any(not run["ok"] for run in results["runs"]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=words, default=[*LOCAL, *served.TOOLS])
    parser.add_argument("--ops", type=words, default=OPERATIONS)
    parser.add_argument("--set", default="small", help="small, middle or large")
    parser.add_argument("--rounds", type=int,
                        default=1 if env_flag("QUICK") else env_int("ROUNDS", 3))
    parser.add_argument("--verify", type=words, default=["icecore-served"],
                        help="tools whose restores are compared with the source")
    parser.add_argument("--sparing", action="store_true",
                        help="one tool after another with all its operations: less disk")
    parser.add_argument("--no-install", action="store_true")
    parser.add_argument("--out", type=netreport.path, default=netreport.default())
    return parser.parse_args()


def needed(name):
    """The programs of one tool."""
    spec = served.TOOLS.get(name)
    return [name] if spec is None else [p for p in (spec.program, spec.server_program) if p]


def find_programs(arguments):
    names = list(dict.fromkeys(p for name in arguments.tools for p in needed(name)))
    if not arguments.no_install:
        peers.install_missing(names)
    return peers.found(names)


def can_run(name, programs):
    return all(program in programs for program in needed(name))


def versions(programs):
    return {name: facts["version"] for name, facts in programs.items()}


def one_round(arguments, number, programs, way, results):
    paths = {name: facts["path"] for name, facts in programs.items()}

    def make(set_name, tool, program):
        spec = served.TOOLS.get(tool)
        if spec is None:
            return Repository(set_name, tool, program)
        return ServedRepository(set_name, tool, program, spec, paths, way)

    def record(facts):
        results["runs"].append(facts)
        print(line(facts), flush=True)
        netreport.save("server", results, arguments.out)

    names = turned([name for name in arguments.tools if can_run(name, programs)], number)
    for group in [[name] for name in names] if arguments.sparing else [names]:
        tools = {name: programs[needed(name)[0]] for name in group}
        this = Round(arguments.set, tools, 1, record, arguments.verify, make)
        # The order of this round is made already.
        this.number = number
        this.clean()
        try:
            this.run(arguments.ops)
        finally:
            this.clean()


def turned(names, number):
    """Every round begins with another one."""
    turn = (number - 1) % len(names) if names else 0
    return names[turn:] + names[:turn]


if __name__ == "__main__":
    sys.exit(main())
