"""What a reader must know of the machine to weigh the figures."""

import os
import platform
import subprocess

from settings import BENCH_DIR, GIB, PROJECT, TARGETS


def describe():
    return {"cpu": cpu_model(), "cores": os.cpu_count(),
            "memory_gib": round(memory_bytes() / GIB, 1),
            "kernel": platform.release().split("-")[0], "system": system_name(),
            "file_system": file_system(BENCH_DIR),
            "restores_go_to": file_system(TARGETS), "python": platform.python_version()}


SOURCES = [":/", ":(top,exclude)bench/results", ":(top,exclude)docs/results"]


def commit():
    """Of the sources; with a word when they are not those of the commit. Results are no sources."""
    changed = " with changes" if git("status", "--porcelain", "--", *SOURCES).stdout.strip() else ""
    return (git("rev-parse", "--short=12", "HEAD").stdout.strip() or "unknown") + changed


def has_sources_of(other):
    """Whether the sources are those of a commit, as [`commit`] names it."""
    return git("diff", "--quiet", other, "--", *SOURCES).returncode == 0


def git(*words):
    return subprocess.run(["git", "-C", PROJECT, *words], capture_output=True, text=True)


def cpu_model():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def system_name():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def file_system(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.run(["findmnt", "-no", "FSTYPE,OPTIONS", "-T", folder],
                          capture_output=True, text=True).stdout.replace("   ", " ").strip()
