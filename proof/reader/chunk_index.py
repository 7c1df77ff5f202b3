"""The chunk index (docs/FORMAT.md, chapter 12), compared with the containers that it speaks of."""

from objects import names
from wire import Reader, checksum, need

PAGE, ROW, ROWS, BLOCK = 4096, 24, 170, 64


def state(data):
    """Next container and numbers of the runs."""
    need(checksum(data[:-16]) == data[-16:], "checksum of the index state")
    reader = Reader(data[:-16], "index state")
    magic = reader.take(8)
    need(magic in (b"ICESTAT1", b"ICESTAT2", b"ICESTAT3"), "magic of the index state")
    next_container, _run, _snapshot, _epoch = (reader.u64() for _ in range(4))
    runs = [reader.u64() for _ in range(reader.u64())]
    if magic != b"ICESTAT1":
        interrupted(reader, at_least=1 if magic == b"ICESTAT2" else 0)
    if magic == b"ICESTAT3":
        pending(reader)
    reader.end()
    return next_container, runs


def pending(reader):
    """Snapshots that may have no file yet: number, container of the manifest, id."""
    count = reader.u64()
    need(0 < count <= 1024, "number of pending snapshots")
    return [(reader.u64(), reader.u64(), reader.take(16)) for _ in range(count)]


def interrupted(reader, at_least):
    """Ranges of containers that reclaim leaves alone: first, last, and how often it has."""
    ranges = [tuple(reader.u64() for _ in range(3)) for _ in range(reader.u64())]
    need(at_least <= len(ranges) <= 1024, "number of ranges of containers")
    need(all(first <= last and often < 3 for first, last, often in ranges), "a range of containers")
    need(all(a[1] < b[0] for a, b in zip(ranges, ranges[1:])), "order of the ranges of containers")


def run(data):
    """The rows of a run: id prefix, container, offset, length; checks fence and filter."""
    need(data[:64] == b"ICERUN01" + bytes(56), "head of a run")
    trailer = Reader(data, "trailer of a run", len(data) - 48)
    count, filter_length, filter_sum = trailer.u64(), trailer.u64(), trailer.take(16)
    fence_sum = trailer.take(16)
    pages = -(-count // ROWS)
    fence_at = 64 + pages * PAGE
    fence = data[fence_at:fence_at + 8 * pages]
    bloom = data[fence_at + 8 * pages:-48]
    need(len(bloom) == filter_length and checksum(bloom) == filter_sum, "filter of a run")
    need(checksum(fence + data[-48:-16]) == fence_sum, "fence of a run")
    rows = [row for at in range(64, fence_at, PAGE) for row in page(data[at:at + PAGE])]
    need(len(rows) == count, "number of rows of a run")
    need(all(a[0] <= b[0] for a, b in zip(rows, rows[1:])), "order of a run")
    need(all(rows[at * ROWS][0][:8] == fence[at * 8:at * 8 + 8] for at in range(pages)), "fence")
    need(all(is_in(bloom, row[0]) for row in rows), "a row that the filter does not know")
    return rows


def page(data):
    reader = Reader(data, "page of a run")
    count, _reserved, found = reader.u16(), reader.take(6), reader.take(8)
    need(checksum(data[:2] + data[16:])[:8] == found and count <= ROWS, "page of a run")
    return [(reader.take(12), reader.number(5), reader.u32(), reader.number(3))
            for _ in range(count)]


def is_in(bloom, name):
    number = int.from_bytes(name[:8], "little")
    block = int.from_bytes(name[8:12], "little") * (len(bloom) // BLOCK) >> 32
    bits = [number >> shift & 511 for shift in (0, 9, 18, 27, 36, 45)]
    return all(bloom[block * BLOCK + bit // 8] >> bit % 8 & 1 for bit in bits)


def check(repository):
    """Every row names a record that holds it, and every object has a row."""
    folder = repository.folder / "index"
    _, numbers = state((folder / "state").read_bytes())
    rows = {}
    for number in numbers:
        # Of equal ones in a run the first is the newest.
        found = run((folder / f"run-{number:010x}").read_bytes())
        rows.update((row[0], row[1:]) for row in reversed(found))
    held = {}
    for number, at, record in repository.records("data", "pages"):
        for name in names(record):
            held.setdefault(name[:12], set()).add((number, at, record.end - at))
    for prefix, place in rows.items():
        need(place in held.get(prefix, ()), f"row {prefix.hex()} leads nowhere")
    need(set(held) <= set(rows), "objects that no row names")
    damage = {number: container.damage for number, container in repository.containers.items()
              if container.damage}
    need(not damage, f"damaged containers {damage}")
    healed = sum(hasattr(container, "healed") for container in repository.containers.values())
    return {"rows": len(rows), "containers": len(repository.containers), "healed": healed}
