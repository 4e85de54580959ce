"""What differs between two tensors, in one pass over chunks that stay in the processor's cache.

The answers are those of NumPy on whole columns, to the bit, and independent of the number of
threads. One exception: of a tensor of more than `CHUNK` values the squares are added chunk by
chunk, so the last bits of its RMSE are those of that order.
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.stream.stored import Readable, reading
from pitb.trace import Entry, Trace

Array = NDArray[np.float64]
CHUNK = 1 << 15
"""Values that are looked at together; two of them and what is computed fit into 2 MB of cache. It
decides the order in which an RMSE is added up, so it is no setting."""
TASK = 1 << 19
"""Values that a thread takes at a time."""
THREADS = min(2, os.cpu_count() or 1)
_TINY = 5e-324
"""The least positive double: a scale of 0 becomes this, and 0 over it is 0."""


@dataclass(frozen=True)
class Statistics:
    """Of some values of two tensors, or of two whole ones."""

    nan: tuple[int, float, float] | None = None
    """Index and both values of the first element that is NaN on one side only."""
    not_finite_a: tuple[int, float] | None = None
    """Index and value of a's first element that is not finite."""
    not_finite_b: tuple[int, float] | None = None
    index: int = 0
    """Of the element that differs most, the first of them."""
    a: float = math.nan
    b: float = math.nan
    max_abs: float = 0.0
    """Infinite where a value is not finite."""
    max_ulp: float = 0.0
    relative: float = 0.0
    squares: float = 0.0


class _Buffers:
    """Room for one chunk, of one thread."""

    def __init__(self, count: int) -> None:
        self.a, self.b, self.difference, self.scale, self.other = (
            np.empty(count) for _ in range(5)
        )
        self.int32 = [np.empty(count, dtype=np.int32) for _ in range(3)]
        self.int64 = [np.empty(count, dtype=np.int64) for _ in range(3)]


@dataclass(frozen=True)
class _Span:
    """Some values of a pair of tensors."""

    pair: int
    a: Entry
    b: Entry
    start: int
    count: int


def statistics(a: Trace, b: Trace, pairs: Sequence[tuple[Entry, Entry]]) -> list[Statistics]:
    """Compare pairs of tensors, each of a's with one of b's of as many values.

    Units in the last place are those of the dtype that a's tensor has.

    Raises:
        PitbError: Values can no longer be read.
    """
    tasks = list(_tasks(pairs))
    size = min(CHUNK, max((first.count for first, _ in pairs), default=0))

    def work(task: list[_Span]) -> list[Statistics]:
        buffers = _Buffers(size)
        with reading(a.values) as from_a, reading(b.values) as from_b:
            return [_read(span, from_a, from_b, buffers) for span in task]

    if len(tasks) == 1 or THREADS == 1:
        done: Iterable[list[Statistics]] = map(work, tasks)
        return _merged(tasks, done, len(pairs))
    with ThreadPoolExecutor(THREADS) as pool:
        return _merged(tasks, pool.map(work, tasks), len(pairs))


def _tasks(pairs: Sequence[tuple[Entry, Entry]]) -> Iterator[list[_Span]]:
    task: list[_Span] = []
    size = 0
    for number, (a, b) in enumerate(pairs):
        for start in range(0, a.count, CHUNK):
            count = min(CHUNK, a.count - start)
            task.append(_Span(number, a, b, start, count))
            size += count
            if size >= TASK:
                yield task
                task, size = [], 0
    if task:
        yield task


def _merged(
    tasks: list[list[_Span]], done: Iterable[list[Statistics]], count: int
) -> list[Statistics]:
    found: list[Statistics | None] = [None] * count
    for task, results in zip(tasks, done, strict=True):
        for span, new in zip(task, results, strict=True):
            old = found[span.pair]
            found[span.pair] = new if old is None else _both(old, new)
    return [Statistics() if one is None else one for one in found]


def _both(first: Statistics, then: Statistics) -> Statistics:
    worse = then if then.max_abs > first.max_abs else first
    return Statistics(
        nan=then.nan if first.nan is None else first.nan,
        not_finite_a=first.not_finite_a or then.not_finite_a,
        not_finite_b=first.not_finite_b or then.not_finite_b,
        index=worse.index,
        a=worse.a,
        b=worse.b,
        max_abs=worse.max_abs,
        max_ulp=max(first.max_ulp, then.max_ulp),
        relative=max(first.relative, then.relative),
        squares=first.squares + then.squares,
    )


def _read(span: _Span, from_a: Readable, from_b: Readable, buffers: _Buffers) -> Statistics:
    a = from_a.read(span.a.first_row + span.start, buffers.a[: span.count])
    b = from_b.read(span.b.first_row + span.start, buffers.b[: span.count])
    with np.errstate(all="ignore"):
        return _chunk(a, b, span.a.dtype, span.start, buffers)


def _chunk(a: Array, b: Array, dtype: str, start: int, buffers: _Buffers) -> Statistics:
    difference = np.subtract(a, b, out=buffers.difference[: len(a)])
    np.abs(difference, out=difference)
    i = int(difference.argmax())  # that of a NaN, where there is one
    largest = float(difference[i])
    if not math.isfinite(largest):
        return _unusual(a, b, dtype, start, difference)
    worst: dict[str, Any] = {"index": start + i, "a": float(a[i]), "b": float(b[i])}
    if largest == 0:
        return Statistics(**worst)
    # A finite difference is one of finite values.
    scale, other = buffers.scale[: len(a)], buffers.other[: len(a)]
    squares = float(np.add.reduce(np.multiply(difference, difference, out=other)))
    np.maximum(np.abs(a, out=scale), np.abs(b, out=other), out=scale)
    np.divide(difference, np.maximum(scale, _TINY, out=scale), out=scale)
    return Statistics(
        **worst,
        max_abs=largest,
        max_ulp=_max_ulp(a, b, dtype, buffers),
        relative=float(scale.max()),
        squares=squares,
    )


def _unusual(a: Array, b: Array, dtype: str, start: int, difference: Array) -> Statistics:
    """Of values that are not all finite, or whose difference is not."""
    only_one = np.flatnonzero(np.isnan(a) != np.isnan(b))
    nan = None
    if len(only_one):
        i = int(only_one[0])
        nan = (start + i, float(a[i]), float(b[i]))
    # Two equal infinities differ by NaN; whatever isn't finite is never OK.
    difference = np.where(np.isfinite(a) & np.isfinite(b), difference, np.inf)
    relative = np.where(difference == 0, 0.0, difference / np.maximum(np.abs(a), np.abs(b)))
    relative = np.where(np.isnan(relative), np.inf, relative)
    i = int(np.argmax(difference))
    return Statistics(
        nan=nan,
        not_finite_a=_first_not_finite(a, start),
        not_finite_b=_first_not_finite(b, start),
        index=start + i,
        a=float(a[i]),
        b=float(b[i]),
        max_abs=float(difference[i]),
        max_ulp=float(ulps(a, b, dtype).max()),
        relative=float(relative.max()),
        squares=float(np.add.reduce(np.square(difference))),
    )


def _first_not_finite(values: Array, start: int) -> tuple[int, float] | None:
    found = np.flatnonzero(~np.isfinite(values))
    return (start + int(found[0]), float(values[found[0]])) if len(found) else None


def _max_ulp(a: Array, b: Array, dtype: str, buffers: _Buffers) -> float:
    """The largest distance in units in the last place, of finite values."""
    count = len(a)
    if dtype == "float32":
        room = [each[:count] for each in buffers.int32]
        for values, narrow in zip((a, b), room, strict=False):
            np.copyto(narrow.view(np.float32), values, casting="unsafe")
        return float(_apart(room, 31).view(np.uint32).max())
    wide = [each[:count] for each in buffers.int64]
    for values, bits in zip((a, b), wide, strict=False):
        np.copyto(bits, values.view(np.int64))
    return float(_apart(wide, 63).view(np.uint64).max())


def _apart(bits_and_room: list[NDArray[Any]], sign: int) -> NDArray[Any]:
    """How far the bits of two floats are apart, as an unsigned number in the signed one's bits.

    Overwrites the bits of both and the room; ``sign`` is the number of bits but that of the sign.
    """
    a, b, room = bits_and_room
    for bits in (a, b):
        # All ones where negative. The negative of the other bits, then, and they themselves else.
        negative = np.right_shift(bits, sign, out=room)
        bits &= (1 << sign) - 1
        bits ^= negative
        bits -= negative
    larger: NDArray[Any] = np.maximum(a, b, out=room)
    np.minimum(a, b, out=a)
    larger -= a  # may wrap around, into the bit of the sign
    return larger


def ulps(a: Array, b: Array, dtype: str) -> Array:
    """Distance in units in the last place: how many floats of ``dtype`` lie between.

    +0 and -0 are 0 apart; anything from a NaN is infinitely far. Integers are counted as f64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "float32":
            bits = [np.array(x, dtype=np.float32).view(np.int32) for x in (a, b)]
            distance = _apart([*bits, np.empty_like(bits[0])], 31).view(np.uint32)
        else:
            wide = [np.array(x, dtype=np.float64).view(np.int64) for x in (a, b)]
            distance = _apart([*wide, np.empty_like(wide[0])], 63).view(np.uint64)
    return np.where(np.isnan(a) | np.isnan(b), np.inf, distance.astype(np.float64))
