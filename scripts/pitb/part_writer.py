"""Writes what a training records as parts of a trace, in a thread of its own, in constant memory.

At most one block waits or is written while the training fills the next one; where writing is slower
than training, training waits. Small blocks are gathered into one part, a large one is a part of its
own. The parts of one training look alike: pyarrow encodes the first, and of the later ones only the
values, the steps and the part's number are written anew.
"""

import json
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pitb import parts, trace
from pitb.errors import PitbError
from pitb.files import replacing
from pitb.stream import writing
from pitb.stream.writing import Group
from pitb.trace import Entry

LARGE = 1 << 18
"""Values from which on a block is a part of its own, or gathered blocks are one."""
MOST_BLOCKS = 64
"""Blocks that are gathered into one part at most."""
LONGEST = 10.0
"""Seconds that a block may wait to be written; a kill loses what waits."""
CHUNK = 1 << 17
"""Values that are converted to float64 at a time."""
_SENTINEL = 2_000_000_000
"""Steps and numbers in an encoding to be filled in are this and the next ones: ten digits each."""


@dataclass
class Item:
    """A tensor or a number to be written.

    ``values`` is contiguous, in the tensor's own dtype; bfloat16, which NumPy does not have, as the
    uint16 of its bits.
    """

    step: int
    quantity: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    values: NDArray[Any]

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Its values as float64, flat, a few at a time."""
        flat = self.values.reshape(-1)
        buffer = np.empty(min(CHUNK, flat.size), dtype=np.float64)
        for start in range(0, flat.size, CHUNK):
            chunk = flat[start : start + CHUNK]
            if self.dtype == "bfloat16":
                chunk = (chunk.astype(np.uint32) << np.uint32(16)).view(np.float32)
            out = buffer[: chunk.size]
            with np.errstate(invalid="ignore"):  # of signalling NaNs
                np.copyto(out, chunk)
            yield out


class PartWriter:
    """Writes blocks of items, each the items of one or two steps, as the parts of one trace."""

    def __init__(self, folder: Path, metadata: dict[str, Any]) -> None:
        """Write into ``folder``, which must be there; ``metadata`` goes into each part."""
        self._folder = folder
        self.metadata = metadata
        self._recording = uuid.uuid4().hex
        self._number = 0
        self._gathered: list[Item] = []
        self._blocks = 0
        self._since = time.monotonic()
        self._template: _Template | None = None
        self._error: Exception | None = None
        self._block: list[Item] | None = None
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="pitb-record", daemon=True)
        self._thread.start()

    def put(self, block: list[Item]) -> None:
        """Hand over a block, once the one before it is written.

        Raises:
            PitbError: A part could not be written.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._block is None)
            self._check()
            self._block = block
            self._changed.notify_all()

    def wait(self) -> None:
        """Until what was handed over is written, or gathered."""
        with self._changed:
            self._changed.wait_for(lambda: self._block is None)

    def end(self, block: list[Item], finished: bool) -> None:
        """Write what is left and ``block`` as the last part; ``finished`` where nothing went wrong.

        Raises:
            PitbError: A part could not be written.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._block is None)
            self._ended = True
            self._changed.notify_all()
        self._thread.join()
        self._check()
        self._gathered += block
        self._write_gathered(finished)

    def _check(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            if isinstance(error, PitbError):
                raise error
            raise PitbError(f"cannot record into {self._folder}: {error}") from error

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._block is not None or self._ended)
                block = self._block
            if block is None:
                return
            try:
                if self._error is None:
                    self._write(block)
            except Exception as error:  # told to the training at its next step
                self._error = error
            with self._changed:
                self._block = None
                self._changed.notify_all()

    def _write(self, block: list[Item]) -> None:
        size = sum(item.values.size for item in block)
        if size >= LARGE:
            self._write_gathered(finished=False)
            self._write_large(block)
            return
        if not self._gathered:
            self._since = time.monotonic()
        # A copy: the training fills the buffers again.
        self._gathered += [replace(item, values=item.values.copy()) for item in block]
        self._blocks += 1
        rows = sum(item.values.size for item in self._gathered)
        late = time.monotonic() - self._since > LONGEST
        # The first block of all is written at once, so that there is a trace from the start on.
        if self._number == 0 or rows >= LARGE or self._blocks >= MOST_BLOCKS or late:
            self._write_gathered(finished=False)

    def _write_gathered(self, finished: bool) -> None:
        if not self._gathered and not finished and "error" not in self.metadata:
            return
        recorder = trace.Recorder()
        for item in self._gathered:
            values = np.concatenate([np.empty(0), *(chunk.copy() for chunk in item.chunks())])
            recorder.add(
                item.step, item.quantity, values.reshape(item.shape), item.dtype, item.tensor
            )
        told = {"recording": self._recording, "number": self._number, "finished": finished}
        written = recorder.trace({**self.metadata, parts.KEY: told})
        trace.write(written, parts.part_path(self._folder, self._number))
        self._gathered, self._blocks = [], 0
        self._number += 1

    def _write_large(self, block: list[Item]) -> None:
        if self._template is None or not self._template.fits(block):
            self._template = None  # let go of the old one before making another
            try:
                self._template = _Template(block, self.metadata, self._recording, self._folder)
            except _UnknownEncoding:
                self._gathered = block
                self._write_gathered(finished=False)  # slower, and needs more memory
                return
        self._template.write(parts.part_path(self._folder, self._number), block, self._number)
        self._number += 1


@dataclass(frozen=True)
class _Values:
    """A place in a file where values stand, float64 each, in order."""

    count: int


@dataclass(frozen=True)
class _Text:
    """What stands between values, and where in it the number of a step stands, as int32: its
    offset, and which of the block's steps it is.
    """

    text: bytes
    steps: tuple[tuple[int, int], ...] = ()

    def filled(self, steps: Sequence[int]) -> bytes:
        """The text with the numbers of these steps."""
        if not self.steps:
            return self.text
        found = bytearray(self.text)
        for offset, index in self.steps:
            found[offset : offset + 4] = np.int32(steps[index]).astype("<i4").tobytes()
        return bytes(found)


class _UnknownEncoding(Exception):
    """pyarrow writes a part in another way than the one that can be filled in."""


class _Template:
    """A part as pyarrow encodes it, with gaps for the values.

    What is put into the gaps is plain: little-endian float64, and the steps and the part's number,
    which are written with ten digits and so always take the same room. Whether that is where
    pyarrow puts them is checked when the template is made.
    """

    def __init__(
        self, block: Sequence[Item], metadata: dict[str, Any], recording: str, folder: Path
    ) -> None:
        self._shape = _shape(block)
        steps = _steps(block)
        entries = []
        row = 0
        for item in block:
            step = _SENTINEL + steps.index(item.step)
            entries.append(Entry(step, item.quantity, item.tensor, item.shape, item.dtype, row))
            row += entries[-1].count
        told = {"recording": recording, "number": _SENTINEL, "finished": False}
        contents = [entry.listed() for entry in entries]
        text = json.dumps(
            {**metadata, parts.KEY: told, "contents": contents}, ensure_ascii=False, allow_nan=False
        )
        handle, name = tempfile.mkstemp(prefix=".template-", dir=folder)
        os.close(handle)
        path = Path(name)
        try:
            groups = list(writing.groups(entries))
            _encode(groups, text, path)
            self._segments = _segments(path, groups)
        finally:
            path.unlink(missing_ok=True)
        self._tail = self._segments.pop().text  # type: ignore[union-attr]
        given = [*(entry.step for entry in entries), _SENTINEL]
        for number in set(given):
            if self._tail.count(b"%d" % number) != given.count(number):
                raise _UnknownEncoding
        self._size = len(self._tail) + sum(
            len(item.text) if isinstance(item, _Text) else 8 * item.count for item in self._segments
        )

    def fits(self, block: Sequence[Item]) -> bool:
        """Whether ``block`` has the same tensors, dtypes and steps as the template's."""
        return _shape(block) == self._shape

    def write(self, path: Path, block: Sequence[Item], number: int) -> None:
        """Write a part."""
        steps = _steps(block)
        chunks = (chunk for item in block for chunk in item.chunks())
        left: NDArray[np.float64] = np.empty(0)
        with replacing(path) as temporary, open(temporary, "wb", buffering=0) as file:
            if hasattr(os, "posix_fallocate"):
                # To reserve the room at once is several times faster than page by page.
                os.posix_fallocate(file.fileno(), 0, self._size)
            for segment in self._segments:
                if isinstance(segment, _Text):
                    _write_all(file, segment.filled(steps))
                    continue
                wanted = segment.count
                while wanted:
                    left = left if left.size else next(chunks)
                    now = left[:wanted]
                    _write_all(file, now.view(np.uint8).data)
                    wanted -= now.size
                    left = left[now.size :]
            _write_all(file, self._filled_tail(steps, number))

    def _filled_tail(self, steps: Sequence[int], number: int) -> bytes:
        tail = self._tail.replace(b'"number": %d' % _SENTINEL, b'"number": %10d' % number)
        for index, step in enumerate(steps):
            tail = tail.replace(b'"step": %d' % (_SENTINEL + index), b'"step": %10d' % step)
        return tail


def _write_all(file: FileIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


def _shape(block: Sequence[Item]) -> list[tuple[Any, ...]]:
    steps = _steps(block)
    return [
        (steps.index(item.step), item.quantity, item.tensor, item.shape, item.dtype)
        for item in block
    ]


def _steps(block: Sequence[Item]) -> list[int]:
    return sorted({item.step for item in block})


def _encode(groups: list[Group], text: str, path: Path) -> None:
    """Write a part whose values are all 0: a page for each column of a row group, and no
    statistics, which would be those of other values.
    """
    options = {**writing.page_options(), "write_statistics": False}
    with trace.parquet_writer(path, **options) as writer:
        for group in groups:
            zeros = np.zeros(sum(stop - start for _, start, stop in group))
            rows = writing.encoded_rows(group, zeros)
            writer.write_table(rows, row_group_size=len(rows))
        writer.add_key_value_metadata({trace.METADATA_KEY: text.encode()})


def _segments(path: Path, groups: list[Group]) -> list[_Text | _Values]:
    """What stands between the values, and where they stand. Text is first and last.

    Raises:
        _UnknownEncoding: The values are not one plain page, or the steps no dictionary.
    """
    with pq.ParquetFile(path, memory_map=False) as file:
        metadata = file.metadata
        row_groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        columns = [(group.column(0), group.column(4)) for group in row_groups]
        counts = [group.num_rows for group in row_groups]
    segments: list[_Text | _Values] = []
    here = 0
    with open(path, "rb") as raw:
        for (step, value), count, group in zip(columns, counts, groups, strict=True):
            end = value.data_page_offset + value.total_compressed_size
            start = end - 8 * count
            if not 0 < start - value.data_page_offset < 200 or not step.has_dictionary_page:
                raise _UnknownEncoding
            raw.seek(here)
            between = raw.read(start - here)
            if np.frombuffer(raw.read(end - start), np.float64).any():
                raise _UnknownEncoding
            wanted = list(dict.fromkeys(entry.step for entry, _, _ in group))
            first = step.data_page_offset - 4 * len(wanted) - here
            found = np.frombuffer(between[first : first + 4 * len(wanted)], "<i4")
            if found.tolist() != wanted:
                raise _UnknownEncoding
            places = [(first + 4 * i, number - _SENTINEL) for i, number in enumerate(wanted)]
            segments += [_Text(between, tuple(places)), _Values(count)]
            here = end
        raw.seek(here)
        segments.append(_Text(raw.read()))
    return segments
