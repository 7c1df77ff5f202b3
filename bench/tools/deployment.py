"""A server and its clients: folders, lines and figures of both ends."""

import shutil

from settings import GIB, MIB
from tools import measure
from tools.repository import Repository, ToolFailed, environment
from tools.service import Service, ports

SPARE = 4 * GIB              # others use the disk, too: a bench never takes the last of it


class Server:
    """What the clients of one tool share."""

    def __init__(self, spec, tool, programs, home, way, clients=("client1",)):
        self.spec, self.tool, self.way = spec, tool, way
        self.home, self.repo, self.shared = home, home / "repo", home / "shared"
        self.service = None
        self.words = {"BIN": programs[spec.program], "REPO": str(self.repo),
                      "SERVER_BIN": programs.get(spec.server_program, ""),
                      "SHARED": str(self.shared), "STATE": str(self.shared),
                      "CLIENTS": " ".join(clients), "ADDRESS": way.address,
                      "PORT": str(next(ports))}

    def start(self):
        leave_space(self.home.parent)
        self.repo.mkdir(parents=True)
        self.shared.mkdir(parents=True)
        env = environment(self.spec.env, self.words, self.shared)
        log = open(self.home / "server.log", "ab")
        if self.spec.prepare:
            facts = measure.run(self.spec.prepare, env, log, self.words, self.way.far)
            if facts["exit"]:
                raise ToolFailed(f"{self.tool}: not prepared, see {log.name}")
        if self.spec.server:
            self.service = Service(self.spec.server, {**env, **self.words}, self.way.far,
                                   int(self.words["PORT"]), log)

    def stop(self):
        if self.service:
            self.service.stop()
            self.service = None

    def watch(self):
        """The state before a run, for `seen`."""
        if self.service:
            self.service.forget_peak()
        return self.way.carried(), self.service.cpu_s() if self.service else 0

    def seen(self, before):
        """What the run that began at `before` cost the server and the way."""
        (up, down), cpu = before
        up, down = (now - old for now, old in zip(self.way.carried(), (up, down)))
        facts = {}
        if self.service:
            facts = {"server_peak_mib": self.service.peak_mib(),
                     "server_cpu_s": round(self.service.cpu_s() - cpu, 2),
                     "up_mib": round(up / MIB, 1), "down_mib": round(down / MIB, 1)}
        peak = self.shared / "peak-kib"
        if peak.exists():
            # A server that the client started: `time` wrote its peak as the last word.
            facts["server_peak_mib"] = round(int(peak.read_text().split()[-1]) / 1024, 1)
        return facts


class ServedRepository(Repository):
    """A client with a server of its own, measured like a repository beside it."""

    def __init__(self, set_name, tool, program, spec, programs, way):
        super().__init__(set_name, tool, program, spec)
        self.server = Server(spec, tool, programs, self.home, way)
        self.way = way

    def variables(self, source):
        return {**self.server.words, **super().variables(source), "CLIENT": "client1"}

    def open(self):
        self.server.start()

    def close(self):
        self.server.stop()

    def run_line(self, text, source):
        before = self.server.watch()
        facts = super().run_line(text, source)
        facts.update(self.server.seen(before))
        # The server is none of the others.
        foreign_s = facts["foreign_cpu_s"] - facts.get("server_cpu_s", 0)
        return {**facts, "foreign_cpu_s": round(max(0.0, foreign_s), 2)}

    def prefix(self):
        return self.way.near


def leave_space(folder):
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < SPARE:
        raise ToolFailed(f"only {free // GIB} GiB are free under {folder}")
