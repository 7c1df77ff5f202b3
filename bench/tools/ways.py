"""The ways between a client and its server: loopback, or a link that `wan` imitates.

Each has: `near` and `far`, words before a command that put it at one end; `address`, where
the server listens; `carried()`, bytes so far to the server and back.
"""

import json
import os
import subprocess

from settings import WAN_BIN


class Loopback:
    """A namespace of its own, where nobody else's bytes are counted; else the machine's."""

    address = "127.0.0.1"

    def __init__(self):
        self.name = f"bench-{os.getpid()}"
        self.near = self.far = []

    def __enter__(self):
        if os.geteuid() == 0:
            subprocess.run(["ip", "netns", "add", self.name], check=True)
            subprocess.run(["ip", "-n", self.name, "link", "set", "lo", "up"], check=True)
            self.near = self.far = inside(self.name)
        return self

    def __exit__(self, *_):
        if self.near:
            subprocess.run(["ip", "netns", "delete", self.name], check=True)

    def carried(self):
        """Both directions in one: what loopback sends it also receives."""
        namespace = ["-n", self.name] if self.near else []
        text = subprocess.run(["ip", *namespace, "-j", "-s", "link", "show", "dev", "lo"],
                              check=True, capture_output=True).stdout
        return json.loads(text)[0]["stats64"]["rx"]["bytes"], 0


class Wan:
    """`bench/wan` as a child: it cleans up when its standard input ends, even by a crash."""

    def __init__(self, options):
        self.command = [str(WAN_BIN), *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE)
        self.facts = self.answer()
        self.near = inside(self.facts["near"]["namespace"])
        self.far = inside(self.facts["far"]["namespace"])
        self.address = self.facts["far"]["address"]
        for end in (self.near, self.far):
            # What one connection learned about the route must not help the next: all start alike.
            subprocess.run([*end, "sysctl", "-q", "-w", "net.ipv4.tcp_no_metrics_save=1"],
                           check=True)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise OSError(f"{self.command[0]} ended: see what it said above")
        return json.loads(line)

    def counters(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def carried(self):
        counters = self.counters()
        return counters["near_to_far"]["bytes"], counters["far_to_near"]["bytes"]


def inside(namespace):
    return ["ip", "netns", "exec", namespace]
