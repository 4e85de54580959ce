"""The comparison of a batch, as `pitb.compare` compares two traces, for many runs at once.

Runs whose traces list the same contents are one matrix on each side, a row for each run, and every
tensor is a block of its columns. A run of which anything is unusual (another start, a NaN on one
side, a trace that ended early) is given to `pitb.compare` itself, so that there is one law.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb import compare
from pitb.compare import INITIAL, MISMATCH, OK
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.sweeps import dataset
from pitb.sweeps.outcomes import NEVER, SKIPPED, Outcome, Rows
from pitb.sweeps.plan import SIDES, Batch
from pitb.trace import Entry, Trace

Array = NDArray[Any]


def judge(batch: Batch, pytorch: dataset.Batch, burn: dataset.Batch) -> tuple[list[Outcome], Rows]:
    """Compare both sides of every run of a batch.

    Raises:
        PitbError: A side has other runs than the batch.
    """
    names = list(batch["points"])
    for side in (pytorch, burn):
        if set(side.runs) != set(names):
            lost = sorted(set(side.runs) ^ set(names))[0]
            where = "does not hold" if lost in names else "holds besides its batch"
            raise PitbError(f"{side.path} {where} the run {lost!r}")
    rows = Rows([], {field.name: [] for field in fields(compare.Row)})
    outcomes: dict[str, Outcome] = {}
    groups: dict[tuple[int, int], list[str]] = {}
    for name in names:
        reasons = [(s, side.refused(name)) for s, side in zip(SIDES, (pytorch, burn), strict=True)]
        said = "; ".join(f"{side}: {reason}" for side, reason in reasons if reason is not None)
        if said:
            outcomes[name] = _empty(name, batch, SKIPPED, said)
            continue
        key = (pytorch.runs[name]["layout"], burn.runs[name]["layout"])
        groups.setdefault(key, []).append(name)
    place = {name: number for number, name in enumerate(names)}
    for (layout_a, layout_b), members in groups.items():
        layouts = pytorch.layouts[layout_a].entries, burn.layouts[layout_b].entries
        group = _Group(batch, members, pytorch, burn, *layouts)
        outcomes |= group.judge(rows, place)
    return [outcomes[name] for name in names], rows


def _empty(name: str, batch: Batch, verdict: str, reason: str) -> Outcome:
    nothing = (0, math.nan, math.nan, math.nan, NEVER, "", "", NEVER, NEVER, NEVER, "")
    return Outcome(name, batch["batch"], verdict, reason, *nothing)


@dataclass
class _Group:
    """Runs that have one layout on each side."""

    batch: Batch
    names: list[str]
    pytorch: dataset.Batch
    burn: dataset.Batch
    layout_a: list[Entry]
    layout_b: list[Entry]

    def judge(self, rows: Rows, place: dict[str, int]) -> dict[str, Outcome]:
        a, b = self._matrix(self.pytorch), self._matrix(self.burn)
        first = self._nonfinite(a, self.layout_a), self._nonfinite(b, self.layout_b)
        pairs = self._pairs()
        usual = np.zeros(len(self.names), dtype=bool)
        if pairs is not None:
            usual = self._usual(a, b, pairs)
        found: dict[str, Outcome] = {}
        if pairs is not None and usual.any():
            chosen = np.flatnonzero(usual)
            columns = [self._row(x, y, a[chosen], b[chosen]) for x, y in pairs]
            places = np.array([place[self.names[i]] for i in chosen])
            self._append(rows, places, columns)
            found |= self._outcomes(chosen, columns, first)
        for i in np.flatnonzero(~usual):
            found[self.names[i]] = self._alone(int(i), rows, place, first)
        return found

    @property
    def quantities(self) -> list[str]:
        """What is compared: of prescribed gradients there is no loss and there are no logits."""
        found: list[str] = self.batch["quantities"]
        prescribed = problem(self.batch["points"][self.names[0]].problem).model == "prescribed"
        return [name for name in found if not (prescribed and name in ("loss", "logits"))]

    def _configuration(self, name: str) -> str:
        configuration = self.burn.trace(name).configuration
        return json.dumps(configuration["options"], sort_keys=True)

    def _matrix(self, side: dataset.Batch) -> Array:
        return np.stack([side.trace(name).values for name in self.names])

    def _nonfinite(self, values: Array, layout: Sequence[Entry]) -> Array:
        """The first step at which each run is not finite."""
        found = np.full(len(values), NEVER, dtype=np.int64)
        for entry in sorted(layout, key=lambda item: item.step):
            if entry.step > 0 and entry.quantity in self.quantities:
                bad = ~np.isfinite(_of(values, entry)).all(axis=1)
                found[bad & (found == NEVER)] = entry.step
        return found

    def _pairs(self) -> list[tuple[Entry, Entry]] | None:
        """What is compared; None where the traces do not hold the same."""
        wanted = self.quantities
        a, b = (
            {e.key: e for e in layout if e.quantity in wanted and e.step > 0}
            for layout in (self.layout_a, self.layout_b)
        )
        if a.keys() != b.keys() or any(a[key].shape != b[key].shape for key in a):
            return None
        if {entry.quantity for entry in a.values()} != set(wanted):
            return None
        return [(entry, b[key]) for key, entry in a.items()]

    def _usual(self, a: Array, b: Array, pairs: list[tuple[Entry, Entry]]) -> Array:
        """Which runs can be compared without a word: same start, no NaN on one side alone."""
        starts = [
            {e.key: e for e in layout if e.step == 0 and e.quantity in INITIAL}
            for layout in (self.layout_a, self.layout_b)
        ]
        kinds = [{key: (e.shape, e.dtype) for key, e in start.items()} for start in starts]
        found = np.full(len(a), bool(kinds[0]) and kinds[0] == kinds[1])
        if not found.any():
            return found
        for key, entry in starts[0].items():
            x, y = _of(a, entry), _of(b, starts[1][key])
            bits = np.ascontiguousarray(x).view(np.int64) == np.ascontiguousarray(y).view(np.int64)
            found &= bits.all(axis=1)
        for one, other in pairs:
            found &= (np.isnan(_of(a, one)) == np.isnan(_of(b, other))).all(axis=1)
        for i, name in enumerate(self.names):
            found[i] &= self.pytorch.error(name) is None and self.burn.error(name) is None
        if not any(one.count for one, _ in pairs):
            found[:] = False
        return found

    def _row(self, entry: Entry, other: Entry, a: Array, b: Array) -> dict[str, Any]:
        """The columns of one tensor, an element for each run."""
        found = row_columns(_of(a, entry), _of(b, other), entry.dtype)
        tolerance = self.batch["tolerance"]
        same = {"step": entry.step, "quantity": entry.quantity, "tensor": entry.tensor}
        return {**same, "n": entry.count, **found, "tolerance": tolerance}

    def _append(self, rows: Rows, places: Array, columns: list[dict[str, Any]]) -> None:
        count = len(places)
        rows.run.append(np.repeat(places, len(columns)))
        for name, into in rows.columns.items():
            if name == "verdict":
                largest = np.stack([column["max_abs"] for column in columns], axis=1).reshape(-1)
                into.append(np.where(largest <= self.batch["tolerance"], OK, MISMATCH))
            elif isinstance(columns[0][name], np.ndarray):
                into.append(np.stack([column[name] for column in columns], axis=1).reshape(-1))
            else:
                into.append(np.tile(np.array([column[name] for column in columns]), count))

    def _outcomes(
        self, chosen: Array, columns: list[dict[str, Any]], first: tuple[Array, Array]
    ) -> dict[str, Outcome]:
        largest = np.stack([column["max_abs"] for column in columns])  # (tensors, runs)
        worst = largest.argmax(axis=0)
        steps = np.array([column["step"] for column in columns])
        beyond = np.where(largest > self.batch["tolerance"], steps[:, None], np.iinfo(np.int64).max)
        mismatch = beyond.min(axis=0)
        most = {
            name: np.stack([column[name] for column in columns]).max(axis=0)
            for name in ("max_ulp", "relative")
        }
        found = {}
        for k, i in enumerate(chosen):
            column = columns[worst[k]]
            differs = bool((largest[:, k] > self.batch["tolerance"]).any())
            found[self.names[i]] = Outcome(
                run=self.names[i],
                batch=self.batch["batch"],
                verdict=MISMATCH if differs else OK,
                reason="",
                compared=len(columns),
                max_abs=float(largest[worst[k], k]),
                max_ulp=float(most["max_ulp"][k]),
                relative=float(most["relative"][k]),
                worst_step=column["step"],
                worst_quantity=column["quantity"],
                worst_tensor=column["tensor"],
                first_mismatch=int(mismatch[k]) if differs else NEVER,
                first_nonfinite_pytorch=int(first[0][i]),
                first_nonfinite_burn=int(first[1][i]),
                burn_configuration=self._configuration(self.names[i]),
            )
        return found

    def _alone(
        self, i: int, rows: Rows, place: dict[str, int], first: tuple[Array, Array]
    ) -> Outcome:
        """One run, as `pitb.compare` has it."""
        name = self.names[i]
        a, b = (_named(side.trace(name)) for side in (self.pytorch, self.burn))
        tolerance, quantities = self.batch["tolerance"], self.quantities
        found = compare.attempt(a, b, tolerance, quantities)
        rows.run.append(np.full(len(found.rows), place[name]))
        for column, into in rows.columns.items():
            into.append(np.array([getattr(row, column) for row in found.rows]))
        steps = [row.step for row in found.rows if row.verdict != OK]
        worst = max(found.rows, key=lambda row: row.max_abs, default=None)
        return Outcome(
            run=name,
            batch=self.batch["batch"],
            verdict=found.verdict,
            reason=found.error or found.partial or "",
            compared=len(found.rows),
            max_abs=found.worst,
            max_ulp=max((row.max_ulp for row in found.rows), default=math.nan),
            relative=max((row.relative for row in found.rows), default=math.nan),
            worst_step=worst.step if worst else NEVER,
            worst_quantity=worst.quantity if worst else "",
            worst_tensor=worst.tensor if worst else "",
            first_mismatch=min(steps, default=NEVER),
            first_nonfinite_pytorch=int(first[0][i]),
            first_nonfinite_burn=int(first[1][i]),
            burn_configuration=self._configuration(name),
        )


def _named(run: Trace) -> Trace:
    """The trace under its side alone, since the sentence stands beside the run's name."""
    side = run.run.partition("/")[0]
    return Trace(run.entries, run.values, {**run.metadata, "run": side}, run.path)


def _of(values: Array, entry: Entry) -> Array:
    return values[:, entry.first_row : entry.first_row + entry.count]


def row_columns(a: Array, b: Array, dtype: str) -> dict[str, Array]:
    """What `pitb.compare` says of one tensor, for many runs at once.

    Args:
        a: The values on one side, float64 of shape (runs, count).
        b: On the other; NaN where ``a`` is.
        dtype: The element type in which ulps are counted.

    Returns:
        By column of a comparison's row, an array of shape (runs,).
    """
    runs, count = a.shape
    if count == 0:
        nothing, zeros = np.full(runs, math.nan), np.zeros(runs)
        found = dict.fromkeys(("max_abs", "max_ulp", "relative", "rmse"), zeros)
        return {"worst_index": np.zeros(runs, dtype=np.int64), "a": nothing, "b": nothing, **found}
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference = np.abs(a - b)
        # Two equal infinities differ by NaN; whatever isn't finite is never OK.
        difference = np.where(np.isfinite(a) & np.isfinite(b), difference, np.inf)
        relative = np.where(difference == 0, 0.0, difference / np.maximum(np.abs(a), np.abs(b)))
        relative = np.where(np.isnan(relative), np.inf, relative)
        rmse = np.array([np.sqrt(np.mean(np.square(row))) for row in difference])
    worst = difference.argmax(axis=1)
    where = (np.arange(runs), worst)
    return {
        "worst_index": worst.astype(np.int64),
        "a": a[where],
        "b": b[where],
        "max_abs": difference[where],
        "max_ulp": _ulps(a, b, dtype).max(axis=1),
        "relative": relative.max(axis=1),
        "rmse": rmse,
    }


def _ulps(a: Array, b: Array, dtype: str) -> Array:
    if dtype == "float32":
        return compare.ulps(a, b, dtype)
    places = []
    for values in (a, b):
        bits = np.ascontiguousarray(values).view(np.int64)
        places.append(np.where(bits < 0, -(bits & 0x7FFFFFFFFFFFFFFF), bits))
    low, high = np.minimum(*places), np.maximum(*places)
    # Their distance can need 64 bits and no sign.
    distance = (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64)
    return np.where(np.isnan(a) | np.isnan(b), np.inf, distance)
