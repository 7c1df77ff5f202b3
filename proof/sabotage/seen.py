"""Remembers which rows were seen, so that a run that was stopped goes on, and a change costs only what it touches.

A row counts as seen for what its test is built from: its own text, the sources of the package that is tested and of
all packages of this workspace below it, the versions of other people's, and the compiler. A file has a line for each;
without it, every row runs. It can be committed, so that all rows need not be seen on one machine, or in one night.
"""

import hashlib
import json
import subprocess

# What every test is built from, and what some read.
ALL_READ = ["Cargo.toml", "Cargo.lock", ".cargo", "rust-toolchain.toml", "proof/testdata"]


class Seen:
    def __init__(self, root, path):
        self.root, self.path = root, path
        self.packages, self.folders = {}, {}
        self.compiler = subprocess.check_output(["rustc", "--version"], cwd=root, text=True)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.known = {tuple(row) for row in map(row_of, lines) if row}

    def has(self, name, row):
        return (name, self.digest(row)) in self.known

    def add(self, name, row):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps([name, self.digest(row)]) + "\n")

    def digest(self, row):
        """Of all that the outcome of this row depends on."""
        _file, _text, _other, command = row
        # A rig runs the program, too.
        tested = [command[command.index("--package") + 1], *([] if command[1] == "test" else ["icecore"])]
        packages = sorted({package for name in tested for package in self.below(name, with_tests=True)})
        parts = [repr(row), self.compiler, *map(self.folder, ALL_READ), *map(self.folder, packages)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def below(self, package, with_tests):
        """Folders of this package and of those that it is built with; of these without what only their tests need."""
        kinds = (None, "build", "dev") if with_tests else (None, "build")
        folder, needed = self.workspace()[package]
        found = {folder}
        for name, kind in needed:
            if kind in kinds and name != package:
                found |= self.below(name, with_tests=False)
        return found

    def workspace(self):
        """Name of each package: its folder, and the packages of this workspace that it needs."""
        if not self.packages:
            command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
            told = json.loads(subprocess.check_output(command, cwd=self.root))
            for package in told["packages"]:
                folder = str(package["manifest_path"]).removesuffix("/Cargo.toml")
                needed = [(other["name"], other["kind"]) for other in package["dependencies"] if other.get("path")]
                self.packages[package["name"]] = folder, needed
        return self.packages

    def folder(self, folder):
        """Digest of all files below a folder, or of one file. Packages in the folder of another are not part of that."""
        if folder not in self.folders:
            path = self.root / folder
            packages = {self.root / other for other, _ in self.workspace().values()}
            self.folders[folder] = digest_of(path, self.root, {other for other in packages if path in other.parents})
        return self.folders[folder]


def row_of(line):
    """A line that was cut short by a stop says nothing."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def digest_of(folder, root, others):
    found = [path for path in [folder, *folder.rglob("*")] if path.is_file() and "target" not in path.parts]
    files = sorted(path for path in found if others.isdisjoint(path.parents))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
