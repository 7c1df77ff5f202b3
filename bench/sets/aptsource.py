"""Debian source packages, fetched through the machine's own apt sources.

apt is told to use a separate list file and a separate state folder, so the
machine's configuration stays as it is. apt checks every hash against the
signed index, so what is unpacked is what Debian published.
"""

import re
import subprocess
from functools import cmp_to_key

from settings import BENCH_DIR

APT = BENCH_DIR / "apt"
FOLDER = APT / "packages"
INDEX_FORMAT = "$(REPO_URI) $(RELEASE) $(COMPONENT)"


def configured_archives():
    """(uri, suite, component) of the binary archives this machine already uses."""
    out = subprocess.run(
        ["apt-get", "indextargets", "Created-By: Packages", "Origin: Debian",
         "--format", INDEX_FORMAT],
        check=True, capture_output=True, text=True).stdout
    return sorted({tuple(line.split()) for line in out.splitlines() if line.strip()})


def write_source_list():
    """The same archives once more, as `deb-src`. Derived, so no mirror is hard-coded."""
    archives = configured_archives()
    if not archives:
        raise SystemExit("bench: apt knows no Debian archive; run `apt-get update` first")
    APT.mkdir(parents=True, exist_ok=True)
    (APT / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    listing = APT / "sources.list"
    listing.write_text("".join(f"deb-src {u} {s} {c}\n" for u, s, c in archives))
    return listing


def options():
    return ["-o", f"Dir::Etc::SourceList={APT / 'sources.list'}",
            "-o", "Dir::Etc::SourceParts=/dev/null",
            "-o", f"Dir::State::Lists={APT / 'lists'}",
            # The downloading user of apt may not enter a folder of root.
            "-o", "APT::Sandbox::User=root"]


def update():
    write_source_list()
    subprocess.run(["apt-get", *options(), "-q", "update"], check=True)


def versions(package):
    """All versions apt offers of a source package, oldest first."""
    out = subprocess.run(["apt-cache", *options(), "showsrc", "--only-source", package],
                         check=True, capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"^Version: (\S+)$", out, re.M)), key=cmp_to_key(compare))


def compare(a, b):
    if a == b:
        return 0
    older = subprocess.run(["dpkg", "--compare-versions", a, "lt", b]).returncode == 0
    return -1 if older else 1


def upstream(version):
    """6.1.8-1 and 6.1.8-1~bpo share one upstream tarball: 6.1.8."""
    return re.sub(r"^\d+:", "", version).rsplit("-", 1)[0]


def download(package, version=None):
    """Fetches the tarballs of one source package; returns (version, tarballs).

    Without a version the newest that can really be had: an index may name a
    version that its mirror does not hold (any more).
    """
    wanted = [version] if version else reversed(versions(package))
    for candidate in wanted:
        if fetch(package, candidate):
            return candidate, tarballs(FOLDER, package, candidate)
    raise SystemExit(f"bench: apt could not fetch the source of {package} {version or ''}")


def fetch(package, version):
    FOLDER.mkdir(parents=True, exist_ok=True)
    return subprocess.run(["apt-get", *options(), "-q", "source", "--download-only",
                           "--tar-only", f"{package}={version}"], cwd=FOLDER).returncode == 0


def tarballs(folder, package, version):
    """The main tarball first, then components such as `orig-googletest`."""
    stem = f"{package}_{upstream(version)}.orig"
    found = [p for p in folder.iterdir() if p.name.startswith(stem) and ".tar." in p.name
             and not p.name.endswith(".asc")]
    return sorted(found, key=lambda p: (not p.name.startswith(stem + ".tar"), p.name))


def unpack(tarball, folder):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", tarball, "-C", folder, "--strip-components=1",
                    "--no-same-owner"], check=True)
