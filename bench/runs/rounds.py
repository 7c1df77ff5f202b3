"""One round over one data set: every operation, every tool, in alternating order.

Within one operation the tools run directly after one another, so that a slow minute of
the machine meets them all; every round starts with another tool.
"""

import sys
from contextlib import ExitStack

from runs import compare
from sets import datasets, mutate
from settings import MIB, WORK
from tools import commands, measure
from tools.pin import Pinned
from tools.repository import Repository, ToolFailed, delete

RECLAIM_SNAPSHOTS = 10       # the claim: forget 9 of 10
# `tree5m` has too many files to map.
PINNED_SETS = ("small", "middle", "large", "releases", "vm")
# A run that something disturbed is made again, so often at most; what changes things cannot be.
ATTEMPTS = 3
REPEATABLE = ("first", "second", "restore", "restore-synced", "check", "open", "cold-first")


class Round:
    def __init__(self, set_name, tools, number, record, verify=(), make=Repository,
                 is_disturbed=lambda run: False):
        self.set = set_name
        self.number = number
        self.record = record             # called with every finished run
        self.verify = verify             # tools whose restores are compared
        self.is_disturbed = is_disturbed
        self.source = datasets.path(set_name)
        names = list(tools)
        turn = (number - 1) % len(names) if names else 0
        self.repositories = [make(set_name, name, tools[name])
                             for name in names[turn:] + names[:turn]]

    def run(self, operations):
        """Warm operations with the set pinned, cold ones without."""
        warm = [o for o in operations if not o.startswith("cold")]
        cold = [o for o in operations if o.startswith("cold")]
        with ExitStack() as stack:
            if warm and self.set in PINNED_SETS:
                stack.enter_context(Pinned(self.source))
            self.each(warm)
        self.each(cold)

    def each(self, operations):
        for operation in operations:
            getattr(self, operation.replace("-", "_"))()

    def offering(self, operation):
        return [r for r in self.repositories if commands.offers(r.tool, operation)]

    def for_tools(self, operation, action, repositories=None):
        """A tool that fails is reported and left out of the figures, not the end."""
        for repository in (self.offering(operation) if repositories is None
                           else repositories):
            for _ in range(ATTEMPTS if operation in REPEATABLE else 1):
                try:
                    facts = action(repository)
                except (ToolFailed, OSError) as error:
                    print(f"bench: {error}", file=sys.stderr)
                    break
                if not self.is_disturbed(self.save(operation, repository, facts)):
                    break

    def save(self, operation, repository, facts):
        ok = facts["exit"] in repository.spec.fine
        run = {"set": self.set, "operation": operation, "tool": repository.tool,
               "round": self.number, "ok": ok, **facts}
        self.record(run)
        if not ok:
            print(f"bench: {repository.tool} {operation} failed with {facts['exit']}, "
                  f"see {repository.log_path()}", file=sys.stderr)
        return run

    # The operations.

    def first(self):
        self.for_tools("first", self.first_backup)

    def first_backup(self, repository):
        repository.fresh(self.source)
        return self.backup(repository)

    def backup(self, repository):
        facts = repository.backup(self.source)
        if not repository.repo.exists():
            return facts                 # find and read store nothing
        return {**facts, "repo_mib": round(repository.size_bytes() / MIB, 1)}

    def second(self):
        self.for_tools("second", lambda r: (self.prepare(r), self.backup(r))[1])

    def changed(self):
        """Every tool gets its first backup before anything changes."""
        ready = self.prepared("changed")
        mutate.change(self.set)
        self.for_tools("changed", self.backup, ready)

    def restore(self):
        self.for_tools("restore", lambda r: self.restore_once(r, "restore"))

    def restore_synced(self):
        self.for_tools("restore-synced", lambda r: self.restore_once(r, "restore-synced"))

    def restore_once(self, repository, line):
        self.prepare(repository)
        repository.empty_target()
        repository.warm()
        facts = repository.restore(line, self.source)
        if repository.tool in self.verify:
            facts["differences"] = compare.check(self.source, repository.target)
        repository.remove_target()
        return facts

    def check(self):
        self.for_tools("check", self.check_once)

    def check_once(self, repository):
        self.prepare(repository)
        repository.warm()
        return repository.run("check", self.source)

    def open(self):
        self.for_tools("open", self.open_once)

    def open_once(self, repository):
        self.prepare(repository)
        return repository.run("open", self.source)

    def reclaim(self):
        """Ten snapshots with 1 % changed between them; then all but one are forgotten."""
        ready = self.prepared("reclaim")
        for _ in range(RECLAIM_SNAPSHOTS):
            behind = [r for r in ready if r.snapshots < RECLAIM_SNAPSHOTS]
            if not behind:
                break
            mutate.change(self.set)
            for repository in behind:
                repository.backup(self.source)
        self.for_tools("reclaim", self.reclaim_once, ready)

    def reclaim_once(self, repository):
        if repository.snapshots < RECLAIM_SNAPSHOTS:
            raise ToolFailed(f"{repository.tool} made only {repository.snapshots} snapshots, "
                             f"see {repository.log_path()}")
        before = repository.size_bytes()
        facts = repository.run("reclaim", self.source)
        after = repository.size_bytes()
        return {**facts, "before_mib": round(before / MIB, 1), "repo_mib": round(after / MIB, 1),
                "fresh_mib": self.fresh_size_mib(repository)}

    def fresh_size_mib(self, repository):
        """What a new repository of the same files takes; it replaces the reclaimed one."""
        repository.fresh(self.source)
        repository.must("backup", self.source)
        size = repository.size_bytes()
        delete(repository.home)
        repository.snapshots = 0
        return round(size / MIB, 1)

    def cold_first(self):
        self.at_hand()
        self.for_tools("cold-first", self.cold(self.first_backup))

    def cold_second(self):
        self.at_hand()
        self.for_tools("cold-second", self.cold(self.backup), self.prepared("cold-second"))

    def at_hand(self):
        """Has a virtual disk's host read the set: else the first tool alone waits for the real disk."""
        with Pinned(self.source):
            pass

    def cold(self, action):
        def run(repository):
            measure.drop_caches()
            return action(repository)
        return run

    def series(self):
        """All generations in turn into one repository; the last size is what counts."""
        self.for_tools("series", self.series_once)

    def series_once(self, repository):
        generations = datasets.generations(self.set)
        repository.fresh(self.source / "current")
        parts = [self.generation(repository, one) for one in generations]
        total = {key: round(sum(part[key] for part in parts), 3)
                 for key in ("wall_s", "user_s", "system_s", "foreign_cpu_s",
                             "read_mib", "written_mib")}
        return {**total, "peak_mib": max(part["peak_mib"] for part in parts),
                "exit": max(part["exit"] for part in parts),
                "walls_s": [part["wall_s"] for part in parts],
                "repo_mib": round(repository.size_bytes() / MIB, 1)}

    def generation(self, repository, folder):
        """Every generation stands at the same path while it is backed up."""
        with datasets.as_current(folder) as source:
            return repository.backup(source)

    # What has to be there before.

    def prepare(self, repository):
        """A first backup that is not measured, unless there is one."""
        if repository.spec.can("init") and not repository.snapshots:
            repository.fresh(self.source)
            repository.must("backup", self.source)

    def prepared(self, operation):
        """Those that offer the operation and have a first backup; the others are named."""
        ready = []
        for repository in self.offering(operation):
            try:
                self.prepare(repository)
                ready.append(repository)
            except ToolFailed as error:
                print(f"bench: {error}", file=sys.stderr)
        return ready

    def clean(self):
        for repository in self.repositories:
            repository.close()
        delete(WORK / self.set)
