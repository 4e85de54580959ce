"""Parquet files read without pyarrow: by arro3, which is a tenth of its size and written in Rust.

What is read here may come from anywhere, so nothing in a file is believed: its columns must be
those that are asked for, it is read in batches, and reading ends where there are more rows than
there may be. Sizes that a file claims for its pages are arro3's to check; a process that reads what
strangers send has a limit on its memory besides (`pitb.bundle.limits`).
"""

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb import trace
from pitb.errors import PitbError

BATCH = 1 << 16
"""Rows that are held at once."""
MOST_ROWS = 20_000_000
"""Of a file; a trace of a million parameters over 20 steps has as many."""

Batch = dict[str, NDArray[Any]]
opening: list[Callable[[Path], None]] = []
"""Told of each file before it is read: a panic in Rust may end the process without a word."""


@cache
def has_pyarrow() -> bool:
    """Whether pyarrow is installed, which reads large traces faster."""
    return importlib.util.find_spec("pyarrow") is not None


@dataclass(frozen=True)
class File:
    """An open file."""

    metadata: Mapping[str, str]
    """Its key-value metadata."""
    batches: Iterator[Batch]
    """Its rows, column by column: numbers as they are, text as objects."""


def open_file(
    path: Path, columns: Mapping[str, str], nullable: bool = False, exactly: bool = True
) -> File:
    """Open a Parquet file that has these columns.

    Args:
        path: The file.
        columns: Arrow's name of each column's type.
        nullable: Whether values may be null; numbers then come as objects.
        exactly: Whether they must be in this order, and no others be there.

    Raises:
        PitbError: It is missing, is no Parquet file, or has other columns.
    """
    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")

    for tell in opening:
        tell(path)

    def opened() -> tuple[dict[str, str], Any]:
        import arro3.io

        reader = arro3.io.read_parquet(path, batch_size=BATCH)
        _check_columns(reader.schema, columns, path, exactly)
        return dict(reader.schema.metadata_str), reader

    metadata, reader = _guarded(opened, path)
    return File(metadata, _batches(reader, columns, nullable, path))


def read_records(
    path: Path, columns: Mapping[str, str], nullable: bool = False, most: int = MOST_ROWS
) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    """All rows of a small file, each by its columns' names, and the key-value metadata.

    Raises:
        PitbError: As `open_file`, or it has more than ``most`` rows.
    """
    file = open_file(path, columns, nullable)
    rows: list[dict[str, Any]] = []
    for batch in file.batches:
        lists = [batch[name].tolist() for name in columns]
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]
        if len(rows) > most:
            raise PitbError(f"{path} has more than {most} rows")
    return rows, file.metadata


def read_trace(path: Path) -> trace.Trace:
    """Read a trace, as `pitb.trace.read` does of a file.

    Raises:
        PitbError: It is missing, is no Parquet file, or is no trace of this schema.
    """
    file = open_file(path, trace.COLUMNS, exactly=False)
    key = trace.METADATA_KEY.decode()
    if key not in file.metadata:
        raise PitbError(f"{path} is not a trace: its metadata has no key '{key}'")
    metadata = trace.parse_metadata(file.metadata[key].encode(), path)
    entries: list[trace.Entry] = metadata.pop("contents")
    rows = sum(entry.count for entry in entries)
    if rows > MOST_ROWS:
        raise PitbError(f"{path} lists {rows} values; at most {MOST_ROWS} are read")
    values = np.empty(rows)
    bounds = np.array([entry.first_row for entry in entries] + [rows], dtype=np.int64)
    done = 0
    for batch in file.batches:
        count = len(batch["value"])
        if done + count > rows:
            raise PitbError(f"{path} lists {rows} values in its metadata but holds more")
        where = np.arange(done, done + count, dtype=np.int64)
        # Of entries without values the last is found, which is the one that has this row.
        owner = np.searchsorted(bounds, where, side="right") - 1
        expected = {
            "step": np.array([entry.step for entry in entries], dtype=np.int32),
            "quantity": np.array([entry.quantity for entry in entries], dtype=object),
            "tensor": np.array([entry.tensor for entry in entries], dtype=object),
        }
        for name, listed in expected.items():
            if not np.array_equal(batch[name], listed[owner]):
                raise PitbError(f"{path}: column '{name}' is not what its metadata lists")
        if not np.array_equal(batch["index"], where - bounds[owner]):
            raise PitbError(f"{path}: column 'index' is not what its metadata lists")
        values[done : done + count] = batch["value"]
        done += count
    if done != rows:
        raise PitbError(f"{path} lists {rows} values in its metadata but holds {done}")
    return trace.Trace(entries, values, metadata, str(path))


def _check_columns(schema: Any, columns: Mapping[str, str], path: Path, exactly: bool) -> None:
    from arro3.core import DataType

    known = {
        "bool": DataType.bool(),
        "int32": DataType.int32(),
        "int64": DataType.int64(),
        "double": DataType.float64(),
        "string": DataType.utf8(),
    }
    texts = (DataType.large_utf8(), DataType.string_view())
    names = list(schema.names)
    for name, kind in columns.items():
        if name not in names:
            raise PitbError(f"{path} has no column '{name}'")
        found = schema.field(name).type
        if not exactly and kind == "string" and found in texts:
            continue
        if found != known[kind]:
            said = str(found).strip().partition("<")[2].removesuffix(">")
            raise PitbError(f"{path}: column '{name}' is {said or found!r}, not {kind}")
    if exactly and names != list(columns):
        raise PitbError(f"{path} has other columns than {', '.join(columns)}")


def _batches(
    reader: Any, columns: Mapping[str, str], nullable: bool, path: Path
) -> Iterator[Batch]:
    def following() -> Batch | None:
        batch = next(reader, None)
        if batch is None:
            return None
        found = {}
        for name in columns:
            column = batch.column(name)
            if column.null_count:
                if not nullable:
                    raise PitbError(f"{path}: column '{name}' holds nulls")
                found[name] = np.array(column.to_pylist(), dtype=object)
            else:
                found[name] = column.to_numpy()
        return found

    while (batch := _guarded(following, path)) is not None:
        yield batch


def _guarded(call: Callable[[], Any], path: Path) -> Any:
    """What a call gives; whatever arro3 raises is a sentence."""
    try:
        return call()
    except (PitbError, KeyboardInterrupt, MemoryError, ModuleNotFoundError):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        first = (str(error).splitlines() or ["malformed"])[0].rpartition("`Err` value: ")[2]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None


def metadata_json(metadata: Mapping[str, str], path: Path) -> dict[str, Any]:
    """The JSON under the key ``pitb`` of a file's metadata.

    Raises:
        PitbError: There is none, or it is no object.
    """
    try:
        found = json.loads(metadata[trace.METADATA_KEY.decode()])
    except (KeyError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PitbError(f"{path}: its metadata has no usable key 'pitb'")
    return found
