"""One server while it is measured: started, waited for, watched, ended."""

import itertools
import os
import signal
import subprocess
import sys
import time

from tools import measure
from tools.repository import ToolFailed

START_S = 30                 # certificates and databases are made meanwhile
STOP_S = 20
LISTENING = "0A"             # state of a socket in /proc/net/tcp
ports = itertools.count(18443)


def end_cleanly():
    """SIGTERM like Ctrl-C: servers end and namespaces go."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class Service:
    """A shell line that becomes the server (`exec`): its process is ours to end."""

    def __init__(self, line, env, prefix, port, log):
        self.log = log
        self.process = subprocess.Popen([*prefix, "bash", "-c", line], env=env, stdout=log,
                                        stderr=log, stdin=subprocess.DEVNULL,
                                        start_new_session=True)
        self.wait_for(port)

    def wait_for(self, port):
        deadline = time.monotonic() + START_S
        while not self.listens(port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ToolFailed(f"the server does not listen, see {self.log.name}")
            time.sleep(0.05)

    def listens(self, port):
        """Of any process in the server's namespace."""
        wanted = f":{port:04X}"
        for table in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{self.process.pid}/net/{table}") as file:
                    rows = [line.split() for line in file]
            except OSError:
                continue
            if any(row[1].endswith(wanted) and row[3] == LISTENING for row in rows[1:]):
                return True
        return False

    def forget_peak(self):
        """From now on `peak_mib` is about what comes."""
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def peak_mib(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return round(int(lines["VmHWM"].split()[0]) / measure.KIB_PER_MIB, 1)

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return sum(int(n) for n in fields[11:15]) * measure.TICK_S

    def stop(self):
        """By its number; it leads a session, so what it started is meant too."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                os.killpg(self.process.pid, number)
            try:
                self.process.wait(STOP_S)
                break
            except subprocess.TimeoutExpired:
                continue
        self.log.close()
