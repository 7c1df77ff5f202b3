"""One tool's repository during one round: made, filled, read, thrown away."""

import os
import shutil
import time
from pathlib import Path

from settings import TARGETS, WORK
from tools import commands, measure, peers, target

MANY_INODES = 20_000         # fewer are stepped over in no time
INODE_REST_S = 62            # RECENTCY_MIN of ext4, and a little


class Repository:
    def __init__(self, set_name, tool, program, spec=None):
        self.tool = tool
        self.spec = spec or commands.TOOLS[tool]
        self.binary = program["path"]
        self.home = WORK / set_name / tool
        self.repo = self.home / "repo"
        self.state = self.home / "state"
        place = target.MOUNT if target.is_made() else TARGETS
        self.target = place / set_name / tool / "restored"
        self.snapshots = 0
        if (self.home / "snapshots").exists():
            self.snapshots = int((self.home / "snapshots").read_text())

    def variables(self, source):
        return {"BIN": self.binary, "REPO": str(self.repo), "STATE": str(self.state),
                "TARGET": str(self.target), "SOURCE": str(source)}

    def fresh(self, source):
        """An empty repository and an empty client."""
        self.close()
        delete(self.home)
        self.state.mkdir(parents=True)
        self.snapshots = 0
        self.open()
        if self.spec.can("init"):
            self.must("init", source)

    def open(self):
        """What has to run meanwhile: nothing, where there is no server."""

    def close(self):
        """Ends what `open` began."""

    def prefix(self):
        """Words before every command."""
        return []

    def must(self, line, source):
        """An untimed line that everything after depends on."""
        result = self.backup(source) if line == "backup" else self.run(line, source)
        if result["exit"] not in self.spec.fine:
            raise ToolFailed(f"{self.tool} {line}: exit {result['exit']}, see {self.log_path()}")

    def backup(self, source):
        result = self.run("backup", source)
        if result["exit"] in self.spec.fine:
            self.snapshots += 1
            (self.home / "snapshots").write_text(f"{self.snapshots}\n")
        return result

    def run(self, line, source):
        return self.run_line(self.spec.lines[line], source)

    def run_line(self, text, source):
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.log_path(), "ab") as log:
            log.write(f"\n== {text}\n".encode())
            log.flush()
            variables = self.variables(source)
            return measure.run(text, environment(self.spec.env, variables, self.state), log,
                               variables, self.prefix())

    def restore(self, line, source):
        self.target.mkdir(parents=True)
        return self.run(line, source)

    def empty_target(self):
        if target.is_made():
            target.remake()
        else:
            delete(self.target)

    def remove_target(self):
        if target.is_made():
            target.release()
        else:
            delete(self.target)

    def warm(self):
        """Repository, client caches and the program itself, read once."""
        measure.warm(self.home)
        peers.version_of(self.tool, self.binary)

    def size_bytes(self):
        """What is stored on the server's side; 0 for what stores nothing."""
        return measure.stored_bytes(self.repo) if self.repo.exists() else 0

    def log_path(self):
        return Path(self.home / "log")


def environment(wanted, variables, state):
    """The tool's own variables with ours filled in; a home of its own for caches."""
    env = {**os.environ, "HOME": str(state), "XDG_CACHE_HOME": f"{state}/.cache"}
    env.pop("XDG_CONFIG_HOME", None)
    for name, value in wanted.items():
        # Longer names first: $CLIENTS is not $CLIENT and an s.
        for key in sorted(variables, key=len, reverse=True):
            value = value.replace("$" + key, variables[key])
        env[name] = value
    return env


def delete(folder):
    """Deletes a tree so that it cannot slow down what is created after it.

    ext4 keeps a deleted inode back for 60 s (300 s when its block is not yet written),
    and whoever creates files steps over all of them: `tar x` took 158 s of system time
    instead of 40 s after a restore had been deleted. So: write everything out, and wait.
    """
    if not folder.exists():
        return
    before = free_inodes(folder.parent)
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()
    if free_inodes(folder.parent) - before > MANY_INODES:
        time.sleep(INODE_REST_S)


def free_inodes(folder):
    return os.statvfs(folder).f_ffree


class ToolFailed(Exception):
    pass
