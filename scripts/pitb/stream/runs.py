"""Parquet's encodings of columns that are made of runs, decoded into those.

The steps, quantities and tensors of a trace are the same over a tensor, its indices ascend by one.
So a column of millions of rows is a few runs, and is read as such, at the cost of its encoded
bytes. Source: Parquet's format, Encodings.md (RLE and bit-packing hybrid, DELTA_BINARY_PACKED).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.stream.thrift import Malformed, Reader

_WINDOW = 1 << 14
"""Blocks that are looked at together at most."""


@dataclass
class Runs:
    """Values with how often each stands: as it is, or counting on by ``step`` (0 or 1)."""

    most: int
    """How many runs there may be; beyond that it is no column of a trace."""
    step: int = 0
    values: list[Any] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def add(self, value: Any, count: int) -> None:
        """Add a run; it continues the one before where it can.

        Raises:
            Malformed: There are too many.
        """
        if count == 0:
            return
        if self.values and value == (
            self.values[-1] + self.counts[-1] if self.step else self.values[-1]
        ):
            self.counts[-1] += count
            return
        if len(self.values) >= self.most:
            raise Malformed("a column has more runs than its file lists tensors")
        self.values.append(value)
        self.counts.append(count)

    def is_made_of(self, expected: Iterable[tuple[Any, int]]) -> bool:
        """Whether these runs are the expected ones, which may be cut otherwise."""
        whole = Runs(self.most + 1, self.step)
        try:
            for value, count in expected:
                whole.add(value, count)
        except Malformed:
            return False
        return whole.values == self.values and whole.counts == self.counts


def dictionary(body: bytes, count: int, is_number: bool) -> list[bytes]:
    """The entries of a dictionary page: int32 each, or texts with their lengths.

    Raises:
        Malformed: The page has another length.
    """
    reader = Reader(body)
    if not 0 <= count <= len(body) // 4:
        raise Malformed("a dictionary is longer than its page")
    found = []
    for _ in range(count):
        size = 4 if is_number else int.from_bytes(reader.take(4), "little")
        found.append(reader.take(size))
    if reader.position != len(body):
        raise Malformed("a dictionary is shorter than its page")
    return found


def add_indices(body: bytes, count: int, entries: list[bytes], found: Runs) -> None:
    """Decode a page of ``count`` indices into a dictionary.

    Raises:
        Malformed: It is too short or too long, or an index is out of range.
    """
    reader = Reader(body)
    width = reader.byte()
    if width > 32:
        raise Malformed("indices of more than 32 bits")
    left = count
    while left:
        head = reader.varint()
        if head >> 1 == 0 or head >> 4 > left:
            raise Malformed("a run of indices is empty or too long")
        if head & 1:
            size = (head >> 1) * 8
            if size >= left + 8:
                raise Malformed("a run of indices is too long")
            packed = reader.take((head >> 1) * width)
            values = _unpacked(packed, width, size)[:left]
            _add_array(values, entries, found)
            left -= len(values)
        else:
            size = head >> 1
            index = int.from_bytes(reader.take((width + 7) // 8), "little")
            if not 0 < size <= left or index >= len(entries):
                raise Malformed("a run of indices is too long, or none of the dictionary's")
            found.add(entries[index], size)
            left -= size
    if reader.position != len(body):
        raise Malformed("a page is longer than its indices")


def _add_array(values: NDArray[np.int64], entries: list[bytes], found: Runs) -> None:
    bounds = np.flatnonzero(np.diff(values)) + 1
    if len(bounds) > found.most or values.max(initial=0) >= len(entries):
        raise Malformed("too many runs, or an index that is none of the dictionary's")
    starts = [0, *bounds.tolist()]
    for start, stop in zip(starts, [*starts[1:], len(values)], strict=True):
        found.add(entries[int(values[start])], stop - start)


def _unpacked(data: bytes, width: int, count: int) -> NDArray[np.int64]:
    """Numbers of ``width`` bits each, the lowest bit first, as int64 that wraps around."""
    if width == 0:
        return np.zeros(count, dtype=np.int64)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    powers = np.left_shift(np.uint64(1), np.arange(width, dtype=np.uint64))
    numbers = bits[: count * width].reshape(count, width).astype(np.uint64) @ powers
    return numbers.view(np.int64)


def add_delta(body: bytes, count: int, found: Runs) -> None:
    """Decode a page of ``count`` int64 in DELTA_BINARY_PACKED.

    Raises:
        Malformed: It is too short, too long, or of another number of values.
    """
    reader = Reader(body)
    block, parts, total = reader.varint(), reader.varint(), reader.varint()
    value = reader.zigzag()
    if (
        total != count
        or not 0 < parts <= 1 << 10
        or block % (8 * parts)
        or not 0 < block <= 1 << 20
    ):
        raise Malformed("a page of differences is malformed")
    if count == 0:
        return
    found.add(value, 1)
    left = count - 1
    for step, size in _differences(reader, block, parts, left):
        # What is a run of 1 is told as such; the others as the array of their differences.
        if isinstance(step, int):
            size = min(size, left)
            found.add(value + 1, size)
            value += size
        else:
            with np.errstate(over="ignore"):
                numbers = value + np.cumsum(step[:left])
            size = len(numbers)
            _add_ascending(numbers, found)
            value = int(numbers[-1])
        left -= size
    if reader.position != len(body):
        raise Malformed("a page is longer than its differences")


def _differences(
    reader: Reader, block: int, parts: int, left: int
) -> Iterator[tuple[int | NDArray[np.int64], int]]:
    """Runs of differences of 1, as 1 and their number; other blocks as arrays."""
    window = 1
    # A block of differences of 1: the least difference, in zigzag, and no bits for any part.
    run = b"\x02" + bytes(parts)
    while left > 0:
        alike = _leading_runs(reader, run, min(window, -(-left // block)))
        if alike:
            window = min(8 * window, _WINDOW)
            yield 1, min(alike * block, left)
            left -= alike * block
            continue
        window = 1
        found = _block(reader, block, parts, left)
        yield found, len(found)
        left -= len(found)


def _leading_runs(reader: Reader, run: bytes, most: int) -> int:
    """How many of the next blocks are runs; the reader goes behind them."""
    size = len(run)
    here = reader.position
    if reader.data[here : here + size] != run:
        return 0
    most = min(most, (len(reader.data) - here) // size)
    rows = np.frombuffer(reader.data, np.uint8, most * size, here).reshape(most, size)
    alike = (rows == np.frombuffer(run, np.uint8)).all(axis=1)
    found = most if alike.all() else int(alike.argmin())
    reader.position += found * size
    return found


def _block(reader: Reader, block: int, parts: int, left: int) -> NDArray[np.int64]:
    least = reader.zigzag()
    widths = reader.take(parts)
    size = block // parts
    found = np.full(min(block, left), np.int64(least))
    done = 0
    for width in widths:
        if done >= len(found):
            break  # of parts without values only the widths stand there
        if width > 64:
            raise Malformed("differences of more than 64 bits")
        if width:
            part = _unpacked(reader.take(width * size // 8), width, size)
            with np.errstate(over="ignore"):
                found[done : done + size] += part[: len(found) - done]
        done += size
    return found


def _add_ascending(numbers: NDArray[np.int64], found: Runs) -> None:
    """Add numbers as runs that ascend by one."""
    with np.errstate(over="ignore"):
        breaks = np.flatnonzero(numbers[1:] - numbers[:-1] != 1) + 1
    if len(breaks) > found.most:
        raise Malformed("too many runs")
    starts = [0, *breaks.tolist()]
    for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
        found.add(int(numbers[start]), stop - start)
