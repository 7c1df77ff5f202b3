"""Where things lie and which pins hold: the only module that knows paths."""

import os
from pathlib import Path

BENCH_DIR = Path(os.environ.get("BENCH_DIR", "/var/tmp/icecore-bench"))
HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent

TOOLS = BENCH_DIR / "tools"      # peers that were installed for the bench
SETS = BENCH_DIR / "sets"        # data sets, made once and kept
WORK = BENCH_DIR / "work"        # repositories and restores, thrown away
LOGS = BENCH_DIR / "logs"
# Where restores go: a file system of its own keeps others' deletions out of the figures.
TARGETS = Path(os.environ.get("BENCH_TARGET") or WORK)
RESULTS = HERE / "results"

BUILT = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
ICECORE_BIN = Path(os.environ.get("ICECORE_BIN", PROJECT / "target/release/icecore"))
WAN_BIN = Path(os.environ.get("WAN_BIN", BUILT / "fast/wan"))

# The newest that build with rustc 1.95 and Go 1.26 when they were pinned.
PINS = {"rustic": "0.11.4", "bupstash": "0.12.0", "borg": "1.4.5", "restic": "0.19.1",
        "rest-server": "0.14.0", "kopia": "0.23.1"}

SEED = 20261121

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def env_int(name, default):
    """An integer from the environment; an empty value counts as unset."""
    return int(os.environ.get(name) or default)


def env_flag(name):
    return os.environ.get(name, "") not in ("", "0")


def words(text):
    """The words of a list like "a,b"."""
    return [word for word in text.split(",") if word]
