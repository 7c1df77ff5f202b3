"""What safety costs: a first backup with and without each protection, as ratios.

Checksums and syncs cannot be turned off, so binaries without them are built from a copy of the
sources; verifying before storing and parity are options. All variants run in turn, round by
round, on the same files; a ratio is with the protection over without it, of one round, and the
median of the rounds is told.

    python3 bench/price.py [SET] [ROUNDS]
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import machine
from sets import datasets
from settings import WORK
from tools import measure

ROOT = Path(__file__).resolve().parent.parent
PASSWORD = {"ICECORE_PASSWORD": "price"}
ROUNDS = 5
# What is replaced in a copy of the sources: file, text, other text, and how often it is there.
PATCHES = {
    "without-checksums": [("crates/format/src/wire.rs",
                           "    let mut hasher = blake3::Hasher::new();\n    for part in parts {\n"
                           "        hasher.update(part);\n    }\n    let mut sum = [0; 16];\n"
                           "    hasher.finalize_xof().fill(&mut sum);\n    sum\n",
                           "    let _ = parts;\n    [0; 16]\n", 1)],
    "without-syncs": [("crates/repository/src/local/writer.rs", "fs::fdatasync(&self.file)",
                       "rustix::io::Result::Ok(())", 1),
                      ("crates/repository/src/local.rs", "fs::fsync(&directory)",
                       "rustix::io::Result::Ok(directory).map(drop)", 1)],
}
# Variant: binary, words for `init`, words for `backup`.
VARIANTS = {
    "default": ("as-it-is", "", ""),
    "verified": ("as-it-is", "", "--verify-blocks"),
    "without-checksums": ("without-checksums", "", ""),
    "without-syncs": ("without-syncs", "", ""),
    "parity-3": ("as-it-is", "--parity 3", ""),
    "parity-10": ("as-it-is", "--parity 10", ""),
}
# What is told: name, with it, without it.
PRICES = [
    ("verify before storing (`--verify-blocks`)", "verified", "default"),
    ("checksums of records", "default", "without-checksums"),
    ("syncs", "default", "without-syncs"),
    ("parity 3 % (`--parity 3`)", "parity-3", "default"),
    ("parity 10 % (`--parity 10`)", "parity-10", "default"),
]


def build(name, folder):
    """The binary of the sources, patched."""
    copy = folder / "sources"
    if not copy.exists():
        ignored = shutil.ignore_patterns("target", ".git", "corpus", "artifacts")
        shutil.copytree(ROOT, copy, ignore=ignored)
    originals = {}
    for file, text, other, count in PATCHES.get(name, []):
        path = copy / file
        source = path.read_text()
        originals.setdefault(path, source)
        if source.count(text) != count:
            raise SystemExit(f"price: {file} has changed, adapt PATCHES: {text!r}")
        path.write_text(source.replace(text, other))
    subprocess.run(["cargo", "build", "--release", "--quiet", "--package", "icecore"], cwd=copy,
                   check=True, env={**os.environ, "CARGO_TARGET_DIR": str(folder / "target")})
    for path, source in originals.items():
        path.write_text(source)
    binary = folder / f"icecore-{name}"
    shutil.copy(folder / "target" / "release" / "icecore", binary)
    return binary


def once(binary, init, options, source, home):
    """Figures of one first backup, and the size of its repository."""
    shutil.rmtree(home, ignore_errors=True)
    variables = {"ICECORE_REPO": str(home), "BIN": str(binary), "SOURCE": str(source), **PASSWORD}
    subprocess.run(f"$BIN init {init}", shell=True, check=True, env={**os.environ, **variables},
                   stdout=subprocess.DEVNULL)
    with tempfile.TemporaryFile() as log:
        figures = measure.run(f"$BIN backup {options} $SOURCE", os.environ, log, variables)
        if figures["exit"] != 0:
            log.seek(0)
            raise SystemExit(f"price: a backup failed: {log.read().decode(errors='replace')}")
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return {**figures, "size_mib": round(size / 2**20, 1)}


def prices(rounds):
    rows = []
    for name, with_it, without in PRICES:
        ratio = lambda key: round(statistics.median(
            one[with_it][key] / one[without][key] for one in rounds), 3)
        cpu = round(statistics.median(cpu_s(one[with_it]) / cpu_s(one[without])
                                      for one in rounds), 3)
        rows.append({"what": name, "time": ratio("wall_s"), "cpu": cpu,
                     "size": ratio("size_mib"), "peak_memory": ratio("peak_mib")})
    return rows


def cpu_s(figures):
    return figures["user_s"] + figures["system_s"]


def text_of(result):
    lines = [f"# What safety costs ({result['date']})", "",
             f"First backup of the set `{result['set']}`, {len(result['rounds'])} rounds, "
             "with over without, medians of the ratios of a round.", "",
             machine_line(result["machine"]), "",
             "| protection | time | CPU | size | peak memory |", "|---|---|---|---|---|"]
    for row in result["prices"]:
        lines.append(f"| {row['what']} | {row['time']} | {row['cpu']} | {row['size']} | "
                     f"{row['peak_memory']} |")
    foreign = [one["default"]["foreign_cpu_s"] for one in result["rounds"]]
    lines += ["", f"CPU time of others during the runs of the default: {foreign} s. "
              "Repeat it: `python3 bench/price.py`."]
    return "\n".join(lines) + "\n"


def machine_line(facts):
    return (f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, Linux "
            f"{facts['kernel']}, {facts['system']}, {facts['file_system'].split()[0]}.")


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "small"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    datasets.ensure(name)
    folder = WORK / "price"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "sources", ignore_errors=True)
    binaries = {binary: build(binary, folder) for binary, _, _ in VARIANTS.values()}
    source, rounds = datasets.path(name), []
    for number in range(count):
        one = {}
        for variant, (binary, init, options) in VARIANTS.items():
            one[variant] = once(binaries[binary], init, options, source, folder / "repository")
            print(f"{number + 1}/{count} {variant}: {one[variant]['wall_s']} s", flush=True)
        rounds.append(one)
        # After each round: who stops it keeps what was measured.
        save(name, rounds)
    shutil.rmtree(folder / "repository", ignore_errors=True)


def save(name, rounds):
    result = {"date": time.strftime("%Y-%m-%d"), "set": name, "machine": machine.describe(),
              "commit": machine.commit(), "prices": prices(rounds), "rounds": rounds}
    stem = ROOT / "bench" / "results" / f"price-{result['date']}"
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    stem.with_suffix(".md").write_text(text_of(result))
    print(text_of(result), flush=True)


if __name__ == "__main__":
    main()
