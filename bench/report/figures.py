"""Medians and ratios from the raw runs: everything that is said rests on these."""

from statistics import median

# Above these a single run is marked as doubtful.
FOREIGN_SHARE = 0.10         # CPU time of others, of all the cores had meanwhile
# Less than this is no disturbance: it is counted in hundredths of a second, and taking the time costs one or two.
FOREIGN_MIN_S = 0.05
# Bytes from disk in a warm run, of the bytes of the set. Directories and inodes cannot be locked in memory: of programs
# that take a minute and more, the kernel takes some back meanwhile (3 to 4 % of `small` in 90 s, in each of three tries).
READ_SHARE = 0.05
READS_THE_SET = ("first", "second", "changed")


REFERENCES = ("icecore", "tar", "find", "cp", "read")

TITLES = {"first": "First backup", "second": "Second backup, nothing changed",
          "changed": "Backup, 1 % of the files changed", "restore": "Restore",
          "restore-synced": "Restore until all is on the disk",
          "check": "Check, all data read", "open": "Open with a password, and list the keys", "reclaim": "Forget 9 of 10 snapshots and reclaim",
          "cold-first": "First backup, cold cache",
          "cold-second": "Second backup, cold cache", "series": "All generations in turn"}


class Figures:
    """Of the runs that ended well; those that something disturbed are no figures either."""

    def __init__(self, results):
        self.results = results
        self.ended = [run for run in results["runs"] if run["ok"]]
        self.runs = [run for run in self.ended if not any(self.doubts_of(run))]

    def of(self, set_name, operation, tool):
        return [run for run in self.runs if run["set"] == set_name
                and run["operation"] == operation and run["tool"] == tool]

    def value(self, set_name, operation, tool, key="wall_s"):
        """The median, or None when it was not measured."""
        values = [run[key] for run in self.of(set_name, operation, tool) if key in run]
        return median(values) if values else None

    def largest(self, set_name, operation, tool, key):
        """Limits hold for the worst run, not for the median, and a disturbed one is a run, too."""
        values = [run[key] for run in self.ended if run["set"] == set_name
                  and run["operation"] == operation and run["tool"] == tool and key in run]
        return max(values) if values else None

    def ratio(self, set_name, operation, tool, other, key="wall_s"):
        """Median of the ratios within each round: a slow round slows both sides."""
        theirs = {run["round"]: run[key] for run in self.of(set_name, operation, other)
                  if run.get(key)}
        ratios = [run[key] / theirs[run["round"]]
                  for run in self.of(set_name, operation, tool)
                  if run["round"] in theirs and key in run]
        return median(ratios) if ratios else None

    def lowest(self, set_name, operation, tools, key="wall_s"):
        """(tool, median) of the best of several tools, or None."""
        values = [(self.value(set_name, operation, tool, key), tool) for tool in tools]
        values = [(value, tool) for value, tool in values if value is not None]
        return min(values)[::-1] if values else None

    def tools_of(self, set_name, operation):
        return [tool for tool in self.names("tool") if self.of(set_name, operation, tool)]

    def reference(self, set_name, operation):
        """Ours where it ran; else a baseline, else whoever ran first."""
        tools = self.tools_of(set_name, operation)
        return next((tool for tool in REFERENCES if tool in tools), tools[0])

    def names(self, key):
        """Sets, operations or tools that have runs, in order of appearance."""
        return list(dict.fromkeys(run[key] for run in self.results["runs"]))

    def doubtful(self):
        """Sentences about runs that something disturbed."""
        for run in self.ended:
            label = f"round {run['round']}, {run['set']} {run['operation']} {run['tool']}"
            yield from (f"{label}: {doubt}" for doubt in self.doubts_of(run))

    def doubts_of(self, run):
        cores = self.results["machine"]["cores"]
        if run["foreign_cpu_s"] > max(FOREIGN_MIN_S, FOREIGN_SHARE * run["wall_s"] * cores):
            yield f"others used {run['foreign_cpu_s']} s of CPU"
        if self.read_too_much(run):
            yield f"read {run['read_mib']} MiB from disk"

    def read_too_much(self, run):
        """In a warm run over a pinned set; what else is read from disk stands in the table."""
        if run["operation"] not in READS_THE_SET or run["set"] not in self.results["sets"]:
            return False
        size_mib = self.results["sets"][run["set"]]["bytes"] / 2**20
        return run["read_mib"] > READ_SHARE * size_mib
