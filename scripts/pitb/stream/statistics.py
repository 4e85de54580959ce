"""What differs between two tensors, in one pass over chunks that stay in the processor's cache.

The answers are those of NumPy on whole columns, to the bit, and independent of the number of
threads. One exception: of a tensor of more than `CHUNK` values the squares are added chunk by
chunk, so the last bits of its RMSE are those of that order.
"""

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.stream.stored import Readable, reading
from pitb.trace import Entry, Trace

Array = NDArray[np.float64]
CHUNK = 1 << 17
"""Values that are looked at together. Fewer stay in a smaller cache, but then two threads gain
nothing: each waits for the interpreter after every call, and the calls are short. It decides the
order in which an RMSE is added up, so it is no setting."""
TASK = 1 << 19
"""Values that a thread takes at a time."""
THREADS = min(2, os.cpu_count() or 1)
LARGE = 1 << 16
"""Values from which on a chunk is looked at as fast by a thread as if there were no other; with
fewer, each waits for the interpreter."""
WORTH = 4
"""Tasks of such chunks from which on threads are faster than one."""
_TINY = 5e-324
"""The least positive double: a scale of 0 becomes this, and 0 over it is 0."""
_PRECISION = {"float32": 24}
"""Bits of a significand of the dtypes that have ulps of their own; all others count as float64."""
_FEW = 8
"""Values that are looked at one by one are fewer than one in so many."""
SMALL = 1 << 13
"""Values of a tensor up to which it is looked at together with others, as calls cost more then."""
TOGETHER = 1 << 14
"""Values of such tensors for which there is room."""
_EACH = 64
"""Of a large chunk that is a tensor's first, one value in so many is looked at before all."""


@dataclass(slots=True)
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
    """Room for one chunk, of one thread: memory that is new is slow."""

    def __init__(self, count: int) -> None:
        self.a, self.b, self.difference, self.other, self.more = (np.empty(count) for _ in range(5))
        self.mask = np.empty(count, dtype=np.bool_)


class _Floor:
    """The most that was found so far between two tensors, in ulps and relatively.

    Only what may exceed it is looked at; the largest of all is the same whoever found what first.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.max_ulp = 0.0
        self.relative = 0.0

    def share(self) -> float:
        """What part of abs(a) a difference must exceed, for its value to exceed the floor.

        A relative difference is no more than q = abs(a - b) / abs(a). Each ulp between them is at
        least 2**-p of the smaller value, which is at least abs(a) (1 - q); p is the precision. And
        a value that its dtype cannot hold, as in a trace that lies, is rounded by less than one.
        """
        ulps = self.max_ulp / (2.0 ** _PRECISION.get(self.dtype, 53) + self.max_ulp)
        return min(self.relative, ulps) * (1 - 2**-20)  # the products below are rounded

    def raise_to(self, a: Array, b: Array, difference: Array) -> tuple[float, float]:
        """Look at some values, all finite.

        Returns:
            The most among them, in ulps and relatively: for whoever looked to tell, since another
            thread may lower the floor again that it has read before.
        """
        max_ulp = float(_distance(a, b, self.dtype).max())
        relative = float(_relative(a, b, difference).max())
        self.max_ulp, self.relative = max(self.max_ulp, max_ulp), max(self.relative, relative)
        return max_ulp, relative


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
    size = min(CHUNK, max((TOGETHER, *(first.count for first, _ in pairs))))
    floors = [_Floor(first.dtype) for first, _ in pairs]
    found: list[list[Statistics]] = [[] for _ in tasks]
    claimed = iter(enumerate(tasks))

    def work() -> None:
        buffers = _Buffers(size)
        with (
            reading(a.values) as from_a,
            reading(b.values) as from_b,
            np.errstate(all="ignore"),
        ):
            for number, task in claimed:  # each is given out once, to whichever thread asks
                found[number] = _of_task(task, from_a, from_b, buffers, floors)

    threads = _threads(tasks)
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(work) for _ in range(threads)]:
                future.result()
    else:
        work()
    return _merged(tasks, found, len(pairs))


def _threads(tasks: Sequence[Sequence[_Span]]) -> int:
    """How many threads are worth starting."""
    large = sum(span.count for task in tasks for span in task if span.count >= LARGE)
    return THREADS if large >= WORTH * TASK else 1


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


def _merged(tasks: list[list[_Span]], done: list[list[Statistics]], count: int) -> list[Statistics]:
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


def _of_task(
    task: list[_Span],
    from_a: Readable,
    from_b: Readable,
    buffers: _Buffers,
    floors: Sequence[_Floor],
) -> list[Statistics]:
    found: dict[int, Statistics] = {}
    together: dict[str, list[int]] = {}
    for number, span in enumerate(task):
        if span.count == span.a.count <= SMALL:
            together.setdefault(span.a.dtype, []).append(number)
            continue
        a = from_a.read(span.a.first_row + span.start, buffers.a[: span.count])
        b = from_b.read(span.b.first_row + span.start, buffers.b[: span.count])
        found[number] = _chunk(a, b, span.start, buffers, floors[span.pair])
    for dtype, numbers in together.items():
        for some in _batches(numbers, [task[number].count for number in numbers], len(buffers.a)):
            spans = [task[number] for number in some]
            a = _read([span.a for span in spans], from_a, buffers.a)
            b = _read([span.b for span in spans], from_b, buffers.b)
            counts = [span.count for span in spans]
            found.update(zip(some, _small(a, b, counts, dtype, buffers), strict=True))
    return [found[number] for number in range(len(task))]


def _batches(numbers: list[int], counts: list[int], most: int) -> Iterator[list[int]]:
    """Cut ``numbers`` so that the counts of each part add up to ``most`` at most."""
    batch: list[int] = []
    size = 0
    for number, count in zip(numbers, counts, strict=True):
        if size + count > most:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += count
    yield batch


def _read(entries: Sequence[Entry], reader: Readable, room: Array) -> Array:
    """Tensors one after the other; those that stand so in their file are read at once."""
    spans: list[list[int]] = []
    for entry in entries:
        if spans and sum(spans[-1]) == entry.first_row:
            spans[-1][1] += entry.count
        else:
            spans.append([entry.first_row, entry.count])
    done = 0
    for first, count in spans:
        part = room[done : done + count]
        values = reader.read(first, part)
        if values is not part:
            part[:] = values
        done += count
    return room[:done]


def _small(
    a: Array, b: Array, counts: list[int], dtype: str, buffers: _Buffers
) -> Iterator[Statistics]:
    """Of whole tensors that are small, one after the other in ``a`` and ``b``."""
    ends = list(itertools.accumulate(counts))
    starts = [0, *ends[:-1]]
    difference = np.subtract(a, b, out=buffers.difference[: len(a)])
    np.abs(difference, out=difference)
    places = [int(difference[i:j].argmax()) for i, j in zip(starts, ends, strict=True)]
    worst = np.add(starts, places)  # that of a NaN, where there is one
    other = np.multiply(difference, difference, out=buffers.other[: len(a)])
    squares = [float(np.add.reduce(other[i:j])) for i, j in zip(starts, ends, strict=True)]
    ulp = np.maximum.reduceat(_distance(a, b, dtype, other, buffers.more[: len(a)]), starts)
    np.maximum(np.abs(a, out=other), np.abs(b, out=buffers.more[: len(a)]), out=other)
    np.maximum(other, _TINY, out=other)
    relative = np.maximum.reduceat(np.divide(difference, other, out=other), starts)
    for number, (place, at_a, at_b, largest, most_ulp, most_relative, square) in enumerate(
        zip(
            places,
            a[worst].tolist(),
            b[worst].tolist(),
            difference[worst].tolist(),
            ulp.tolist(),
            relative.tolist(),
            squares,
            strict=True,
        )
    ):
        if math.isfinite(largest):
            yield Statistics(
                None, None, None, place, at_a, at_b, largest, float(most_ulp), most_relative, square
            )
        else:
            i, j = starts[number], ends[number]
            yield _unusual(a[i:j], b[i:j], dtype, 0, difference[i:j])


def _chunk(a: Array, b: Array, start: int, buffers: _Buffers, floor: _Floor) -> Statistics:
    difference = np.subtract(a, b, out=buffers.difference[: len(a)])
    np.abs(difference, out=difference)
    i = int(difference.argmax())  # that of a NaN, where there is one
    largest = float(difference[i])
    if not math.isfinite(largest):
        return _unusual(a, b, floor.dtype, start, difference)
    worst: dict[str, Any] = {"index": start + i, "a": float(a[i]), "b": float(b[i])}
    if largest == 0:
        return Statistics(**worst)
    # A finite difference is one of finite values.
    other = buffers.other[: len(a)]
    squares = float(np.add.reduce(np.multiply(difference, difference, out=other)))
    found = [(0.0, 0.0)]
    if floor.max_ulp == 0 and len(a) >= _EACH**2:
        found.append(floor.raise_to(a[::_EACH], b[::_EACH], difference[::_EACH]))
    share = floor.share()
    np.abs(a, out=other)
    if floor.dtype == "float32":
        np.multiply(other, share, out=other)
        # A product next to 0, which no float32 makes, may be rounded up to the next double.
        np.maximum(np.subtract(other, _TINY, out=other), 0, out=other)
        chosen = np.flatnonzero(np.greater(difference, other, out=buffers.mask[: len(a)]))
    else:  # a product may be too small for a double; a quotient is rounded as any
        np.divide(difference, other, out=other)
        chosen = np.flatnonzero(np.greater(other, share, out=buffers.mask[: len(a)]))
    if len(chosen) * _FEW < len(a):
        a, b, difference = a[chosen], b[chosen], difference[chosen]
    if len(chosen):
        found.append(floor.raise_to(a, b, difference))
    return Statistics(
        **worst,
        max_abs=largest,
        max_ulp=max(ulp for ulp, _ in found),
        relative=max(relative for _, relative in found),
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


def _relative(a: Array, b: Array, difference: Array) -> Array:
    """Relative differences of finite values."""
    scale = np.maximum(np.abs(a), np.abs(b))
    return np.divide(difference, np.maximum(scale, _TINY, out=scale), out=scale)


def _distance(
    a: Array, b: Array, dtype: str, room_a: Array | None = None, room_b: Array | None = None
) -> NDArray[Any]:
    """Distances in units in the last place, of finite values; in ``room_a`` where there is one."""
    bits_a, bits_b = _bits(a, dtype, room_a), _bits(b, dtype, room_b)
    if np.bitwise_xor(bits_a, bits_b).min() >= 0:  # no two of opposite signs
        bits_a -= bits_b
        apart: NDArray[Any] = np.abs(bits_a, out=bits_a)
        return apart
    return _apart(bits_a, bits_b)


def _bits(values: Array, dtype: str, room: Array | None = None) -> NDArray[Any]:
    """A copy of values as the signed integers that have their bits: in ``room``, where flat values
    find it, or in a new array of any shape."""
    kind, integers = (np.float32, np.int32) if dtype == "float32" else (np.float64, np.int64)
    if room is None:
        return np.array(values, dtype=kind).view(integers)
    copy = room.view(kind)[: len(values)]
    copy[:] = values
    return copy.view(integers)


def _apart(bits_a: NDArray[Any], bits_b: NDArray[Any]) -> NDArray[Any]:
    """How far two floats are apart, as unsigned numbers; overwrites the bits of both."""
    sign = 8 * bits_a.itemsize - 1
    for bits in (bits_a, bits_b):
        # All ones where negative. The negative of the other bits, then, and they themselves else.
        negative = np.right_shift(bits, sign)
        bits &= (1 << sign) - 1
        bits ^= negative
        bits -= negative
    larger: NDArray[Any] = np.maximum(bits_a, bits_b)
    np.minimum(bits_a, bits_b, out=bits_a)
    larger -= bits_a  # may wrap around, into the bit of the sign
    return larger.view(f"u{bits_a.itemsize}")


def ulps(a: Array, b: Array, dtype: str) -> Array:
    """Distance in units in the last place: how many floats of ``dtype`` lie between.

    +0 and -0 are 0 apart; anything from a NaN is infinitely far. Integers are counted as f64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        distance = _apart(_bits(a, dtype), _bits(b, dtype))
    return np.where(np.isnan(a) | np.isnan(b), np.inf, distance.astype(np.float64))
