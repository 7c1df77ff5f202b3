"""A server and its database, as the measurement of lists uses them."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

START_S = 60
QUIET = {"HOME": "/nonexistent"}


class Server:
    """A folder of a server, which is started and stopped."""

    def __init__(self, binary, home):
        self.binary, self.home = Path(binary), home
        self.data, self.log = home / "data", home / "server.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def authority(self):
        return str(self.data / "ca/ca.pem")

    @property
    def token(self):
        return (self.data / "admin-token").read_text().strip()

    @contextlib.contextmanager
    def running(self, level="warn"):
        self.log.write_text("")
        with open(self.log, "ab") as log:
            line = [self.binary, "server", "--log", level, "--listen", f"127.0.0.1:{self.port}",
                    "--data", self.data]
            process = subprocess.Popen(line, env={**os.environ, **QUIET}, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            said = process.stdout.readline()
            if not said.startswith("serving"):
                raise SystemExit(f"the server does not start: {said}{self.log.read_text()[-2000:]}")
            yield Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def run(self, *arguments, **more):
        """A command of the program; what it printed."""
        done = subprocess.run([self.binary, *arguments], env={**os.environ, **QUIET, **more},
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def govern(self, *arguments):
        return self.run("server", "--data", self.data, *arguments)

    def move(self, to):
        """Moves the catalog; how long that took."""
        begun = time.monotonic()
        self.govern("catalog", "move", to)
        return time.monotonic() - begun


class Process:
    """A process that is watched."""

    def __init__(self, pid):
        self.pid = pid

    def peak_mib(self):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        return 0


class Database:
    """A PostgreSQL of its own, reached by a socket in its folder."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True)
        self.owner = []
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
            self.owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
            for above in (folder, *folder.parents[:4]):
                if not above.stat().st_mode & 0o001 and above != folder:
                    above.chmod(above.stat().st_mode | 0o011)
        self.run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C",
                 "-D", folder / "data")
        line = [*self.owner, program("postgres"), "-D", folder / "data", "-k", folder,
                "-c", "listen_addresses="]
        with open(folder.parent / "postgresql.log", "ab") as log:
            self.process = subprocess.Popen(line, stdout=log, stderr=log, cwd="/")
        deadline = time.monotonic() + START_S
        while not (folder / ".s.PGSQL.5432").exists():
            if time.monotonic() > deadline:
                raise SystemExit("PostgreSQL does not start")
            time.sleep(0.1)
        time.sleep(1)
        self.run("createdb", "-h", folder, "-U", "postgres", "icecore")
        self.reached = f"host={folder} user=postgres dbname=icecore"

    def run(self, name, *arguments):
        subprocess.run([*self.owner, program(name), *arguments], check=True, cwd="/",
                       stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def program(name):
    """Debian has them in folders by version, which are not in `PATH`."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda at: int(at.parent.name))
    found = shutil.which(name, path=":".join([*map(str, reversed(versions)), os.environ["PATH"]]))
    if not found:
        raise SystemExit(f"{name} is missing: make setup (Debian: apt-get install postgresql)")
    return found
