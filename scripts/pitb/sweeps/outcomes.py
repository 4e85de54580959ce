"""What became of the runs of a batch, and the rows of their comparisons, as files."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pitb import compare
from pitb.compare import ERROR, MISMATCH, OK
from pitb.errors import PitbError
from pitb.files import check_is_file, replacing
from pitb.sweeps.plan import Batch

if TYPE_CHECKING:
    import pyarrow as pa

SKIPPED = "declared skip"
VERDICTS = (OK, MISMATCH, ERROR, SKIPPED)
"""Of a run, all that there are; their counts add up to the number of runs."""
NEVER = -1
"""The step of what does not happen; no column is null."""
Array = NDArray[Any]


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    run: str
    batch: str
    verdict: str
    reason: str
    """Why it is an error or a declared skip; empty otherwise."""
    compared: int
    """How many tensors."""
    max_abs: float
    """Of all quantities and steps that were compared; NaN where none was."""
    max_ulp: float
    relative: float
    worst_step: int
    """Where ``max_abs`` is; -1 where nothing was compared."""
    worst_quantity: str
    worst_tensor: str
    first_mismatch: int
    """The first step with a difference above the tolerance; -1 where there is none."""
    first_nonfinite_pytorch: int
    """The first step at which a compared quantity is not finite on that side; -1 for none."""
    first_nonfinite_burn: int
    burn_configuration: str
    """Every field of burn's configuration as it was trained, JSON; empty where it was not."""


@dataclass
class Rows:
    """Rows of comparisons, column by column; ``run`` is the place of each row's run."""

    run: list[Array]
    columns: dict[str, list[Any]]


TYPES = {int: "int64", float: "double", str: "string"}
"""Arrow's names for those of an outcome's fields."""


def write_rows(batch: Batch, rows: Rows, path: Path) -> None:
    """Write the rows of a batch: ``run``, then the columns of a comparison; none is nullable."""
    import pyarrow as pa

    names = list(batch["points"])
    order = np.argsort(np.concatenate([*rows.run, np.empty(0, np.int64)]), kind="stable")
    columns: dict[str, Any] = {}
    places = np.concatenate([*rows.run, np.empty(0, np.int64)])[order].astype(np.int32)
    columns["run"] = pa.DictionaryArray.from_arrays(pa.array(places), pa.array(names, pa.string()))
    for name, kind in compare.ROW_COLUMNS.items():
        whole = np.concatenate(rows.columns[name])[order] if rows.run else np.empty(0)
        if kind == "string":
            columns[name] = pa.array(whole.astype(object), pa.string()).dictionary_encode()
        else:
            columns[name] = pa.array(whole, pa.type_for_alias(kind))
    _write(columns, path)


def write_outcomes(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write what became of the runs of a batch; no column is nullable."""
    import pyarrow as pa

    columns = {
        field.name: pa.array([getattr(item, field.name) for item in outcomes], field.type)
        for field in _outcome_schema()
    }
    _write(columns, path)


def _outcome_schema() -> "pa.Schema":
    import pyarrow as pa

    kinds = {item.name: pa.type_for_alias(TYPES[item.type]) for item in fields(Outcome)}  # type: ignore[index]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def _write(columns: dict[str, Any], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field(k, v.type, nullable=False) for k, v in columns.items()])
    table = pa.Table.from_arrays(list(columns.values()), schema=schema)
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", store_schema=False)


def read_outcomes(path: Path) -> list[dict[str, Any]]:
    """What became of the runs of a batch, as dictionaries.

    Raises:
        PitbError: The file is missing or is no such file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_is_file(path)
    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            if not file.schema_arrow.equals(_outcome_schema()):
                raise PitbError(f"{path} has other columns than the outcomes of a batch")
            found: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["malformed"])[0]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None
    return found
