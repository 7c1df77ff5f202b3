"""Makes repositories with the real binary and restores each with the second reader (icereader.py).

Trees are compared by a comparison of its own: kinds, bytes, holes, modes, owners, times, extended
attributes, ACLs, inode flags and hard links. Run by `make test` (`make second-reader`).

    golden.py --binary target/fast/icecore --chacha COMMAND

COMMAND writes a repository that ChaCha20-Poly1305 sealed, and its source, to $ICECORE_GOLDEN.
"""

import argparse
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import chunk_index
import objects
from icereader import Repository
from wire import Damaged

MEMORY = "/dev/shm"
MEMORY_FREE_MIN = 2 << 30
PASSWORD = b"of the golden repositories"
SECTOR = 4096
ASKED = argparse.Namespace(binary=None, chacha=None)


def noise(seed, count):
    return random.Random(seed).randbytes(count)


def write(path, data=b"", when=1_700_000_000_123_456_789):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(when, when))
    return path


def make_tree(folder):
    """Fixed data: every kind of object, and content of every form."""
    write(folder / "empty")
    write(folder / "inline", b"a few bytes\n", -1_500_000_001)
    write(folder / "one chunk", noise(1, 60_000), 4_102_444_800_000_000_001)
    write(folder / "large", noise(2, 9_000_000))
    write(folder / "again", noise(2, 9_000_000))
    write(folder / "text", b"the same line over and over\n" * 90_000)
    with open(write(folder / "sparse"), "wb") as file:
        for part in range(3):
            file.seek(part * 5_000_000 + 1_000_000)
            file.write(noise(3 + part, 70_000))
        file.truncate(20_000_000)
    os.symlink("inline", folder / "symlink")
    os.symlink(b"\xff no text", folder / "symlink to no text")
    os.mkfifo(folder / "fifo", 0o640)
    write(Path(os.fsdecode(os.fsencode(folder) + b"/no \xff text \\ \n")), b"its name is bytes")
    for number in range(3):
        write(folder / "deep" / ("x" * 200) / str(number), b"%d" % number)
    os.link(folder / "large", folder / "deep" / "large too")
    os.link(folder / "fifo", folder / "deep" / "fifo too")
    # More names than pages of one level hold.
    for number in range(20_000):
        os.symlink(str(number % 7), write_folder(folder / "many" / str(number // 2000)) / str(number))
    dress_tree(folder)


def write_folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def dress_tree(folder):
    os.chmod(folder / "inline", 0o4711)
    os.setxattr(folder / "inline", "user.short", b"value")
    os.setxattr(folder / "one chunk", "user.long", noise(9, 2000))
    os.setxattr(folder / "deep", "user.empty", b"")
    subprocess.run(["setfacl", "-m", "u:1234:rw,g:99:r", folder / "one chunk"], check=True)
    subprocess.run(["setfacl", "-d", "-m", "u:1234:rwx", folder / "deep"], check=True)
    subprocess.run(["chattr", "+d", folder / "text"], check=True)
    if os.geteuid() == 0:
        os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(folder / "disk", stat.S_IFBLK | 0o600, os.makedev(259, 70_000))
        os.chown(folder / "one chunk", 1234, 4_000_000_000)
        os.chown(folder / "symlink", 5, 6, follow_symlinks=False)
    os.utime(folder / "deep", ns=(1, 999_999_999))


def flags_of(path, told):
    if not stat.S_ISREG(told.st_mode) and not stat.S_ISDIR(told.st_mode):
        return 0
    shown = subprocess.run(["lsattr", "-d", path], check=True, capture_output=True).stdout
    return shown.split()[0].translate(None, b"-eIEC") if shown else 0


def look(folder):
    """Everything that can be seen of a tree, by path."""
    seen, names = {}, {}
    top = os.fsencode(folder)
    for base, folders, files in os.walk(top):
        for name in [b"", *folders, *files] if base == top else folders + files:
            path = os.path.join(base, name) if name else top
            told = os.lstat(path)
            relative = os.path.relpath(path, top)
            names.setdefault((told.st_dev, told.st_ino), []).append(relative)
            seen[relative] = {
                "mode": told.st_mode, "owner": (told.st_uid, told.st_gid),
                "mtime": told.st_mtime_ns, "rdev": told.st_rdev,
                "xattrs": {key: os.getxattr(path, key, follow_symlinks=False)
                           for key in os.listxattr(path, follow_symlinks=False)},
                **content(path, told),
            }
    for group in names.values():
        for name in group:
            seen[name]["links"] = sorted(group)
    return seen


def content(path, told):
    if stat.S_ISLNK(told.st_mode):
        return {"target": os.readlink(path)}
    if stat.S_ISREG(told.st_mode):
        is_sparse = told.st_blocks * 512 < told.st_size
        return {"bytes": Path(os.fsdecode(path)).read_bytes(), "sparse": is_sparse,
                "flags": flags_of(path, told) if told.st_size else 0}
    return {}


def differences(left, right):
    for name in sorted(set(left) | set(right)):
        if name not in left or name not in right:
            yield f"{name!r} is only in {'one' if name in left else 'the other'}"
            continue
        for key in left[name]:
            if left[name][key] != right[name].get(key):
                yield f"{name!r}: {key} differs"


def work_folder():
    """In memory, if there is room: 100,000 links are made and removed, which takes a minute and a half on a disk."""
    free = shutil.disk_usage(MEMORY).free if os.path.isdir(MEMORY) else 0
    return MEMORY if free > MEMORY_FREE_MIN else None


class Golden(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="icereader-", dir=work_folder()))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.repo, self.source = self.folder / "repository", write_folder(self.folder / "source")
        (self.folder / "password").write_bytes(PASSWORD + b"\n")

    def run_icecore(self, *words, password="password"):
        place = ["--repo", self.repo, "--password-file", self.folder / password] if password else []
        done = subprocess.run([ASKED.binary, *place, *words], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def read(self, secret=PASSWORD, folder=None):
        repository = Repository(folder or self.repo)
        repository.unlock(secret)
        return repository

    def restored(self, repository, manifest):
        target = self.folder / "restored" / manifest.id.hex()
        target.mkdir(parents=True)
        objects.restore(repository, manifest, target)
        return look(Path(f"{target}{self.source}"))

    def compare(self, repository, manifest, expected):
        found = list(differences(expected, self.restored(repository, manifest)))
        self.assertEqual(found, [], "\n".join(found[:20]))

    def backup(self, *words, **more):
        self.run_icecore("backup", self.source, *words, **more)
        return look(self.source)

    def change(self):
        write(self.source / "text", b"another text\n" * 50_000)
        write(self.source / "new", noise(20, 400_000))
        (self.source / "again").unlink()

    def whole(self, *options):
        """A first and a second backup, restored by the second reader."""
        make_tree(self.source)
        self.run_icecore("init", *options)
        first = self.backup()
        self.change()
        second = self.backup("--tag", "later")
        repository = self.read()
        listed = list(repository.snapshots())
        self.assertEqual([manifest.number for manifest, _ in listed], [1, 2])
        self.assertEqual(listed[1][0].previous, listed[0][0].id)
        self.assertGreaterEqual(listed[0][0].level, 1)
        for (manifest, _), expected in zip(listed, (first, second)):
            self.compare(repository, manifest, expected)
        chunk_index.check(repository)
        return listed, first, second

    def test_a_standard_repository_is_restored(self):
        listed, _first, second = self.whole()
        recovery = self.run_icecore("key", "recovery").strip()
        self.compare_newest(recovery.lower().replace("-", " ").encode(), second)
        with self.assertRaises(Damaged):
            self.read(b"another password")

    def compare_newest(self, secret, expected):
        shutil.rmtree(self.folder / "restored")
        repository = self.read(secret)
        self.compare(repository, list(repository.snapshots())[-1][0], expected)

    def test_a_hardened_repository_is_restored(self):
        self.whole("--privacy", "hardened")
        self.assertEqual(self.read().config.privacy, 2)

    def test_backups_that_share_nothing_are_restored(self):
        """Each alone: the containers of the other one are gone."""
        listed, first, second = self.whole("--dedup", "off")
        self.assertFalse(self.read().config.dedup)
        containers = sorted(self.repo.glob("containers/*/*"))
        for (manifest, _), expected, gone in zip(listed, (first, second), (1, 0)):
            shutil.rmtree(self.folder / "restored")
            hidden = containers[gone].rename(self.folder / "hidden")
            self.compare(self.read(), manifest, expected)
            hidden.rename(containers[gone])

    def small(self, *options):
        """A repository of few objects; what it must restore as."""
        write(self.source / "file", noise(30, 3_000_000))
        write(self.source / "folder" / "inline", b"some words")
        self.run_icecore("init", *options)
        return self.backup()

    def test_forgotten_snapshots_stay_forgotten_and_new_tags_are_read(self):
        expected = self.small()
        self.run_icecore("tag", "add", "latest", "kept")
        write(self.source / "later", b"x")
        self.backup()
        self.run_icecore("forget", "latest")
        repository = self.read()
        [(manifest, body)] = list(repository.snapshots())
        self.assertEqual(body["tags"], ["kept"])
        self.assertEqual(manifest.flags, manifest.REWRITTEN)
        self.assertIn(manifest.made_of, set(repository.forgotten()))
        self.assertEqual([m.id for m, _ in repository.rebuilt()], [manifest.id])
        self.assertGreaterEqual(len(set(repository.forgotten())), 1)
        self.compare(repository, manifest, expected)

    def test_no_name_and_no_content_stands_in_the_clear(self):
        """In no byte of any file, for what does not compress and for what does."""
        marks = [b"the name of a file nobody may know", b"the words that nobody may read 0123",
                 noise(60, 40), b"user.attribute-of-nobody", b"a tag for nobody", b"node-of-nobody"]
        write(self.source / marks[0].decode(), marks[1] * 3 + noise(61, 30_000) + marks[2])
        os.setxattr(self.source / marks[0].decode(), marks[3], marks[1])
        for privacy in ("standard", "hardened"):
            self.repo = self.folder / privacy
            self.run_icecore("init", "--privacy", privacy, "--parity", "3")
            self.backup("--tag", marks[4].decode(), "--node", marks[5].decode())
            bodies = [body for _, body in self.read().snapshots()]
            self.assertEqual((bodies[0]["tags"], bodies[0]["node"]),
                             ([marks[4].decode()], marks[5].decode()))
            stored = [path for path in self.repo.rglob("*") if path.is_file()]
            self.assertGreater(len(stored), 5)
            for path in stored:
                found = [mark for mark in marks if mark in path.read_bytes()]
                self.assertEqual(found, [], path)

    def test_what_a_removed_key_signed_is_read_and_copies_stand_in(self):
        (self.folder / "other").write_bytes(b"of another key")
        self.run_icecore("init")
        self.run_icecore("key", "add", "--new-password-file", "other")
        write(self.source / "file", noise(32, 100_000))
        expected = self.backup(password="other")
        [writer] = [m.writer for m, _ in self.read().snapshots()]
        self.run_icecore("key", "remove", writer.hex())
        for name in ("config", "keys/list"):
            (self.repo / name).chmod(0o600)
            (self.repo / name).write_bytes(b"rotten")
        repository = self.read()
        [(manifest, _)] = list(repository.snapshots())
        self.assertNotIn(manifest.writer, repository.slots)
        self.assertEqual(repository.key_list.of(manifest.writer)["last"], manifest.sequence)
        self.compare(repository, manifest, expected)

    def test_a_password_that_costs_more_opens(self):
        """What the slot says counts, and not what is usual."""
        self.small("--password-cost", "32MiB", "--password-passes", "3")
        repository = self.read()
        [slot] = repository.slots.values()
        self.assertEqual(slot.cost, [32 << 10, 3, 1])
        with self.assertRaises(Damaged):
            self.read(b"another password")

    def add_key(self, name, *options):
        (self.folder / name).write_bytes(name.encode())
        self.run_icecore("key", "add", *options, "--new-password-file", name, "--label", name)
        return next(path for path in self.repo.glob("keys/" + "[0-9a-f]" * 16)
                    if name.encode() in path.read_bytes())

    def test_keys_that_stay_read_every_key_epoch(self):
        """Three key epochs: read with a full key, a recovery key, and keys that a delivery reached."""
        self.run_icecore("init")
        self.add_key("drill", "--read-only")
        self.add_key("laptop", "--read-write")
        writer = "timer"
        self.add_key(writer, "--write-only")
        gone = [self.add_key("gone one", "--read-only"), self.add_key("gone two", "--read-write")]
        recovery = self.run_icecore("key", "recovery").strip().encode()
        write(self.source / "file", noise(40, 400_000))
        trees, kept = [self.backup()], [path.read_bytes() for path in gone]
        for epoch, path in enumerate(gone, 1):
            told = self.run_icecore("key", "remove", path.name)
            self.assertIn("cannot read new backups", told)
            write(self.source / f"after {epoch}", noise(40 + epoch, 300_000))
            trees.append(self.backup(password=writer))
        self.add_key("young", "--read-only")
        for secret in (PASSWORD, recovery, b"drill", b"laptop", b"young"):
            repository = self.read(secret)
            self.assertEqual(repository.key_list.epoch, 2)
            for (manifest, _), expected in zip(repository.snapshots(), trees, strict=True):
                self.compare(repository, manifest, expected)
            shutil.rmtree(self.folder / "restored")
        self.assertEqual(len(repository.key_list.deliveries), 2)
        for path, slot in zip(gone, kept):
            path.write_bytes(slot)
        for secret in (b"gone one", b"gone two"):
            with self.assertRaisesRegex(Damaged, "later key epoch"):
                list(self.read(secret).snapshots())

    def test_a_write_only_key_writes_what_a_full_key_reads(self):
        (self.folder / "writer").write_bytes(b"writes only")
        self.run_icecore("init")
        self.run_icecore("key", "add", "--write-only", "--new-password-file", "writer")
        write(self.source / "file", noise(31, 500_000))
        expected = self.backup(password="writer")
        with self.assertRaisesRegex(Damaged, "write-only"):
            self.read(b"writes only")
        repository = self.read()
        [(manifest, _)] = list(repository.snapshots())
        self.assertEqual(repository.slots[manifest.writer].role, 2)
        self.compare(repository, manifest, expected)

    def test_rotten_sectors_are_made_good_from_parity(self):
        expected = self.small("--parity", "3")
        [path] = (self.repo / "containers").glob("*/*.ice")
        whole = bytearray(path.read_bytes())
        head = len(whole) // SECTOR * SECTOR
        # The header and the session, a stretch in the middle, and whatever tells where parity lies.
        for begin, count in ((0, 1), (100 * SECTOR, 9), (head, 1)):
            end = min(begin + count * SECTOR, len(whole))
            whole[begin:end] = noise(40, end - begin)
        path.chmod(0o600)
        path.write_bytes(whole)
        repository = self.read()
        [(manifest, _)] = list(repository.snapshots())
        self.compare(repository, manifest, expected)
        [container] = repository.containers.values()
        self.assertEqual(container.damage, [])
        self.assertNotEqual(container.healed, [])

    def test_what_is_lost_beyond_repair_is_said(self):
        self.small()
        [path] = (self.repo / "containers").glob("*/*.ice")
        whole = bytearray(path.read_bytes())
        whole[100_000] ^= 1
        path.chmod(0o600)
        path.write_bytes(whole)
        repository = self.read()
        [(manifest, _)] = list(repository.snapshots())
        with self.assertRaisesRegex(Damaged, "no good"):
            objects.restore(repository, manifest, self.folder / "out")

    def test_a_container_without_its_footer_is_walked(self):
        expected = self.small()
        [path] = (self.repo / "containers").glob("*/*.ice")
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-20])
        repository = self.read()
        [(manifest, _)] = repository.rebuilt()
        self.assertEqual(repository.containers[next(iter(repository.containers))].damage, ["footer"])
        self.compare(repository, manifest, expected)

    def test_large_extended_attributes_come_back_from_their_chunks(self):
        """In memory: other file systems take some 4,000 bytes for each object."""
        memory = Path(tempfile.mkdtemp(prefix="icereader-", dir=MEMORY))
        self.addCleanup(shutil.rmtree, memory, ignore_errors=True)
        self.source = write_folder(memory / "source")
        for name, count, length in (("many", 200, 1000), ("long", 30, 60_000), ("few", 3, 100)):
            path = write(self.source / name, b"content")
            for number in range(count):
                os.setxattr(path, f"user.{number:04}", noise(number, length))
        self.run_icecore("init")
        expected = self.backup()
        repository = self.read()
        [(manifest, _)] = list(repository.snapshots())
        found = {entry.path.rsplit(b"/")[-1]: entry.attributes
                 for entry in objects.entries(repository, manifest.root, manifest.level)}
        self.assertTrue(found[b"many"].xattr_runs and found[b"long"].xattr_runs)
        self.assertFalse(found[b"few"].xattr_runs)
        target = memory / "restored"
        objects.restore(repository, manifest, target)
        restored = look(Path(f"{target}{self.source}"))
        self.assertEqual(list(differences(expected, restored)), [])

    def test_a_stream_is_one_file(self):
        self.run_icecore("init")
        self.run_icecore("backup", "--command", "dump", "--", "echo", "words")
        repository = self.read()
        [(manifest, _)] = list(repository.snapshots())
        objects.restore(repository, manifest, self.folder / "out")
        self.assertEqual((self.folder / "out" / "dump").read_bytes(), b"words\n")

    def test_a_repository_made_by_a_server_is_restored(self):
        data, agent = self.folder / "data", self.folder / "agent"
        server = self.start_server(data)
        told = self.run_icecore("server", "--data", data, "token", "web", password=None)
        words = next(line for line in told.splitlines() if line.startswith("icecore agent enroll"))
        self.run_icecore("--agent-dir", agent, *words.split()[1:], password=None)
        make_tree(self.source)
        first = self.node_backup(agent)
        self.change()
        second = self.node_backup(agent)
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        [folder] = (data / "pool" / "domains").iterdir()
        repository = self.read((agent / "managed.key").read_bytes(), folder)
        listed = list(repository.snapshots())
        for (manifest, body), expected in zip(listed, (first, second), strict=True):
            self.assertEqual(body["node"], "web")
            self.assertEqual(manifest.receipt.node, "web")
            self.assertLessEqual(manifest.receipt.session_began, manifest.receipt.taken)
            self.assertLess(abs(manifest.receipt.taken - time.time()), 600)
            signer = repository.key_list.of(manifest.writer)
            self.assertEqual((signer["label"], signer["is_bound"]), ("web", True))
            self.compare(repository, manifest, expected)
        chunk_index.check(repository)

    def node_backup(self, agent):
        self.run_icecore("--agent-dir", agent, "backup", self.source, password=None)
        return look(self.source)

    def start_server(self, data):
        command = [ASKED.binary, "server", "--data", data, "--listen", "127.0.0.1:0", "--name", "localhost"]
        log = open(self.folder / "server.log", "wb")
        server = subprocess.Popen(command, stdout=log, stderr=log)
        log.close()
        self.addCleanup(server.kill)
        for _ in range(600):
            if b"serving" in (self.folder / "server.log").read_bytes() or server.poll() is not None:
                break
            time.sleep(0.1)
        self.assertIsNone(server.poll(), (self.folder / "server.log").read_text())
        return server

    def test_what_chacha_sealed_is_restored(self):
        golden = self.folder / "golden"
        environment = os.environ | {"ICECORE_GOLDEN": str(golden)}
        done = subprocess.run(ASKED.chacha, shell=True, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        repository = self.read(b"correct horse", golden / "repository")
        manifest, _ = list(repository.snapshots())[-1]
        objects.restore(repository, manifest, self.folder / "out")
        expected, found = look(golden / "source"), look(self.folder / "out" / "tree")
        self.assertEqual(sorted(expected), sorted(found))
        # The copy of the source has files where it had links.
        for name, told in found.items():
            self.assertIn(told.get("bytes"), (None, expected[name].get("bytes")), name)
        ciphers = {record.clear[16] for _, _, record in repository.records("session")}
        self.assertIn(2, ciphers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--chacha", required=True)
    ASKED, rest = parser.parse_known_args()
    ASKED.binary = os.path.abspath(ASKED.binary)
    if os.geteuid() != 0:
        skip = Path(__file__).resolve().parents[2] / ".ci" / "skip"
        subprocess.run([skip, "second reader", "devices and owners need root"], check=True)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
