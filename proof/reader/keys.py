"""Keys (docs/CRYPTO.md): the config, slots, the key list, and what opens sessions."""

from argon2.low_level import Type, hash_secret_raw
from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from wire import Damaged, Reader, checksum, need

CIPHERS = {1: AESGCM, 2: ChaCha20Poly1305}
LAST_EPOCH = 16383
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


def either(folder, name, parse):
    """What stands twice, from the file that is whole."""
    for path in (folder / name, folder / f"{name}.copy"):
        try:
            return parse(path.read_bytes())
        except (Damaged, OSError) as error:
            damage = error
    raise Damaged(f"{name} and its copy: {damage}")


class Config:
    def __init__(self, data):
        need(len(data) == 237 and checksum(data[:221]) == data[221:], "config")
        reader = Reader(data, "config")
        reader.magic(b"ICEREPO2")
        self.repository, features = reader.take(16), reader.u64()
        _optional, _made = reader.u64(), reader.i64()
        self.privacy, self.chunks = reader.u8(), [reader.u32() for _ in range(3)]
        self.root_key, _extension = reader.take(32), reader.take(64)
        self.signed, self.signature = data[:157], reader.take(64)
        self.parity_percent = features >> 8 & 255 if features & 1 else 0
        self.dedup = not features & 2
        need(features & ~0xFF03 == 0 and (features & 1 or not features >> 8), "features of the config")

    def verify(self, slot):
        """By the root key of the slot that opened: nothing of the config is believed before."""
        need(self.privacy == slot.privacy, "privacy of config and slot")
        verify(slot.root, self.signature, b"icecore 2026 config v2" + self.signed, "the config")


def key_epoch(reader):
    number = reader.u32()
    need(number <= LAST_EPOCH, "a key epoch")
    return number


class KeyList:
    """Every key, the key epoch, and the secret of it for the keys that stay."""

    BOUND, REMOVED, DELIVERED = 1, 2, 4

    def __init__(self, data, config):
        need(checksum(data[:-16]) == data[-16:], "checksum of the key list")
        signed, signature = data[:-80], data[-80:-16]
        verify(config.root_key, signature, b"icecore 2026 key list v1" + signed, "the key list")
        reader = Reader(signed, "key list")
        reader.magic(b"ICEKLST1")
        need(reader.take(16) == config.repository, "key list of another repository")
        _version, _made = reader.u64(), reader.i64()
        self.epoch, self.recipient = key_epoch(reader), reader.take(32)
        self.ephemeral = reader.take(32)
        found = [self.entry(reader) for _ in range(reader.u32())]
        self.deliveries = {one["id"]: reader.take(48) for one in found if one["is_delivered"]}
        reader.end()
        need(all(one["id"] < two["id"] for one, two in zip(found, found[1:])), "order of keys")
        need(all(one["epoch"] <= self.epoch for one in found), "epochs of keys")
        need(bool(self.deliveries) == any(self.ephemeral), "ephemeral key of deliveries")
        self.by_id = {one["id"]: one for one in found}

    def entry(self, reader):
        entry = {"id": reader.take(8), "verify_key": reader.take(32), "role": reader.u8()}
        flags, last, epoch, length = reader.u8(), reader.u64(), key_epoch(reader), reader.u8()
        label, is_live = reader.take(64), not flags & self.REMOVED
        needs = entry["role"] in (Slot.READ_ONLY, Slot.READ_WRITE) and is_live
        need(1 <= entry["role"] <= 4 and flags < 8 and length <= 64, "a key of the list")
        need(any(entry["verify_key"]) == (entry["role"] != Slot.READ_ONLY), "a verify key")
        need(not flags & self.DELIVERED or needs and epoch < self.epoch, "a delivery to nobody")
        return entry | {"is_bound": bool(flags & self.BOUND), "last": None if is_live else last,
                        "epoch": epoch, "is_delivered": bool(flags & self.DELIVERED),
                        "label": label[:length].decode()}

    def of(self, name):
        """Who signed under this name."""
        known = self.by_id.get(name)
        need(known and known["role"] != Slot.READ_ONLY, "signed by a key that nobody knows")
        return known


class Slot:
    """A key slot: what is in the clear is checked, the secrets are opened on request."""

    FULL, WRITE_ONLY, READ_ONLY, READ_WRITE = 1, 2, 3, 4

    def __init__(self, data, config, name):
        need(len(data) == 496 and derive("slot checksum v1", data[:480])[:16] == data[480:], "slot")
        reader = Reader(data, "slot")
        reader.magic(b"ICEKEYS3")
        need(reader.u8() == 3, "version of a slot")
        self.role, self.derivation, self.privacy = reader.u8(), reader.u8(), reader.u8()
        self.cost, self.made = [reader.u32() for _ in range(3)], reader.i64()
        self.id, self.repository, self.salt = reader.take(8), reader.take(16), reader.take(16)
        self.root, self.verify_key = reader.take(32), reader.take(32)
        self.delivery = reader.take(32)
        self.label = data[169:169 + reader.u8()].decode()
        _label, self.is_bound, self.epoch = reader.take(64), reader.u8(), key_epoch(reader)
        need(1 <= self.role <= 4 and self.is_bound < 2 and not any(data[238:240]), "slot")
        need(self.id.hex() == name and self.root == config.root_key, "slot of another name or root")
        need(self.repository == config.repository, "slot of another repository")
        verify(self.root, data[240:304], b"icecore 2026 slot certificate v1" + data[:240], "a slot")
        self.bound, self.commitment, self.sealed = data[:304], data[304:336], data[336:480]

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
        if self.role != self.READ_ONLY:
            seed = plain[64:96] if self.role == self.FULL else plain[96:]
            signing = Ed25519PrivateKey.from_private_bytes(seed)
            need(public_bytes(signing) == self.verify_key, "signing key of a slot")
        if self.role in (self.READ_ONLY, self.READ_WRITE):
            need(public_bytes(delivery_key(plain)) == self.delivery, "delivery key of a slot")
        return plain


def delivery_key(secrets):
    return X25519PrivateKey.from_private_bytes(derive("delivery key v1", secrets[96:]))


class Keys:
    """What a key that reads knows: the secret of one key epoch, and so those of all before it."""

    def __init__(self, slot, secrets, config, key_list):
        self.repository = config.repository
        seed, self.newest, self.secret = secrets[:32], slot.epoch, secrets[64:96]
        if slot.role == Slot.FULL:
            domain = secrets[:32]
            self.newest, self.secret = LAST_EPOCH, derive("last key epoch v1", domain)
            root = Ed25519PrivateKey.from_private_bytes(derive("root signing v1", domain))
            need(public_bytes(root) == config.root_key, "root key")
            seed = derive("object id v1", domain)
        elif slot.id in key_list.deliveries:
            self.follow(slot, secrets, key_list)
        need(slot.epoch <= key_list.epoch, "a key list older than the slot")
        self.recipients = {}
        if self.newest >= key_list.epoch:
            need(public_bytes(self.recipient(key_list.epoch)) == key_list.recipient, "recipient")
        self.chunk_key, self.page_key = derive("chunk id v1", seed), derive("page id v1", seed)
        self.seed, self.dedup = seed, config.dedup

    def chunk_id(self, plain, number=bytes(4)):
        name = blake3(plain, key=self.chunk_key).digest()[:24]
        return self.masked(name[:23] + bytes([name[23] & 0xFE]), number)

    def page_id(self, kind, references, payload, number=bytes(4)):
        bare = b"".join(self.bare(name) for name in references)
        head = bytes([kind]) + len(references).to_bytes(8, "little") + bare
        name = blake3(head + payload, key=self.page_key).digest()[:24]
        return self.masked(name[:23] + bytes([name[23] | 1]), number)

    def masked(self, name, number):
        """Without deduplication: the hash, hidden, and the number of the backup with the type."""
        if self.dedup:
            return name
        return self.hide(name, number) + number[:3] + bytes([number[3] & 0xFE | name[23] & 1])

    def bare(self, name):
        """What the ids of equal objects have in common."""
        return name if self.dedup else self.hide(name, name[20:]) + bytes([0, 0, 0, name[23] & 1])

    def hide(self, name, number):
        mask = derive("backup mask v1", self.seed, number[:3], bytes([number[3] & 0xFE]))
        return bytes(a ^ b for a, b in zip(name[:20], mask))

    def follow(self, slot, secrets, key_list):
        """Takes the secret of the list's epoch, when it leads back to the slot's own."""
        own, ephemeral = delivery_key(secrets), key_list.ephemeral
        shared = own.exchange(X25519PublicKey.from_public_bytes(ephemeral))
        epoch = key_list.epoch.to_bytes(4, "little")
        key = derive("delivery v1", shared, ephemeral, slot.delivery, self.repository, epoch, slot.id)
        before = self.secret
        self.secret = AESGCM(key).decrypt(bytes(12), key_list.deliveries[slot.id], b"")
        self.newest = key_list.epoch
        need(self.secret_of(slot.epoch) == before, "a delivery of another repository")

    def secret_of(self, epoch):
        need(epoch <= self.newest, "stored in a later key epoch than this key reads")
        secret = self.secret
        for _ in range(self.newest - epoch):
            secret = derive("earlier key epoch v1", secret)
        return secret

    def recipient(self, epoch):
        if epoch not in self.recipients:
            secret = derive("recipient v1", self.secret_of(epoch))
            self.recipients[epoch] = X25519PrivateKey.from_private_bytes(secret)
        return self.recipients[epoch]

    def session(self, sealed):
        """Id and cipher of a sealed session."""
        need(len(sealed) == 101, "length of a sealed session")
        ephemeral = sealed[21:53]
        recipient = self.recipient(int.from_bytes(sealed[17:21], "little"))
        shared = recipient.exchange(X25519PublicKey.from_public_bytes(ephemeral))
        own = public_bytes(recipient)
        key = derive("session sealing v1", shared, ephemeral, own, self.repository)
        random = AESGCM(key).decrypt(bytes(12), sealed[53:], sealed[:21])
        cipher = CIPHERS[sealed[16]]
        return sealed[:16], cipher(derive("session key v1", random, sealed[:16], sealed[16:17]))
