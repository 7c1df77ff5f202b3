"""Numbers and strings as docs/FORMAT.md, chapter 1, has them."""

from blake3 import blake3


class Damaged(Exception):
    """Bytes that are not what the format says."""


def need(is_so, what):
    if not is_so:
        raise Damaged(what)


def checksum(data):
    return blake3(data).digest()[:16]


class Reader:
    """Reads from `data`, never beyond its end."""

    def __init__(self, data, what, at=0):
        self.data, self.what, self.at = data, what, at

    def take(self, count):
        need(0 <= count <= len(self.data) - self.at, f"{self.what} is cut off")
        self.at += count
        return self.data[self.at - count:self.at]

    def left(self):
        return len(self.data) - self.at

    def magic(self, expected):
        need(self.take(len(expected)) == expected, f"magic of {self.what}")

    def number(self, count, signed=False):
        return int.from_bytes(self.take(count), "little", signed=signed)

    def u8(self):
        return self.number(1)

    def u16(self):
        return self.number(2)

    def u32(self):
        return self.number(4)

    def u64(self):
        return self.number(8)

    def i64(self):
        return self.number(8, signed=True)

    def varint(self):
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 127) << shift
            if byte < 128:
                need((byte or not shift) and value < 1 << 64, f"varint of {self.what}")
                return value
            shift += 7
            need(shift < 64, f"varint of {self.what}")

    def count(self, most):
        value = self.varint()
        need(value <= most, f"{self.what} has more than it may")
        return value

    def signed(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def string(self, most=1 << 20):
        return self.take(self.count(most))

    def string_of(self, length, most):
        need(length <= most, f"{self.what} has more than it may")
        return self.take(length)

    def end(self):
        need(self.left() == 0, f"{self.what} is too long")
