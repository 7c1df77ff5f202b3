"""The claims 1 to 5 of "What it must show", judged from measured figures only.

Every claim is a sentence, a figure of one run, and a limit. One that compares with peers is judged
when every peer that can do it was measured. What was not measured is said to be so, and the bench
fails: a claim that nobody could break does not hold.
"""

from dataclasses import dataclass

from report.figures import Figures
from tools import commands

US = "icecore"
PEERS = ["restic", "rustic", "borg", "bupstash", "kopia"]
PLAIN_SETS = ["small", "large", "middle"]
COMPRESSING_PEERS = ["restic", "rustic", "borg", "bupstash"]

# claim -> what has to be measured for it
NEEDS = {
    1: (["small", "large", "middle", "versions"], ["first", "cold-first"]),
    2: (["small"], ["second", "changed", "cold-second"]),
    3: (["small", "large"], ["restore"]),
    4: (["small", "tree5m"], ["first", "second", "restore", "check"]),
    5: (["small"], ["check", "open", "reclaim"]),
}


@dataclass
class Verdict:
    claim: int
    sentence: str
    figure: float | None
    limit: float
    at_least: bool = False
    against: str = ""

    @property
    def state(self):
        if self.figure is None:
            return "NOT MEASURED"
        held = self.figure >= self.limit if self.at_least else self.figure <= self.limit
        return "PASS" if held else "FAIL"


def apply_needs(arguments):
    """Narrows the command line to one claim; peers are no use for the memory of ours."""
    arguments.sets, arguments.ops = NEEDS[arguments.claim]
    if arguments.claim == 4:
        arguments.tools = [US]


def judge(results):
    figures = Figures(results)
    return [verdict for claim in (first_backup, second_backup, restore, memory, upkeep)
            for verdict in claim(figures)]


def first_backup(f):
    for name in PLAIN_SETS:
        yield Verdict(1, f"{name} first: time of tar + zstd -1",
                      f.ratio(name, "first", US, "tar"), 0.9)
    for name, factor in (("small", 2), ("large", 1.5), ("middle", 1.5)):
        yield faster(1, f, name, "first", COMPRESSING_PEERS, factor)
    yield faster(1, f, "small", "first", ["restic"], 4)
    for name in PLAIN_SETS:
        yield smallest(f, name, "first", 1)
    for name in ("releases", "vm"):
        yield faster(1, f, name, "series", COMPRESSING_PEERS, 1)
    # Equal to the smallest is not smaller than it: hence a limit just below 1.
    yield versions_smallest(f)
    yield Verdict(1, "small cold first: time of reading the files",
                  f.ratio("small", "cold-first", US, "read"), 1.1)


def second_backup(f):
    for operation, limit in (("second", 1.5), ("changed", 3), ("cold-second", 1)):
        yield Verdict(2, f"small {operation}: time of find",
                      f.ratio("small", operation, US, "find"), limit)


def restore(f):
    yield Verdict(3, "small restore: time of zstd -dc + tar x",
                  f.ratio("small", "restore", US, "tar"), 1)
    yield Verdict(3, "large restore: time of cp -a", f.ratio("large", "restore", US, "cp"), 1)
    for name in ("small", "large"):
        yield faster(3, f, name, "restore", PEERS, 1)
        yield Verdict(3, f"{name} restore: differences from the source",
                      differences(f, name), 0)


def memory(f):
    for name, limit in (("small", 150), ("tree5m", 200)):
        for operation in ("first", "second"):
            yield peak(f, name, operation, limit)
    for operation in ("restore", "check"):
        yield peak(f, "small", operation, 200)


def upkeep(f):
    yield faster(5, f, "small", "check", PEERS, 2)
    yield faster(5, f, "small", "reclaim", PEERS, 1)
    yield Verdict(5, "small open: seconds from the password to the list of keys",
                  f.value("small", "open", US), 0.05)
    after = f.value("small", "reclaim", US, "repo_mib")
    fresh = f.value("small", "reclaim", US, "fresh_mib")
    yield Verdict(5, "small reclaim: repository, of a fresh one",
                  after / fresh if after and fresh else None, 1.1)


def faster(claim, f, name, operation, peers, factor):
    """How many times faster than the peer that comes nearest."""
    rival = "the fastest peer" if len(peers) > 1 else peers[0]
    sentence = f"{name} {operation}: times faster than {rival}"
    ratios = {peer: f.ratio(name, operation, peer, US) for peer in able(peers, operation)}
    if missing := lacking(ratios):
        return Verdict(claim, sentence, None, factor, at_least=True, against=missing)
    peer = min(ratios, key=ratios.get)
    return Verdict(claim, sentence, ratios[peer], factor, at_least=True, against=peer)


def able(peers, operation):
    return [peer for peer in peers if commands.offers(peer, operation)]


def lacking(values):
    """Says for whom there is no figure; nothing when all have one."""
    missing = [name for name, value in values.items() if value is None]
    return f"not measured: {', '.join(missing)}" if missing else ""


def smallest(f, name, operation, limit):
    sentence = f"{name} {operation}: repository, of the smallest peer's"
    return of_smallest(sentence, limit, lambda tool: f.value(name, operation, tool, "repo_mib"),
                       able(COMPRESSING_PEERS, operation))


def of_smallest(sentence, limit, size, peers):
    sizes = {tool: size(tool) for tool in [US, *peers]}
    if missing := lacking(sizes):
        return Verdict(1, sentence, None, limit, against=missing)
    ours, best = sizes.pop(US), min(peers, key=sizes.get)
    return Verdict(1, sentence, ours / sizes[best], limit, against=best)


def versions_smallest(f):
    """Both series together, against each peer that did both."""
    def total(tool):
        sizes = [f.value(name, "series", tool, "repo_mib") for name in ("releases", "vm")]
        return None if None in sizes else sum(sizes)

    return of_smallest("versions: repositories, of the smallest peer's", 0.9999, total,
                       able(COMPRESSING_PEERS, "series"))


def peak(f, name, operation, limit):
    return Verdict(4, f"{name} {operation}: peak memory, MiB",
                   f.largest(name, operation, US, "peak_mib"), limit)


def differences(f, name):
    counts = [len(run["differences"]) for run in f.of(name, "restore", US)
              if "differences" in run]
    return max(counts) if counts else None


def table(verdicts):
    rows = ["| claim | what | measured | bar | against | verdict |", "|---|---|---|---|---|---|"]
    for v in verdicts:
        measured = "" if v.figure is None else f"{v.figure:.2f}"
        bar = f"{'≥' if v.at_least else '≤'} {v.limit:g}"
        rows.append(f"| {v.claim} | {v.sentence} | {measured} | {bar} | {v.against} | {v.state} |")
    return "\n".join(rows) + "\n"
