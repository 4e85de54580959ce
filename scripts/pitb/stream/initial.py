"""What two traces start from: hashes of it, and tensors chunk by chunk beside each other."""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pitb.stream.stored import reading
from pitb.trace import Entry, Trace

Array = NDArray[np.float64]
CHUNK = 1 << 17
"""Values that are held at once of each side."""


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
    for quantity in quantities:
        for entry in a.select(0, quantity):
            other = others.get(entry.key)
            name = f"{quantity} {entry.tensor}"
            if other is None or (other.shape, other.dtype) != (entry.shape, entry.dtype):
                found[0][name] = _hash(a, entry)
                continue
            found[0][name], found[1][name] = _hash_pair(a, entry, b, other)
        for entry in b.select(0, quantity):
            name = f"{quantity} {entry.tensor}"
            # In the order of b's own contents.
            found[1][name] = found[1].pop(name, "") or _hash(b, entry)
    return found


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
