"""What a diagnosis reads of a trace file: some of its quantities, a row group at a time.

Only the values that count are held, in the trace's own dtype, so that a million parameters over 20
steps take some 200 MB.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pitb import parquet, parts, trace
from pitb.errors import PitbError, nearest
from pitb.trace import Entry, Trace

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Array = NDArray[Any]
GRADIENTS = ("grad", "clipped_grad")
READ = ("param", "lr", *GRADIENTS)
STATE = "state."
COUNTS = ("state.evaluations", "state.func_evals")
"""How often the loss was evaluated; a number each."""


@dataclass(frozen=True)
class Mapping:
    """``old=new`` or ``old=new.T`` of the command line."""

    old: str
    new: str
    transposed: bool


def parse_map(text: str) -> Mapping:
    """A ``--map``.

    Raises:
        PitbError: It is not of the form ``old=new``.
    """
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise PitbError(
            f"--map {text} is not of the form old=new; for a transposed tensor: "
            "fc.weight=fc.weight.T"
        )
    turned = new.endswith(".T")
    return Mapping(old, new.removesuffix(".T"), turned)


Values = dict[tuple[int, str, str], Array]


def kept(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that a diagnosis needs: of states only those that a stretch of updates starts
    from."""
    params = {e.step for e in entries if e.quantity == "param"}
    graded = {e.step for e in entries if e.quantity == "grad"}
    updates = {k for k in graded if k in params and k - 1 in params}
    starts = {k - 1 for k in updates if k - 1 not in updates}
    return [
        e
        for e in entries
        if e.quantity in (*READ, *COUNTS) or (e.quantity.startswith(STATE) and e.step in starts)
    ]


def read(path: Path) -> tuple[list[Entry], Values, dict[str, Any]]:
    """All entries of a trace, the values of those that count, and its metadata.

    Raises:
        PitbError: It is no trace.
    """
    if path.is_dir():
        found = parts.read(path, _part)
        return found.entries, of(found), found.metadata
    return _file(path, kept)


def of(found: Trace) -> Values:
    """The values that count of a trace in memory."""
    return {e.key: _typed(found.of(e), e) for e in kept(found.entries)}


def _typed(values: Array, entry: Entry) -> Array:
    return values.astype(np.float32) if entry.dtype == "float32" else values


def _part(path: Path) -> Trace:
    """A part of a trace, of which what counts is read; which states do, the parts say together."""

    def counting(entries: Sequence[Entry]) -> list[Entry]:
        return [e for e in entries if e.quantity in READ or e.quantity.startswith(STATE)]

    entries, values, metadata = _file(path, counting)
    found = trace.Recorder()
    for entry in entries:
        if entry.key in values:
            value = values[entry.key].reshape(entry.shape)
            found.add(entry.step, entry.quantity, value, entry.dtype, entry.tensor)
    return found.trace(metadata)


def _file(
    path: Path, counting: Callable[[Sequence[Entry]], list[Entry]]
) -> tuple[list[Entry], Values, dict[str, Any]]:
    """The entries, and the values of those that count; one row group at a time."""
    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    if not parquet.has_pyarrow():
        whole = parquet.read_trace(path)
        values = {e.key: _typed(whole.of(e), e) for e in counting(whole.entries) if e.count}
        return whole.entries, values, whole.metadata
    with trace.opened(path) as (file, entries, metadata):
        return entries, _values(file, entries, counting(entries), path), metadata


def _values(
    file: "pq.ParquetFile", entries: list[Entry], counting: list[Entry], path: Path
) -> Values:
    kept = [entry for entry in counting if entry.count]
    found: Values = {
        entry.key: np.empty(entry.count, np.float32 if entry.dtype == "float32" else np.float64)
        for entry in kept
    }
    starts = np.array([entry.first_row for entry in entries if entry.count], dtype=np.int64)
    steps = np.array([entry.step for entry in entries if entry.count], dtype=np.int32)
    row, first = 0, 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=["step", "index", "value"], use_threads=False)
        column = table.column("value")
        if column.null_count:
            raise PitbError(f"{path} is not a trace: column 'value' holds nulls")
        chunk = column.to_numpy()
        where = np.arange(row, row + len(chunk), dtype=np.int64)
        owner = np.searchsorted(starts, where, side="right") - 1
        for name, expected in (("step", steps[owner]), ("index", where - starts[owner])):
            if not np.array_equal(table.column(name).to_numpy(), expected):
                raise PitbError(
                    f"{path}: column '{name}' is not what its metadata lists; rows stand in order "
                    "of step, contents and index"
                )
        del where, owner
        while first < len(kept) and kept[first].first_row + kept[first].count <= row:
            first += 1
        for entry in kept[first:]:
            if entry.first_row >= row + len(chunk):
                break
            low = max(entry.first_row, row)
            high = min(entry.first_row + entry.count, row + len(chunk))
            target = found[entry.key]
            with np.errstate(over="ignore"):  # what a dtype cannot hold is infinite in it
                target[low - entry.first_row : high - entry.first_row] = chunk[
                    low - row : high - row
                ]
        row += len(chunk)
    return found


def mapped(
    entries: list[Entry], values: Values, maps: Sequence[Mapping], path: Path, whole: bool
) -> list[Entry]:
    """The entries with tensors renamed or transposed, in ``values``, too.

    Raises:
        PitbError: There is no such tensor, it is no matrix, or two tensors get one name.
    """
    names = {entry.tensor for entry in entries if entry.quantity in ("param", *GRADIENTS)}
    for item in maps:
        if item.old not in names:
            near = nearest(item.old, sorted(names))
            raise PitbError(f"{path} has no tensor {item.old!r} to map; nearest: {near!r}")
    by_old = {item.old: item for item in maps}
    found = []
    for entry in entries:
        if entry.tensor not in by_old or entry.quantity not in ("param", *GRADIENTS):
            found.append(entry)
            continue
        item = by_old[entry.tensor]
        value, shape = values.pop(entry.key), entry.shape
        renamed = item.old != item.new
        if item.transposed and (whole or renamed or entry.quantity in GRADIENTS):
            if len(shape) != 2:
                raise PitbError(
                    f"{path}: {item.old} has shape {list(shape)}, and only a matrix can be "
                    "transposed"
                )
            value, shape = value.reshape(shape).T.reshape(-1), shape[::-1]
        new = Entry(entry.step, entry.quantity, item.new, shape, entry.dtype, entry.first_row)
        if new.key in values:
            raise PitbError(
                f"{path}: --map {item.old}={item.new} gives two tensors the name {item.new!r}"
            )
        values[new.key] = value
        found.append(new)
    return found
