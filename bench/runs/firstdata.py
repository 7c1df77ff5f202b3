"""How long a client with millions of files thinks before the first data is on its way."""

import subprocess
import threading
import time

from sets import tree5m
from settings import KIB
from tools import served
from tools.deployment import ServedRepository
from tools.repository import ToolFailed, delete

# More than certificates and control messages take; less than one container of data.
DATA_BYTES = 64 * KIB
LOOK_S = 0.005


def measure(arguments, tools, paths, way, record, home):
    """Round by round; `find` says what the walk alone takes."""
    tree = home / "tree"
    try:
        make_tree(tree, arguments.files)
        for number in range(1, arguments.rounds + 1):
            facts = {"round": number, "size": "tree", "agents": 1}
            record({**facts, "operation": "walk", "tool": "find", **walk(tree)})
            for tool in [name for name in tools if served.TOOLS[name].server]:
                record({**facts, "operation": "first-data", "tool": tool,
                        **first_data(tool, paths, way, tree)})
    finally:
        subprocess.run(["umount", "-q", tree])
        delete(home)


def make_tree(tree, files):
    """In memory, where a file costs a kilobyte; nearly all of them are empty."""
    tree.mkdir(parents=True)
    # More than the files alone: the maker looks whether there are enough.
    limits = f"nr_inodes={files * 2},size=80%"
    subprocess.run(["mount", "-t", "tmpfs", "-o", limits, "bench", tree], check=True)
    print(f"bench: making {files:,} files", flush=True)
    tree5m.ENTRIES = files
    tree5m.make(tree)


def walk(tree):
    started = time.perf_counter()
    code = subprocess.run(["find", tree, "-printf", "%s %T@ %m %i\n"],
                          stdout=subprocess.DEVNULL).returncode
    return {"ok": code == 0, "wall_s": round(time.perf_counter() - started, 3)}


def first_data(tool, paths, way, tree):
    spec = served.TOOLS[tool]
    client = ServedRepository("first-data", tool, {"path": paths[spec.program]}, spec, paths, way)
    try:
        client.fresh(tree)
        with Watch(client.server.service.process.pid) as watch:
            facts = client.run("backup", tree)
        return {**facts, "ok": facts["exit"] in spec.fine, "first_data_s": watch.first_s}
    except ToolFailed as error:
        print(f"bench: {error}")
        return {"ok": False, "wall_s": 0.0}
    finally:
        client.close()
        delete(client.home)


class Watch:
    """Notes when loopback, as the server sees it, has carried more than talk."""

    def __init__(self, server_pid):
        self.table = f"/proc/{server_pid}/net/dev"
        self.first_s = None
        self.bytes_before = self.carried()

    def __enter__(self):
        self.started = time.perf_counter()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def watch(self):
        while not self.done.wait(LOOK_S):
            if self.carried() - self.bytes_before > DATA_BYTES:
                self.first_s = round(time.perf_counter() - self.started, 3)
                return

    def carried(self):
        with open(self.table) as file:
            rows = dict(line.split(":", 1) for line in file if ":" in line)
        rows = {name.strip(): fields for name, fields in rows.items()}
        return int(rows["lo"].split()[0])
