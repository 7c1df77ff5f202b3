"""What the file system of the restores itself carries: as many `cp -r` at once as there are agents.

Nothing is decompressed, checked or sent: how far these fall with small files is the file system's
doing, and a restore that falls further does the rest itself.
"""

import subprocess
from types import SimpleNamespace

from runs.crowd import Crowd
from tools.repository import delete

TOOL = "cp"
# On the disk at the end, as a restore is.
SPEC = SimpleNamespace(lines={"restore": 'cp -r "$SOURCE" "$TARGET" && sync -f "$TARGET"'},
                       fine=(0,), env={})
NOBODY = SimpleNamespace(words={}, watch=lambda: None, stop=lambda: None, seen=lambda before: {})


class Copies(Crowd):
    def __init__(self, home, way, sources, count):
        self.spec, self.home, self.way, self.sources = SPEC, home, way, sources
        self.names = [f"client{number + 1}" for number in range(count)]
        self.server, self.targets = NOBODY, home / "restored"

    def open(self):
        delete(self.home)
        for name in self.names:
            (self.home / name).mkdir(parents=True)


def version():
    said = subprocess.run(["cp", "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return said.splitlines()[0]
