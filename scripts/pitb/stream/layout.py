"""Where in a trace's file the values stand, where they stand there as they are in memory.

That is so in the files of pitb's own writers: uncompressed, plainly encoded, no column nullable.
Nothing here says that a file is wrong. What is not laid out like that, or cannot be understood, is
`Otherwise`, and read by a library (`pitb.stream.opening`), which says what is wrong if it is.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from pitb import trace
from pitb.stream import runs
from pitb.stream.thrift import Malformed, Reader, Struct

MAGIC = b"PAR1"
MOST_FOOTER = 1 << 28
"""Bytes of metadata; a row group takes some 500, an entry of a trace some 100."""
MOST_ENCODED = 1 << 24
"""Bytes of a column chunk other than the values', which are held at once."""
_HEADER = 256
"""Bytes that are read for the header of a page of values; one has 20 to 60."""
_INT32, _INT64, _DOUBLE, _BYTE_ARRAY = 1, 2, 5, 6
_KINDS = {"int32": _INT32, "int64": _INT64, "double": _DOUBLE, "string": _BYTE_ARRAY}
_PLAIN, _PLAIN_DICTIONARY, _DELTA, _RLE_DICTIONARY = 0, 2, 5, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_UTF8 = 0
_STRING: Struct = {1: {}}
_NOT_UNDERSTOOD = (
    Malformed, LookupError, TypeError, ValueError, AttributeError, ArithmeticError
)  # fmt: skip


class Otherwise(Exception):
    """A file that is laid out in another way; says in which."""


@dataclass(frozen=True)
class Segment:
    """Values that stand together, little-endian float64."""

    first_row: int
    count: int
    offset: int


@dataclass(frozen=True)
class Layout:
    """What was found of a file."""

    metadata: bytes
    """The JSON under the key ``pitb``."""
    rows: int
    segments: list[Segment]
    columns: tuple[runs.Runs, runs.Runs, runs.Runs, runs.Runs]
    """What the other four columns hold: step, quantity, tensor and index."""


def lay_out(path: Path) -> Layout:
    """Find the values of a file, and read its other columns.

    Raises:
        Otherwise: It is not laid out as our writers do.
        OSError: It cannot be read.
    """
    with open(path, "rb", buffering=0) as file:
        try:
            return _lay_out(file)
        except _NOT_UNDERSTOOD as error:
            # The fields are whatever the file says, so any may be missing or of another type.
            raise Otherwise(f"its metadata is not understood ({error})") from None


def _lay_out(file: FileIO) -> Layout:
    size = os.fstat(file.fileno()).st_size
    end, footer = _footer(file, size)
    _check_schema(footer[2])
    raw = [item[2] for item in footer[5] if item[1] == trace.METADATA_KEY]
    if len(raw) != 1:
        raise Otherwise("it has no key 'pitb', or two")
    most = raw[0].count(b'"first_row"') + 1  # a run for each listed tensor
    columns = (runs.Runs(most), runs.Runs(most), runs.Runs(most), runs.Runs(most, step=1))
    segments: list[Segment] = []
    rows = 0
    for group in footer[4]:
        count, chunks = group[3], group[1]
        if len(chunks) != 5:
            raise Otherwise("a row group has not five columns")
        described = [_described(*item, count) for item in zip(chunks, _COLUMNS, strict=True)]
        for about, found in zip(described[:4], columns, strict=True):
            _read_column(_encoded(file, about, end), about, count, found)
        segments += _value_segments(file, described[4], count, rows, end)
        rows += count
    if rows != footer[3]:
        raise Otherwise("its row groups do not add up")
    return Layout(raw[0], rows, segments, columns)


def _footer(file: FileIO, size: int) -> tuple[int, Struct]:
    """Where the footer begins, and what it says."""
    if size < 12:
        raise Otherwise("it is too short")
    tail = read_at(file, size - 8, 8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or read_at(file, 0, 4) != MAGIC or length > min(size - 12, MOST_FOOTER):
        raise Otherwise("it does not end or begin as Parquet does")
    end = size - 8 - length
    footer = Reader(read_at(file, end, length)).struct()
    if 8 in footer:
        raise Otherwise("it is encrypted")
    return end, footer


_COLUMNS = tuple(_KINDS[kind] for kind in trace.COLUMNS.values())


def _check_schema(elements: list[Struct]) -> None:
    names = list(trace.COLUMNS)
    if [item[4].decode() for item in elements[1:]] != names or elements[0][5] != len(names):
        raise Otherwise("it has other columns")
    for item, kind in zip(elements[1:], _COLUMNS, strict=True):
        if item[1] != kind or item.get(3) != 0 or item.get(5):
            raise Otherwise("a column is of another type, or nullable")
        if kind == _BYTE_ARRAY:  # the type is told twice, in an old way and maybe in a new one
            is_right = item.get(6) == _UTF8 and item.get(10, _STRING) == _STRING
        else:
            is_right = 6 not in item and 10 not in item
        if not is_right:
            raise Otherwise("a column is of another logical type")


@dataclass(frozen=True)
class _Chunk:
    """A column of a row group."""

    kind: int
    offset: int
    size: int


def _described(chunk: Struct, kind: int, rows: int) -> _Chunk:
    about = chunk[3]
    if 1 in chunk or about[1] != kind or about[4] != 0 or about[5] != rows or rows < 1:
        raise Otherwise("a column is compressed, stands elsewhere, or has another length")
    offset = about[9]
    if 0 < about.get(11, 0) < offset:
        offset = about[11]
    return _Chunk(kind, offset, about[7])


def _encoded(file: FileIO, chunk: _Chunk, end: int) -> bytes:
    if not 0 <= chunk.size <= MOST_ENCODED or not 4 <= chunk.offset <= end - chunk.size:
        raise Otherwise("a column is too large, or ends beyond the file")
    return read_at(file, chunk.offset, chunk.size)


def _read_column(data: bytes, chunk: _Chunk, rows: int, found: runs.Runs) -> None:
    """Decode a column chunk into runs."""
    reader = Reader(data)
    dictionary: list[bytes] | None = None
    left = rows
    while reader.position < len(data):
        kind, header, size = _page(reader)
        body = reader.take(size)
        if kind == _DICTIONARY_PAGE and dictionary is None and left == rows:
            if header[2] not in (_PLAIN, _PLAIN_DICTIONARY) or header[1] > found.most:
                raise Otherwise("a dictionary is not plain, or has more entries than are listed")
            dictionary = runs.dictionary(body, header[1], chunk.kind == _INT32)
            continue
        count, encoding = header[1], header[2]
        if kind != _DATA_PAGE or not 0 <= count <= left:
            raise Otherwise("a page is of another kind, or too long")
        if chunk.kind == _INT64 and encoding == _DELTA:
            runs.add_delta(body, count, found)
        elif chunk.kind != _INT64 and encoding in (_RLE_DICTIONARY, _PLAIN_DICTIONARY):
            if dictionary is None:
                raise Otherwise("a dictionary is missing")
            runs.add_indices(body, count, dictionary, found)
        else:
            raise Otherwise(f"a page has encoding {encoding}")
        left -= count
    if left:
        raise Otherwise("a column is too short")


def _page(reader: Reader) -> tuple[int, Struct, int]:
    """The kind of a page, what its header says of it, and its size; the reader stands behind."""
    header = reader.struct()
    kind, size = header[1], header[3]
    if kind not in (_DATA_PAGE, _DICTIONARY_PAGE) or size != header[2] or size < 0:
        raise Otherwise("a page is of another kind, or compressed")
    return kind, header[5 if kind == _DATA_PAGE else 7], size


def _value_segments(
    file: FileIO, chunk: _Chunk, rows: int, first_row: int, end: int
) -> Iterator[Segment]:
    position, stop, left = chunk.offset, chunk.offset + chunk.size, rows
    if not 4 <= position <= stop <= end:
        raise Otherwise("a column ends beyond the file")
    while position < stop:
        reader = Reader(read_at(file, position, min(_HEADER, stop - position)))
        kind, header, size = _page(reader)
        count = header[1]
        start = position + reader.position
        if kind != _DATA_PAGE or header[2] != _PLAIN or size != 8 * count or not 0 < count <= left:
            raise Otherwise("the values are not plain")
        position = start + size
        if position > stop:
            raise Otherwise("a page ends beyond its column")
        yield Segment(first_row + rows - left, count, start)
        left -= count
    if left:
        raise Otherwise("a column is too short")


def read_at(file: FileIO, offset: int, size: int) -> bytes:
    """Bytes of a file.

    Raises:
        Otherwise: It is shorter.
    """
    file.seek(offset)
    found = file.read(size)
    while len(found) < size and (more := file.read(size - len(found))):
        found += more
    if len(found) < size:
        raise Otherwise("it is cut off")
    return found
