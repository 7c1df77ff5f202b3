"""Repositories in a bucket: time and requests of Icecore and its peers at the same object storage, versitygw on loopback.

    buckets.py                  three rounds on SMALL
    buckets.py --rounds 1 --out results/2026-11-23-buckets

Each round: backup into an empty repository, the same without changes, restore of one file, for each program in a bucket
of its own, and through a server of Icecore whose pool is a bucket; and what Icecore takes with a directory or a pool on
the same disk. Who begins changes with every round. The requests are those that the storage has logged. Needs root: the
source is pinned in memory.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path

from runs import machine
from sets import datasets
from settings import ICECORE_BIN, WORK
from tools import peers
from tools.pin import Pinned

FOLDER = WORK / "buckets"
TARGET = FOLDER / "target"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "only-for-benchmarks"}
OPERATIONS = ["first", "second", "one file", "first, directory", "second, directory", "one file, directory"]
KINDS = {"List": "list", "Get": "read", "Head": "read", "Delete": "delete"}


class Storage:
    """A versitygw over a folder."""

    def __enter__(self):
        shutil.rmtree(FOLDER, ignore_errors=True)
        for part in ("data", "iam", "home"):
            (FOLDER / part).mkdir(parents=True)
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        self.log = FOLDER / "requests"
        program = shutil.which("versitygw") or Path.home() / "go/bin/versitygw"
        command = [program, "--port", f"127.0.0.1:{self.port}", "--iam-dir", FOLDER / "iam",
                   "--access-log", self.log, "posix", FOLDER / "data"]
        secrets = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
                   "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
        self.process = subprocess.Popen(command, env={**os.environ, **secrets},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.await_start()
        return self

    def await_start(self):
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise SystemExit("buckets: versitygw did not start: make setup")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        shutil.rmtree(FOLDER, ignore_errors=True)

    def bucket(self, name):
        """An empty bucket of this name."""
        folder = FOLDER / "data" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def requests(self):
        """How many lines the log has, and the requests in it, for `counted`."""
        return self.log.read_text(errors="replace").splitlines()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"


def counted(lines):
    """Requests by kind: write, list, read, delete."""
    kinds = Counter()
    for line in lines:
        found = re.search(r" s3_([A-Z][a-z]+)", line)
        if found:
            kinds[KINDS.get(found.group(1), "write")] += 1
    return kinds


class Icecore:
    def __init__(self, path, storage):
        self.path = path
        self.variables = {**KEYS, "AWS_ENDPOINT_URL": storage.endpoint, "ICECORE_PASSWORD": "bench",
                          "ICECORE_AGENT_DIR": str(FOLDER / "agent")}
        self.repository = "s3://icecore/repository"

    def init(self):
        return ["--repo", self.repository, "init"]

    def backup(self, source):
        return ["--repo", self.repository, "backup", source]

    def one_file(self, file):
        return ["--repo", self.repository, "restore", f"latest:{file}", "--target", TARGET]


class Server:
    """A node of a server, with a domain of its own in each round; pools in a bucket and on the disk."""

    def __init__(self, path, storage):
        self.path = path
        self.storage = storage
        self.variables = {}
        self.data = FOLDER / "server"
        self.environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": storage.endpoint}
        self.nodes = 0
        storage.bucket("server")
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            listen = f"127.0.0.1:{free.getsockname()[1]}"
        command = [path, "server", "--data", self.data, "--listen", listen]
        self.process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        if not self.process.stdout.readline().startswith("serving "):
            raise SystemExit("buckets: the server did not start")
        self.govern("pool", "add", "cloud", "s3://server/pool")

    def govern(self, *words):
        command = [self.path, "server", "--data", self.data, *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"buckets: {words} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def enter(self, pool):
        """A new node whose domain lies in this pool."""
        self.nodes += 1
        self.variables = {"ICECORE_AGENT_DIR": str(FOLDER / f"node-{self.nodes}")}
        line = self.govern("token", f"node-{self.nodes}", "--pool", pool).splitlines()[-1]
        run(self, line.split()[1:], self.storage)

    def backup(self, source):
        return ["backup", source]

    def one_file(self, file):
        return ["restore", f"latest:{file}", "--target", TARGET]

    def peak_bytes(self):
        """Of the server's process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10

    def end(self):
        self.process.terminate()
        self.process.wait()


class Restic:
    def __init__(self, path, storage):
        self.path = path
        self.variables = {**KEYS, "RESTIC_PASSWORD": "bench",
                          "RESTIC_REPOSITORY": f"s3:{storage.endpoint}/restic"}

    def init(self):
        return ["init"]

    def backup(self, source):
        return ["backup", source]

    def one_file(self, file):
        return ["restore", "latest", "--include", file, "--target", TARGET]


class Rustic:
    def __init__(self, path, storage):
        self.path = path
        self.variables = {"RUSTIC_PASSWORD": "bench", "RUSTIC_REPOSITORY": "opendal:s3"}
        of_storage = {"bucket": "rustic", "root": "/", "endpoint": storage.endpoint, "region": "us-east-1",
                      "access_key_id": KEYS["AWS_ACCESS_KEY_ID"], "secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
        for name, value in of_storage.items():
            self.variables[f"OPENDAL_{name.upper()}"] = value

    def init(self):
        return ["init"]

    def backup(self, source):
        return ["backup", source]

    def one_file(self, file):
        return ["restore", f"latest:{file}", TARGET / "file"]


def run(program, words, storage):
    """(seconds, requests by kind). What an earlier run has left to be written to the disk is written before."""
    subprocess.run(["sync"], check=True)
    before = len(storage.requests())
    variables = {**os.environ, **program.variables, "HOME": str(FOLDER / "home")}
    begun = time.monotonic()
    done = subprocess.run([program.path, *words], env=variables, capture_output=True, text=True)
    elapsed = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(f"buckets: {program.path} {words} ended with {done.returncode}: {done.stderr[-2000:]}")
    return elapsed, counted(storage.requests()[before:])


def served(program, source, file, storage, runs):
    for pool, where in (("cloud", ""), ("main", ", directory")):
        program.enter(pool)
        for operation in ("first", "second"):
            runs["server", operation + where].append(run(program, program.backup(source), storage))
        shutil.rmtree(TARGET, ignore_errors=True)
        runs["server", "one file" + where].append(run(program, program.one_file(file), storage))
    shutil.rmtree(FOLDER / "data/server/pool/domains", ignore_errors=True)


def one_round(name, program, source, file, storage, runs):
    if name == "server":
        return served(program, source, file, storage, runs)
    storage.bucket(name)
    shutil.rmtree(FOLDER / "home", ignore_errors=True)
    (FOLDER / "home").mkdir()
    run(program, program.init(), storage)
    for operation in ("first", "second"):
        runs[name, operation].append(run(program, program.backup(source), storage))
    shutil.rmtree(TARGET, ignore_errors=True)
    runs[name, "one file"].append(run(program, program.one_file(file), storage))
    if not any(path.is_file() for path in TARGET.rglob("*")):
        raise SystemExit(f"buckets: {name} restored nothing")
    if name == "icecore":
        program.repository = str(FOLDER / "directory")
        shutil.rmtree(program.repository, ignore_errors=True)
        run(program, program.init(), storage)
        runs[name, "first, directory"].append(run(program, program.backup(source), storage))
        program.repository = "s3://icecore/repository"


def main():
    arguments = parse()
    source = many(arguments.files) if arguments.files else small()
    file = str(min(path for path in source.rglob("*") if path.is_file() and not path.is_symlink()))
    there = peers.found(["restic", "rustic"])
    with Storage() as storage, Pinned(source):
        programs = {"icecore": Icecore(ICECORE_BIN, storage), "server": Server(ICECORE_BIN, storage)}
        for name, kind in (("restic", Restic), ("rustic", Rustic)):
            if name in there:
                programs[name] = kind(there[name]["path"], storage)
        runs = {(name, operation): [] for name in programs for operation in OPERATIONS}
        for number in range(arguments.rounds):
            for name in sorted(programs, reverse=number % 2 == 1):
                one_round(name, programs[name], source, file, storage, runs)
        peak_bytes = programs["server"].peak_bytes()
        programs["server"].end()
    text = page(arguments, runs, there) + f"\nPeak memory of the server: {peak_bytes >> 20} MiB.\n"
    print(text)
    if arguments.out:
        arguments.out.with_suffix(".md").write_text(text)
        raw = {f"{name} {operation}": [(seconds, dict(kinds)) for seconds, kinds in figures]
               for (name, operation), figures in runs.items()}
        facts = {"machine": machine.describe(), "commit": machine.commit(), "runs": raw,
                 "peers": {name: {"version": peer["version"]} for name, peer in there.items()},
                 "server_peak_bytes": peak_bytes}
        arguments.out.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")


def small():
    datasets.ensure("small")
    return datasets.path("small")


def many(count):
    """A tree of so many files of a hundred bytes, a thousand in a directory."""
    folder = WORK / f"many-{count}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for number in range(count):
            directory = folder / f"{number // 1000:05}"
            if number % 1000 == 0:
                directory.mkdir(parents=True)
            (directory / f"{number:07}").write_text(f"{number:07} " * 12)
        (folder / "done").touch()
    return folder


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, help="so many files of 100 bytes, and not SMALL")
    parser.add_argument("--out", type=Path, help="results go to OUT.md and OUT.json")
    return parser.parse_args()


def page(arguments, runs, there):
    versions = ", ".join(facts["version"] for facts in there.values()) or "no peer"
    source = f"{arguments.files:,} files of 100 bytes" if arguments.files else "SMALL"
    lines = [f"# A bucket: time and requests on {source}", "",
             f"Icecore at {machine.commit()}; {versions}; versitygw on loopback and the same disk. Medians of "
             f"{arguments.rounds} rounds.", "",
             "| program | operation | seconds | requests | write | list | read | delete |", "|---|---|---|---|---|---|---|---|"]
    for (name, operation), figures in runs.items():
        if figures:
            kinds = [round(statistics.median(counts[kind] for _, counts in figures))
                     for kind in ("write", "list", "read", "delete")]
            seconds = statistics.median(figure[0] for figure in figures)
            cells = [name, operation, f"{seconds:.2f}", sum(kinds), *kinds]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
