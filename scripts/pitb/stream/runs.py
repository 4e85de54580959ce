"""Parquet's encodings of columns that are made of runs, decoded into those.

The steps, quantities and tensors of a trace are the same over a tensor, its indices ascend by one.
So a column of millions of rows is a few runs, and is read as such, at the cost of its encoded
bytes. Source: Parquet's format, Encodings.md (RLE and bit-packing hybrid, DELTA_BINARY_PACKED).
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.stream.thrift import Malformed, Reader

_TOGETHER = tuple(1 << power for power in range(14, -1, -1))
"""Numbers of blocks that are looked at together, the most first."""
_AT_ONCE = 64
"""Blocks that are looked at before, as a tensor of some thousand values has no more."""
_FEW = 64
"""Packed numbers up to which one after the other is faster than an array."""
_MOST_BLOCK = 1 << 12
"""Differences in a block; libraries write 128 to 2,048 of them."""
_MOST_PARTS = 1 << 5
"""Parts of a block, each with a width of its own; libraries write 4 to 8."""
_MOST_PART = 1 << 8
"""Differences in a part; libraries write 32 to 256. One that is not 1 costs all of its bits."""
_PACKED = 1 << 13
"""Packed numbers that are unpacked at a time, a multiple of 8."""


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
        values: list[Any] = []
        counts: list[int] = []
        following: Any = None  # what continues a run
        for value, count in expected:
            if count == 0:
                continue
            if value == following:
                counts[-1] += count
            else:
                values.append(value)
                counts.append(count)
            following = value + count if self.step else value
        return values == self.values and counts == self.counts


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
    size_in_bytes = (width + 7) // 8
    left = count
    while left:
        head = reader.varint()
        group = 8 if head & 1 else 1
        size = (head >> 1) * group
        if not 0 < size < left + group:
            raise Malformed("a run of indices is empty or too long")
        count = min(size, left)
        if head & 1 and width:
            for start in range(0, size, _PACKED):
                few = min(_PACKED, size - start)
                packed = reader.take(few * width // 8)
                _add_packed(packed, width, min(few, count - start), entries, found)
        else:  # packed ones of no bits are as many as they say, and take no bytes
            index = int.from_bytes(reader.take(size_in_bytes), "little")
            if index >= len(entries):
                raise Malformed("an index is none of the dictionary's")
            found.add(entries[index], count)
        left -= count
    if reader.position != len(body):
        raise Malformed("a page is longer than its indices")


def _add_packed(data: bytes, width: int, count: int, entries: list[bytes], found: Runs) -> None:
    """Add entries by ``count`` indices of ``width`` bits each, the lowest bit first."""
    for index, many in _packed_runs(data, width, count, found.most):
        if index >= len(entries):
            raise Malformed("an index is none of the dictionary's")
        found.add(entries[index], many)


def _packed_runs(data: bytes, width: int, count: int, most: int) -> Iterator[tuple[int, int]]:
    """Packed numbers, and how often each stands there in a row."""
    if count <= _FEW:
        bits, mask = int.from_bytes(data, "little"), (1 << width) - 1
        number, start = bits & mask, 0
        for place in range(1, count):
            bits >>= width
            if bits & mask != number:
                yield number, place - start
                number, start = bits & mask, place
        yield number, count - start
        return
    values = _unpacked(data, width, count)
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), count]
    if len(starts) > most + 2:
        raise Malformed("a column has more runs than its file lists tensors")
    for start, stop in itertools.pairwise(starts):
        yield int(values[start]), stop - start


def _unpacked(data: bytes, width: int, count: int) -> NDArray[np.uint32]:
    """Numbers of ``width`` bits each, the lowest bit first."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count * width, bitorder="little")
    wide = np.zeros((count, 32), dtype=np.uint8)
    wide[:, :width] = bits.reshape(count, width)
    return np.packbits(wide, axis=1, bitorder="little").view("<u4")[:, 0]


def add_delta(body: bytes, count: int, found: Runs) -> None:
    """Decode a page of ``count`` int64 in DELTA_BINARY_PACKED into runs that ascend by one.

    Sums beyond int64 do not wrap around, as no index of a trace is that large.

    Raises:
        Malformed: It is too short, too long, or of another number of values.
    """
    reader = Reader(body)
    block, parts, total = reader.varint(), reader.varint(), reader.varint()
    first = reader.zigzag()
    if (
        total != count
        or not 0 < parts <= _MOST_PARTS
        or block % (8 * parts)
        or not 0 < block <= min(_MOST_BLOCK, _MOST_PART * parts)
    ):
        raise Malformed("a page of differences is malformed")
    if count == 0:
        return
    # A block of differences of 1: the least difference, in zigzag, and no bits for any part.
    run = b"\x02" + bytes(parts)
    size, left, begun = block // parts, count - 1, 1
    while left > 0:
        blocks = _leading(reader, run, -(-left // block))
        begun += min(blocks * block, left)
        left -= blocks * block
        if left <= 0:
            break
        least = reader.zigzag()
        # Of parts without values only the widths stand there.
        for width, alike in _alike(reader.take(parts)[: -(-left // size)], _MOST_PART // size):
            few = size * alike
            packed = reader.take(width * few // 8)
            done, count = 0, min(few, left)
            for place, difference in _breaks(packed, width, few, least, count):
                begun += place - done
                found.add(first, begun)
                first, begun, done = first + begun - 1 + difference, 1, place + 1
            begun += count - done
            left -= few
    found.add(first, begun)
    if reader.position != len(body):
        raise Malformed("a page is longer than its differences")


def _alike(widths: bytes, most: int) -> Iterator[tuple[int, int]]:
    """Each width of one or more, with how many parts have it in a row, ``most`` at a time.

    A part ends where a byte does, so these are packed as one would be.
    """
    if len(widths) <= most and widths == widths[:1] * len(widths):
        yield widths[0], len(widths)  # the common case
        return
    for width, equal in itertools.groupby(widths):
        left = len(list(equal))
        while left > 0:
            yield width, min(left, most)
            left -= most


def _leading(reader: Reader, run: bytes, most: int) -> int:
    """How many of the next blocks are runs; the reader goes behind them."""
    begin = reader.position
    few = min(_AT_ONCE, most, (len(reader.data) - begin) // len(run))
    bits = int.from_bytes(reader.data[begin : begin + few * len(run)], "little")
    other = bits ^ int.from_bytes(_repeated(run, few), "little")
    found = few
    if other:  # the byte where the first other bit stands, and its block
        found = ((other & -other).bit_length() - 1) // 8 // len(run)
    reader.position += found * len(run)
    if other or found == most:
        return found
    for count in _TOGETHER:
        if found + count > most:
            continue
        together = _repeated(run, count)
        while found + count <= most and reader.data.startswith(together, reader.position):
            found += count
            reader.position += len(together)
    return found


@lru_cache(64)
def _repeated(run: bytes, count: int) -> bytes:
    return run * count


def _breaks(packed: bytes, width: int, size: int, least: int, count: int) -> list[tuple[int, int]]:
    """Which of the first ``count`` differences of a part are not 1, and what they are."""
    if width > 64:
        raise Malformed("differences of more than 64 bits")
    if width == 0:
        return [] if least == 1 else [(place, least) for place in range(count)]
    bits, mask = int.from_bytes(packed, "little"), (1 << width) - 1
    if not 0 <= 1 - least <= mask:
        return [(place, least + (bits >> place * width & mask)) for place in range(count)]
    other = bits ^ (1 - least) * _ones(width, size)  # 0 where a difference is 1
    found = []
    while other:
        place = ((other & -other).bit_length() - 1) // width
        if place >= count:
            break
        found.append((place, least + (bits >> place * width & mask)))
        behind = (place + 1) * width
        other = other >> behind << behind
    return found


@lru_cache(64)
def _ones(width: int, size: int) -> int:
    """A number whose ``size`` parts of ``width`` bits are each 1."""
    return ((1 << width * size) - 1) // ((1 << width) - 1)
