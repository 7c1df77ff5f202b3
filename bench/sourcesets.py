"""SMALL and RELEASES: trees of real source code from Debian source packages."""

import os
import shutil

import aptsource
import zoo
from settings import SETS

# Six large trees of different languages; together about 330,000 files.
SMALL_PACKAGES = ["linux", "llvm-toolchain-14", "python3.11", "golang-1.19",
                  "openjdk-17", "webkit2gtk"]
# Used only where the six have shrunk below the bar.
SPARE_PACKAGES = ["llvm-toolchain-16", "rustc", "gcc-12", "firefox-esr"]
SMALL_MIN_FILES = 300_000

RELEASES_PACKAGE = "linux"
RELEASES_COUNT = 4
# drivers/ and arch/ are two thirds of the kernel and change no differently.
RELEASES_WITHOUT = ["drivers", "arch"]


def make_small(folder):
    aptsource.update()
    used = {}
    for package in SMALL_PACKAGES + SPARE_PACKAGES:
        if package in SPARE_PACKAGES and count_files(folder) >= SMALL_MIN_FILES:
            break
        used[package] = unpack_package(package, folder / package)
    zoo.make(folder / "zoo")
    return {"packages": used}


def unpack_package(package, folder):
    version, archives = aptsource.download(package)
    aptsource.unpack(archives[0], folder)
    for component in archives[1:]:
        name = component.name.split(".orig-", 1)[1].split(".tar", 1)[0]
        aptsource.unpack(component, folder / name)
    return version


def make_releases(folder):
    """gen1 … genN: successive releases, oldest first, each a whole tree."""
    aptsource.update()
    archives = newest_releases(RELEASES_PACKAGE, RELEASES_COUNT)
    if len(archives) < 2:
        raise SystemExit("bench: apt holds fewer than two releases of " + RELEASES_PACKAGE)
    for number, (_, archive) in enumerate(archives, 1):
        target = folder / f"gen{number}"
        aptsource.unpack(archive, target)
        for part in RELEASES_WITHOUT:
            shutil.rmtree(target / part, ignore_errors=True)
    return {"package": RELEASES_PACKAGE, "releases": [v for v, _ in archives],
            "without": RELEASES_WITHOUT}


def newest_releases(package, count):
    """[(upstream version, tarball)], oldest first; skips what the mirror lacks."""
    found = {}
    for version in reversed(aptsource.versions(package)):
        release = aptsource.upstream(version)
        if release in found or len(found) == count:
            continue
        if aptsource.fetch(package, version):
            found[release] = aptsource.tarballs(aptsource.FOLDER, package, version)[0]
    return list(reversed(found.items()))


def count_files(folder):
    return sum(len(files) for _, _, files in os.walk(folder))


if __name__ == "__main__":
    print(count_files(SETS / "small"))
