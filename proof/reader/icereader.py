"""A second reader of Icecore repositories, written from docs/FORMAT.md and docs/CRYPTO.md alone.

It shares no line with the program: what it cannot restore, the documents do not say. Every check
that the documents ask of a reader is made here; whatever does not fit raises `Damaged`.

    icereader.py list REPOSITORY --password-file FILE
    icereader.py restore REPOSITORY --password-file FILE --target FOLDER [--snapshot ID]
    icereader.py check REPOSITORY

A password file may hold a password or a recovery key. `check` needs none.
"""

import argparse
import json
import sys
from functools import cached_property
from pathlib import Path

import zstandard
from cryptography.exceptions import InvalidTag

import objects
import parity
from keys import Config, KeyList, Keys, Slot, either, verify
from wire import Damaged, Reader, checksum, need

KINDS = {1: "data", 2: "pages", 3: "session", 4: "manifest", 5: "tombstone", 6: "receipt",
         7: "expiry"}


class Record:
    """One record, its checksum verified."""

    def __init__(self, data, at):
        reader = Reader(data, "record", at)
        reader.magic(b"IREC")
        version, kind, self.codec, zero = (reader.u8() for _ in range(4))
        need(version == 1 and kind in KINDS and self.codec < 2 and zero == 0, "head of a record")
        self.kind, self.session, nonce = KINDS[kind], reader.take(16), reader.take(8)
        self.nonce = nonce + bytes(4)
        self.objects, clear, self.plain, sealed = (reader.u32() for _ in range(4))
        need(clear <= 4 << 20 and self.plain <= 8 << 20 and sealed <= 9_437_248, "lengths of a record")
        self.bound = data[at:at + 48 + clear]
        self.clear, self.sealed = reader.take(clear), reader.take(sealed)
        self.end = reader.at + 16
        need(checksum(data[at:reader.at]) == reader.take(16), "checksum of a record")

    def open(self, sessions):
        """The plaintext."""
        need(self.session in sessions, "session of a record")
        try:
            padded = sessions[self.session].decrypt(self.nonce, self.sealed, self.bound)
        except InvalidTag:
            raise Damaged("seal of a record") from None
        packed = padded[:int.from_bytes(padded[-4:], "little")]
        if self.codec == 1:
            packed = zstandard.ZstdDecompressor().decompress(packed, max_output_size=self.plain)
        need(len(packed) == self.plain, "length of a record")
        return packed

    def payloads(self, sessions):
        """The objects in it."""
        plain = self.open(sessions)
        table = Reader(plain, "lengths", len(plain) - 4 * self.objects)
        at, end = 0, table.at
        for _ in range(self.objects):
            length = table.u32()
            yield plain[at:at + length]
            at += length
        need(at == end, "lengths of objects")


class Container:
    """A finished container: its good records, healed by parity where that is needed."""

    def __init__(self, data, config, number):
        self.damage = []
        head = parity.Head.find(data) if config.parity_percent else None
        data, whole = data[:head.protected] if head else data, data
        self.records = self.parse(data, config, number)
        if self.damage and head:
            found, self.damage = self.damage, []
            self.records = self.parse(parity.heal(whole, head), config, number)
            self.healed = found

    def parse(self, data, config, number):
        header = Reader(data, "header of a container")
        is_own = data[:8] == b"ICECONT1" and checksum(data[:48]) == data[48:64]
        header.at = 8
        if not is_own or header.take(16) != config.repository or header.u64() != number:
            self.damage.append("header")
        places, records = self.footer(data), []
        if places is None:
            self.damage.append("footer")
            return self.walk(data)
        for kind, at, length in places:
            try:
                record = Record(data, at)
                need(record.end == at + length and KINDS[kind] == record.kind, "row of a footer")
                records.append((at, record))
            except Damaged as error:
                self.damage.append(f"record at {at}: {error}")
        return records

    @staticmethod
    def footer(data):
        """Kind, offset and length of each record, or None."""
        trailer = data[-28:]
        length = int.from_bytes(trailer[:4], "little")
        rows = data[-28 - length:-28]
        is_good = trailer[20:] == b"ICEFOOT1" and checksum(rows) == trailer[4:20]
        if not is_good or length % 9 or len(rows) != length:
            return None
        reader, at, places = Reader(rows, "footer"), 64, []
        while reader.left():
            kind, begin, size = reader.u8(), reader.u32(), reader.u32()
            if begin != at:
                return None
            at += size
            places.append((kind, begin, size))
        return places if at == len(data) - 28 - length else None

    @staticmethod
    def walk(data):
        """What lies in a container without its footer: each record begins with its magic."""
        at, records = 64, []
        while 0 <= (at := data.find(b"IREC", at)):
            try:
                records.append((at, record := Record(data, at)))
                at = record.end
            except Damaged:
                at += 1
        return records


class Manifest:
    """Head and signature of a snapshot."""

    PARTIAL, REWRITTEN = 1, 2

    def __init__(self, clear):
        reader = Reader(clear, "manifest")
        need(reader.u16() == 2, "version of a manifest")
        self.sequence, self.source, self.number = reader.u64(), reader.take(24), reader.u64()
        self.previous, self.seconds, self.nanos = reader.take(16), reader.i64(), reader.u32()
        self.root, self.level, self.body_hash = reader.take(24), reader.u8(), reader.take(24)
        self.writer, self.flags = reader.take(8), reader.u32()
        self.made_of, made_of_sequence = reader.take(16), reader.u64()
        need(self.flags & 0xFFFF <= 3 and self.nanos < 10**9, "flags of a manifest")
        is_rewritten = bool(self.flags & self.REWRITTEN)
        need((self.made_of != bytes(16)) == is_rewritten, "original of a manifest")
        need(1 <= made_of_sequence < self.sequence if is_rewritten else made_of_sequence == 0,
             "original's sequence of a manifest")
        reader.string_of(reader.u16(), 4096)
        self.signed, self.signature = clear[:reader.at], reader.take(64)
        reader.end()
        self.id = checksum(b"icecore snapshot" + clear)


class Receipt:
    """What a server says of a snapshot that it took."""

    def __init__(self, clear, repository, manifest, body):
        reader = Reader(clear, "receipt")
        need(reader.u16() == 2, "version of a receipt")
        snapshot, source, root = reader.take(16), reader.take(24), reader.take(24)
        begin, self.session_began, self.taken = reader.i64(), reader.i64(), reader.i64()
        self.number, flags, self.key = reader.u64(), reader.u32(), reader.take(32)
        self.locked_at, self.locked_until = reader.i64(), reader.i64()
        self.node, self.policy, self.source, self.class_ = (
            reader.take(reader.u8()).decode() for _ in range(4))
        end = reader.at
        message = b"icecore 2026 receipt v2" + repository.config.repository + clear[:end]
        need(self.key in repository.receipt_keys, "a receipt of an unknown server")
        verify(self.key, reader.take(64), message, "a receipt")
        reader.end()
        of = manifest.made_of if manifest.flags & manifest.REWRITTEN else manifest.id
        told = (snapshot, source, root, begin)
        need(told == (of, manifest.source, manifest.root, manifest.seconds), "receipt of another")
        need(flags & 0xFFFE == 0 and self.node == body["node"], "flags or node of a receipt")
        none, length = (0, 0), self.locked_until - self.locked_at
        is_lock = self.locked_at != 0 and 1 <= length <= 100 * 366 * 86_400
        need((self.locked_at, self.locked_until) == none or is_lock, "lock of a receipt")


class Repository:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.config = either(self.folder, "config", Config)
        self.key_list = either(self.folder / "keys", "list", lambda it: KeyList(it, self.config))
        self.slots = {}
        for path in sorted((self.folder / "keys").glob("[0-9a-f]" * 16)):
            slot = Slot(path.read_bytes(), self.config, path.name)
            self.slots[slot.id] = slot
        self.keys, self.sessions, self.cache = None, {}, {}

    def unlock(self, secret):
        opened = ((slot, slot.open(secret)) for slot in self.slots.values())
        slot, secrets = next(((slot, found) for slot, found in opened if found), (None, None))
        if slot is None:
            raise Damaged("no slot opens with this password")
        if slot.role == Slot.WRITE_ONLY:
            raise Damaged("a write-only key reads nothing")
        self.config.verify(slot)
        self.keys = Keys(slot, secrets, self.config, self.key_list)

    @cached_property
    def containers(self):
        found = {}
        for path in sorted((self.folder / "containers").glob("*/*.ice")):
            number = int(path.stem, 16)
            need(path.parent.name == f"{number >> 8:08x}", f"folder of {path}")
            found[number] = Container(path.read_bytes(), self.config, number)
        return found

    def records(self, *kinds):
        for number, container in self.containers.items():
            for at, record in container.records:
                if record.kind in kinds:
                    yield number, at, record

    @cached_property
    def places(self):
        """Id of each object: its record, and its position in it."""
        for _, _, record in self.records("session"):
            self.learn(record)
        places = {}
        for _, _, record in self.records("data", "pages"):
            for position, name in enumerate(objects.names(record)):
                places.setdefault(name, []).append((record, position))
        return places

    def learn(self, record):
        name, cipher = self.keys.session(record.clear)
        need(name == record.session, "id of a session")
        self.sessions[name] = cipher

    def candidates(self, name):
        for record, position in self.places.get(name, ()):
            if self.cache.get("record") is not record:
                self.cache = {"record": record, "objects": list(record.payloads(self.sessions))}
            yield record, position, self.cache["objects"][position]

    def chunk(self, name):
        for _, _, plain in self.candidates(name):
            if self.keys.chunk_id(plain, name[20:]) == name:
                return plain
        raise Damaged(f"no good chunk {name.hex()}")

    def page(self, name):
        """Kind, references and payload."""
        for record, position, payload in self.candidates(name):
            kind, _, references = list(objects.heads(record))[position]
            if self.keys.page_id(kind, references, payload, name[20:]) == name:
                return kind, references, payload
        raise Damaged(f"no good page {name.hex()}")

    def trusted(self, session, record):
        """Manifest and body of a snapshot."""
        self.learn(session)
        manifest = Manifest(record.clear)
        signer = self.key_list.of(manifest.writer)
        last = signer["last"]
        need(last is None or manifest.sequence <= last, "a snapshot of a removed key")
        message = b"icecore 2026 manifest v2" + self.config.repository + manifest.signed
        verify(signer["verify_key"], manifest.signature, message, "a snapshot")
        text = record.open(self.sessions)
        need(self.keys.page_id(0x81, [manifest.root], text) == manifest.body_hash, "body's hash")
        body = json.loads(text)
        is_own = not signer["is_bound"] or signer["label"] == body["node"]
        need(is_own, "a snapshot of a node for which its key may not sign")
        source = "\0".join([body["node"], *body["paths"]]).encode()
        need(self.keys.page_id(0x80, [], source) == manifest.source, "source of a snapshot")
        return manifest, {**body, "partial": bool(manifest.flags & 1)}

    def snapshots(self):
        """All of the list, in the order made."""
        for path in sorted((self.folder / "snapshots").iterdir()):
            if len(path.name) == 43:
                data = path.read_bytes()
                session = Record(data, 0)
                record = Record(data, session.end)
                manifest, body = self.trusted(session, record)
                manifest.receipt = None
                if record.end < len(data):
                    last = Record(data, record.end)
                    is_one = (last.kind, last.session) == ("receipt", record.session)
                    need(is_one and last.end == len(data), f"length of {path}")
                    manifest.receipt = Receipt(last.clear, self, manifest, body)
                name = f"{manifest.sequence:010x}-{manifest.id.hex()}"
                need(name == path.name, f"{path} holds {name}")
                yield manifest, body

    @cached_property
    def receipt_keys(self):
        """Public keys of the servers that took snapshots."""
        data = (self.folder / "receipts").read_bytes()
        reader = Reader(data[:-16], "receipts")
        need(checksum(data[:-16]) == data[-16:], "checksum of the receipts")
        reader.magic(b"ICERECP1")
        need(reader.left() % 32 == 0 and reader.left() <= 64 * 32, "receipts")
        return {reader.take(32) for _ in range(reader.left() // 32)}

    def forgotten(self):
        """Ids in tombstones."""
        for _, _, record in self.records("tombstone"):
            signed, signature = record.clear[:-64], record.clear[-64:]
            message = b"icecore 2026 tombstone v1" + self.config.repository + signed
            verify(self.key_list.of(signed[:8])["verify_key"], signature, message, "a tombstone")
            yield from (signed[at:at + 16] for at in range(8, len(signed), 16))

    def expired(self):
        """Ids in expiries."""
        for _, _, record in self.records("expiry"):
            reader = Reader(record.clear, "expiry")
            need(reader.u16() == 1, "version of an expiry")
            key, _ = reader.take(32), reader.i64()
            need((reader.left() - 64) % 16 == 0, "length of an expiry")
            ids = [reader.take(16) for _ in range((reader.left() - 64) // 16)]
            need(1 <= len(ids) <= 4096, "names of an expiry")
            message = b"icecore 2026 expiry v1" + self.config.repository + record.clear[:-64]
            need(key in self.receipt_keys, "an expiry of an unknown server")
            verify(key, reader.take(64), message, "an expiry")
            yield from ids

    def rebuilt(self):
        """The list of snapshots as the containers alone have it."""
        gone, found, _ = {*self.forgotten(), *self.expired()}, {}, self.places
        for number, _, record in self.records("manifest"):
            session = next(r for _, _, r in self.records("session") if r.session == record.session)
            manifest, body = self.trusted(session, record)
            if manifest.id not in gone:
                found[manifest.id] = manifest, body
        return sorted(found.values(), key=lambda pair: pair[0].sequence)


def main():
    parser = argparse.ArgumentParser(description="A second reader of Icecore repositories.")
    parser.add_argument("action", choices=["list", "restore", "check"])
    parser.add_argument("repository")
    parser.add_argument("--password-file")
    parser.add_argument("--target")
    parser.add_argument("--snapshot", default="", help="the beginning of an id; the newest if none")
    parser.add_argument("--from-containers", action="store_true", help="do not read snapshots/")
    asked = parser.parse_args()
    repository = Repository(asked.repository)
    if asked.action == "check":
        import chunk_index
        print(json.dumps(chunk_index.check(repository)))
        return
    repository.unlock(Path(asked.password_file).read_bytes().rstrip(b"\r\n"))
    listed = repository.rebuilt() if asked.from_containers else list(repository.snapshots())
    if asked.action == "list":
        for manifest, body in listed:
            print(json.dumps({"id": manifest.id.hex(), "sequence": manifest.sequence, **body}))
        return
    fitting = [pair for pair in listed if pair[0].id.hex().startswith(asked.snapshot)]
    need(fitting, "no such snapshot")
    objects.restore(repository, fitting[-1][0], asked.target)


if __name__ == "__main__":
    try:
        main()
    except Damaged as error:
        sys.exit(f"icereader: {error}")
