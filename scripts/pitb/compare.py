"""Comparing two traces, or two JSON files of the pages' programs: rows, verdict, exit code."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pitb import trace
from pitb.collection import put_off
from pitb.errors import PitbError, nearest
from pitb.files import read_json, replacing
from pitb.stream import compiled
from pitb.stream.initial import chunks, hash_both
from pitb.stream.opening import open_trace
from pitb.stream.statistics import Statistics, statistics
from pitb.stream.statistics import ulps as ulps
from pitb.trace import Entry, Key, Trace

if TYPE_CHECKING:
    import pyarrow as pa

OK, MISMATCH, ERROR = "OK", "MISMATCH", "error"
EXIT_CODES = {OK: 0, MISMATCH: 1, ERROR: 2}
"""Of `scripts/compare.py`, by verdict."""
ONE_STEP_QUANTITIES = ("logits", "loss", "grad", "param")
"""What the pages compare of a single step, for files that no configuration speaks of."""
LONG_QUANTITIES = ("loss", "param")
"""What the pages compare of a longer run."""
IDENTICAL, DIFFERENT, EXEMPT = "identical", "different", "exempt"
"""What the preflight can find."""
INITIAL = ("input", "param")
"""The quantities of step 0: what a run starts from."""

INITIAL_STATE, NOT_ASKED_FOR = "initial state", "not asked for"
"""Why a tensor is not compared that both sides have."""

Array = NDArray[np.float64]


class NotComparable(PitbError):
    """Two files that cannot be compared; says which tensor or step stands in the way."""


class NaNOnOneSide(NotComparable):
    """Two runs of which one alone came to NaN; ``comparison`` has the rows, and no verdict."""

    def __init__(self, comparison: "Comparison") -> None:
        """Its sentence is the comparison's error."""
        super().__init__(comparison.error)
        self.comparison = comparison


@dataclass(slots=True)
class Row:
    """The comparison of one tensor at one step."""

    step: int
    quantity: str
    tensor: str
    n: int
    worst_index: int
    a: float
    b: float
    max_abs: float
    max_ulp: float
    relative: float
    rmse: float
    tolerance: float
    verdict: str


_MAX_ABS = list(Row.__annotations__).index("max_abs")


@dataclass
class Comparison:
    """All rows of a comparison, and what they amount to."""

    a: str
    b: str
    tolerance: float
    quantities: list[str]
    rows: list[Row] = field(default_factory=list)
    not_compared: dict[str, int] = field(default_factory=dict)
    """Number of tensors that were not compared, by reason."""
    total: int = 0
    """Number of tensors on either side."""
    initial_state: dict[str, Any] = field(default_factory=dict)
    """What the preflight found: ``status`` and a hash for each tensor that a run starts from."""
    error: str | None = None
    partial: str | None = None
    """Which steps were compared, where a recording was not ended and those after were not."""
    first_not_finite: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For side ``a`` or ``b``, where it diverged: step, quantity, tensor, index and value (as text)
    of its first NaN or infinity among what is compared."""

    @property
    def verdict(self) -> str:
        """OK where every row is, MISMATCH where one is not, error where there was no comparing, or
        where what could be compared is not all and shows no difference.
        """
        if self.error is not None:
            return ERROR
        if not all(row.verdict == OK for row in self.rows):
            return MISMATCH
        return OK if self.partial is None else ERROR

    @property
    def worst(self) -> float:
        """The largest of the rows' largest absolute differences."""
        return max((row.max_abs for row in self.rows), default=math.nan)

    @property
    def exit_code(self) -> int:
        """The exit code of `scripts/compare.py`."""
        return EXIT_CODES[self.verdict]

    def counts(self) -> dict[str, int]:
        """Tensors by outcome; their sum is checked against the number of tensors seen."""
        counts = {
            OK: sum(row.verdict == OK for row in self.rows),
            MISMATCH: sum(row.verdict == MISMATCH for row in self.rows),
            **self.not_compared,
        }
        if (self.error is None or self.rows) and sum(counts.values()) != self.total:
            raise AssertionError(f"{self.a} -- {self.b}: {counts} do not add up to {self.total}")
        return counts

    def at(self, step: int, quantity: str, tensor: str | None = None) -> list[Row]:
        """The rows of one step and quantity, of all tensors or of one."""
        return [
            row
            for row in self.rows
            if row.step == step
            and row.quantity == quantity
            and (tensor is None or row.tensor == tensor)
        ]

    def steps(self) -> list[int]:
        """The steps after which parameters were compared."""
        return sorted({row.step for row in self.rows if row.quantity == "param"})

    def max_abs(self, step: int, quantity: str) -> float:
        """The largest difference of one quantity at one step."""
        return max(row.max_abs for row in self.at(step, quantity))


def preflight(a: Trace, b: Trace, may_differ: str | None = None) -> dict[str, Any]:
    """Whether two runs start from the same bits.

    Returns:
        ``status`` (identical, different, or exempt where ``may_differ`` gives a reason), the
        first ``difference`` in words, that reason, and the hash of every tensor on both sides.
    """
    hashes = hash_both(a, b, INITIAL)
    difference = _initial_difference(a, b, *hashes)
    return _initial_state((a.run, b.run), hashes, difference, may_differ)


def _initial_state(
    runs: tuple[str, str],
    hashes: tuple[dict[str, str], dict[str, str]],
    difference: str | None = None,
    may_differ: str | None = None,
) -> dict[str, Any]:
    exempt = DIFFERENT if may_differ is None else EXEMPT
    return {
        "status": IDENTICAL if difference is None else exempt,
        "difference": difference,
        "exempt_because": may_differ,
        "hashes": dict(zip(runs, hashes, strict=True)),
    }


def initial_difference(a: Trace, b: Trace) -> str | None:
    """The first difference between what two runs start from, or None where every bit agrees."""
    return _initial_difference(a, b, *hash_both(a, b, INITIAL))


def _initial_difference(
    a: Trace, b: Trace, hashes_a: dict[str, str], hashes_b: dict[str, str]
) -> str | None:
    if not hashes_a:
        return f"{a.run} records no input and no initial parameter"
    if hashes_a == hashes_b:
        return None
    for name in (*hashes_a, *hashes_b):
        for run, found in ((a, hashes_a), (b, hashes_b)):
            if name not in found:
                return f"initial state differs: {run.run} has no {name}"
    name = next(name for name in hashes_a if hashes_a[name] != hashes_b[name])
    quantity, tensor = name.split(" ", 1)
    entry_a = a.by_key()[(0, quantity, tensor)]
    entry_b = b.by_key()[(0, quantity, tensor)]
    if entry_a.shape != entry_b.shape:
        return f"initial state differs: {tensor} has shape {entry_a.shape} vs {entry_b.shape}"
    for start, values_a, values_b in chunks(a, entry_a, b, entry_b):
        differ = np.flatnonzero(values_a.view(np.int64) != values_b.view(np.int64))
        if len(differ):
            i = int(differ[0])
            x, y = float(values_a[i]), float(values_b[i])
            return f"initial state differs: {tensor}[{start + i}] {x} vs {y}"
    return f"initial state differs: {tensor} is {entry_a.dtype} vs {entry_b.dtype}"


def compare(
    a: Trace,
    b: Trace,
    tolerance: float,
    quantities: Sequence[str],
    initial_state_may_differ: str | None = None,
) -> Comparison:
    """Compare two traces, after a preflight on what they start from.

    Args:
        a: One trace.
        b: The other.
        tolerance: The largest absolute difference that is OK.
        quantities: What to compare; each must stand in both traces at the same steps.
        initial_state_may_differ: The reason why the preflight is waived, where it is.

    Raises:
        NotComparable: They start from different states, a run ended early, a tensor or step is
            missing on one side, or shapes differ.
        NaNOnOneSide: One side alone is NaN somewhere.
    """
    comparison = Comparison(a.run, b.run, tolerance, list(quantities))
    for run in (a, b):
        # A recording that was not ended can be compared as far as it goes.
        if run.error is not None and run.unfinished is None:
            raise NotComparable(f"{run.run} ended early: {run.error}")
    comparison.initial_state = preflight(a, b, initial_state_may_differ)
    if comparison.initial_state["status"] == DIFFERENT:
        raise NotComparable(comparison.initial_state["difference"])
    entries_a, entries_b = _selected(a, quantities), _selected(b, quantities)
    last = _last_common_step(a, b)
    if last is not None:
        entries_a = {key: entry for key, entry in entries_a.items() if entry.step <= last}
        entries_b = {key: entry for key, entry in entries_b.items() if entry.step <= last}
        why = "; ".join(f"{run.run} was {run.unfinished}" for run in (a, b) if run.unfinished)
        left = sum(entry.step > last for run in (a, b) for entry in run.entries)
        comparison.partial = (
            f"only steps up to {last} are compared: {why}; {left} tensors of later steps are not"
        )
    for quantity in quantities:
        if not any(key[1] == quantity for key in (*entries_a, *entries_b)):
            known = {entry.quantity for entry in (*a.entries, *b.entries)}
            if quantity in INITIAL:
                raise NotComparable(f"{quantity!r} of step 0 is compared by the preflight alone")
            raise NotComparable(
                f"neither trace holds {quantity!r}; nearest: {nearest(quantity, sorted(known))!r}"
            )
    _check_same(a, entries_a, b, entries_b)
    pairs = [(entry, entries_b[key]) for key, entry in entries_a.items()]
    _add_rows(comparison, a, b, pairs)
    _count_rest(comparison, a, b)
    return _checked(comparison)


def attempt(
    a: Trace,
    b: Trace,
    tolerance: float,
    quantities: Sequence[str],
    initial_state_may_differ: str | None = None,
) -> Comparison:
    """As `compare`; where there is no comparing, a comparison that holds the reason."""
    try:
        return compare(a, b, tolerance, quantities, initial_state_may_differ)
    except NaNOnOneSide as error:
        return error.comparison
    except NotComparable as error:
        state = preflight(a, b, initial_state_may_differ)
        names = list(quantities)
        return Comparison(a.run, b.run, tolerance, names, initial_state=state, error=str(error))


def _selected(run: Trace, quantities: Sequence[str]) -> dict[Key, Entry]:
    """The entries to compare. The initial parameters are the preflight's."""
    return {e.key: e for e in run.entries if e.quantity in quantities and e.step > 0}


def _last_common_step(a: Trace, b: Trace) -> int | None:
    """The last step of a recording that was not ended, of the shorter where both were not."""
    unended = [run for run in (a, b) if run.unfinished is not None]
    lasts = (max((entry.step for entry in run.entries), default=0) for run in unended)
    return min(lasts, default=None)


def _check_same(
    a: Trace, entries_a: dict[Key, Entry], b: Trace, entries_b: dict[Key, Entry]
) -> None:
    for key in dict.fromkeys((*entries_a, *entries_b)):
        entry, other = entries_a.get(key), entries_b.get(key)
        if entry is None:
            raise NotComparable(f"{a.run} has no {entries_b[key].where}")
        if other is None:
            raise NotComparable(f"{b.run} has no {entry.where}")
        if entry.shape != other.shape:
            raise NotComparable(
                f"{entry.where} has shape {entry.shape} in {a.run} and {other.shape} in {b.run}"
            )


@put_off()
def _add_rows(
    comparison: Comparison, a: Trace, b: Trace, pairs: Sequence[tuple[Entry, Entry]]
) -> None:
    """Add the rows of pairs of tensors, and what is to be said of values that are not finite."""
    for (entry, _), found in zip(pairs, statistics(a, b, pairs), strict=True):
        comparison.rows.append(_row(entry, found, comparison.tolerance))
        note_not_finite(comparison, entry, found)


def _row(entry: Entry, found: Statistics, tolerance: float) -> Row:
    return Row(
        step=entry.step,
        quantity=entry.quantity,
        tensor=entry.tensor,
        n=entry.count,
        worst_index=found.index,
        a=found.a,
        b=found.b,
        max_abs=found.max_abs,
        max_ulp=found.max_ulp,
        relative=found.relative,
        rmse=math.sqrt(found.squares / entry.count) if entry.count else 0.0,
        tolerance=tolerance,
        verdict=_verdict(found.max_abs, tolerance),
    )


def _verdict(max_abs: float, tolerance: float) -> str:
    return OK if max_abs <= tolerance else MISMATCH


def note_not_finite(comparison: Comparison, entry: Entry, found: Statistics) -> None:
    """Note where each side is not finite for the first time, and that one side alone is NaN.

    A run that diverges is data: all of it is compared. No verdict is OK where a value is not
    finite, also where both sides have the same: NaN equals nothing, and of two infinities nobody
    knows how far they are apart.

    Args:
        comparison: What is noted in.
        entry: The tensor.
        found: What differs between both sides of it.
    """
    for side, first in (("a", found.not_finite_a), ("b", found.not_finite_b)):
        if first is not None and side not in comparison.first_not_finite:
            index, value = first
            comparison.first_not_finite[side] = {
                "step": entry.step,
                "quantity": entry.quantity,
                "tensor": entry.tensor,
                "index": index,
                "value": str(value),
            }
    if found.nan is not None and comparison.error is None:
        index, x, y = found.nan
        comparison.error = f"{entry.where}[{index}] is NaN on one side only: {x:g} vs {y:g}"


def _count_rest(comparison: Comparison, a: Trace, b: Trace) -> None:
    keys_a, keys_b = {e.key for e in a.entries}, {e.key for e in b.entries}
    keys = keys_a | keys_b
    comparison.total = len(keys)
    rest: dict[str, int] = {}
    for key in keys.difference((row.step, row.quantity, row.tensor) for row in comparison.rows):
        step, quantity, _ = key
        if step == 0 and quantity in INITIAL:
            reason = INITIAL_STATE
        elif key not in keys_b:
            reason = f"only in {comparison.a}"
        elif key not in keys_a:
            reason = f"only in {comparison.b}"
        else:
            reason = NOT_ASKED_FOR
        rest[reason] = rest.get(reason, 0) + 1
    comparison.not_compared = dict(sorted(rest.items()))


# -- files -------------------------------------------------------------------------------------

_TYPE_NAMES = {int: "int64", float: "double", str: "string"}
ROW_COLUMNS = {name: _TYPE_NAMES[kind] for name, kind in Row.__annotations__.items()}
"""The columns of a comparison's file, by Arrow's names of their types; none is nullable."""


def _row_schema() -> "pa.Schema":
    import pyarrow as pa

    fields = [(name, pa.type_for_alias(kind)) for name, kind in ROW_COLUMNS.items()]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


def summarised(comparison: Comparison) -> dict[str, Any]:
    """All of a comparison but its rows."""
    found = {
        key: value for key, value in asdict(comparison).items() if key not in ("rows", "worst")
    }
    if not comparison.first_not_finite:
        del found["first_not_finite"]  # so the files of runs that stay finite are as ever
    return {**found, "verdict": comparison.verdict, "counts": comparison.counts()}


def write(comparison: Comparison, path: Path) -> None:
    """Write the rows as Parquet, the rest as JSON under the key ``pitb`` of its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = json.dumps(summarised(comparison), ensure_ascii=False, allow_nan=False)
    schema = _row_schema()
    table = pa.Table.from_pylist([asdict(row) for row in comparison.rows], schema=schema)
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="none", store_schema=False) as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata({trace.METADATA_KEY: text.encode()})


def read(path: Path) -> Comparison:
    """Read a comparison that `write` wrote.

    Raises:
        PitbError: The file is missing or is no comparison.
    """
    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read(use_threads=False)
            summary = json.loads((file.metadata.metadata or {})[trace.METADATA_KEY])
        rows = [Row(**row) for row in table.to_pylist()]
        said = {key: summary.pop(key) for key in ("verdict", "counts")}
        comparison = Comparison(**summary, rows=rows)
        _check_read(comparison, said, table.schema)
    except (
        pa.ArrowException,
        OSError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
        AssertionError,
    ) as error:
        first = (str(error).splitlines() or ["it is malformed"])[0]
        raise PitbError(f"{path} is not a comparison: {first}") from None
    return comparison


def _check_read(comparison: Comparison, said: dict[str, Any], found: "pa.Schema") -> None:
    """Refuse a comparison that contradicts itself.

    Raises:
        ValueError: A column is of another type or a value null, the metadata is of another type,
            or a verdict is not what its numbers say.
    """
    for name, kind in ROW_COLUMNS.items():
        if str(found.field(name).type) != kind:
            raise ValueError(f"column '{name}' is {found.field(name).type}, not {kind}")
    from pitb.schema import fields_of, first_error  # which needs jsonschema, and few calls read

    wrong = first_error(
        {**asdict(comparison), "rows": []}, {**fields_of(Comparison), "additionalProperties": True}
    )
    if wrong is not None:
        raise ValueError(wrong[1])
    for number, row in enumerate(comparison.rows, start=1):
        for name, value in asdict(row).items():
            if value is None:
                raise ValueError(f"row {number}: {name} is null")
        if row.verdict != _verdict(row.max_abs, row.tolerance):
            raise ValueError(
                f"row {number} is called {row.verdict} at a difference of {row.max_abs:g} and a "
                f"tolerance of {row.tolerance:g}"
            )
        if row.tolerance != comparison.tolerance:
            raise ValueError(f"row {number} has another tolerance than {comparison.tolerance:g}")
    if said != {"verdict": comparison.verdict, "counts": comparison.counts()}:
        raise ValueError(f"it says {said['verdict']}, which is not what its rows amount to")


# -- what people read --------------------------------------------------------------------------


def load(path: Path) -> Trace:
    """A trace, or a JSON file of one of the pages' programs as one.

    In JSON every list of numbers and every number becomes an entry, named by its path.
    """
    if path.suffix == ".json":
        return _from_json(read_json(path), path)
    return open_trace(path)


def _from_json(value: Any, path: Path) -> Trace:
    recorder = trace.Recorder()

    def walk(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{name}.{key}" if name else str(key))
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            for index, inner in enumerate(value):
                walk(inner, f"{name}[{index}]")
        else:
            recorder.add(1, name, _numbers(value, name, path), "float32")

    walk(value, "")
    names = [entry.quantity for entry in recorder.entries]
    for name in names:
        if names.count(name) > 1:
            raise NotComparable(f"{path}: two values are called {name}")
    return recorder.trace({"run": str(path)})


def _numbers(value: Any, name: str, path: Path) -> Array:
    try:
        return np.asarray(_floats(value), dtype=np.float64)
    except TypeError:
        raise NotComparable(f"{path}: {name} holds something that is not a number") from None
    except ValueError:
        raise NotComparable(f"{path}: {name} is a list whose rows differ in length") from None


def _floats(value: Any) -> Any:
    """Nested lists of floats. Text stands for what JSON has no number for; to NumPy, true is 1."""
    if isinstance(value, list):
        return [_floats(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if value in ("nan", "inf", "-inf"):
            return float(value)
        raise TypeError
    if isinstance(value, int) and abs(value) > 2**53:
        raise TypeError  # f64 does not tell it from its neighbour
    return value


def compare_files(
    path_a: Path,
    path_b: Path,
    tolerance: float,
    quantities: Sequence[str] | None = None,
) -> Comparison:
    """Compare two files, traces or JSON, whichever both of them are.

    Raises:
        NotComparable: One is a trace and the other is JSON, or they cannot be compared.
        PitbError: A file cannot be read.
    """
    found = compiled.compare(
        path_a, path_b, quantities, ONE_STEP_QUANTITIES, LONG_QUANTITIES, INITIAL
    )
    if found is not None:
        return _of_compiled(found, tolerance)
    a, b = load(path_a), load(path_b)
    suffixes = [path.suffix == ".json" for path in (path_a, path_b)]
    if suffixes[0] != suffixes[1]:
        raise NotComparable(f"{path_a} and {path_b} are not of one kind: a trace and a JSON file")
    if suffixes[0]:
        return _compare_json(a, b, tolerance)
    steps = max((entry.step for entry in a.entries if entry.quantity == "param"), default=0)
    default: tuple[str, ...] = LONG_QUANTITIES if steps > 1 else ONE_STEP_QUANTITIES
    if quantities is None and any(
        "every" in run.metadata.get("configuration", {}) for run in (a, b)
    ):
        # What a recording holds was its owner's choice.
        known = {entry.quantity for run in (a, b) for entry in run.entries if entry.step > 0}
        default = tuple(name for name in default if name in known) or default
    return compare(a, b, tolerance, quantities or default)


@put_off()
def _of_compiled(found: compiled.Found, tolerance: float) -> Comparison:
    comparison = Comparison(*found.runs, tolerance, found.quantities)
    comparison.rows = [
        Row(*(*row, tolerance, _verdict(row[_MAX_ABS], tolerance))) for row in found.rows
    ]
    comparison.initial_state = _initial_state(found.runs, (found.hashes, dict(found.hashes)))
    left = {INITIAL_STATE: found.initial, NOT_ASKED_FOR: found.rest}
    comparison.not_compared = {reason: count for reason, count in left.items() if count}
    comparison.total = len(found.rows) + found.initial + found.rest
    return _checked(comparison)


def _compare_json(a: Trace, b: Trace, tolerance: float) -> Comparison:
    names = list(dict.fromkeys(entry.quantity for entry in (*a.entries, *b.entries)))
    comparison = Comparison(a.run, b.run, tolerance, names)
    entries_a, entries_b = a.by_key(), b.by_key()
    _check_same(a, entries_a, b, entries_b)
    pairs = [(entry, entries_b[key]) for key, entry in entries_a.items()]
    _add_rows(comparison, a, b, pairs)
    comparison.total = len(entries_a)
    return _checked(comparison)


def _checked(comparison: Comparison) -> Comparison:
    """The comparison, its numbers checked to add up; nothing compared is no OK."""
    comparison.counts()
    if not any(row.n for row in comparison.rows):
        raise NotComparable(f"{comparison.a} and {comparison.b} hold no value to compare")
    if comparison.error is not None:
        raise NaNOnOneSide(comparison)
    return comparison


def summary(comparisons: Sequence[Comparison]) -> str:
    """One line: how many comparisons came out how; the numbers are checked to add up."""
    counts = {v: sum(c.verdict == v for c in comparisons) for v in EXIT_CODES}
    if sum(counts.values()) != len(comparisons):
        raise AssertionError(f"{counts} do not add up to {len(comparisons)}")
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"comparisons: {len(comparisons)}: {parts}"


def page_name(row: Row, last_step: int) -> str:
    """The name that the pages print for a row of a one-step comparison."""
    if row.quantity == "loss" and row.step > last_step > 0:
        return "loss_after"
    plural = {"grad": "grads", "param": "params_after"}
    name = plural.get(row.quantity, row.quantity)
    return f"{name}.{row.tensor}" if row.tensor else name


def step_lines(comparison: Comparison) -> list[str]:
    """The pages' step by step table: both losses, their difference, that of the parameters."""
    short = {"pytorch": "pt"}
    sides = [name.split("/")[0] for name in (comparison.a, comparison.b)]
    if sides[0] == sides[1] or not all("/" in name for name in (comparison.a, comparison.b)):
        sides = ["a", "b"]
    loss_a, loss_b = (f"loss_{short.get(side, side)}" for side in sides)
    lines = [f"step  {loss_a:>10}  {loss_b:>10}  {'|dloss|':>8}  max|dparam|"]
    for step in comparison.steps():
        largest = comparison.max_abs(step, "param")
        losses = " " * 32  # of the steps before the recorded ones there are parameters alone
        for loss in comparison.at(step, "loss"):
            losses = f"{loss.a:.8f}  {loss.b:.8f}  {loss.max_abs:.2e}"
        lines.append(f"{step:>4}  {losses}  {largest:>11.2e}")
    return lines


def not_finite_words(comparison: Comparison, side: str) -> str:
    """Where side ``a`` or ``b`` is not finite for the first time, in words."""
    first = comparison.first_not_finite.get(side)
    if first is None:
        return "finite throughout"
    what = f"{first['quantity']} {first['tensor']}".strip()
    return (
        f"first not finite at step {first['step']} ({what}[{first['index']}] is {first['value']})"
    )


def report(comparison: Comparison) -> str:
    """What `scripts/compare.py` prints: the pages' table and its last line."""
    last_step = max(comparison.steps(), default=0)
    has_losses = last_step > 1 and any(comparison.at(s, "loss") for s in comparison.steps())
    if has_losses:
        lines = step_lines(comparison)
    else:
        names = [page_name(row, last_step) for row in comparison.rows]
        width = max(map(len, names), default=0)
        lines = [
            f"{name:<{width}}  n={row.n:>3}  max|diff|={row.max_abs:.2e}"
            for name, row in zip(names, comparison.rows, strict=True)
        ]
    if comparison.partial is not None:
        lines.append(comparison.partial)
    if comparison.first_not_finite:
        both = (("a", comparison.a), ("b", comparison.b))
        lines += [f"{run}: {not_finite_words(comparison, side)}" for side, run in both]
    summary = f"worst={comparison.worst:.2e} tol={comparison.tolerance:g} {comparison.verdict}"
    return "\n".join([*lines, summary])
