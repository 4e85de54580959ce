"""Whether the configurations explain what the traces recorded: the reference against real runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pitb.breadth import laws
from pitb.breadth.judge import Pair, of_kind, response
from pitb.errors import PitbError
from pitb.explain.configurations import Configuration
from pitb.explain.factorial import Distance, distance
from pitb.explain.items import Layout
from pitb.problems import Problem, Tensors, problem
from pitb.reference.training import Run
from pitb.trace import Entry, Key, Trace

Array = NDArray[np.float64]
WELL = 0.9
"""The part of a recorded difference that shows it to be no chance, however small it is."""


@dataclass(frozen=True)
class Follows:
    """Whether the reference follows a trace by the law that holds for its kind."""

    run: str
    law: str
    step: int | None
    """The first step at which it does not; None where it follows to the end."""
    where: str = ""
    needed: float = math.nan
    allowed: float = math.nan
    reason: str = ""
    """Why it cannot be said, where it cannot."""
    tolerances: tuple[float, ...] = ()
    """What the law gives to roundings, by step from 0, relatively."""

    @property
    def holds(self) -> bool:
        """Whether it follows."""
        return self.step is None and not self.reason


class _Steps(Pair):
    """Two traces side by side that are gone through step by step, in one pass."""

    def __init__(self, a: Trace, b: Trace) -> None:
        super().__init__(a, b)
        self.by_step = (_by_step(a), _by_step(b))

    def go_to(self, step: int) -> None:
        """Have `difference` look at this step alone, and not for it among all entries."""
        self.entries_a, self.entries_b = (found.get(step, {}) for found in self.by_step)


def _by_step(found: Trace) -> dict[int, dict[Key, Entry]]:
    grouped: dict[int, dict[Key, Entry]] = {}
    for entry in found.entries:
        grouped.setdefault(entry.step, {})[entry.key] = entry
    return grouped


@dataclass(frozen=True)
class Recorded:
    """What the traces say, and how much of it the reference does."""

    steps: list[int]
    distance: Distance
    """Of B's trace from A's."""
    explained: Array
    """By reported step and, in turn, of the parameters and the loss: 1 less the largest part of the
    recorded difference that the reference's own lacks; NaN where it cannot be said. Shape (steps
    reported, 2)."""
    rounded: NDArray[np.bool_]
    """Where the recorded difference is within the floor, or within what the laws give to the
    roundings of both runs and not the reference's as well, so that there is nothing to explain; of
    the same shape."""
    follows: tuple[Follows, ...]


def recorded(
    layout: Layout,
    traces: tuple[Trace, Trace],
    references: tuple[Trace, Trace],
    steps: list[int],
    floor: Array,
    chosen: Mapping[str, NDArray[np.int64]] | None = None,
) -> Recorded:
    """Hold the reference's runs of A and B against their traces.

    Args:
        layout: The configurations.
        traces: What was recorded of A and B.
        references: The reference's runs of both.
        steps: Those that are reported.
        floor: What is not detectable, by step from 0 and by measure.
        chosen: Where all of these are parts: which elements of each tensor they hold.
    """
    everyone = frozenset(range(len(layout.items)))
    runs = (layout.run(()), layout.run(everyone))
    sides = (layout.case_a, layout.case_b)
    followed = tuple(
        follows(side, run, trace, reference, chosen)
        for side, run, trace, reference in zip(sides, runs, traces, references, strict=True)
    )
    whole = distance(*traces, layout.steps)
    rounded = np.zeros((len(steps), 2), dtype=bool)
    explained = np.full((len(steps), 2), np.nan)
    pair = _Steps(*traces)
    for step in range(layout.steps + 1):  # in order, since scales grow with the steps
        pair.go_to(step)
        for column, (quantity, measure) in enumerate((("param", 0), ("loss", 2))):
            worst = pair.difference(step, quantity)
            if step not in steps or worst is None:
                continue
            row = steps.index(step)
            allowed = sum(item.tolerances[step] for item in followed)
            small = float(whole.values[step, measure]) <= float(floor[step, measure])
            part = math.nan if small else _explained(traces, references, step, quantity)
            # A law is generous: what the reference has, too, is no rounding.
            rounded[row, column] = small or (worst.relative <= allowed and not part >= WELL)
            if not rounded[row, column]:
                explained[row, column] = part
    return Recorded(steps, whole, explained, rounded, followed)


def _explained(
    traces: tuple[Trace, Trace],
    references: tuple[Trace, Trace],
    step: int,
    quantity: str,
) -> float:
    differences = []
    for a, b in (traces, references):
        entries_b = b.by_key()
        found = []
        for entry in a.select(step, quantity):
            other = entries_b.get(entry.key)
            if other is None or other.count != entry.count:
                return math.nan
            with np.errstate(invalid="ignore"):
                found.append(b.of(other) - a.of(entry))
        differences.append(np.concatenate(found) if found else np.empty(0))
    real, ours = differences
    if real.size != ours.size or not real.size or not np.isfinite(real).all():
        return math.nan
    size = float(np.abs(real).max())
    with np.errstate(invalid="ignore"):
        rest = np.abs(real - ours).max()
    return max(0.0, 1.0 - float(rest) / size) if math.isfinite(rest) else 0.0


def follows(
    side: Configuration,
    run: Run,
    found: Trace,
    reference: Trace,
    chosen: Mapping[str, NDArray[np.int64]] | None = None,
) -> Follows:
    """Whether a run of the reference follows a trace, at every step, by the law of its kind."""
    case = replace(side.case(), problem=run.problem, steps=run.steps)
    limit = laws.law(case, f"{side.side}--reference")
    responses = response(replace(run, states=False), reference, limit) if limit.nudge else {}
    moved = of_kind(responses, "param")
    tolerances = tuple(limit.tolerance(step, moved) for step in range(run.steps + 1))
    if (found.error is None) != (reference.error is None):
        reason = found.error or reference.error or ""
        return Follows(side.label, limit.name, None, reason=reason, tolerances=tolerances)
    if problem(run.problem).model == "prescribed":  # and so has no loss
        kept = [entry for entry in found.entries if entry.quantity != "loss"]
        found = replace(found, entries=kept)
    whole = found.error is None and run.steps == side.steps
    missing = Pair(found, reference).missing(0) if whole else None
    if missing is not None:
        return Follows(side.label, limit.name, None, reason=missing, tolerances=tolerances)
    steps = _Steps(found, reference)
    for step in range(run.steps + 1):
        steps.go_to(step)
        for kind in ("param", "loss"):
            worst = steps.difference(step, kind)
            allowed = tolerances[step]
            if worst is not None and not worst.relative <= allowed:
                name = worst.tensor or kind
                taken = (chosen or {}).get(worst.tensor)
                index = worst.index if taken is None else int(taken[worst.index])
                where = f"{name}[{index}]"
                sizes = (worst.relative, allowed)
                return Follows(side.label, limit.name, step, where, *sizes, tolerances=tolerances)
    return Follows(side.label, limit.name, None, tolerances=tolerances)


# -- problems of traces ------------------------------------------------------------------------


def start_of(found: Trace, name: str, like: Problem | None) -> Problem | None:
    """The problem that a trace started from, where that is not ``like`` itself.

    Args:
        found: The trace.
        name: How the problem will be called.
        like: The problem that the trace names; None where it is of someone's own.

    Returns:
        None where the trace starts from ``like``; else ``like`` with the trace's initial values, or
        the trace's recorded gradients, prescribed.

    Raises:
        PitbError: The trace lacks what is needed for that.
    """
    parameters = _tensors(found, 0, "param")
    if not parameters:
        raise PitbError(f"{found.path or found.run} records no parameters of step 0")
    fits = like is not None and all(
        key in parameters and parameters[key].shape == value.shape
        for key, value in like.parameters.items()
    )
    if like is None or not fits:
        return _prescribed(found, name, parameters)
    inputs = _tensors(found, 0, "input")
    start = {key: parameters[key] for key in like.parameters}
    fed = {
        key: inputs[key].astype(value.dtype) if key in inputs else value
        for key, value in like.inputs.items()
    }
    same = all(np.array_equal(start[k], v) for k, v in like.parameters.items()) and all(
        np.array_equal(fed[k], v) for k, v in like.inputs.items()
    )
    if same:
        return None
    return replace(like, name=name, parameters=start, inputs=fed)


def _prescribed(found: Trace, name: str, parameters: dict[str, Array]) -> Problem:
    entries: dict[int, list[Entry]] = {}
    for entry in found.entries:
        if entry.quantity == "grad":
            entries.setdefault(entry.step, []).append(entry)
    # One after the other from the first update on: what stands elsewhere is of no update of these.
    steps = list(takewhile(entries.__contains__, count(1)))
    where = found.path or found.run
    if not entries:
        raise PitbError(
            f"{where} is of a model that pitb cannot train, and records no gradients to replay"
        )
    last = max(entry.step for entry in found.entries if entry.quantity == "param")
    if max(last, 1) > len(steps):
        step = len(steps) + 1
        raise PitbError(f"{where} records no gradient at step {step}, so none can be replayed")
    for entry in (entry for step in steps for entry in entries[step]):
        key = entry.tensor
        if key not in parameters or parameters[key].shape != entry.shape:
            raise PitbError(
                f"{where}: the gradient of {key} at step {entry.step} fits no parameter"
            )
    gradients = _Gradients(found, [entries[step] for step in steps])
    about = f"the gradients that {found.run} recorded"
    return Problem(name, "prescribed", parameters, gradients=gradients, about=about)


class _Gradients(Sequence[Tensors]):
    """Recorded gradients, step by step, which are read as they are asked for."""

    def __init__(self, found: Trace, entries: list[list[Entry]]) -> None:
        self._found, self._entries = found, entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Tensors: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensors]: ...
    def __getitem__(self, index: int | slice) -> Tensors | list[Tensors]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        entries = self._entries[index]
        return {entry.tensor: self._found.of(entry).reshape(entry.shape) for entry in entries}


def _tensors(found: Trace, step: int, quantity: str) -> dict[str, Array]:
    return {
        entry.tensor: found.of(entry).reshape(entry.shape) for entry in found.select(step, quantity)
    }


def known_problem(name: str) -> Problem | None:
    """The problem called ``name``, or None where pitb has none of that name."""
    try:
        return problem(name)
    except PitbError:
        return None
