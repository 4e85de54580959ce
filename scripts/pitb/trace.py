"""The trace of a run: one row for each number, five flat columns, Parquet.

==========  ======  =========================================================================
column      type    meaning
==========  ======  =========================================================================
step        int32   k-th update; 0 is the state before the first
quantity    string  input, loss, logits, grad, clipped_grad, param, lr, grad_norm, state.<name>
tensor      string  PyTorch's state_dict name; x, y for inputs; empty for a number
index       int64   position in the flattened tensor, row-major, in PyTorch's layout
value       double  every f32 is exact in it
==========  ======  =========================================================================

The file's metadata holds, under the key ``pitb``, JSON that lists the contents in order. A trace
may also be a folder of such files (`pitb.parts`).
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pitb.errors import PitbError
from pitb.files import check_is_file, replacing

# pyarrow is imported where it is used: what only reads does without (`pitb.parquet`).
if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pitb.stream.stored import Stored

SCHEMA_VERSION = 1
METADATA_KEY = b"pitb"
COLUMNS = {
    "step": "int32",
    "quantity": "string",
    "tensor": "string",
    "index": "int64",
    "value": "double",
}
"""The columns, by Arrow's names of their types; none is nullable."""
ROW_GROUP = 1 << 20
"""Rows in a row group; readers hold one group at a time."""

Key = tuple[int, str, str]


@cache
def schema() -> "pa.Schema":
    """The columns as Arrow has them."""
    import pyarrow as pa

    fields = [(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


@dataclass(slots=True, unsafe_hash=True)
class Entry:
    """One tensor or number of a trace, as its metadata lists it.

    None is changed once it is made. A frozen class would say so, but takes four times as long to
    make, and traces have many.
    """

    step: int
    quantity: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    first_row: int
    key: Key = field(init=False, repr=False, compare=False)
    """What identifies the entry within its trace."""
    count: int = field(init=False, repr=False, compare=False)
    """Number of its values."""

    def __post_init__(self) -> None:
        """Work out what is asked for time and again."""
        self.key = (self.step, self.quantity, self.tensor)
        self.count = math.prod(self.shape)

    def listed(self) -> dict[str, Any]:
        """The entry as a trace's metadata lists it."""
        return {name: getattr(self, name) for name in LISTED}

    @property
    def where(self) -> str:
        """The entry in words, for messages."""
        tensor = f" of {self.tensor}" if self.tensor else ""
        return f"{self.quantity}{tensor} at step {self.step}"


LISTED = tuple(one.name for one in fields(Entry) if one.init)
"""What metadata lists of an entry."""


@dataclass
class Trace:
    """What a run left behind.

    ``values`` is float64 of shape (rows,), of a large trace on disk (`pitb.stream.stored`), where
    its slices are read as they are asked for; ``entries`` say which rows are what.
    """

    entries: list[Entry]
    values: "NDArray[np.float64] | Stored"
    metadata: dict[str, Any] = field(default_factory=dict)
    path: str = ""

    @property
    def run(self) -> str:
        """The run's id, ``<side>/<name>``, or the file's name where it has none."""
        return str(self.metadata.get("run") or self.path)

    @property
    def error(self) -> str | None:
        """Why the run ended early, where it did."""
        return self.metadata.get("error")

    @property
    def unfinished(self) -> str | None:
        """How far a recording went that was not ended, where it was not."""
        return self.metadata.get("unfinished")

    @property
    def configuration(self) -> dict[str, Any]:
        """The resolved configuration, every hyper-parameter in it."""
        configuration: dict[str, Any] = self.metadata["configuration"]
        return configuration

    def by_key(self) -> dict[Key, Entry]:
        """The entries by step, quantity and tensor."""
        return {entry.key: entry for entry in self.entries}

    def of(self, entry: Entry) -> NDArray[np.float64]:
        """The values of an entry, flat, shape (count,)."""
        return self.values[entry.first_row : entry.first_row + entry.count]

    def find(self, step: int, quantity: str, tensor: str = "") -> NDArray[np.float64]:
        """The values of one tensor, flat.

        Raises:
            PitbError: The trace does not hold it.
        """
        entry = self.by_key().get((step, quantity, tensor))
        if entry is None:
            name = Entry(step, quantity, tensor, (), "", 0).where
            raise PitbError(f"{self.path or self.run} holds no {name}")
        return self.of(entry)

    def select(self, step: int, quantity: str) -> list[Entry]:
        """The entries of one step and quantity, in order."""
        return [e for e in self.entries if e.step == step and e.quantity == quantity]


class Recorder:
    """Collects a trace entry by entry, in the order in which it will be written."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.entries: list[Entry] = []
        self._values: list[NDArray[np.float64]] = []
        self._rows = 0

    def add(
        self, step: int, quantity: str, values: ArrayLike, dtype: str, tensor: str = ""
    ) -> None:
        """Add a copy of a tensor of any shape; a number has shape ()."""
        array = np.array(values, dtype=np.float64)
        self.entries.append(Entry(step, quantity, tensor, array.shape, dtype, self._rows))
        self._values.append(array.reshape(-1))
        self._rows += array.size

    def trace(self, metadata: dict[str, Any]) -> Trace:
        """What was added so far."""
        values = np.concatenate(self._values) if self._values else np.empty(0)
        return Trace(list(self.entries), values, metadata)


def write(trace: Trace, path: Path) -> None:
    """Write ``trace`` to ``path``; the same trace gives the same bytes.

    Raises:
        PitbError: The file cannot be written.
    """
    if len(trace.values) > ROW_GROUP:
        from pitb.stream import writing

        writing.write_trace(trace, path)
        return
    metadata = {**trace.metadata, "contents": [entry.listed() for entry in trace.entries]}
    text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    with replacing(path) as temporary, parquet_writer(temporary) as writer:
        writer.write_table(encode_columns(trace), row_group_size=ROW_GROUP)
        writer.add_key_value_metadata({METADATA_KEY: text.encode()})


ENCODINGS = {"index": "DELTA_BINARY_PACKED", "value": "PLAIN"}
"""Of the columns that have no dictionary."""


def parquet_writer(path: Path, compression: str = "none", **options: Any) -> "pq.ParquetWriter":
    """A writer of trace files; ``options`` are further ones of pyarrow's."""
    import pyarrow.parquet as pq

    chosen: dict[str, Any] = {
        "use_dictionary": ["step", "quantity", "tensor"],
        "column_encoding": ENCODINGS,
        "store_schema": False,
        **options,
    }
    return pq.ParquetWriter(path, schema(), compression=compression, **chosen)


def encode_columns(trace: Trace) -> "pa.Table":
    """The rows of a trace."""
    import pyarrow as pa

    counts = np.array([entry.count for entry in trace.entries], dtype=np.int64)

    def repeated(values: list[Any], kind: "pa.DataType") -> "pa.Array":
        distinct = pa.array(values, type=kind)
        return distinct.take(pa.array(np.repeat(np.arange(len(values)), counts)))

    starts = np.repeat(np.cumsum(counts) - counts, counts)
    columns = [
        repeated([entry.step for entry in trace.entries], pa.int32()),
        repeated([entry.quantity for entry in trace.entries], pa.string()),
        repeated([entry.tensor for entry in trace.entries], pa.string()),
        pa.array(np.arange(len(trace.values), dtype=np.int64) - starts),
        pa.array(trace.values),
    ]
    return pa.Table.from_arrays(columns, schema=schema())


def read(path: Path) -> Trace:
    """Read a trace, a file or a folder of parts.

    Raises:
        PitbError: The file is missing, is no Parquet file, or is no trace of this schema; or the
            parts of a folder are not those of one trace.
    """
    if path.is_dir():
        from pitb import parts

        return parts.read(path)
    check_is_file(path)
    from pitb import parquet

    if not parquet.has_pyarrow():
        return parquet.read_trace(path)
    with opened(path) as (file, entries, metadata):
        table = file.read(columns=list(COLUMNS), use_threads=False)
        rows = file.metadata.num_rows
        if table.num_rows != rows:  # whose row groups do not add up
            raise PitbError(
                f"{path} lists {rows} values in its metadata but holds {table.num_rows}"
            )
    column = table.column("value")
    if column.null_count:
        raise PitbError(f"{path} is not a trace: column 'value' holds nulls")
    values = column.to_numpy()
    found = Trace(entries, values, metadata, str(path))
    expected = encode_columns(found)
    for name in list(COLUMNS)[:-1]:
        if not table.column(name).cast(schema().field(name).type).equals(expected.column(name)):
            raise PitbError(f"{path}: column '{name}' is not what its metadata lists")
    return found


@contextmanager
def opened(
    path: Path, **options: Any
) -> Iterator[tuple["pq.ParquetFile", list[Entry], dict[str, Any]]]:
    """An open trace file, its entries, and the rest of its metadata; none of its values read yet.

    Whatever pyarrow raises of it, also while it is read, is a sentence. ``options`` are further
    ones of pyarrow's.

    Raises:
        PitbError: As `read` of a file.
    """
    import pyarrow as pa

    try:
        with _file(path, options) as file:
            check_schema(file.schema_arrow, path)
            raw = (file.metadata.metadata or {}).get(METADATA_KEY)
            if raw is None:
                raise PitbError(f"{path} is not a trace: its metadata has no key 'pitb'")
            metadata = parse_metadata(raw, path)
            entries: list[Entry] = metadata.pop("contents")
            rows, held = sum(entry.count for entry in entries), file.metadata.num_rows
            if rows != held:
                raise PitbError(f"{path} lists {rows} values in its metadata but holds {held}")
            yield file, entries, metadata
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["it is malformed"])[0]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None


def _file(path: Path, options: dict[str, Any]) -> "pq.ParquetFile":
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=False, **options)
    except KeyError as error:  # a column that read_dictionary names
        name = error.args[0]
        name = name.decode() if isinstance(name, bytes) else name
        raise PitbError(f"{path} is not a trace: it has no column '{name}'") from None


def check_schema(found: "pa.Schema", path: Path) -> None:
    """Refuse a file that has other columns than a trace.

    Raises:
        PitbError: A column is missing or of another type; names it.
    """
    for wanted in schema():
        position = found.get_field_index(wanted.name)
        if position < 0:
            raise PitbError(f"{path} is not a trace: it has no column '{wanted.name}'")
        kind = found.field(position).type
        if kind != wanted.type and not (wanted.type == "string" and _is_text(kind)):
            raise PitbError(
                f"{path} is not a trace: column '{wanted.name}' is {kind}, not {wanted.type}"
            )


def _is_text(kind: "pa.DataType") -> bool:
    """Whether a column holds text, in whatever way its writer lays it out."""
    import pyarrow as pa

    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    return held in (pa.string(), pa.large_string(), pa.string_view())


MOST_DIMENSIONS = 64
"""Of a tensor; PyTorch has as many."""
DTYPES = ("bool", "int32", "int64", "bfloat16", "float16", "float32", "float64")
"""Element types, by PyTorch's names."""


_fields_of = itemgetter(*LISTED)


def _entry(item: dict[str, Any]) -> Entry:
    """An entry as JSON has it; a trace may have a hundred thousand of them.

    Raises:
        ValueError: A field is of the wrong type or out of range.
        TypeError, KeyError: It has other fields.
    """
    step, quantity, tensor, shape, dtype, first_row = _fields_of(item)
    if len(item) != len(LISTED):
        raise TypeError(f"an entry has {', '.join(item)}, not {', '.join(LISTED)}")
    numbers = (step, first_row, *shape)
    for number in numbers:
        if type(number) is not int or not 0 <= number < 2**40:
            raise ValueError(f"{numbers} are not all numbers of 0 and more")
    if not (isinstance(quantity, str) and isinstance(tensor, str)):
        raise ValueError("a quantity or a tensor is not named by text")
    if len(shape) > MOST_DIMENSIONS or math.prod(shape) >= 2**40:
        raise ValueError(f"a shape of {len(shape)} dimensions is too large")
    if step >= 2**31 or dtype not in DTYPES:
        raise ValueError(f"step {step} or dtype {dtype!r} is out of range")
    return Entry(step, quantity, tensor, tuple(shape), dtype, first_row)


def parse_contents(contents: list[dict[str, Any]], path: Path) -> list[Entry]:
    """What a list of contents in the metadata of ``path`` stands for.

    Raises:
        PitbError: An entry does not begin where the one before ends.
        ValueError, TypeError, KeyError, AttributeError: It is no such list.
    """
    row = 0
    entries = []
    for item in contents:
        entry = _entry(item)
        if entry.first_row != row:
            raise PitbError(f"{path} lists {entry.where} at a wrong row or with a wrong shape")
        row += entry.count
        entries.append(entry)
    return entries


def parse_metadata(raw: bytes, path: Path) -> dict[str, Any]:
    """The metadata of the trace at ``path``, its ``contents`` as a list of `Entry`.

    Raises:
        PitbError: It is malformed, or of another schema.
    """
    try:
        metadata = json.loads(raw)
        version = metadata.get("schema")
        if type(version) is not int or version != SCHEMA_VERSION:
            raise PitbError(
                f"{path} has trace schema {metadata.get('schema')!r}; this version reads "
                f"{SCHEMA_VERSION}"
            )
        if b"\\u" in raw:
            # Half a character can be written in JSON, but not as UTF-8: an error here, not later.
            json.dumps(metadata, ensure_ascii=False).encode()
        metadata["contents"] = entries = parse_contents(metadata["contents"], path)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PitbError(f"{path} is not a trace: its metadata is malformed ({error})") from None
    if not isinstance(metadata.get("run", ""), str):
        raise PitbError(f"{path} is not a trace: its metadata is malformed (run is not text)")
    if len({entry.key for entry in entries}) != len(entries):
        raise PitbError(f"{path} lists a tensor twice in its metadata")
    return dict(metadata)
