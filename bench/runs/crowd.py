"""Many clients of one server that all begin at the same moment."""

import random
import subprocess
import time

from sets import textlike
from settings import MIB, SEED
from tools import measure, served, target
from tools.deployment import Server
from tools.repository import ToolFailed, delete, environment

# With more clients each gets half of the data: disks are finite.
FEW = 4
FILES_PER_FOLDER = 100


class Sources:
    """Files of one size for every client, no two alike, in two halves."""

    def __init__(self, folder, file_bytes, client_bytes):
        self.folder, self.file_bytes = folder, file_bytes
        self.files_of_half = max(1, client_bytes // 2 // file_bytes)

    def make(self, clients, pool):
        delete(self.folder)
        rng = random.Random(SEED + self.file_bytes)
        for client in range(clients):
            for half in range(2 if client < FEW else 1):
                self.make_half(self.folder / f"client{client + 1}" / f"half{half + 1}", pool, rng)

    def make_half(self, folder, pool, rng):
        for number in range(self.files_of_half):
            place = folder / f"{number // FILES_PER_FOLDER:03}"
            place.mkdir(parents=True, exist_ok=True)
            textlike.write(place / f"{number:05}.txt", self.file_bytes, pool, rng)

    def of(self, client, clients):
        """(folder, bytes) that one of so many backs up."""
        folder = self.folder / client
        if clients <= FEW:
            return folder, 2 * self.files_of_half * self.file_bytes
        return folder / "half1", self.files_of_half * self.file_bytes


class Crowd:
    def __init__(self, tool, programs, home, way, sources, count):
        self.spec, self.home, self.way, self.sources = served.TOOLS[tool], home, way, sources
        self.names = [f"client{number + 1}" for number in range(count)]
        self.server = Server(self.spec, tool, programs, home / "server", way, self.names)
        self.targets = home / "restored"

    def open(self):
        """A new server that knows all clients; one joins after another."""
        delete(self.home)
        self.server.start()
        for name in self.names:
            (self.home / name).mkdir(parents=True)
            client = self.start("init", name)
            if client.wait() not in self.spec.fine:
                raise ToolFailed(f"{name} did not join, see {self.home / name / 'log'}")

    def close(self):
        self.server.stop()
        delete(self.home)
        if target.is_made():
            target.release()

    def run(self, line):
        """All at once; the figures of all together and of each."""
        self.make_targets(line)
        before, busy = self.server.watch(), measure.busy_cpu_s()
        started = time.perf_counter()
        ends = self.wait([(name, self.start(line, name)) for name in self.names])
        wall = time.perf_counter() - started
        facts = self.server.seen(before)
        each = [self.figures(name, *ends[name], started) for name in self.names]
        total = sum(client["bytes"] for client in each)
        return {"ok": all(client["ok"] for client in each), "wall_s": round(wall, 3),
                "bytes": total, "mib_s": round(total / MIB / wall, 1),
                # As those who measure many clients add them up: each by its own time.
                "sum_of_rates_mib_s": round(sum(client["mib_s"] for client in each), 1),
                "client_peak_mib": max(client["peak_mib"] for client in each),
                "client_cpu_s": round(sum(client["cpu_s"] for client in each), 2),
                "cpu_share": round((measure.busy_cpu_s() - busy) / wall, 2),
                **facts, "each_mib_s": [client["mib_s"] for client in each]}

    def make_targets(self, line):
        if line != "restore":
            return
        if target.is_made():
            target.remake()
            self.targets = target.MOUNT
        for name in self.names:
            (self.targets / name).mkdir(parents=True)

    def start(self, line, name):
        source, _ = self.sources.of(name, len(self.names))
        state = self.home / name
        words = {**self.server.words, "CLIENT": name, "STATE": str(state),
                 "SOURCE": str(source), "TARGET": str(self.targets / name)}
        env = {**environment(self.spec.env, words, state), **words}
        with open(state / "log", "ab") as log:
            return subprocess.Popen(
                [measure.TIME, "-f", measure.FORMAT, "-o", state / "time", *self.way.near,
                 "bash", "-o", "pipefail", "-c", self.spec.lines[line]],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @staticmethod
    def wait(running):
        """{name: (when it ended, exit code)}; looks often enough for times of a second."""
        ends = {}
        while len(ends) < len(running):
            for name, process in running:
                if name not in ends and process.poll() is not None:
                    ends[name] = time.perf_counter(), process.returncode
            time.sleep(0.005)
        return ends

    def figures(self, name, ended, code, started):
        _, size = self.sources.of(name, len(self.names))
        words = (self.home / name / "time").read_text().splitlines()[-1].split()
        return {"ok": code in self.spec.fine, "bytes": size,
                "mib_s": round(size / MIB / (ended - started), 1),
                "cpu_s": float(words[0]) + float(words[1]),
                "peak_mib": round(int(words[2]) / measure.KIB_PER_MIB, 1)}
