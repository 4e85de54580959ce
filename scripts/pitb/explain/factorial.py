"""The factorial: what each set of broken items costs, and which part of that is each item's.

The value of a set S of items is the distance between A's run with the items S as B has them and A's
run itself. So the empty set costs nothing, and all items cost what tells B from A.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pitb.breadth.judge import first_nonfinite
from pitb.breadth.laws import EPSILON
from pitb.errors import PitbError
from pitb.explain import game
from pitb.explain.items import Layout
from pitb.reference.training import train
from pitb.stream.initial import chunks
from pitb.trace import Entry, Key, Trace

Array = NDArray[np.float64]
PARAMETERS, RELATIVE, LOSS = "parameters", "parameters, relative", "loss"
MEASURES = (PARAMETERS, RELATIVE, LOSS)
"""The largest absolute difference of any parameter; the largest one of each tensor over the largest
magnitude in it, on either side; the absolute difference of the loss."""
NUDGES = 3
"""Patterns of roundings that are tried for the floor."""
FIRST, TENTH = 1, 10


def reported(steps: int) -> list[int]:
    """The steps that are reported: 1, 10 and the last."""
    return sorted({step for step in (FIRST, TENTH, steps) if step <= steps})


@dataclass(frozen=True)
class Distance:
    """How far two traces are apart after each update.

    ``values`` has shape (steps + 1, 3), by update, 0 being the start, and by `MEASURES`; the loss
    of a step is that of the parameters which the update starts from, as in a trace. What one side
    alone has not, or has not finite, is infinite; a loss that no side has is NaN.
    """

    values: Array
    trained: float
    """The difference of the loss after the last update."""


def distance(a: Trace, b: Trace, steps: int) -> Distance:
    """How far ``b`` is from ``a``."""
    values = np.full((steps + 1, len(MEASURES)), np.nan)
    entries_a, entries_b = a.by_key(), b.by_key()
    names = [entry.tensor for entry in a.select(0, "param")]
    for step in range(steps + 1):
        worst = [0.0, 0.0]
        for name in names:
            pair = [t.get((step, "param", name)) for t in (entries_a, entries_b)]
            if pair[0] is None or pair[1] is None or pair[0].count != pair[1].count:
                worst = [math.inf, math.inf]
                continue
            largest, scale = gap_of(a, pair[0], b, pair[1])
            relative = largest / scale if scale > 0 else math.inf
            worst = [max(worst[0], largest), max(worst[1], relative if largest else 0.0)]
        values[step, :2] = worst
    traces = ((a, entries_a), (b, entries_b))
    losses = [_loss_gap(traces, step) for step in range(steps + 2)]
    values[:, 2] = losses[:-1]
    return Distance(values, losses[-1])


def gap(a: Array, b: Array) -> tuple[float, float]:
    """The largest absolute difference of two arrays, and the largest finite magnitude in them.

    Equal infinities and two NaNs are no difference; what is not finite alone is an infinite one.
    """
    if not a.size:
        return 0.0, 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    difference = np.where(same, 0.0, np.where(finite, difference, np.inf))
    magnitude = np.maximum(np.abs(a), np.abs(b))
    return float(difference.max()), float(magnitude[finite].max(initial=0.0))


def gap_of(a: Trace, in_a: Entry, b: Trace, in_b: Entry) -> tuple[float, float]:
    """`gap` of two tensors of as many values, a chunk at a time."""
    found = [gap(x, y) for _, x, y in chunks(a, in_a, b, in_b)]
    return max((one for one, _ in found), default=0.0), max((one for _, one in found), default=0.0)


def _loss_gap(traces: Iterable[tuple[Trace, dict[Key, Entry]]], step: int) -> float:
    found = [(trace, entries.get((step, "loss", ""))) for trace, entries in traces]
    values = [trace.of(entry) for trace, entry in found if entry is not None]
    if not values:
        return math.nan
    return gap(values[0], values[1])[0] if len(values) == 2 else math.inf


@dataclass(frozen=True)
class Effect:
    """What one item costs, by reported step and measure, arrays of shape (steps reported, 3)."""

    name: str
    broken: Array
    """Alone as B has it, all else as A."""
    aligned: Array
    """Alone as A has it, all else as B: what remains of the difference."""
    share: Array
    """Its Shapley value; NaN where a combination that it depends on is not finite."""
    error: Array
    """The share's standard error; 0 where all combinations were tried."""
    every_step: Array
    """What it costs broken alone, by update from 0, shape (steps + 1, 3)."""


@dataclass(frozen=True)
class Diverging:
    """A combination that is not finite, or that ends early."""

    broken: tuple[str, ...]
    step: int
    """The first step after which a parameter is not finite, or that it does not reach."""
    reason: str = ""


@dataclass
class Factorial:
    """The outcome."""

    steps: list[int]
    effects: list[Effect]
    total: Array
    """What all items cost, shape (steps reported, 3)."""
    floor: Array
    """What roundings alone can do, of the same shape: anything up to it is not detectable."""
    every_step: Distance
    floor_every_step: Array
    """Shape (steps + 1, 3)."""
    runs: int
    """How many combinations were trained."""
    permutations: int
    """How many orders were asked where there are too many combinations; otherwise 0."""
    seed: int
    trained: float
    """What all items cost in the loss after the last update."""
    floor_trained: float
    a: Trace
    b: Trace
    pairs: dict[tuple[str, str], Array] = field(default_factory=dict)
    """By how much two items together cost more than both alone, where all pairs were tried."""
    diverging: list[Diverging] = field(default_factory=list)

    def interaction(self, column: int) -> tuple[float, float]:
        """The sum of what the items cost alone, and what they cost together, at the last step."""
        together = float(self.total[-1, column])
        return sum(float(effect.broken[-1, column]) for effect in self.effects), together


class _Game:
    """Trains combinations as they are asked for, each once."""

    def __init__(self, layout: Layout, steps: list[int]) -> None:
        self.layout, self.steps = layout, steps
        self.values: dict[frozenset[int], Array] = {}
        self.alone: dict[int, Array] = {}
        self.diverging: list[Diverging] = []
        self.origin = train(replace(layout.run(()), states=True))

    def __call__(self, broken: frozenset[int]) -> Array:
        if broken not in self.values:
            run = self.layout.run(broken)
            trained = self.origin if not broken else train(run)
            self._note(broken, trained)
            whole = distance(self.origin, trained, run.steps).values
            if len(broken) == 1:
                self.alone[min(broken)] = whole
            found = whole[self.steps]
            # Where there is no loss there is nothing to share out.
            found[np.isnan(found)] = 0.0
            self.values[broken] = found.reshape(-1)
        return self.values[broken]

    def _note(self, broken: frozenset[int], found: Trace) -> None:
        names = tuple(self.layout.items[i].name for i in sorted(broken))
        step = first_nonfinite(found)
        if found.error is not None:
            last = max((e.step for e in found.entries if e.quantity == "param"), default=-1)
            self.diverging.append(Diverging(names, last + 1, found.error.partition(": ")[2]))
        elif step >= 0:
            self.diverging.append(Diverging(names, step))


def factorial(
    layout: Layout, permutations: int = game.PERMUTATIONS, seed: int = 0, at: Sequence[int] = ()
) -> Factorial:
    """Train the combinations and share the difference out.

    Args:
        layout: The two configurations.
        permutations: How many orders are drawn, where there are more than 8 items.
        seed: Of the draws.
        at: The steps that are reported; 1, 10 and the last where none is given.

    Raises:
        PitbError: The reference cannot train A's configuration at all.
    """
    steps = list(at) or reported(layout.steps)
    play = _Game(layout, steps)
    first = play.origin
    if first.error is not None and not first.select(1, "param"):
        reason = first.error.partition(": ")[2]
        raise PitbError(f"{layout.case_a.label} cannot be trained: {reason}")
    n = len(layout.items)
    everyone = frozenset(range(n))
    total = play(everyone)
    last = train(replace(layout.run(everyone), states=True))
    shape = (len(steps), len(MEASURES))
    shared = game.shares(n, play, permutations, seed)
    broken, aligned = game.alone(n, play), game.without(n, play)
    effects = [
        Effect(
            item.name,
            broken[i].reshape(shape),
            aligned[i].reshape(shape),
            shared.values[i].reshape(shape),
            shared.errors[i].reshape(shape),
            play.alone[i],
        )
        for i, item in enumerate(layout.items)
    ]
    pairs = game.pairs(n, play) if n <= game.MOST_EXACT else {}
    named = {
        (layout.items[i].name, layout.items[j].name): value.reshape(shape)
        for (i, j), value in pairs.items()
    }
    whole = distance(first, last, layout.steps)
    floor, floor_trained = rounding_floor(layout, (first, last))
    return Factorial(
        steps=steps,
        effects=effects,
        total=total.reshape(shape),
        floor=floor[steps],
        every_step=whole,
        floor_every_step=floor,
        runs=len(play.values),
        permutations=shared.permutations,
        seed=seed,
        trained=whole.trained,
        floor_trained=floor_trained,
        a=first,
        b=last,
        pairs=named,
        diverging=play.diverging,
    )


def rounding_floor(layout: Layout, trained: Iterable[Trace]) -> tuple[Array, float]:
    """What roundings alone can do on this problem, by step and measure, and to the last loss.

    Both runs are trained again with every parameter moved by one unit in the last place of the
    runs' dtype before and after each update, in several patterns; the floor is the furthest that
    any of them got so far. A loss is itself rounded, too. Where the dtypes differ it is the coarser
    one's.
    """
    epsilon = max(EPSILON[side.dtype] for side in (layout.case_a, layout.case_b))
    floor = np.zeros((layout.steps + 1, len(MEASURES)))
    floor_trained = 0.0
    everyone = frozenset(range(len(layout.items)))
    for broken, base in zip((frozenset[int](), everyone), trained, strict=True):
        run = layout.run(broken)
        for phase in range(NUDGES):
            moved = train(replace(run, nudge=epsilon, phase=7 * phase))
            found = distance(base, moved, layout.steps)
            values = np.where(np.isfinite(found.values), found.values, 0.0)
            floor = np.maximum(floor, values)
            if math.isfinite(found.trained):
                floor_trained = max(floor_trained, found.trained)
        for entry in base.entries:
            if entry.quantity == "loss":
                rounded = epsilon * float(np.abs(base.of(entry)).max(initial=0))
                rounded = rounded if math.isfinite(rounded) else 0.0
                if entry.step <= layout.steps:
                    floor[entry.step, 2] = max(floor[entry.step, 2], rounded)
                else:
                    floor_trained = max(floor_trained, rounded)
    return np.maximum.accumulate(floor, axis=0), floor_trained


def tensors(a: Trace, b: Trace, steps: int) -> tuple[list[str], Array]:
    """The largest absolute difference of each parameter tensor after each update.

    Returns:
        The tensors' names, and values of shape (tensors, steps); NaN where a side lacks it.
    """
    names = [entry.tensor for entry in a.select(0, "param")] or [
        entry.tensor for entry in a.select(1, "param")
    ]
    entries_a, entries_b = a.by_key(), b.by_key()
    values = np.full((len(names), steps), np.nan)
    for row, name in enumerate(names):
        for step in range(1, steps + 1):
            pair = [t.get((step, "param", name)) for t in (entries_a, entries_b)]
            if pair[0] is not None and pair[1] is not None and pair[0].count == pair[1].count:
                values[row, step - 1] = gap_of(a, pair[0], b, pair[1])[0]
    return names, values
