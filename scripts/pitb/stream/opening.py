"""Opens a trace without reading its values, and checks all else that it holds.

Files as pitb writes them are checked run by run and read in place (`pitb.stream.layout`). Others,
compressed or encoded in another way, are read by pyarrow or arro3: a small one as ever
(`pitb.trace.read`), a large one batch by batch into a temporary file of plain values.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb import parts, trace
from pitb.collection import put_off
from pitb.errors import PitbError
from pitb.stream import layout
from pitb.stream.layout import Layout, Otherwise, Segment
from pitb.stream.stored import Piece, Stored
from pitb.trace import Entry, Trace

HELD = 1 << 16
"""Values up to which a trace is held in memory, since reading it piece by piece gains nothing."""
DECODED = 1 << 20
"""Rows up to which a file that a library must decode is held so."""
BATCH = 1 << 16
"""Rows of a batch that a library decodes."""
_TEXTS = [name for name, kind in trace.COLUMNS.items() if kind == "string"]
BUFFER = 1 << 20
"""Bytes that pyarrow reads at a time; without, it reads a column of a row group whole."""


def open_trace(path: Path) -> Trace:
    """Open a trace, a file or a folder of parts; its ``values`` are `Stored` where they are many.

    Every column is checked as `trace.read` does. No more than some 100 MB are held, and what the
    metadata needs.

    Raises:
        PitbError: As `trace.read`.
    """
    if path.is_dir():
        # A recording has many parts that are small, which together are not.
        found = parts.read(path, partial(_open_file, held=0))
        return replace(found, values=found.values[:]) if len(found.values) <= HELD else found
    return _open_file(path)


def _open_file(path: Path, held: int | None = None) -> Trace:
    if not path.is_file():
        return trace.read(path)  # which says why not
    try:
        return _in_place(path, HELD if held is None else held)
    except (Otherwise, OSError):
        pass  # a library reads it, or says what is wrong
    if _rows(path) <= DECODED:
        return trace.read(path)
    return _decoded(path)


def little_endian() -> bool:
    """Whether numbers stand in memory as they do in a file."""
    return np.dtype(np.float64) == np.dtype("<f8")


@put_off()
def _in_place(path: Path, held: int) -> Trace:
    """A trace whose values are read where they stand.

    Raises:
        Otherwise: They do not stand there as they are in memory.
        OSError: The file cannot be read.
        PitbError: Its metadata is malformed.
    """
    found = layout.lay_out(path)
    if not little_endian():
        raise Otherwise("the values are to be turned around")
    return _checked(found, path, held)


def _checked(found: Layout, path: Path, held: int) -> Trace:
    metadata = trace.parse_metadata(found.metadata, path)
    entries: list[Entry] = metadata.pop("contents")
    if sum(entry.count for entry in entries) != found.rows:
        raise Otherwise("it lists another number of values")
    counts = [entry.count for entry in entries]
    wanted: Iterable[list[Any]] = (
        [entry.step.to_bytes(4, "little") for entry in entries],
        [entry.quantity.encode() for entry in entries],
        [entry.tensor.encode() for entry in entries],
        [0] * len(entries),
    )
    for column, expected in zip(found.columns, wanted, strict=True):
        if not column.is_made_of(zip(expected, counts, strict=True)):
            raise Otherwise("a column is not what its metadata lists")
    values = Stored([Piece(path, found.segments)])
    return Trace(entries, values if len(values) > held else values[:], metadata, str(path))


# -- files of other libraries ------------------------------------------------------------------


def _rows(path: Path) -> int:
    """How many rows a file says it has; 0 where that cannot be told."""
    from pitb import parquet

    if not parquet.has_pyarrow():
        return 0  # arro3's reader has its own limit
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return 0


def _with_dictionary(path: Path) -> list[str]:
    """The columns of texts that pyarrow can read as dictionaries: not of some encodings."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    other = set()
    for group in range(metadata.num_row_groups):
        columns = map(metadata.row_group(group).column, range(metadata.num_columns))
        try:
            other |= {
                column.path_in_schema
                for column in columns
                if any(encoding.startswith("DELTA") for encoding in column.encodings)
            }
        except UnicodeDecodeError:
            return _TEXTS  # a name that is no text, which is said where the file is opened
    return [name for name in _TEXTS if name not in other]


def _decoded(path: Path) -> Trace:
    """A large trace, its values decoded into a temporary file."""
    options = {
        "buffer_size": BUFFER,
        "pre_buffer": False,
        "read_dictionary": _with_dictionary(path),
    }
    with trace.opened(path, **options) as (file, entries, metadata):
        rows = file.metadata.num_rows
        batches = file.iter_batches(BATCH, columns=list(trace.COLUMNS), use_threads=False)
        values = _plain(_checked_batches(batches, entries, path), path)
    if len(values) != rows:
        raise PitbError(f"{path} lists {rows} values in its metadata but holds {len(values)}")
    return Trace(entries, values, metadata, str(path))


def _plain(chunks: Iterator[NDArray[np.float64]], path: Path) -> Stored:
    """Values written to a temporary file, which is gone once they are not needed any more."""
    folder = tempfile.TemporaryDirectory(prefix="pitb-", ignore_cleanup_errors=True)
    plain = Path(folder.name) / "values"
    rows = 0
    try:
        file = open(plain, "wb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise PitbError(f"cannot write {plain}: {error.strerror}") from None
    with file:
        for chunk in chunks:
            rows += len(chunk)
            try:
                view = np.ascontiguousarray(chunk).view(np.uint8).data
                while view:
                    view = view[file.write(view) or 0 :]
            except OSError as error:
                raise PitbError(
                    f"cannot decode {path} into {folder.name}: {error.strerror}"
                ) from None
    return Stored([Piece(plain, [Segment(0, rows, 0)])] if rows else [], folder)


def _checked_batches(
    batches: Iterator[Any], entries: list[Entry], path: Path
) -> Iterator[NDArray[np.float64]]:
    """The values of each batch, whose other columns are checked.

    Raises:
        PitbError: A column is not what the metadata lists, or holds nulls.
    """
    firsts = np.array([entry.first_row for entry in entries], dtype=np.int64)
    done = 0
    for batch in batches:
        count = batch.num_rows
        # Of entries without values none has a row; they stand before the one that has.
        begin = int(np.searchsorted(firsts, done, side="right")) - 1
        end = int(np.searchsorted(firsts, done + count, side="left"))
        columns = {name: _distinct(batch.column(name)) for name in trace.COLUMNS if name != "value"}
        for entry in entries[begin:end]:
            first = max(entry.first_row, done)
            rows = slice(first - done, min(entry.first_row + entry.count, done + count) - done)
            wanted = {"step": entry.step, "quantity": entry.quantity, "tensor": entry.tensor}
            wanted["index"] = np.arange(first, rows.stop + done) - entry.first_row
            for name, value in wanted.items():
                if not columns[name](rows, value):
                    raise PitbError(f"{path}: column '{name}' is not what its metadata lists")
        values = batch.column("value")
        if values.null_count:
            raise PitbError(f"{path} is not a trace: column 'value' holds nulls")
        done += count
        yield values.to_numpy()


def _distinct(column: Any) -> Callable[[slice, Any], bool]:
    """Whether some rows of a column are a value, or the values of an array."""
    if column.null_count:
        return lambda rows, _: rows.start == rows.stop
    if hasattr(column, "dictionary"):
        known = column.dictionary.to_pylist()
        codes = column.indices.to_numpy(zero_copy_only=False)
        places = {name: [i for i, each in enumerate(known) if each == name] for name in known}

        def is_text(rows: slice, value: Any) -> bool:
            # A dictionary may hold a text twice.
            return bool(np.isin(codes[rows], places.get(value, [])).all())

        return is_text
    numbers = column.to_numpy(zero_copy_only=False)
    return lambda rows, value: bool((numbers[rows] == value).all())
