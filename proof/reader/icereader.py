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
from argon2.low_level import Type, hash_secret_raw
from blake3 import blake3
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import objects
import parity
from wire import Damaged, Reader, checksum, need

KINDS = {1: "data", 2: "pages", 3: "session", 4: "manifest", 5: "tombstone"}
CIPHERS = {1: AESGCM, 2: ChaCha20Poly1305}
BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def derive(context, *parts):
    return blake3(b"".join(parts), derive_key_context="icecore 2026 " + context).digest()


def public_bytes(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def verify(key, signature, message, what):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        raise Damaged(f"signature of {what}") from None


def recovery_key(text):
    """The 32 bytes of a recovery key (or of a node's key, in hex), or None when `text` is neither."""
    letters = "".join(text.split()).replace("-", "").upper()
    if len(letters) == 64 and not set(letters) - set("0123456789ABCDEF"):
        return bytes.fromhex(letters)
    letters = letters.replace("O", "0").replace("I", "1").replace("L", "1")
    if len(letters) != 55 or set(letters) - set(BASE32):
        return None
    number = 0
    for letter in letters:
        number = number << 5 | BASE32.index(letter)
    key, digits = (number >> 19).to_bytes(32, "big"), number & (1 << 19) - 1
    expected = derive("recovery checksum v1", key)[:3]
    return key if int.from_bytes(expected, "big") >> 5 == digits else None


class Config:
    def __init__(self, data):
        need(len(data) == 237 and checksum(data[:221]) == data[221:], "config")
        reader = Reader(data, "config")
        reader.magic(b"ICEREPO2")
        self.repository, features, _optional = reader.take(16), reader.u64(), reader.u64()
        _made = reader.i64()
        self.privacy, self.chunks = reader.u8(), [reader.u32() for _ in range(3)]
        self.root_key = reader.take(32)
        self.parity_percent = features >> 8 & 255 if features & 1 else 0
        need(features & ~0xFF01 == 0 and (features & 1 or not features), "features of the config")
        verify(self.root_key, data[157:221], b"icecore 2026 config v2" + data[:157], "the config")


class Signers:
    """The list of signers: verify key and last number of each that ever was allowed to sign."""

    def __init__(self, data, config):
        need(len(data) >= 124 and checksum(data[:-16]) == data[-16:], "list of signers")
        reader = Reader(data[:-80], "list of signers")
        reader.magic(b"ICESIGN1")
        need(reader.take(16) == config.repository, "list of signers of another repository")
        signed = b"icecore 2026 signer list v1" + data[:-80]
        verify(config.root_key, data[-80:-16], signed, "the list of signers")
        self.version, _made, count = reader.u64(), reader.i64(), reader.u32()
        need(len(data) == 44 + 115 * count + 80, "length of the list of signers")
        self.known = dict(self.entry(reader) for _ in range(count))

    @staticmethod
    def entry(reader):
        name, verify_key, _role, flags = reader.take(8), reader.take(32), reader.u8(), reader.u8()
        last, _length, _label = reader.u64(), reader.u8(), reader.take(64)
        return name, (verify_key, last if flags & 2 else None)

    def verify(self, name, number, signature, message, what):
        """`number` is that of a snapshot; None for a tombstone."""
        need(name in self.known, what + " of an unknown signer")
        verify_key, last = self.known[name]
        need(last is None or number is None or number <= last, what + " of a removed signer")
        verify(verify_key, signature, message, what)


class Slot:
    """A key slot: what is in the clear is checked, the secrets are opened on request."""

    def __init__(self, data, config, name):
        need(len(data) == 464 and derive("slot checksum v1", data[:448])[:16] == data[448:], "slot")
        reader = Reader(data, "slot")
        reader.magic(b"ICEKEYS2")
        need(reader.u8() == 2, "version of a slot")
        self.role, self.derivation, self.privacy = reader.u8(), reader.u8(), reader.u8()
        self.cost, self.made = [reader.u32() for _ in range(3)], reader.i64()
        self.id, self.repository, self.salt = reader.take(8), reader.take(16), reader.take(16)
        self.root, self.verify_key = reader.take(32), reader.take(32)
        self.label = reader.take(reader.u8()).decode()
        need(self.id.hex() == name and self.root == config.root_key, "slot of another name or root")
        need(self.repository == config.repository, "slot of another repository")
        need(self.privacy == config.privacy, "privacy of a slot")
        verify(self.root, data[208:272], b"icecore 2026 slot certificate v1" + data[:208], "a slot")
        self.bound, self.commitment, self.sealed = data[:272], data[272:304], data[304:448]

    def open(self, secret):
        """The 128 bytes of secrets, or None when `secret` is not this slot's."""
        if self.derivation == 2:
            key = recovery_key(secret.decode(errors="replace"))
            kek = key and derive("recovery kek v1", key, self.salt)
        else:
            memory, passes, lanes = self.cost
            need(memory <= 1 << 20 and passes <= 16 and lanes <= 16, "cost of a slot")
            kek = hash_secret_raw(secret, self.salt, passes, memory, lanes, 32, Type.ID)
        if not kek or derive("slot commitment v1", kek) != self.commitment:
            return None
        plain = AESGCM(derive("slot sealing v1", kek)).decrypt(bytes(12), self.sealed, self.bound)
        signing = Ed25519PrivateKey.from_private_bytes(plain[64:96] if self.role == 1 else plain[96:])
        need(public_bytes(signing) == self.verify_key, "signing key of a slot")
        return plain


class Keys:
    """What a full key knows."""

    def __init__(self, secrets, config):
        domain, self.recipient = secrets[:32], X25519PrivateKey.from_private_bytes(secrets[32:64])
        root = Ed25519PrivateKey.from_private_bytes(derive("root signing v1", domain))
        need(public_bytes(root) == config.root_key, "root key")
        self.repository = config.repository
        seed = derive("object id v1", domain)
        self.chunk_key, self.page_key = derive("chunk id v1", seed), derive("page id v1", seed)

    def chunk_id(self, plain):
        name = blake3(plain, key=self.chunk_key).digest()[:24]
        return name[:23] + bytes([name[23] & 0xFE])

    def page_id(self, kind, references, payload):
        head = bytes([kind]) + len(references).to_bytes(8, "little") + b"".join(references)
        name = blake3(head + payload, key=self.page_key).digest()[:24]
        return name[:23] + bytes([name[23] | 1])

    def session(self, sealed):
        """Id and cipher of a sealed session."""
        ephemeral = sealed[17:49]
        shared = self.recipient.exchange(X25519PublicKey.from_public_bytes(ephemeral))
        own = public_bytes(self.recipient)
        key = derive("session sealing v1", shared, ephemeral, own, self.repository)
        random = AESGCM(key).decrypt(bytes(12), sealed[49:], sealed[:17])
        cipher = CIPHERS[sealed[16]]
        return sealed[:16], cipher(derive("session key v1", random, sealed[:16], sealed[16:17]))


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

    PARTIAL, MADE_ANEW = 1, 2

    def __init__(self, clear):
        reader = Reader(clear, "manifest")
        need(reader.u16() == 2, "version of a manifest")
        self.sequence, self.source, self.number = reader.u64(), reader.take(24), reader.u64()
        self.previous, self.seconds, self.nanos = reader.take(16), reader.i64(), reader.u32()
        self.root, self.level, self.body_hash = reader.take(24), reader.u8(), reader.take(24)
        self.writer, self.flags = reader.take(8), reader.u32()
        self.made_of, made_of_sequence = reader.take(16), reader.u64()
        need(self.flags & 0xFFFF <= 3 and self.nanos < 10**9, "flags of a manifest")
        is_anew = bool(self.flags & self.MADE_ANEW)
        need((self.made_of != bytes(16)) == is_anew, "original of a manifest")
        need(1 <= made_of_sequence < self.sequence if is_anew else made_of_sequence == 0,
             "original's sequence of a manifest")
        reader.string_of(reader.u16(), 4096)
        self.signed, self.signature = clear[:reader.at], reader.take(64)
        reader.end()
        self.id = checksum(b"icecore snapshot" + clear)


class Repository:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.config = self.twice("config", Config)
        self.signers = self.twice("keys/signers", lambda data: Signers(data, self.config))
        self.slots = {}
        for path in sorted((self.folder / "keys").glob("?" * 16)):
            slot = Slot(path.read_bytes(), self.config, path.name)
            self.slots[slot.id] = slot
        self.keys, self.sessions, self.cache = None, {}, {}

    def twice(self, name, decode):
        """What stands twice: the first that is good."""
        try:
            return decode((self.folder / name).read_bytes())
        except (Damaged, OSError):
            return decode((self.folder / (name + ".copy")).read_bytes())

    def unlock(self, secret):
        opened = ((slot, slot.open(secret)) for slot in self.slots.values())
        slot, secrets = next(((slot, found) for slot, found in opened if found), (None, None))
        if slot is None:
            raise Damaged("no slot opens with this password")
        if slot.role != 1:
            raise Damaged("only a full key is read by this reader")
        self.keys = Keys(secrets, self.config)

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
            if self.keys.chunk_id(plain) == name:
                return plain
        raise Damaged(f"no good chunk {name.hex()}")

    def page(self, name):
        """Kind, references and payload."""
        for record, position, payload in self.candidates(name):
            kind, _, references = list(objects.heads(record))[position]
            if self.keys.page_id(kind, references, payload) == name:
                return kind, references, payload
        raise Damaged(f"no good page {name.hex()}")

    def trusted(self, session, record):
        """Manifest and body of a snapshot."""
        self.learn(session)
        manifest = Manifest(record.clear)
        message = b"icecore 2026 manifest v2" + self.config.repository + manifest.signed
        number, signature = manifest.sequence, manifest.signature
        self.signers.verify(manifest.writer, number, signature, message, "a snapshot")
        text = record.open(self.sessions)
        need(self.keys.page_id(0x81, [manifest.root], text) == manifest.body_hash, "body's hash")
        body = json.loads(text)
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
                need(record.end == len(data), f"length of {path}")
                manifest, body = self.trusted(session, record)
                name = f"{manifest.sequence:010x}-{manifest.id.hex()}"
                need(name == path.name, f"{path} holds {name}")
                yield manifest, body

    def forgotten(self):
        """Ids in tombstones."""
        for _, _, record in self.records("tombstone"):
            signed, signature = record.clear[:-64], record.clear[-64:]
            message = b"icecore 2026 tombstone v1" + self.config.repository + signed
            self.signers.verify(signed[:8], None, signature, message, "a tombstone")
            yield from (signed[at:at + 16] for at in range(8, len(signed), 16))

    def rebuilt(self):
        """The list of snapshots as the containers alone have it."""
        gone, found, _ = set(self.forgotten()), {}, self.places
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
