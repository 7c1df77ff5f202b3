"""One tool's repository during one round: made, filled, read, thrown away."""

import os
import shutil
from pathlib import Path

import commands
import measure
from settings import WORK


class Repository:
    def __init__(self, set_name, tool, place):
        self.tool = tool
        self.spec = commands.TOOLS[tool]
        self.binary = place["path"]
        self.home = WORK / set_name / tool
        self.repo = self.home / "repo"
        self.state = self.home / "state"
        self.target = self.home / "restored"
        self.snapshots = 0
        if (self.home / "snapshots").exists():
            self.snapshots = int((self.home / "snapshots").read_text())

    def variables(self, source):
        return {"BIN": self.binary, "REPO": str(self.repo), "STATE": str(self.state),
                "TARGET": str(self.target), "SOURCE": str(source)}

    def environment(self, source):
        """The tool's own variables with ours filled in; a home of its own for caches."""
        variables = self.variables(source)
        env = {**os.environ, "HOME": str(self.state), "XDG_CACHE_HOME": f"{self.state}/.cache"}
        env.pop("XDG_CONFIG_HOME", None)
        for name, value in self.spec.env.items():
            for key, text in variables.items():
                value = value.replace("$" + key, text)
            env[name] = value
        return env

    def fresh(self, source):
        """An empty repository and an empty client."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.state.mkdir(parents=True)
        self.snapshots = 0
        if self.spec.can("init"):
            self.must("init", source)

    def must(self, line, source):
        """An untimed line that everything after depends on."""
        result = self.run(line, source)
        if result["exit"] not in self.spec.fine:
            raise ToolFailed(f"{self.tool} {line}: exit {result['exit']}, see {self.log_path()}")

    def backup(self, source):
        result = self.run("backup", source)
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
            return measure.run(text, self.environment(source), log,
                               self.variables(source))

    def restore(self, source):
        self.empty_target()
        self.target.mkdir(parents=True)
        return self.run("restore", source)

    def empty_target(self):
        shutil.rmtree(self.target, ignore_errors=True)

    def size_bytes(self):
        """What is stored on the server's side; 0 for what stores nothing."""
        return measure.stored_bytes(self.repo) if self.repo.exists() else 0

    def log_path(self):
        return Path(self.home / "log")


class ToolFailed(Exception):
    pass
