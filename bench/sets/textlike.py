"""Text-like data, fast and from a seed: `zstd -1` makes it about 2.5 times smaller.

Two steps, because drawing words one by one costs minutes per GiB: first a pool of
lines of randomly drawn real words, then files of randomly drawn lines. The
pool is far larger than any compressor window and lines come in random order, so
neither long matches nor deduplication find anything that real text would not have.
"""

import random
import re

from settings import MIB, SEED

POOL_BYTES = 128 * MIB
LINES_PER_DRAW = 20_000
WORDS_PER_LINE = 12
# The fewer words there are to draw from, the better it compresses: this gives the
# ratio above, and 3.0 for `zstd -3`.
SOURCE_BYTES = MIB // 4


def source_words(files):
    """The words of real source text, in their order, from a list of files."""
    text, size = [], 0
    for name in files:
        with open(name, "rb") as file:
            text.append(file.read())
        size += len(text[-1])
        if size > SOURCE_BYTES:
            break
    return re.findall(rb"\S+", b"\n".join(text))


def line_pool(words, seed=SEED):
    """Lines of words, each word as often as it stands in the source."""
    rng = random.Random(seed)
    pool, size = [], 0
    while size < POOL_BYTES:
        drawn = rng.choices(words, k=LINES_PER_DRAW * WORDS_PER_LINE)
        lines = [b" ".join(drawn[i:i + WORDS_PER_LINE]) + b"\n"
                 for i in range(0, len(drawn), WORDS_PER_LINE)]
        pool += lines
        size += sum(map(len, lines))
    return pool


def write(path, size, pool, rng):
    """Exactly `size` bytes of lines drawn from the pool."""
    left = size
    with open(path, "wb") as file:
        while left > 0:
            # A small file needs few lines; drawing a full block for each would waste time.
            count = min(LINES_PER_DRAW, left // 20 + 1)
            block = b"".join(rng.choices(pool, k=count))[:left]
            file.write(block)
            left -= len(block)


def write_random(path, size, rng):
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(rng.randbytes(MIB))
        file.write(rng.randbytes(size % MIB))
