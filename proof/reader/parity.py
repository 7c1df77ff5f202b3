"""The parity section (docs/FORMAT.md, F-5.6 to F-5.11): what has rotted is computed from the rest.

The code is over GF(2^16). A symbol stands for an element by the Cantor basis; sums are XOR. With r
parity shards and m the power of two at or above r, parity shard j is the sum over the data shards i
of  K / (j + (m + i)) * data i,  where K belongs to the m data shards in whose batch i is.
"""

from wire import Damaged, Reader, checksum, need

SHARD, GROUP, SUM, HEAD = 4096, 2048, 8, 48
POLYNOMIAL = 0x1002D
CANTOR = [0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012,
          0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E]


def round_up(value):
    return -(-value // SHARD) * SHARD


class Head:
    """How a container is protected; all places follow from it."""

    def __init__(self, data, at):
        reader = Reader(data, "parity head", at)
        reader.magic(b"ICEPARI1")
        self.protected = reader.u64()
        sizes, self.percent, zero = (reader.u32(), reader.u32()), reader.u32(), reader.u32()
        need(sizes == (SHARD, GROUP) and 1 <= self.percent <= 25 and zero == 0, "parity head")
        need(checksum(data[at:at + 32]) == reader.take(16), "checksum of a parity head")
        self.data_shards = -(-self.protected // SHARD)
        self.first_sums = round_up(self.protected) + HEAD
        self.groups = [min(GROUP, self.data_shards - at) for at in range(0, self.data_shards, GROUP)]
        parity_shards = sum(map(self.parity_of, self.groups))
        sums = (self.data_shards + parity_shards) * SUM
        self.parity_at = round_up(self.first_sums + sums)
        self.second_sums = self.parity_at + parity_shards * SHARD
        self.end = self.second_sums + sums + HEAD

    def parity_of(self, data_shards):
        return max(2, -(-data_shards * self.percent // 100))

    @classmethod
    def find(cls, data):
        """The last head, or else the first; None when there is neither."""
        for at in [len(data) - HEAD, *range(SHARD, len(data), SHARD)]:
            try:
                head = cls(data, at)
            except Damaged:
                continue
            if at + HEAD == head.end or at == round_up(head.protected):
                return head
        return None


class Field:
    """Products and quotients of symbols."""

    def __init__(self):
        powers, state = [0] * 65536, 1
        for exponent in range(65535):
            powers[state] = exponent
            state <<= 1
            if state >> 16:
                state ^= POLYNOMIAL
        elements = [0] * 65536
        for bit, basis in enumerate(CANTOR):
            for symbol in range(1 << bit):
                elements[symbol + (1 << bit)] = elements[symbol] ^ basis
        self.log = [powers[element] for element in elements]
        self.exp = [0] * 65535
        for symbol in range(1, 65536):
            self.exp[self.log[symbol]] = symbol

    def product(self, left, right):
        return self.exp[(self.log[left] + self.log[right]) % 65535] if left and right else 0

    def quotient(self, left, right):
        return self.exp[(self.log[left] - self.log[right]) % 65535] if left else 0

    def weight(self, size, column, row):
        """What data shard `column` counts in parity shard `row`, when parity shards are padded to `size`."""
        batch_end = size * (column // size + 1)
        factor = 1
        for point in range(size):
            factor = self.product(factor, batch_end ^ point)
            factor = self.quotient(factor, point or 1)
        return self.quotient(factor, row ^ (size + column))

    def scaled(self, factor, shard):
        """A shard times a symbol: 64 bytes are the low bytes of 32 symbols, then the high ones."""
        low = [self.product(factor, value) for value in range(256)]
        high = [self.product(factor, value << 8) for value in range(256)]
        tables = [bytes(value >> shift & 255 for value in part)
                  for part in (low, high) for shift in (0, 8)]
        from_low, from_high = split(shard)
        result = [xor(from_low.translate(tables[byte]), from_high.translate(tables[2 + byte]))
                  for byte in (0, 1)]
        return joined(*result)


def split(shard):
    parts = [shard[at:at + 32] for at in range(0, len(shard), 32)]
    return b"".join(parts[::2]), b"".join(parts[1::2])


def joined(low, high):
    return b"".join(low[at:at + 32] + high[at:at + 32] for at in range(0, len(low), 32))


def xor(left, right):
    both = int.from_bytes(left, "little") ^ int.from_bytes(right, "little")
    return both.to_bytes(len(left), "little")


def heal(data, head):
    """What is protected, with the damaged shards of each group computed from parity."""
    healed, field = [], Field()
    sums_at, parity_at = 0, head.parity_at
    for number, count in enumerate(head.groups):
        parities = head.parity_of(count)
        begin = number * GROUP * SHARD
        stretch = data[begin:min(begin + count * SHARD, head.protected)]
        stretch = stretch.ljust(count * SHARD, b"\0")
        stretch += data[parity_at:parity_at + parities * SHARD]
        shards = [stretch[at:at + SHARD] for at in range(0, len(stretch), SHARD)]
        good = [is_good(data, head, sums_at + at * SUM, shard) for at, shard in enumerate(shards)]
        healed += group(field, shards, good, count)
        sums_at += len(shards) * SUM
        parity_at += parities * SHARD
    return b"".join(healed)[:head.protected]


def is_good(data, head, offset, shard):
    found = checksum(shard)[:SUM]
    return any(data[at + offset:at + offset + SUM] == found
               for at in (head.first_sums, head.second_sums))


def group(field, shards, good, count):
    """The data shards of a group, of which `good` says which can be believed."""
    lost = [at for at in range(count) if not good[at]]
    rows = [at for at in range(len(shards) - count) if good[count + at]][:len(lost)]
    need(len(rows) == len(lost), "more sectors than parity can make good")
    if not lost:
        return shards[:count]
    size = 1 << (len(shards) - count - 1).bit_length()
    matrix = [[field.weight(size, column, row) for column in lost] for row in rows]
    sides = [shards[count + row] for row in rows]
    for column in set(range(count)) - set(lost):
        for at, row in enumerate(rows):
            part = field.scaled(field.weight(size, column, row), shards[column])
            sides[at] = xor(sides[at], part)
    for column, shard in zip(lost, solved(field, matrix, sides)):
        shards[column] = shard
    return shards[:count]


def solved(field, matrix, sides):
    """Gauss and Jordan; every such matrix can be inverted."""
    for at in range(len(matrix)):
        pivot = next(row for row in range(at, len(matrix)) if matrix[row][at])
        matrix[at], matrix[pivot] = matrix[pivot], matrix[at]
        sides[at], sides[pivot] = sides[pivot], sides[at]
        inverse = field.quotient(1, matrix[at][at])
        matrix[at] = [field.product(inverse, value) for value in matrix[at]]
        sides[at] = field.scaled(inverse, sides[at])
        for row in range(len(matrix)):
            factor = matrix[row][at]
            if row != at and factor:
                matrix[row] = [a ^ field.product(factor, b) for a, b in zip(matrix[row], matrix[at])]
                sides[row] = xor(sides[row], field.scaled(factor, sides[at]))
    return sides
