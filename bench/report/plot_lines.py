"""Lines as plain SVG: for each file system, rate over the size of writes, direct and buffered, by number of streams."""

import statistics
from math import log2

from report.plot import document, text

WIDTH, HEIGHT, GAP, COLUMNS = 260, 160, 60, 3
COLORS = {"direct": "#0a6ebd", "buffered": "#d08a3c"}
DASHES = {1: "", 4: "6,3", 16: "2,3"}
FIRST, LAST = 18, 23


def write(found, path):
    parts = [legend()]
    for number, (kind, rounds) in enumerate(found.items()):
        x = GAP + number % COLUMNS * (WIDTH + GAP)
        y = GAP + 20 + number // COLUMNS * (HEIGHT + GAP)
        parts.append(panel(x, y, kind, [row for one in rounds for row in one["rows"]]))
    lines = -(-len(found) // COLUMNS)
    path.write_text(document(GAP + COLUMNS * (WIDTH + GAP), GAP + 20 + lines * (HEIGHT + GAP), parts))


def legend():
    words = "MiB/s durable over the size of a write; line: 1 stream, dashes: 4, dots: 16; "
    return (text(GAP, 24, words + "buffered", f'fill="{COLORS["buffered"]}"')
            + text(GAP, 42, "direct", f'fill="{COLORS["direct"]}"'))


def panel(x, y, kind, rows):
    highest = max(row["durable_bytes_per_sec"] for row in rows)
    frame = f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    parts = [frame, text(x, y - 6, kind, 'font-weight="bold"'),
             text(x - 6, y + 10, f"{highest / 2**20:.0f}", 'text-anchor="end"'),
             text(x, y + HEIGHT + 16, "256 KiB"), text(x + WIDTH, y + HEIGHT + 16, "8 MiB", 'text-anchor="end"')]
    for way, color in COLORS.items():
        for streams, dash in DASHES.items():
            points = points_of([row for row in rows if row["io"] == way and row["streams"] == streams])
            at = [(x + (block - FIRST) / (LAST - FIRST) * WIDTH, y + HEIGHT - rate / highest * HEIGHT)
                  for block, rate in points]
            line = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-dasharray="{dash}"/>')
    return "".join(parts)


def points_of(rows):
    blocks = sorted({row["block_bytes"] for row in rows})
    return [(log2(block), statistics.median(row["durable_bytes_per_sec"] for row in rows
                                            if row["block_bytes"] == block)) for block in blocks]
