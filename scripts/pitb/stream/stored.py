"""The values of a trace that stay on disk until they are asked for."""

import bisect
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pitb.errors import PitbError
from pitb.stream.layout import Segment

Array = NDArray[np.float64]


class Readable(Protocol):
    """What `reading` gives: values a chunk at a time."""

    def read(self, first: int, out: Array) -> Array:
        """The values from row ``first`` on, as many as ``out`` has, in ``out`` or where they are.

        Raises:
            PitbError: They can no longer be read.
        """


@dataclass(frozen=True)
class Piece:
    """A file, and where in it values stand; or values in memory, as one segment at 0."""

    source: Path | Array
    segments: Sequence[Segment]


class Stored:
    """Values on disk that look like a flat array of float64: ``len``, slices, ``np.asarray``.

    A slice is read when it is taken, and is a copy. Files are open only while they are read.
    """

    dtype = np.dtype(np.float64)
    ndim = 1

    def __init__(self, pieces: Sequence[Piece], keep: Any = None) -> None:
        """``pieces`` in order, each with rows of its own; ``keep`` lives as long as this does."""
        self.keep = keep
        self.pieces = list(pieces)
        self._starts: list[int] = []
        self._segments: list[tuple[Path | Array, int, int]] = []
        rows = 0
        for piece in pieces:
            for segment in piece.segments:
                self._starts.append(rows)
                self._segments.append((piece.source, segment.offset, segment.count))
                rows += segment.count
        self._rows = rows

    def __len__(self) -> int:
        """Number of values."""
        return self._rows

    @property
    def size(self) -> int:
        """Number of values."""
        return self._rows

    def __getitem__(self, chosen: slice) -> Array:
        """The values of a slice without a step, shape (count,)."""
        start, stop, step = chosen.indices(self._rows)
        if step != 1:
            raise ValueError("only slices of following values can be read")
        found = np.empty(max(0, stop - start))
        with self.reading() as reader:
            return reader.read(start, found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All values at once, which need 8 bytes each."""
        return np.asarray(self[:], dtype=dtype)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Readable]:
        """A reader for one thread, whose files are open while this is entered."""
        with contextlib.ExitStack() as stack:
            yield _Reader(self._starts, self._segments, stack)


class _Reader:
    def __init__(
        self,
        starts: list[int],
        segments: list[tuple[Path | Array, int, int]],
        stack: contextlib.ExitStack,
    ) -> None:
        self._starts, self._segments, self._stack = starts, segments, stack
        self._open: dict[Path, FileIO] = {}

    def read(self, first: int, out: Array) -> Array:
        done = 0
        number = bisect.bisect_right(self._starts, first) - 1
        while done < len(out):
            source, offset, count = self._segments[number]
            skipped = first + done - self._starts[number]
            part = out[done : done + count - skipped]
            if isinstance(source, Path):
                self._fill(source, offset + 8 * skipped, part)
            else:
                part[:] = source[skipped : skipped + len(part)]
            done += len(part)
            number += 1
        return out

    def _fill(self, path: Path, offset: int, out: Array) -> None:
        try:
            file = self._open.get(path)
            if file is None:
                opened = open(path, "rb", buffering=0)  # noqa: SIM115 (the stack closes it)
                file = self._open[path] = self._stack.enter_context(opened)
            file.seek(offset)
            view = out.view(np.uint8).data
            while view and (count := file.readinto(view)):
                view = view[count:]
        except OSError as error:
            raise PitbError(f"{path} can no longer be read: {error.strerror or error}") from None
        if view:
            raise PitbError(f"{path} became shorter while it was read")


def joined(values: Sequence[Any]) -> Stored:
    """Values of several traces one after the other, each an array or `Stored`."""
    pieces: list[Piece] = []
    for one in values:
        if isinstance(one, Stored):
            pieces += one.pieces
        elif len(one):
            pieces.append(Piece(one, [Segment(0, len(one), 0)]))
    return Stored(pieces, [getattr(one, "keep", None) for one in values])


class _Held:
    """Values that are in memory already."""

    def __init__(self, values: Array) -> None:
        self._values = values

    def read(self, first: int, out: Array) -> Array:
        return self._values[first : first + len(out)]


@contextlib.contextmanager
def reading(values: Any) -> Iterator[Readable]:
    """A reader for one thread of a trace's ``values``, be they in memory or on disk."""
    if isinstance(values, Stored):
        with values.reading() as reader:
            yield reader
    else:
        yield _Held(np.asarray(values, dtype=np.float64))
