"""What two traces start from: hashes of it, and tensors chunk by chunk beside each other."""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from pitb.stream.statistics import THREADS
from pitb.stream.stored import reading
from pitb.trace import Entry, Trace

Array = NDArray[np.float64]
CHUNK = 1 << 17
"""Values that are held at once of each side, by each thread."""
LARGE = 1 << 19
"""Values from which on starting threads is worth it."""


def chunks(a: Trace, in_a: Entry, b: Trace, in_b: Entry) -> Iterator[tuple[int, Array, Array]]:
    """Two tensors of as many values: where a chunk begins, and its values on both sides.

    The arrays are filled anew for each chunk.

    Raises:
        PitbError: Values can no longer be read.
    """
    rooms = np.empty((2, min(CHUNK, in_a.count)))
    with reading(a.values) as from_a, reading(b.values) as from_b:
        for start in range(0, in_a.count, CHUNK):
            count = min(CHUNK, in_a.count - start)
            yield (
                start,
                from_a.read(in_a.first_row + start, rooms[0, :count]),
                from_b.read(in_b.first_row + start, rooms[1, :count]),
            )


def hash_both(
    a: Trace, b: Trace, quantities: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """SHA-256 of what two runs start from: of each tensor's shape, dtype and bits.

    What has the same bits on both sides is hashed once.

    Raises:
        PitbError: Values can no longer be read.
    """
    found: tuple[dict[str, str], dict[str, str]] = ({}, {})
    others = {entry.key: entry for entry in b.entries if entry.step == 0}
    pairs: dict[str, tuple[Entry, Entry]] = {}
    for quantity in quantities:
        for entry in a.select(0, quantity):
            other = others.get(entry.key)
            if other is not None and (other.shape, other.dtype) == (entry.shape, entry.dtype):
                pairs[f"{quantity} {entry.tensor}"] = entry, other
    hashes = dict(zip(pairs, _hash_pairs(a, b, list(pairs.values())), strict=True))
    for side, run in enumerate((a, b)):
        for quantity in quantities:
            for entry in run.select(0, quantity):
                name = f"{quantity} {entry.tensor}"
                alike = hashes.get(name)
                found[side][name] = alike[side] if alike else _hash(run, entry)
    return found


def _hash_pairs(a: Trace, b: Trace, pairs: list[tuple[Entry, Entry]]) -> list[tuple[str, str]]:
    """The hashes of tensors that both sides have, in threads where they are large."""

    def work(pair: tuple[Entry, Entry]) -> tuple[str, str]:
        return _hash_pair(a, pair[0], b, pair[1])

    if THREADS == 1 or sum(entry.count for entry, _ in pairs) < LARGE:
        return [work(pair) for pair in pairs]
    with ThreadPoolExecutor(THREADS) as pool:
        # The largest first, so that none is left for the end.
        order = sorted(range(len(pairs)), key=lambda i: -pairs[i][0].count)
        done = dict(zip(order, pool.map(work, [pairs[i] for i in order]), strict=True))
    return [done[i] for i in range(len(pairs))]


def _begun(entry: Entry) -> "hashlib._Hash":
    return hashlib.sha256(f"{entry.shape} {entry.dtype}\n".encode())


def _bits(values: Array) -> memoryview:
    return np.ascontiguousarray(values, dtype="<f8").view(np.uint8).data


def _hash(run: Trace, entry: Entry) -> str:
    digest = _begun(entry)
    for _, values, _ in chunks(run, entry, run, entry):
        digest.update(_bits(values))
    return digest.hexdigest()


def _hash_pair(a: Trace, in_a: Entry, b: Trace, in_b: Entry) -> tuple[str, str]:
    digest = _begun(in_a)
    other = None
    for _, from_a, from_b in chunks(a, in_a, b, in_b):
        if other is None and not np.array_equal(from_a.view(np.int64), from_b.view(np.int64)):
            other = digest.copy()  # so far they were the same
        digest.update(_bits(from_a))
        if other is not None:
            other.update(_bits(from_b))
    return digest.hexdigest(), (other or digest).hexdigest()
