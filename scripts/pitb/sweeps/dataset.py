"""The traces of a batch in one Parquet file, which any reader takes as a table.

The columns are ``run`` and ``side`` before those of a trace; none is nullable. The metadata holds,
under the key ``pitb``: ``layouts``, the contents that runs have in common; and for each of the
``runs`` its name, the number of its layout, its first row and its own metadata, or why it was
``refused``. What is the same in the metadata of all runs stands once, in ``common``.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pitb import trace
from pitb.errors import PitbError, nearest
from pitb.files import replacing
from pitb.trace import Entry, Trace

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
GROUP = 1 << 17
"""Rows in a row group, or those of one run where that has more: a reader of one run skips the
others by their names."""
COLUMNS = {"run": "string", "side": "string", **trace.COLUMNS}
Array = NDArray[np.float64]


@cache
def schema() -> "pa.Schema":
    """The columns as they are written, text by its places in a list; readers find text."""
    import pyarrow as pa

    def kind(name: str) -> "pa.DataType":
        found = pa.type_for_alias(COLUMNS[name])
        return pa.dictionary(pa.int32(), found) if COLUMNS[name] == "string" else found

    return pa.schema([pa.field(name, kind(name), nullable=False) for name in COLUMNS])


@dataclass
class Writer:
    """Writes one run after the other; holds some row groups' worth of them."""

    side: str
    writer: Any
    layouts: dict[tuple[Entry, ...], int] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    waiting: list[tuple[str, Trace]] = field(default_factory=list)
    waiting_rows: int = 0

    def add(self, name: str, found: Trace) -> None:
        """Add a run under its name in the sweep."""
        layout = self.layouts.setdefault(tuple(found.entries), len(self.layouts))
        own = {key: value for key, value in found.metadata.items() if key != "entries"}
        own["run"] = f"{self.side}/{name}"
        self.runs.append({"run": name, "layout": layout, "first_row": self.rows, "own": own})
        self.rows += len(found.values)
        self.waiting.append((name, found))
        self.waiting_rows += len(found.values)
        if self.waiting_rows >= GROUP:
            self.flush()

    def refuse(self, name: str, reason: str) -> None:
        """Note a run that this side does not train."""
        self.runs.append({"run": name, "refused": reason})

    def flush(self) -> None:
        """Write what is held."""
        if self.waiting_rows:
            self.writer.write_table(_table(self.side, self.waiting), row_group_size=1 << 30)
        self.waiting, self.waiting_rows = [], 0


@contextmanager
def writing(path: Path, side: str) -> Iterator[Writer]:
    """A file that takes its name when it is whole; the same runs give the same bytes.

    Raises:
        PitbError: It cannot be written.
    """
    import pyarrow.parquet as pq

    with (
        replacing(path) as temporary,
        pq.ParquetWriter(
            temporary,
            schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=["run", "side", "step", "quantity", "tensor"],
            column_encoding={"index": "DELTA_BINARY_PACKED", "value": "BYTE_STREAM_SPLIT"},
            write_statistics=["run", "step"],
            store_schema=False,
        ) as writer,
    ):
        found = Writer(side, writer)
        yield found
        found.flush()
        text = json.dumps(_metadata(found), ensure_ascii=False, allow_nan=False)
        writer.add_key_value_metadata({trace.METADATA_KEY: text.encode()})


def _metadata(writer: Writer) -> dict[str, Any]:
    own = [run["own"] for run in writer.runs if "own" in run]
    first = own[0] if own else {}
    common = {
        key: value
        for key, value in first.items()
        if all(key in item and item[key] == value for item in own)
    }
    for item in own:
        for key in common:
            del item[key]
    return {
        "schema": SCHEMA_VERSION,
        "side": writer.side,
        "common": common,
        "layouts": [[asdict(entry) for entry in layout] for layout in writer.layouts],
        "runs": writer.runs,
    }


def _table(side: str, runs: list[tuple[str, Trace]]) -> "pa.Table":
    import pyarrow as pa

    values = np.concatenate([found.values for _, found in runs])
    counts = np.array([math.prod(e.shape) for _, found in runs for e in found.entries])
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    entries = [entry for _, found in runs for entry in found.entries]

    def text(items: list[str], repeats: NDArray[np.int64]) -> "pa.Array":
        places = {item: place for place, item in enumerate(dict.fromkeys(items))}
        indices = np.repeat(np.array([places[item] for item in items], dtype=np.int32), repeats)
        return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(list(places)))

    sizes = np.array([len(found.values) for _, found in runs])
    columns = [
        text([name for name, _ in runs], sizes),
        text([side], np.array([len(values)])),
        pa.array(np.repeat(np.array([entry.step for entry in entries], dtype=np.int32), counts)),
        text([entry.quantity for entry in entries], counts),
        text([entry.tensor for entry in entries], counts),
        pa.array(np.arange(len(values), dtype=np.int64) - starts),
        pa.array(values),
    ]
    return pa.Table.from_arrays(columns, schema=schema())


@dataclass
class Batch:
    """The traces of one side of a batch."""

    path: Path
    values: Array
    layouts: list[list[Entry]]
    runs: dict[str, dict[str, Any]]
    common: dict[str, Any]

    def trace(self, name: str) -> Trace:
        """One run.

        Raises:
            PitbError: There is no such run, or it was refused.
        """
        run = self.runs.get(name)
        if run is None:
            near = nearest(name, self.runs)
            raise PitbError(f"{self.path} has no run {name!r}; nearest: {near!r}")
        if "refused" in run:
            raise PitbError(f"{self.path}: run {name} was not trained: {run['refused']}")
        entries = self.layouts[run["layout"]]
        rows = sum(entry.count for entry in entries)
        values = self.values[run["first_row"] : run["first_row"] + rows]
        return Trace(entries, values, {**self.common, **run["own"]}, f"{self.path} {name}")

    def refused(self, name: str) -> str | None:
        """Why a run was not trained, where it was not."""
        reason: str | None = self.runs[name].get("refused")
        return reason

    def error(self, name: str) -> str | None:
        """Why a run ended early, where it did."""
        run = self.runs[name]
        error: str | None = run.get("own", {}).get("error", self.common.get("error"))
        return None if "refused" in run else error


def read(path: Path) -> Batch:
    """Read the traces of one side of a batch.

    Raises:
        PitbError: It is missing, or not such a file.
    """
    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            names = [field.name for field in file.schema_arrow]
            if names != list(COLUMNS):
                raise PitbError(f"{path} has other columns than {', '.join(COLUMNS)}")
            values = file.read(columns=["value"], use_threads=False).column(0)
            metadata = json.loads((file.metadata.metadata or {})[trace.METADATA_KEY])
        if values.null_count:
            raise PitbError(f"{path}: column 'value' holds nulls")
        layouts = [
            [Entry(**{**item, "shape": tuple(item["shape"])}) for item in layout]
            for layout in metadata["layouts"]
        ]
        runs = {run["run"]: run for run in metadata["runs"]}
        found = Batch(path, values.to_numpy(), layouts, runs, metadata["common"])
        rows = sum(
            sum(entry.count for entry in layouts[run["layout"]])
            for run in runs.values()
            if "layout" in run
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["malformed"])[0]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise PitbError(f"{path} is no batch of a sweep: malformed metadata ({error})") from None
    if rows != len(found.values):
        raise PitbError(f"{path} lists {rows} values in its metadata but holds {len(found.values)}")
    return found


def read_together(path: Path) -> Iterator[tuple[str, Trace | str]]:
    """The runs of a file that ``optdef --batch`` wrote: by id, a trace or why it was refused.

    Raises:
        PitbError: It is missing, or not such a file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            values = file.read(columns=["value"], use_threads=False).column(0).to_numpy()
            metadata = json.loads((file.metadata.metadata or {})[trace.METADATA_KEY])
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        first = (str(error).splitlines() or ["malformed"])[0]
        raise PitbError(f"{path} is not what a batch is written as: {first}") from None
    contents = metadata["contents"]
    entry = row = 0
    for run in metadata["runs"]:
        if "refused" in run:
            yield run["run"], run["refused"]
            continue
        listed = contents[entry : entry + run["entries"]]
        entry += run["entries"]
        entries = [
            Entry(
                item["step"],
                item["quantity"],
                item["tensor"],
                tuple(item["shape"]),
                item["dtype"],
                item["first_row"] - row,
            )
            for item in listed
        ]
        rows = sum(math.prod(item.shape) for item in entries)
        own = {key: value for key, value in run.items() if key != "entries"}
        yield run["run"], Trace(entries, values[row : row + rows], own)
        row += rows
    if entry != len(contents) or row != len(values):
        raise PitbError(f"{path} holds more than its runs")
