"""Writes a trace row group by row group, so that no more than one of them is held."""

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pitb import trace
from pitb.files import replacing
from pitb.stream.stored import reading
from pitb.trace import Entry

if TYPE_CHECKING:
    import pyarrow as pa

Fill = Callable[[Entry, int, NDArray[np.float64]], None]
"""Given an entry and where to begin, fills an array with its values."""
Group = list[tuple[Entry, int, int]]
"""Which entries' values a row group holds, from where to where."""


def groups(entries: Sequence[Entry], size: int = trace.ROW_GROUP) -> Iterator[Group]:
    """The row groups of a trace, each of ``size`` rows but the last."""
    group: Group = []
    room = size
    for entry in entries:
        start = 0
        while start < entry.count:
            stop = min(entry.count, start + room)
            group.append((entry, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield group
                group, room = [], size
    if group:
        yield group


def page_options(rows: int = trace.ROW_GROUP) -> dict[str, Any]:
    """Options of pyarrow's writer under which a column of a row group is one page."""
    import pyarrow.parquet as pq

    options: dict[str, Any] = {"data_page_size": 1 << 30, "write_batch_size": rows}
    if "max_rows_per_page" in inspect.signature(pq.write_table).parameters:
        options["max_rows_per_page"] = rows
    return options


def write(
    path: Path,
    entries: Sequence[Entry],
    metadata: dict[str, Any],
    fill: Fill,
    rows: int = trace.ROW_GROUP,
    **options: Any,
) -> None:
    """Write a trace whose values are asked for as they are needed.

    Args:
        path: Where to.
        entries: Its contents, in order.
        metadata: All else that its metadata says.
        fill: Gives the values.
        rows: Rows of a row group.
        options: Further ones of pyarrow's writer, instead of a page for a row group's column.

    Raises:
        PitbError: The file cannot be written.
    """
    contents = [entry.listed() for entry in entries]
    text = json.dumps({**metadata, "contents": contents}, ensure_ascii=False, allow_nan=False)
    values = np.empty(min(rows, sum(entry.count for entry in entries)))
    chosen = {**page_options(rows), "write_statistics": ["step"], **options}
    with replacing(path) as temporary, trace.parquet_writer(temporary, **chosen) as writer:
        for group in groups(entries, rows):
            done = 0
            for entry, start, stop in group:
                fill(entry, start, values[done : done + stop - start])
                done += stop - start
            writer.write_table(encoded_rows(group, values[:done]), row_group_size=done)
        writer.add_key_value_metadata({trace.METADATA_KEY: text.encode()})


def write_trace(found: trace.Trace, path: Path) -> None:
    """Write a trace of many values, in memory or on disk.

    Raises:
        PitbError: The file cannot be written, or the values can no longer be read.
    """
    with reading(found.values) as reader:

        def fill(entry: Entry, start: int, out: NDArray[np.float64]) -> None:
            values = reader.read(entry.first_row + start, out)
            if values is not out:
                out[:] = values

        write(path, found.entries, found.metadata, fill)


def encoded_rows(group: Group, values: NDArray[np.float64]) -> "pa.Table":
    """The rows of a row group."""
    import pyarrow as pa

    lengths = [stop - start for _, start, stop in group]

    def repeated(told: list[Any], kind: "pa.DataType") -> "pa.Array":
        places = pa.array(np.repeat(np.arange(len(told)), lengths))
        return pa.array(told, type=kind).take(places)

    columns = [
        repeated([entry.step for entry, _, _ in group], pa.int32()),
        repeated([entry.quantity for entry, _, _ in group], pa.string()),
        repeated([entry.tensor for entry, _, _ in group], pa.string()),
        pa.array(np.concatenate([np.arange(start, stop) for _, start, stop in group])),
        pa.array(values),
    ]
    return pa.Table.from_arrays(columns, schema=trace.schema())
