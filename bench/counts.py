"""Counts that do not depend on the machine's mood: system calls per object and per GiB.

    counts.py --sets small --tools icecore,bupstash

Under strace everything is several times slower: times mean nothing here, counts do.
"""

import argparse
import shlex
import sys

from sets import datasets
from settings import GIB
from tools import peers
from tools.repository import Repository

WIDTH = 6                    # calls that are shown by name


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="small")
    parser.add_argument("--tools", default="icecore,bupstash")
    arguments = parser.parse_args()
    tools = peers.found(arguments.tools.split(","))
    print("| set | tool | backup | calls per object | calls per GiB | most frequent, per object |")
    print("|---|---|---|---|---|---|")
    for name in datasets.expand(arguments.sets.split(",")):
        facts = datasets.ensure(name)
        for tool, place in tools.items():
            both_backups(name, facts, Repository(name, tool, place))


def both_backups(name, facts, repository):
    source = datasets.path(name)
    repository.fresh(source)
    for which in ("first", "second"):
        calls = count(repository, source)
        print(row(name, facts, repository.tool, which, calls), flush=True)


def count(repository, source):
    """{call: how often} over all threads and processes of one backup."""
    summary = repository.home / "strace"
    line = (f"strace -f -qq -c -o {shlex.quote(str(summary))} "
            f"bash -o pipefail -c {shlex.quote(repository.spec.lines['backup'])}")
    if repository.run_line(line, source)["exit"] not in repository.spec.fine:
        sys.exit(f"bench: {repository.tool} failed under strace, see {repository.log_path()}")
    return parse(summary.read_text())


def parse(text):
    """Rows are: % time, seconds, usecs/call, calls, [errors,] name."""
    calls = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
            calls[fields[-1]] = int(fields[3])
    return calls


def row(name, facts, tool, which, calls):
    objects = sum(facts[kind] for kind in ("files", "directories", "symlinks", "other"))
    total = sum(calls.values())
    most = sorted(calls.items(), key=lambda item: -item[1])[:WIDTH]
    shown = ", ".join(f"{call} {number / objects:.2f}" for call, number in most)
    return (f"| {name} | {tool} | {which} | {total / objects:.2f} "
            f"| {total / (facts['bytes'] / GIB):.0f} | {shown} |")


if __name__ == "__main__":
    main()
