"""The bench: measures Icecore and its peers in one go.

    run.py                                   everything, three rounds
    run.py --sets small --tools icecore,bupstash,tar --ops first,second --rounds 3
    run.py --claim 2                         what one claim needs, then PASS or FAIL
    run.py --go-on bench/results/DATE.json   a run that was broken off, at the first set of a round that is not whole
    run.py --render a.json b.json --out x    joins results of several runs
Exit code 1: a claim is broken or could not be judged. Narrowed down by --sets, --tools or --ops it
judges what it can, and is still no success.
Environment: BENCH_DIR, ICECORE_BIN, ROUNDS, QUICK=1 (one round, only SMALL).
"""

import argparse
import datetime
import json
import sys
from pathlib import Path

from report import claims, page
from report.figures import Figures
from runs import machine
from runs.rounds import Round
from sets import datasets
from settings import RESULTS, env_flag, env_int, words
from tools import commands, peers, target

SETS = ["small", "middle", "large", "versions", "tree5m"]
OPERATIONS = ["first", "second", "changed", "restore", "restore-synced", "check", "open", "reclaim",
              "cold-first", "cold-second"]
# Changing files in place is made for SMALL; nobody restores five million empty files here.
ONLY_SMALL = {"changed", "open", "reclaim", "cold-first", "cold-second"}
TREE5M = ["first", "second"]
# The claim is about our memory; five million files cost each peer an hour.
TREE5M_TOOLS = ("icecore", "find")


def main():
    arguments = parse()
    if arguments.render:
        return show(join(arguments.render), arguments)
    if arguments.claim:
        claims.apply_needs(arguments)
    return show(measure(arguments), arguments)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    quick = env_flag("QUICK")
    today = datetime.date.today().isoformat()
    parser.add_argument("--sets", type=words, default=["small"] if quick else SETS,
                        help="small, middle, large, versions, tree5m")
    parser.add_argument("--tools", type=words, default=list(commands.TOOLS))
    parser.add_argument("--ops", type=words, default=OPERATIONS)
    parser.add_argument("--rounds", type=int, default=1 if quick else env_int("ROUNDS", 3))
    parser.add_argument("--verify", type=words, default=["icecore"],
                        help="tools whose restores are compared with the source")
    parser.add_argument("--claim", type=int, choices=sorted(claims.NEEDS))
    parser.add_argument("--keep", action="store_true",
                        help="keep the repositories, and go on from those that were kept")
    parser.add_argument("--go-on", type=Path, metavar="JSON",
                        help="go on with a run that was broken off: same commit, programs, machine and data")
    parser.add_argument("--no-install", action="store_true",
                        help="measure the peers that are there, install none")
    parser.add_argument("--out", type=Path, default=RESULTS / today,
                        help="results go to OUT.md, OUT.json, OUT.svg")
    parser.add_argument("--render", type=Path, nargs="+", metavar="JSON")
    arguments = parser.parse_args()
    if arguments.go_on:
        arguments.out = arguments.go_on.with_suffix("")
    return arguments


def measure(arguments):
    if not arguments.no_install:
        peers.install_missing(arguments.tools)
    tools = peers.found(arguments.tools)
    names = datasets.expand(arguments.sets)
    results = {"machine": machine.describe(), "commit": machine.commit(), "tools": tools,
               "rounds": arguments.rounds,
               "sets": {name: datasets.ensure(name) for name in names}, "runs": [],
               "whole": [], "days": []}
    if arguments.go_on:
        take_over(json.loads(arguments.go_on.read_text()), results)
    today = datetime.date.today().isoformat()
    results["days"] += [today] if today not in results["days"] else []
    try:
        for number in range(1, arguments.rounds + 1):
            for name in names:
                if [number, name] in results["whole"]:
                    continue
                one_round(name, tools, number, arguments, results)
                results["whole"].append([number, name])
                save(results, arguments.out)
    finally:
        target.remove()
    return results


def take_over(before, results):
    """What a run that was broken off has of whole rounds. Ratios are taken within one round of a set, which is never
    made of two runs."""
    if not machine.has_sources_of(before["commit"]):
        sys.exit(f"bench: the run before was of {before['commit']}, whose sources these are not")
    versions = {"programs": lambda one: {name: tool["version"] for name, tool in one["tools"].items()},
                "machine": lambda one: one["machine"], "data": lambda one: one["sets"]}
    for what, of in versions.items():
        then, now = of(before), json.loads(json.dumps(of(results)))
        if then != now:
            sys.exit(f"bench: the run before had another {what}: {then}, now {now}")
    for fact in ("commit", "whole", "days"):
        results[fact] = before[fact]
    results["runs"] = [run for run in before["runs"] if [run["round"], run["set"]] in before["whole"]]


def one_round(name, tools, number, arguments, results):
    def record(facts):
        results["runs"].append(facts)
        print(page.line(facts), flush=True)
        # After every run, so that a bench that is broken off keeps what it has.
        save(results, arguments.out)

    if name == "tree5m":
        tools = {tool: facts for tool, facts in tools.items() if tool in TREE5M_TOOLS}
    def is_disturbed(run):
        return any(Figures({**results, "runs": []}).doubts_of(run))

    this = Round(name, tools, number, record, arguments.verify, is_disturbed=is_disturbed)
    if not arguments.keep:
        this.clean()
    this.run(operations_of(name, arguments.ops))
    if not arguments.keep:
        this.clean()


def operations_of(name, wanted):
    if name in datasets.SERIES:
        return ["series"]
    if name == "tree5m":
        return [o for o in wanted if o in TREE5M]
    return [o for o in wanted if name == "small" or o not in ONLY_SMALL]


def save(results, out):
    out.parent.mkdir(parents=True, exist_ok=True)
    # Where a program lay on this machine is nobody's business.
    tools = {name: {**tool, "path": Path(tool["path"]).name}
             for name, tool in results["tools"].items()}
    Path(f"{out}.json").write_text(json.dumps({**results, "tools": tools}, indent=1) + "\n")


def join(files):
    """The runs of several results; of equal facts the last file's hold."""
    parts = [json.loads(file.read_text()) for file in files]
    commits = list(dict.fromkeys(part.get("commit", "unknown") for part in parts))
    joined = {**parts[-1], "runs": [], "commit": " and ".join(commits)}
    for number, part in enumerate(parts):
        joined["sets"] = {**part["sets"], **joined["sets"]}
        joined["tools"] = {**part["tools"], **joined["tools"]}
        # Ratios are taken within a round: rounds of different runs stay apart.
        joined["runs"] += [{**run, "round": f"{number}.{run['round']}"} for run in part["runs"]]
    return joined


def show(results, arguments):
    """Exit code 1: a claim is broken, or could not be judged."""
    save(results, arguments.out)
    page.write(results, arguments.out)
    verdicts = [v for v in claims.judge(results) if arguments.claim in (None, v.claim)]
    print(claims.table(verdicts))
    return int(any(v.state != "PASS" for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
