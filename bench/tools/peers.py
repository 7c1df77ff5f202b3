"""Finds the peers and installs those that are missing, pinned, under $BENCH_DIR/tools.

    peers.py            what is there
    peers.py install    installs what is missing

restic, its rest-server and kopia are built from their pinned Go modules. Without Go, restic
comes from the system's packages, which on Debian 12 is years old. What is on the PATH and newer
is used instead.
"""

import json
import os
import re
import shutil
import subprocess
import sys

from settings import ICECORE_BIN, LOGS, PINS, TOOLS
from tools import commands

APT_PACKAGES = ["libsodium-dev", "pkg-config", "libacl1-dev", "libssl-dev", "liblz4-dev",
                "libzstd-dev", "libxxhash-dev", "restic", "time", "zstd", "dpkg-dev",
                "openssl", "iproute2", "procps", "iperf3"]
CRATES = {"rustic": "rustic-rs", "bupstash": "bupstash"}
# Built where the module was unpacked, at its pinned version: nothing asks which others there are.
MODULES = {"restic": ("github.com/restic/restic", "./cmd/restic"),
           "rest-server": ("github.com/restic/rest-server", "./cmd/rest-server"),
           "kopia": ("github.com/kopia/kopia", ".")}
BIN = TOOLS / "bin"
BORG_VENV = TOOLS / "borg-venv"

VERSION_OF = {"bupstash": ["version"], "restic": ["version"]}
SYSTEM_BINARIES = {"tar": "tar", "find": "find", "cp": "cp", "read": "cat"}


def candidates(name):
    """Every place where the tool may be: ours, and the PATH."""
    if name in ("icecore", "hardened"):
        return [ICECORE_BIN]
    if name in SYSTEM_BINARIES:
        return [shutil.which(SYSTEM_BINARIES[name])]
    return [BIN / name, BORG_VENV / "bin" / name, shutil.which(name)]


def locate(name):
    """(path, version line) of the newest one, or None."""
    found = [(version_of(name, path), path) for path in candidates(name)
             if path and os.access(path, os.X_OK)]
    if not found:
        return None
    version, path = max(found, key=lambda pair: numbers(pair[0]))
    return str(path), version


def version_of(name, path):
    result = subprocess.run([path, *VERSION_OF.get(name, ["--version"])],
                            capture_output=True, text=True)
    return (result.stdout or result.stderr).strip().split("\n")[0]


def numbers(text):
    """`restic 0.14.0 compiled …` as (0, 14, 0), for comparing."""
    match = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(n) for n in match.group().split(".")) if match else ()


def found(names):
    """{name: {path, version}} of those that are there; says which are not."""
    there = {}
    for name in names:
        place = locate(name)
        if place:
            there[name] = {"path": place[0], "version": place[1]}
        else:
            print(f"bench: {name} is missing, left out", file=sys.stderr)
    return there


def install_missing(names):
    """Goes on after a failure: a missing peer leaves a gap in the table, no more."""
    missing = [name for name in names if name in INSTALLERS and not has(name, PINS[name])]
    if not missing:
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        # Libraries and headers that the builds of the others need, and restic itself.
        step("apt", ["apt-get", "install", "-y", "--no-install-recommends", *APT_PACKAGES])
    for name in missing:
        INSTALLERS[name](name)


def by_cargo(name):
    step(name, ["cargo", "install", CRATES[name], "--version", PINS[name], "--locked",
                "--root", str(TOOLS)])


def by_pip(name):
    step(f"{name}-venv", [sys.executable, "-m", "venv", str(BORG_VENV)])
    step(name, [str(BORG_VENV / "bin/pip"), "install", f"borgbackup=={PINS[name]}"])


def by_go(name):
    """restic of the system's packages came with the libraries, where there is no Go."""
    if not shutil.which("go"):
        print(f"bench: {name} needs Go to be built", file=sys.stderr)
        return
    module, package = MODULES[name]
    found = subprocess.run(["go", "mod", "download", "-json", f"{module}@v{PINS[name]}"],
                           cwd=LOGS, capture_output=True, text=True)
    folder = json.loads(found.stdout or "{}").get("Dir")
    if not folder:
        print(f"bench: {name} cannot be had: {found.stdout}{found.stderr}", file=sys.stderr)
        return
    # kopia says its version only when it is told at the build.
    flags = f"-X github.com/kopia/kopia/repo.BuildVersion={PINS[name]}"
    step(name, ["go", "build", "-C", folder, "-trimpath", "-ldflags", flags,
                "-o", str(BIN / name), package])


INSTALLERS = {"restic": by_go, "rest-server": by_go, "kopia": by_go, "rustic": by_cargo,
              "bupstash": by_cargo, "borg": by_pip}


def has(name, version):
    place = locate(name)
    return bool(place) and numbers(place[1]) >= numbers(version)


def step(name, command):
    print(f"bench: installing {name}", flush=True)
    with open(LOGS / f"install-{name}.log", "wb") as log:
        code = subprocess.run(command, stdout=log, stderr=log).returncode
    if code:
        print(f"bench: {name} failed, see {log.name}", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:] == ["install"]:
        install_missing(commands.TOOLS)
    for tool, facts in found(commands.TOOLS).items():
        print(f"{tool:10} {facts['version']:50} {facts['path']}")
