"""The traces of a batch in one Parquet file, which any reader takes as a table.

The columns are ``run`` and ``side`` before those of a trace; none is nullable. The metadata holds,
under the key ``pitb``: ``layouts``, the contents that runs have in common; and for each of the
``runs`` its name, the number of its layout, its first row and its own metadata, or why it was
``refused``. What is the same in the metadata of all runs stands once, in ``common``.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pitb import trace
from pitb.errors import PitbError, nearest
from pitb.files import check_is_file, replacing
from pitb.trace import Entry, Trace

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

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


class Layout:
    """The contents that runs have in common, and what the columns hold for one of them."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Count them once: runs are many, and layouts few."""
        self.entries = list(entries)
        self.counts = np.array([math.prod(entry.shape) for entry in entries], dtype=np.int64)
        self.rows = int(self.counts.sum())

    @cached_property
    def step(self) -> NDArray[np.int32]:
        """The column, shape (rows,)."""
        steps = np.array([entry.step for entry in self.entries], dtype=np.int32)
        return np.repeat(steps, self.counts)

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """The column, shape (rows,): counts on from where each tensor begins."""
        starts = np.cumsum(self.counts) - self.counts
        return np.arange(self.rows, dtype=np.int64) - np.repeat(starts, self.counts)


@dataclass
class Writer:
    """Writes one run after the other; holds some row groups' worth of them."""

    side: str
    writer: Any
    layouts: dict[tuple[Entry, ...], int] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    listed: list[Layout] = field(default_factory=list)
    waiting: list[tuple[str, Layout]] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    waiting_rows: int = 0

    def add(self, name: str, found: Trace) -> None:
        """Add a run under its name in the sweep."""
        layout = self.layouts.setdefault(tuple(found.entries), len(self.layouts))
        if layout == len(self.listed):
            self.listed.append(Layout(found.entries))
        own = {key: value for key, value in found.metadata.items() if key != "entries"}
        own["run"] = f"{self.side}/{name}"
        self.runs.append({"run": name, "layout": layout, "first_row": self.rows, "own": own})
        self.rows += len(found.values)
        self.waiting.append((name, self.listed[layout]))
        self.values.append(found.values[:])
        self.waiting_rows += len(found.values)
        if self.waiting_rows >= GROUP:
            self.flush()

    def refuse(self, name: str, reason: str) -> None:
        """Note a run that this side does not train."""
        self.runs.append({"run": name, "refused": reason})

    def flush(self) -> None:
        """Write what is held."""
        if self.waiting_rows:
            table = _table(self.side, self.waiting, np.concatenate(self.values))
            self.writer.write_table(table, row_group_size=1 << 30)
        self.waiting, self.values, self.waiting_rows = [], [], 0


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
        "layouts": [[entry.listed() for entry in layout] for layout in writer.layouts],
        "runs": writer.runs,
    }


Runs = list[tuple[str, Layout]]


def _table(side: str, runs: Runs, values: Array) -> "pa.Table":
    import pyarrow as pa

    def column(name: str) -> "pa.Array":
        if name == "value":
            return pa.array(values)
        rows, words = _column(name, side, runs)
        found = pa.array(rows)
        return found if words is None else pa.DictionaryArray.from_arrays(found, pa.array(words))

    return pa.Table.from_arrays([column(name) for name in COLUMNS], schema=schema())


def _column(name: str, side: str, runs: Runs) -> tuple[NDArray[Any], list[str] | None]:
    """The rows of a column; of text, the places of its words, and these."""
    sizes = np.array([layout.rows for _, layout in runs], dtype=np.int64)
    if name == "run":
        places = np.arange(len(runs), dtype=np.int32)
        return np.repeat(places, sizes), [run for run, _ in runs]
    if name == "side":
        return np.zeros(sizes.sum(), dtype=np.int32), [side]
    if name in ("step", "index"):
        empty = np.empty(0, np.int32 if name == "step" else np.int64)
        return np.concatenate([empty, *(getattr(layout, name) for _, layout in runs)]), None
    words: dict[str, int] = {}
    rows: dict[int, NDArray[np.int32]] = {}
    for _, layout in runs:
        if id(layout) not in rows:
            items = [getattr(entry, name) for entry in layout.entries]
            found = np.array([words.setdefault(x, len(words)) for x in items], dtype=np.int32)
            rows[id(layout)] = np.repeat(found, layout.counts)
    every = [rows[id(layout)] for _, layout in runs]
    return np.concatenate([np.empty(0, np.int32), *every]), list(words)


@dataclass
class Batch:
    """The traces of one side of a batch."""

    path: Path
    values: Array
    layouts: list[Layout]
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
        layout = self.layouts[run["layout"]]
        values = self.values[run["first_row"] : run["first_row"] + layout.rows]
        return Trace(layout.entries, values, {**self.common, **run["own"]}, f"{self.path} {name}")

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
        PitbError: It is missing, or not such a file, or a column is not what its metadata lists.
    """
    check_is_file(path)
    import pyarrow.parquet as pq

    text = [name for name, kind in COLUMNS.items() if kind == "string"]
    with (
        _sentences(path, "is no batch of a sweep"),
        pq.ParquetFile(path, memory_map=False, read_dictionary=text) as file,
    ):
        if not file.schema_arrow.equals(schema()):
            raise PitbError(f"{path} has other columns than {', '.join(COLUMNS)}")
        metadata = _metadata_of(file, path)
        found = _parse(path, metadata)
        traced = [
            (name, found.layouts[run["layout"]])
            for name, run in found.runs.items()
            if "refused" not in run
        ]
        rows = sum(layout.rows for _, layout in traced)
        if rows != file.metadata.num_rows:
            held = file.metadata.num_rows
            raise PitbError(f"{path} lists {rows} values in its metadata but holds {held}")
        for name in list(COLUMNS)[:-1]:
            column = file.read(columns=[name], use_threads=False).column(0)
            if not _holds(column, *_column(name, metadata["side"], traced)):
                raise PitbError(f"{path}: column '{name}' is not what its metadata lists")
        values = file.read(columns=["value"], use_threads=False).column(0)
        if len(values) != rows or values.null_count:
            raise PitbError(f"{path} holds {len(values)} of {rows} values, or nulls among them")
        found.values = values.to_numpy()
    return found


@contextmanager
def _sentences(path: Path, what: str) -> Iterator[None]:
    """Whatever is raised of a file is a sentence: of pyarrow, or of metadata that is not ours."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["malformed"])[0]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None
    except (
        *(ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError),
    ) as error:
        first = (str(error).splitlines() or [""])[0]
        raise PitbError(f"{path} {what}: malformed metadata ({first})") from None


def _metadata_of(file: "pq.ParquetFile", path: Path) -> dict[str, Any]:
    raw = (file.metadata.metadata or {}).get(trace.METADATA_KEY)
    if raw is None:
        raise PitbError(f"{path} is no batch of a sweep: its metadata has no key 'pitb'")
    found: dict[str, Any] = json.loads(raw)
    return found


def _parse(path: Path, metadata: dict[str, Any]) -> Batch:
    """A batch without its values.

    Raises:
        PitbError: Contents do not follow each other, or a run stands twice.
        ValueError, TypeError, KeyError, AttributeError: It is of another kind.
    """
    if metadata["schema"] != SCHEMA_VERSION or not isinstance(metadata["side"], str):
        raise ValueError(f"schema {metadata['schema']!r} of the side {metadata['side']!r}")
    common = dict(metadata["common"])
    layouts = [trace.parse_contents(layout, path) for layout in metadata["layouts"]]
    if any(len({entry.key for entry in layout}) != len(layout) for layout in layouts):
        raise PitbError(f"{path} lists a tensor twice in its metadata")
    listed = [Layout(layout) for layout in layouts]
    runs: dict[str, dict[str, Any]] = {}
    row = 0
    for run in metadata["runs"]:
        name = run["run"]
        if not isinstance(name, str) or name in runs:
            raise PitbError(f"{path} lists the run {name!r} twice, or by no name")
        runs[name] = run
        if "refused" in run:
            if not isinstance(run["refused"], str):
                raise ValueError(f"{name} was refused for no reason")
            continue
        if run["layout"] not in range(len(layouts)) or run["first_row"] != row:
            raise PitbError(f"{path} lists the run {name!r} at a wrong row or with other contents")
        row += listed[run["layout"]].rows
        options = {**common, **run["own"]}["configuration"]["options"]
        if not isinstance(options, dict):
            raise ValueError(f"{name} has no options")
    return Batch(path, np.empty(0), listed, runs, common)


def _holds(column: "pa.ChunkedArray", rows: NDArray[Any], words: list[str] | None) -> bool:
    """Whether a column holds these rows, chunk by chunk: each has words of its own."""
    if column.null_count or len(column) != len(rows):
        return False
    if words is None:
        return np.array_equal(column.to_numpy(), rows)
    places = {word: place for place, word in enumerate(words)}
    row = 0
    for chunk in column.chunks:
        here = np.array([places.get(word, -1) for word in chunk.dictionary.to_pylist()] or [-1])
        if not np.array_equal(here[chunk.indices.to_numpy()], rows[row : row + len(chunk)]):
            return False
        row += len(chunk)
    return True


def read_together(path: Path) -> Iterator[tuple[str, Trace | str]]:
    """The runs of a file that ``optdef --batch`` wrote: by id, a trace or why it was refused.

    Raises:
        PitbError: It is missing, or not such a file.
    """
    check_is_file(path)
    import pyarrow.parquet as pq

    with (
        _sentences(path, "is not what a batch is written as"),
        pq.ParquetFile(path, memory_map=False) as file,
    ):
        trace.check_schema(file.schema_arrow, path)
        values = file.read(columns=["value"], use_threads=False).column(0).to_numpy()
        metadata = _metadata_of(file, path)
        contents = trace.parse_contents(metadata["contents"], path)
        runs = [_together(run) for run in metadata["runs"]]
    entry = row = 0
    for name, said, run in runs:
        if isinstance(said, str):
            yield name, said
            continue
        listed = contents[entry : entry + said]
        entry += said
        # Of many entries; dataclasses.replace takes four times as long.
        entries = [
            Entry(e.step, e.quantity, e.tensor, e.shape, e.dtype, e.first_row - row) for e in listed
        ]
        rows = sum(item.count for item in entries)
        own = {key: value for key, value in run.items() if key != "entries"}
        yield name, Trace(entries, values[row : row + rows], own)
        row += rows
    if entry != len(contents) or row != len(values):
        raise PitbError(f"{path} holds more than its runs")


def _together(run: dict[str, Any]) -> tuple[str, str | int, dict[str, Any]]:
    """A run's name, why it was refused or how many contents it has, and what else is said of it."""
    if "refused" in run:
        return str(run["run"]), str(run["refused"]), run
    return str(run["run"]), range(run["entries"]).stop, run
