"""SMALL and RELEASES: trees of real source code from Debian source packages."""

import os
import shutil

from sets import aptsource, zoo

# Trees of different languages, and of LibreOffice only the translations, whose larger
# files bring the mean to 16 KiB; together about 333,000 files and 5.5 GB.
SMALL_PACKAGES = ["linux", "llvm-toolchain-14", "python3.11", "golang-1.19",
                  "openjdk-17", "webkit2gtk", "libreoffice"]
ONLY_COMPONENT = {"libreoffice": "translations"}
# Used only where those have shrunk below the bar.
SPARE_PACKAGES = ["llvm-toolchain-16", "gcc-12", "firefox-esr"]
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
    """The main tarball at the top, components such as `googletest` below it."""
    version, archives = aptsource.download(package)
    only = ONLY_COMPONENT.get(package)
    for archive in archives:
        part = component(archive)
        if only in (None, part):
            aptsource.unpack(archive, folder / part if part else folder)
    return version


def component(archive):
    """`x_1.orig-docs.tar.xz` is component `docs`; the main tarball is none: ''."""
    stem = archive.name.rsplit(".tar", 1)[0]
    return stem.split(".orig-", 1)[1] if ".orig-" in stem else ""


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
