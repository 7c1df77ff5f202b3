"""One stream over a long, slow or lossy link: icecore beside iperf3, in the same run.

    wan.py                          all links, three rounds
    wan.py --links 1,4 --rounds 1   the first and the last
    wan.py --iperf-only             what the links and the emulator carry

The link is bench/wan: two network namespaces and a program between them that carries every
packet (`cargo build --profile fast -p wan`). Needs root, iperf3, iproute2. The client's
files are random bytes, new for every run, so that all of them have to cross the link.
Results: bench/results/<date>-network. Environment: BENCH_DIR, ICECORE_BIN, WAN_BIN, ROUNDS.
"""

import argparse
import dataclasses
import json
import random
import subprocess
import sys
from dataclasses import dataclass

from report import netreport
from runs import compare, machine
from sets import textlike
from settings import LOGS, MIB, SEED, WORK, env_int, words
from tools import peers, served
from tools.deployment import ServedRepository
from tools.repository import ToolFailed, delete
from tools.service import Service, end_cleanly
from tools.ways import Wan

FILES = 8
IPERF_PORT = 5201
HOME = WORK / "wan"
SYSCTLS = ["net.ipv4.tcp_congestion_control", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]


@dataclass(frozen=True)
class Link:
    name: str
    mbit: int
    options: tuple
    forced_buffer: bool = False     # also with a socket buffer that is too small for it


LINKS = [
    Link("155 Mbit/s, 28 ms", 155, ("--rate", "155Mbit", "--rtt", "28ms"), True),
    Link("1 Gbit/s, 15 ms", 1000, ("--rate", "1Gbit", "--rtt", "15ms")),
    Link("20 Mbit/s, 300 ms", 20, ("--rate", "20Mbit", "--rtt", "300ms")),
    Link("155 Mbit/s, 28 ms, 1 % lost", 155,
         ("--rate", "155Mbit", "--rtt", "28ms", "--loss", "1%")),
]
# No limits: what the emulator itself carries, so that nobody takes its limit for the link's.
UNLIMITED = Link("no limit", 1000, ())


def main():
    arguments = parse()
    end_cleanly()
    programs = peers.found([] if arguments.iperf_only else ["icecore"])
    results = {"machine": machine.describe(), "rounds": arguments.rounds, "runs": [],
               "tools": {"iperf3": peers.version_of("iperf3", "iperf3"),
                         **{name: facts["version"] for name, facts in programs.items()}},
               "missing": [] if programs or arguments.iperf_only else ["icecore"],
               "seconds": arguments.seconds, "links": {}, "system": {}}
    delete(HOME)
    HOME.mkdir(parents=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    for link in [LINKS[number - 1] for number in arguments.links] + [UNLIMITED]:
        with Wan(link.options) as way:
            results["links"][link.name] = way.facts
            results["system"] = tuning(way, arguments.congestion)
            Measuring(link, way, arguments, programs, results).all()
    delete(HOME)
    return int(any(not run["ok"] for run in results["runs"]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=lambda text: [int(n) for n in words(text)],
                        default=list(range(1, len(LINKS) + 1)))
    parser.add_argument("--rounds", type=int, default=env_int("ROUNDS", 3))
    parser.add_argument("--seconds", type=int, default=20,
                        help="of a run at the full rate of the link")
    parser.add_argument("--max-mib", type=int, default=1536, help="of a run, whatever the rate")
    parser.add_argument("--congestion", help="cubic, bbr, …; default: the system's")
    parser.add_argument("--iperf-only", action="store_true")
    parser.add_argument("--out", type=netreport.path, default=netreport.default())
    return parser.parse_args()


def tuning(way, congestion):
    """How both ends are tuned: as the system is, unless a congestion control is named."""
    if congestion:
        for end in (way.near, way.far):
            subprocess.run([*end, "sysctl", "-q", "-w", f"{SYSCTLS[0]}={congestion}"], check=True)
    lines = subprocess.run([*way.near, "sysctl", *SYSCTLS], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    return dict(line.replace("\t", " ").split(" = ") for line in lines)


# iperf3 has one connection; Icecore opens further ones where they help, unless it is told not to.
STREAMED = ("backup", "backup-64k", "restore")
ONE_STREAM = dataclasses.replace(served.ICECORE_SERVED, lines={
    name: line.replace("$BIN ", "$BIN --streams 1 ", 1) if name in STREAMED else line
    for name, line in served.ICECORE_SERVED.lines.items()})


class Measuring:
    """All runs over one link."""

    def __init__(self, link, way, arguments, programs, results):
        self.link, self.way, self.arguments, self.results = link, way, arguments, results
        size = min(link.mbit * 1_000_000 // 8 * arguments.seconds, arguments.max_mib * MIB)
        self.bytes = max(1, size // FILES // MIB) * MIB * FILES
        self.source = HOME / "source"
        self.number = 0
        self.client = None
        if programs and link is not UNLIMITED:
            paths = {name: facts["path"] for name, facts in programs.items()}
            self.client = ServedRepository("wan", "icecore-served", programs["icecore"],
                                           ONE_STREAM, paths, way)
            self.client.target = HOME / "restored"

    def all(self):
        self.iperf_server = Service(f"exec iperf3 -s -p {IPERF_PORT}", None, self.way.far,
                                    IPERF_PORT, open(LOGS / "iperf3.log", "ab"))
        try:
            if self.client:
                self.client.fresh(self.source)
            for self.number in range(1, self.arguments.rounds + 1):
                self.one_round()
            if self.link.forced_buffer:
                self.small_buffer()
        except ToolFailed as error:
            print(f"bench: {error}", file=sys.stderr)
            self.record("join", "icecore", {"ok": False})
        finally:
            self.iperf_server.stop()
            if self.client:
                self.client.close()

    def one_round(self):
        """Alternating, so that a slow minute of the machine meets both."""
        self.iperf("backup")
        if self.client:
            self.backup("backup")
        self.iperf("restore", "-R")
        if self.client:
            self.restore()
            self.icecore("net-test", "net-test", {})

    def small_buffer(self):
        """Once, because it takes long; the report of the run must name the cause."""
        self.iperf("backup-64k", "-w", "64K")
        if self.client:
            self.backup("backup-64k")

    def backup(self, line):
        make_random(self.source, self.bytes, f"{self.link.name} {line} {self.number}")
        self.icecore(line, line, {"bytes": self.bytes}, "backup.json")

    def restore(self):
        delete(self.client.target)
        self.client.target.mkdir(parents=True)
        facts = self.icecore("restore", "restore", {"bytes": self.bytes}, "restore.json")
        if facts["ok"]:
            facts["differences"] = compare.check(self.source, self.client.target)
        delete(self.client.target)

    def icecore(self, operation, line, facts, report=None):
        before = self.way.counters()
        facts.update(self.client.run(line, self.source))
        facts["ok"] = facts["exit"] == 0
        if facts["ok"] and "bytes" in facts:
            facts["mbit"] = round(facts["bytes"] * 8 / facts["wall_s"] / 1e6, 1)
        facts.update(self.on_the_wire(before, facts["wall_s"]))
        text = self.client.state / (report or f"{line}.json")
        if text.exists():
            facts["about_buffers"] = about_buffers(text.read_text())
        if facts["ok"] and operation == "net-test":
            facts.update(measured_rates(text.read_text()))
        return self.record(operation, "icecore", facts)

    def iperf(self, operation, *more):
        """As many bytes as the backup has: a slow start costs both the same."""
        command = [*self.way.near, "iperf3", "-c", self.way.address, "-p", str(IPERF_PORT),
                   "-n", str(self.bytes), "-J", *more]
        before = self.way.counters()
        found = subprocess.run(command, capture_output=True, text=True)
        end = json.loads(found.stdout or "{}").get("end", {})
        facts = {"ok": "sum_received" in end, "exit": found.returncode}
        if facts["ok"]:
            facts["wall_s"] = round(end["sum_received"]["seconds"], 3)
            facts["mbit"] = round(end["sum_received"]["bits_per_second"] / 1e6, 1)
            facts["resent"] = end["sum_sent"].get("retransmits")
            facts.update(self.on_the_wire(before, facts["wall_s"]))
        self.record(operation, "iperf3", facts)

    def on_the_wire(self, before, wall_s):
        """What the emulator counted; `missed` other than 0 is a fault of the bench."""
        after = self.way.counters()
        moved = {way: {key: after[way][key] - before[way][key] for key in after[way]}
                 for way in ("near_to_far", "far_to_near")}
        most = max(way["bytes"] for way in moved.values())
        total = {key: sum(way[key] for way in moved.values())
                 for key in ("dropped", "lost", "missed")}
        return {**total, "wire_mbit": round(most * 8 / wall_s / 1e6, 1)}

    def record(self, operation, tool, facts):
        facts = {"link": self.link.name, "round": self.number, "operation": operation,
                 "tool": tool, **facts}
        self.results["runs"].append(facts)
        print(f"{facts['round']} {self.link.name:28} {operation:11} {tool:8}"
              f"{facts.get('mbit', 0):9.1f} Mbit/s {'' if facts['ok'] else 'FAILED'}", flush=True)
        netreport.save("wan", self.results, self.arguments.out)
        return facts


def make_random(folder, size, seed):
    delete(folder)
    folder.mkdir(parents=True)
    rng = random.Random(f"{SEED} {seed}")
    for number in range(FILES):
        textlike.write_random(folder / f"random{number}", size // FILES, rng)


def measured_rates(text):
    """What `icecore net test` says it measured; `mbit` is the slower direction."""
    said = json.loads(text.strip().splitlines()[-1])
    rates = {way: round(said[f"{way}_bytes_per_sec"] * 8 / 1e6, 1) for way in ("up", "down")}
    return {"up_mbit": rates["up"], "down_mbit": rates["down"], "mbit": min(rates.values())}


def about_buffers(text):
    """Every sentence of a report that speaks of a buffer."""
    try:
        return [value for value in strings(json.loads(text)) if "buffer" in value.lower()]
    except ValueError:
        return []


def strings(value):
    """Names and values, so that a field `socket_buffer` counts as well."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from strings(inner) if isinstance(inner, (dict, list)) else [f"{name}: {inner}"]
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    else:
        yield str(value)


if __name__ == "__main__":
    sys.exit(main())
